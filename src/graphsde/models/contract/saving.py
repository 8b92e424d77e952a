"""What is on disk is what was fitted."""

from __future__ import annotations

from pathlib import Path

from graphsde.errors import BadInput
from graphsde.models.contract.case import SAMPLES, ModelCase, contract, promise, refuses, same
from graphsde.models.files import load_model


@contract
def saved_and_loaded_it_predicts_the_same_bits(case: ModelCase, folder: Path) -> None:
    case.fitted.save(folder)
    loaded = load_model(folder)
    promise(type(loaded) is type(case.fitted) and loaded.settings == case.fitted.settings, "same class and settings")
    same(loaded.predict(case.graph, samples=SAMPLES), case.prediction, "after save and load")


@contract
def saving_twice_writes_the_same_bytes(case: ModelCase, folder: Path) -> None:
    for name in ("one", "two"):
        case.fitted.save(folder / name)
    for path in sorted((folder / "one").iterdir()):
        promise(path.read_bytes() == (folder / "two" / path.name).read_bytes(), f"{path.name} is reproducible")


@contract
def a_changed_model_file_is_refused(case: ModelCase, folder: Path) -> None:
    case.fitted.save(folder)
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    refuses(BadInput, lambda: load_model(folder), "a flipped bit")


@contract
def a_file_of_another_format_is_refused(case: ModelCase, folder: Path) -> None:
    case.fitted.save(folder)
    path = folder / "model.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 999'))
    refuses(BadInput, lambda: load_model(folder), "a newer format")


@contract
def a_calibrator_is_kept_with_the_model(case: ModelCase, folder: Path) -> None:
    """Every ``predict`` must end with ``self._calibrated(prediction, graph)``."""
    model = case.fitted
    try:
        model.calibrate(case.graph, by="vector", samples=SAMPLES).save(folder)
        calibrated = model.predict(case.graph, samples=SAMPLES)
    finally:
        model.calibrate(case.graph, by=None)
    promise(calibrated.uncalibrated is not None, "predict applies the calibrator")
    same(load_model(folder).predict(case.graph, samples=SAMPLES), calibrated, "calibrated, after save and load")
    same(calibrated.untempered(), case.prediction.untempered(), "what the calibrator did can be undone")
