"""Detecting a shifted graph: its nodes against those of the clean one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphsde.base.errors import BadUsage
from graphsde.datasets.shifts import SHIFTS
from graphsde.graph.graph import Graph
from graphsde.metrics.detection import ood_auroc
from graphsde.metrics.summary import only_of_the_score, summarise_both
from graphsde.prediction import ClassPrediction, Prediction, Predictor
from graphsde.uncertainty.held_out import align_labels
from graphsde.uncertainty.scores import propagate, score
from graphsde.uncertainty.scores.registry import spreads

OF_THE_NODES = ("n_id", "n_ood", "ood_aupr_in_chance", "ood_aupr_out_chance")


def detect_shift(
    model: Predictor,
    graph: Graph,
    shift: str,
    scores: Sequence[str] = ("entropy",),
    samples: int = 64,
    seed: int = 0,
    **options: Any,
) -> dict[str, Any]:
    """How well uncertainty separates the nodes of a shifted graph from the test nodes of the clean one.

    The "feature" and "structure" tasks of GNNSafe (Wu et al., 2023), which GNSD and the LGNSDE study took over: the
    model was trained on the clean graph; in-distribution are its test nodes there, out-of-distribution are *all* nodes
    of the shifted copy, training nodes included. A shift that changes only some nodes and marks them as OOD
    (Stadler et al., 2021) is evaluated within the shifted graph: unchanged test nodes against changed ones.

    Each side is scored with its own prediction and its own edges; a score that learns from training nodes learns from
    those of the clean graph on both sides. A fitted temperature is undone first.

    Args:
        model: fitted on ``graph``.
        graph: with a test mask.
        shift: one of ``graphsde.datasets.shifts.SHIFTS``.
        scores: names of scores.
        samples: per node, for models that have any.
        seed: of the shift.
        options: of the shift, such as ``severity=1.0``.

    Returns:
        ``shift``, ``seed``, ``n_id``, ``n_ood``, the chance levels ``ood_aupr_in_chance`` and ``ood_aupr_out_chance``,
        and under ``scores`` the metrics of each score. Of classes also ``ood_accuracy``, the accuracy on shifted nodes,
        and for each score ``ood_auroc_wrong``, its AUROC where only shifted nodes with a wrong answer count as OOD: a
        model whose answers survive the shift has no reason to doubt them, but ``ood_auroc`` asks it to.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> model = gs.MLP(hidden=8, epochs=20).fit(graph)
        >>> found = detect_shift(model, graph, "interpolate-features", ["entropy", "msp"])
        >>> found["n_id"], found["n_ood"], sorted(found["scores"])
        (1297, 1797, ['entropy', 'msp'])
    """
    if graph.test_mask is None:
        raise BadUsage(
            f"the graph '{graph.name}' has no test nodes to compare with",
            found=sorted(graph.masks),
            expected="a mask named test",
            fix="apply a split",
        )
    if not scores:
        raise BadUsage("no score was given", fix="name at least one, such as entropy")
    shifted = SHIFTS.get(shift)(graph, seed=seed, **options)
    clean = (model.predict(graph, samples=samples).for_detection(), graph)
    moved = (model.predict(shifted, samples=samples).for_detection(), shifted)
    marked = shifted.ood_mask is not graph.ood_mask  # the shift marks which nodes it changed
    # nodes of untrained classes count on neither side: not shifted, and no model can be certain about them
    familiar = shifted.role("test") & (shifted.familiar | ~shifted.labelled) & ~shifted.role("ood")
    ood = shifted.ood_mask if marked and shifted.ood_mask is not None else np.ones(graph.num_nodes, dtype=bool)
    shared: dict[str, float] = {}
    right, wrong = _answers(moved, ood)
    by_score: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(scores):
        outside = _plain_and_spread(name, moved, model, clean)
        inside = outside if marked else _plain_and_spread(name, clean, model, clean)
        (plain_in, spread_in), (plain_out, spread_out) = inside, outside
        figures = summarise_both(plain_in[familiar], plain_out[ood], spread_in[familiar], spread_out[ood])
        shared = {key: figures[key] for key in OF_THE_NODES}
        by_score[name] = only_of_the_score(figures)
        if wrong.any() and familiar.any():
            by_score[name]["ood_auroc_wrong"] = ood_auroc(plain_in[familiar], plain_out[wrong])
    if right.any() or wrong.any():
        shared["ood_accuracy"] = float(right.sum() / (right.sum() + wrong.sum()))
    return {"shift": shift, "seed": seed, **shared, "scores": by_score}


def _answers(side: tuple[Prediction, Graph], nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of the nodes are predicted right, and which wrong; neither if the true class is not known.  # [N], [N]"""
    prediction, graph = side
    if not isinstance(prediction, ClassPrediction):
        return np.zeros_like(nodes), np.zeros_like(nodes)
    labels = align_labels(graph, prediction.class_names)
    known = nodes & (labels != -1)
    right = known & (prediction.index == labels)
    return right, known & ~right


def _plain_and_spread(
    name: str, side: tuple[Prediction, Graph], model: Predictor, clean: tuple[Prediction, Graph]
) -> tuple[np.ndarray, np.ndarray]:
    prediction, graph = side
    plain = score(name, prediction, graph, model, reference=clean)
    return plain, plain if spreads(name) else propagate(plain, graph)
