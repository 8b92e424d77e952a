"""The prediction of a run, saved completely: reading it gives the same bits without computing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from graphsde.prediction import ClassPrediction, Kind, Prediction, RegressionPrediction, SummarisedPrediction
from graphsde.prediction.sample_summary import SampleSummary
from graphsde.runs.bundle import Bundle, require_shape, sound

FILE = "prediction.safetensors"
_OF_CLASSES = ("probs", "logits", "embedding", "alpha", "known_state")
_OF_NUMBERS = ("means", "variances", "known", "embedding")
_SUM, _PLAIN, _BESIDE_SUMS = "sums.", "plain.", ("embedding", "known_state", "remaining")
_BEFORE = "uncalibrated."
_DEEPEST = 8


def pack_prediction(prediction: Prediction, *, samples: int, seed: int) -> Bundle | None:
    """Everything in a prediction except the ids, which are the graph's.

    Args:
        prediction: of all nodes of the run's graph.
        samples: requested; a model that draws none has one.
        seed: that they were drawn for.

    Returns:
        ``None`` for a kind of prediction that a plugin added.
    """
    arrays: dict[str, np.ndarray] = {}
    values: dict[str, Any] = {"samples": samples, "seed": seed, "target": prediction.target_kind}
    level: Prediction | None = prediction
    described: list[dict[str, Any]] = []
    while level is not None:
        before = _BEFORE * len(described)
        if type(level) is SummarisedPrediction:
            arrays |= _summary_arrays(level, before, arrays, described)
            level = level.uncalibrated
            continue
        if type(level) is ClassPrediction:
            names: tuple[str, ...] = _OF_CLASSES
            described.append(_facts(level))
        elif type(level) is RegressionPrediction:
            names = _OF_NUMBERS
            described.append({"kind": level.kind})
        else:
            return None
        for name in names:
            if (array := getattr(level, name)) is None:
                continue
            # a calibrator only changes probabilities: logits and embedding are shared with the uncalibrated prediction
            shared = next((other for other, known in arrays.items() if known is array), None)
            if shared is None:
                arrays[before + name] = array
            else:
                described[-1].setdefault("shared", {})[name] = shared
        level = getattr(level, "uncalibrated", None) if isinstance(level, ClassPrediction) else None
    return Bundle(arrays, {**values, "levels": described})


def _facts(level: ClassPrediction) -> dict[str, Any]:
    found = {"kind": level.kind, "classes": list(level.class_names), "temperature": level.temperature}
    return found | ({"distance_aware": True} if level.distance_aware else {})


def _summary_arrays(
    level: SummarisedPrediction, before: str, known: dict[str, np.ndarray], described: list[dict[str, Any]]
) -> dict[str, np.ndarray]:
    """Sums over samples of one level, and of the same samples at temperature 1; adds its description."""
    facts = _facts(level) | {"count": level.num_samples, "shared": {}}
    described.append(facts)
    own = {_SUM + name: array for name, array in level.summary.arrays().items()}
    own |= {name: array for name in _BESIDE_SUMS if (array := getattr(level, name)) is not None}
    if level.plain is not None:
        own |= {_PLAIN + name: array for name, array in level.plain.summary.arrays().items()}
        if level.plain.known_state is not None:
            own[_PLAIN + "known_state"] = level.plain.known_state
    found: dict[str, np.ndarray] = {}
    for name, array in own.items():
        everything = {**known, **found}
        shared = next((other for other, there in everything.items() if there is array), None)
        if shared is None:
            found[before + name] = array
        else:
            facts["shared"][name] = shared
    return found


def _summarised(
    bundle: Bundle, level: dict[str, Any], before: str, ids: np.ndarray, uncalibrated: Any
) -> SummarisedPrediction:
    names, temperature = tuple(level["classes"]), float(level["temperature"])
    stored = {name: bundle.arrays[before + name] for name in _own_names(bundle, before)}
    stored |= {name: bundle.arrays[other] for name, other in level["shared"].items()}
    if (embedding := stored.get("embedding")) is not None:
        require_shape(embedding, len(ids), None)
    if (remaining := stored.get("remaining")) is not None:
        require_shape(remaining, len(ids))

    def summary(prefix: str) -> SampleSummary:
        of = {name.removeprefix(prefix): array for name, array in stored.items() if name.startswith(prefix)}
        of.pop("known_state", None)
        return SampleSummary(int(level["count"]), **of)

    plain = None
    if any(name.startswith(_PLAIN) for name in stored):
        known = stored.get(_PLAIN + "known_state")
        plain = SummarisedPrediction(summary(_PLAIN), ids, names, embedding=embedding, known_state=known)
    beside: dict[str, Any] = {name: stored.get(name) for name in _BESIDE_SUMS}
    beside["distance_aware"] = bool(level.get("distance_aware", False))
    return SummarisedPrediction(
        summary(_SUM), ids, names, temperature=temperature, uncalibrated=uncalibrated, plain=plain, **beside
    )


def _own_names(bundle: Bundle, before: str) -> list[str]:
    """Names of a level's arrays, without what says which level it is."""
    found = (name.removeprefix(before) for name in bundle.arrays if name.startswith(before))
    return [name for name in found if not name.startswith(_BEFORE)]


def unpack_prediction(bundle: Bundle, ids: np.ndarray, path: Path) -> Prediction:
    """The prediction of a file for the nodes of its graph; ``path`` is for messages."""
    with sound(path):
        levels = bundle.values["levels"]
        if not 1 <= len(levels) <= _DEEPEST:
            raise ValueError("a prediction that was calibrated over and over")
        found: Any = None
        for depth in reversed(range(len(levels))):
            found = _level(bundle, levels[depth], _BEFORE * depth, ids, found)
        return found


def _level(bundle: Bundle, level: dict[str, Any], before: str, ids: np.ndarray, uncalibrated: Any) -> Prediction:
    if level["kind"] not in get_args(Kind):
        raise ValueError("a kind of spread that there is not")
    if "count" in level:
        return _summarised(bundle, level, before, ids, uncalibrated)
    classes: Literal[False] | tuple[str, ...] = "classes" in level and tuple(level["classes"])
    names = _OF_NUMBERS if classes is False else _OF_CLASSES
    arrays = {}
    for name in names:
        stored = level.get("shared", {}).get(name, before + name)
        if stored in bundle.arrays:
            arrays[name] = bundle.arrays[stored]
    if (embedding := arrays.get("embedding")) is not None:
        require_shape(embedding, len(ids), None)
    if classes is False:
        return RegressionPrediction(ids=ids, kind=level["kind"], **arrays)
    if (logits := arrays.get("logits")) is not None:
        require_shape(logits, None, len(ids), len(classes))
    if (alpha := arrays.get("alpha")) is not None:
        require_shape(alpha, len(ids), len(classes))
    return ClassPrediction(
        ids=ids,
        class_names=classes,
        kind=level["kind"],
        temperature=float(level["temperature"]),
        uncalibrated=uncalibrated,
        distance_aware=bool(level.get("distance_aware", False)),
        **arrays,
    )
