"""A model on disk: ``model.safetensors`` for numbers, ``model.json`` for everything else, no pickle."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from graphsde._version import __version__
from graphsde.base import storage
from graphsde.base.errors import BadInput, GraphsdeError
from graphsde.models.base import MODELS, Model
from graphsde.models.given import GivenPrediction
from graphsde.prediction.learned_from import LearnedFrom

if TYPE_CHECKING:
    from graphsde.uncertainty.calibration import Calibrator

FORMAT = 1
TENSORS = "model.safetensors"
DESCRIPTION = "model.json"
FIX = "restore the file from a backup, or fit again"
_MOMENT = 0.05  # seconds


def save_model(model: Model, folder: Path) -> Path:
    from safetensors.torch import save

    tensors, values = model.state()
    content = save({name: tensor.detach().contiguous() for name, tensor in tensors.items()})
    description: dict[str, Any] = {
        "format": FORMAT,
        "model": model.name,
        "settings": model.settings.model_dump(mode="json"),
        "class_names": list(model._require_fitted()),
        "best_epoch": model.best_epoch,
        "values": values,
        "calibrator": None if model.calibrator is None else _description_of(model.calibrator),
        "learned_from": None if model._learned_from is None else model._learned_from.as_dict(),
        "versions": {"graphsde": __version__, "torch": torch.__version__},
        "sha256": {TENSORS: hashlib.sha256(content).hexdigest()},
    }
    description["sha256"][DESCRIPTION] = _digest(description)
    # numbers first: a description never points to tensors that are not there yet
    storage.write_bytes(folder / TENSORS, content)
    storage.write_json(folder / DESCRIPTION, description)
    return folder


def load_model(folder: str | Path) -> Model:
    """Read a model that :meth:`Model.save` wrote.

    Nothing in the folder is executed; hash, format version, names, shapes and finiteness are checked first.
    """
    import graphsde.models  # noqa: F401  (fills MODELS)

    folder = Path(folder)
    description, tensors = _read(folder)
    model = _class_of(description["model"])(**description["settings"])
    model.class_names = tuple(description["class_names"])
    model.best_epoch = description["best_epoch"]
    try:
        model.restore(tensors, description["values"])
        if description.get("calibrator") is not None:
            model.calibrator = _calibrator(description["calibrator"], len(model.class_names))
        if (used := description.get("learned_from")) is not None:  # earlier versions did not keep it
            model._learned_from = LearnedFrom.from_dict(used)
    except GraphsdeError:
        raise
    except Exception as error:  # any description that no model could have written is damaged
        raise storage.damaged(folder / DESCRIPTION, f"{type(error).__name__}: {error}", FIX) from error
    return model


def _class_of(name: str) -> type[Model]:
    """By name; a prediction made elsewhere is not registered, since it can't be fitted."""
    return GivenPrediction if name == GivenPrediction.name else MODELS.get(name)


def _digest(description: dict[str, Any]) -> str:
    """Of everything in ``model.json`` but this digest itself: an edited mean or class name is another model."""
    hashes = {name: value for name, value in description["sha256"].items() if name != DESCRIPTION}
    text = json.dumps({**description, "sha256": hashes}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _description_of(calibrator: Calibrator) -> dict[str, Any]:
    """A calibrator in plain numbers, in the description, so that calibrating a saved model changes one file."""
    numbers = {name: tensor.tolist() for name, tensor in calibrator.state_dict().items()}
    kept = {"name": calibrator.name, "trained": calibrator.trained, "numbers": numbers}
    values = calibrator.plain_values()
    return kept | {"values": values} if values else kept


def _calibrator(kept: dict[str, Any], classes: int) -> Calibrator:
    from graphsde.uncertainty.calibration import CALIBRATORS

    calibrator = CALIBRATORS.get(kept["name"])(classes, list(kept["trained"]))
    calibrator.recall(kept.get("values", {}))
    load_tensors(calibrator, {name: torch.tensor(n, dtype=torch.float64) for name, n in kept["numbers"].items()})
    return calibrator.eval()


def load_tensors(module: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy ``tensors`` into ``module``; every name must exist, with its shape, type and finite values."""
    wanted = module.state_dict()
    missing, extra = sorted(set(wanted) - set(tensors)), sorted(set(tensors) - set(wanted))
    if missing or extra:
        raise BadInput(
            f"{TENSORS} does not match the model (missing: {missing[:3]}, unknown: {extra[:3]})", code="E-MODEL-TENSORS"
        )
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape or tensor.dtype != wanted[name].dtype:
            raise BadInput(
                f"tensor '{name}' is {tuple(tensor.shape)} {tensor.dtype}",
                code="E-MODEL-SHAPE",
                expected=f"{tuple(wanted[name].shape)} {wanted[name].dtype}",
            )
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise BadInput(f"tensor '{name}' has values that are not finite", code="E-MODEL-NAN")
    module.load_state_dict(tensors)


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Both files, of one and the same model even while another is being saved over it."""
    description = _description(folder / DESCRIPTION)
    while True:
        try:
            return description, _tensors(folder / TENSORS, description["sha256"][TENSORS])
        except BadInput as error:
            if error.code != "E-MODEL-HASH":
                raise
            # tensors are written first, their description a moment later: retry, since only damage persists
            time.sleep(_MOMENT)
            again = _description(folder / DESCRIPTION)
            if again["sha256"] == description["sha256"]:
                raise
            description = again


def _description(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise BadInput(
            f"no model in {path.parent}",
            code="E-NO-MODEL",
            place=str(path),
            fix="use a folder that fit wrote",
        )
    description = storage.read_json(path)
    try:
        version, name = description["format"], description["model"]
        parts = (description["settings"], description["values"], description["sha256"])
        names = description["class_names"]
        description["best_epoch"]
    except (KeyError, TypeError, IndexError) as error:
        raise storage.damaged(path, type(error).__name__, FIX) from error
    if version != FORMAT:
        raise BadInput(
            f"{path.name} has format {version}, this graphsde reads {FORMAT}",
            code="E-MODEL-VERSION",
            place=str(path),
            fix="use the version that wrote it, or fit again",
        )
    well_formed = isinstance(name, str) and all(isinstance(part, dict) for part in parts)
    if not (well_formed and isinstance(names, list) and all(isinstance(n, str) for n in names) and TENSORS in parts[2]):
        raise storage.damaged(path, "a field has the wrong type", FIX)
    # older models have no digest
    if parts[2].get(DESCRIPTION, expected := _digest(description)) != expected:
        raise storage.damaged(path, "its content has changed", FIX)
    return description


def _tensors(path: Path, expected: str) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    content = path.read_bytes() if path.is_file() else None
    found = None if content is None else hashlib.sha256(content).hexdigest()
    if content is None or found != expected:
        raise BadInput(
            f"{path.name} is {'missing' if found is None else 'not the file that was saved'}",
            code="E-MODEL-HASH",
            place=str(path),
            expected=f"sha256 {expected}",
            fix="copy the model folder again, or fit again",
        )
    try:
        return load(content)
    except SafetensorError as error:
        raise storage.damaged(path, str(error), FIX) from error
