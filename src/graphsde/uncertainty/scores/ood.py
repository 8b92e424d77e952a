"""One score for all kinds of OOD nodes: energy, evidence and features, each on the scale of validation nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphsde.base.errors import BadUsage
from graphsde.prediction import ClassPrediction
from graphsde.prediction.classification import log_sum_exp
from graphsde.uncertainty.evidence import Evidence, evidence_of, upper_tail, validation_nodes
from graphsde.uncertainty.held_out import require_same_nodes
from graphsde.uncertainty.mismatch import feature_mismatch
from graphsde.uncertainty.scores.propagation import propagate
from graphsde.uncertainty.scores.registry import SCORES
from graphsde.uncertainty.surrogates import surrogates_of

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph

PARTS = ("energy", "evidence", "features")
ALLOWANCES = (np.inf, 4.0, 3.0, 2.0, 1.0, 0.0)
"""How large a feature mismatch may be, in nats, before it counts; infinite = never."""
FALLBACK_ALLOWANCE = 2.0
TOLERANCE = 0.005
"""AUROC on unknown classes that features may cost, by surrogates: they carry no information there and add noise."""


@SCORES.register(
    "ood",
    summary="energy, similarity to the training nodes and to the neighbours, each as a rank among validation nodes",
    paper="Fisher, Statistical Methods for Research Workers",
    year=1925,
    needs=("logits", "graph", "train", "val"),
    spreads=True,
)
def ood(
    prediction: ClassPrediction,
    graph: Graph,
    *,
    parts: Sequence[str] = PARTS,
    alone: bool = False,
    allowance: float | None = None,
    reference: tuple[ClassPrediction, Graph] | None = None,
) -> np.ndarray:
    """Fisher's sum of up to three tests of whether a node is OOD, averaged over neighbours.  # [N]

    With ``t_x(i) = −log[(1 + #{v: x_v ≥ x_i}) / (n_val + 1)]`` over the validation nodes v of known classes, and
    ``Prop`` GNNSafe's propagation (:func:`graphsde.uncertainty.scores.propagate`),

        S = Prop( t(Prop E) + t(Prop e) + max(t(Prop m) − a, 0) ).

    * energy: ``E = −log Σ_c exp(z̄_c)`` of the logits' mean over samples: does the model recognise a class?
    * evidence: e of :class:`graphsde.Evidence`: does it resemble the training nodes of a class more than any node?
      Detects untrained classes; nearly blind to mixed features.
    * features: m of :func:`~graphsde.uncertainty.mismatch.feature_mismatch`: do its features match its neighbours'?
      Detects wrong or mixed features; blind to unknown classes, where it only adds noise.

    The allowance a is one of ∞, 4, 3, 2, 1, 0, chosen on surrogates made of validation nodes, never on OOD nodes.
    Some of them are unknown classes: validation nodes as if their class had not been trained on (evidence without the
    nearest class). Others are mixed features: copies whose features are a mixture of two known nodes'. Chosen is what
    detects mixed features best while costing at most 0.005 AUROC on unknown classes. Energies of surrogates
    are unchanged, since the model does not predict again. With one class there are no unknown classes to try, and
    a = 2.

    All references come from validation nodes, which selection has seen: p-values are slightly optimistic, ranks are
    not affected. Calibration and test nodes are treated alike, so thresholds on it (``graphsde decide``) keep their
    guarantee.

    Args:
        prediction: with logits.
        graph: predicted on.
        parts: which of ``energy``, ``evidence``, ``features`` to sum.
        alone: score nodes one at a time: unknown nodes don't enter the background of the evidence.
        allowance: a, to skip the choice.
        reference: prediction and graph that the training and validation nodes are of; ``prediction`` and ``graph`` if
            not given. For a shifted graph pass the clean one.
    """
    if isinstance(parts, str) or not parts or not set(parts) <= set(PARTS):
        raise BadUsage("invalid parts of the score 'ood'", code="E-SCORE", found=parts, expected=f"some of {PARTS}")
    require_same_nodes(prediction, graph)
    known_prediction, known_graph = reference or (prediction, graph)
    require_same_nodes(known_prediction, known_graph)
    if len(nodes := validation_nodes(known_graph)) == 0:
        raise BadUsage(
            f"the graph '{known_graph.name}' has no validation nodes of known classes to compare with",
            code="E-SCORE",
            fix="pass reference=(prediction, graph) of the graph that the model was fitted on, or use entropy",
        )
    evidence = evidence_of(known_graph, alone=alone)
    clean = _fields(known_prediction, known_graph, evidence, parts, fitted=known_graph)
    scale = {name: np.sort(values[nodes]) for name, values in clean.items()}
    if "features" not in parts:
        allowance = np.inf
    elif allowance is None:
        allowance = 0.0 if len(set(parts)) == 1 else _choose(clean, scale, known_graph, nodes, alone).allowance
    judged = clean if graph is known_graph and prediction is known_prediction else None
    judged = judged or _fields(prediction, graph, evidence, parts, fitted=known_graph)
    return propagate(_total(judged, scale, allowance), graph)


@dataclass(frozen=True)
class Choice:
    """An allowance and its results on surrogates: AUROC on mixed features and on unknown classes."""

    allowance: float
    mixed: float
    unknown: float


def choices(prediction: ClassPrediction, graph: Graph, *, alone: bool = False) -> list[Choice]:
    """The result of each allowance on the surrogates of ``graph``, used to choose one.

    Empty if there is no surrogate of unknown classes: with a single class of training nodes.
    """
    nodes = validation_nodes(graph)
    clean = _fields(prediction, graph, evidence_of(graph, alone=alone), PARTS, fitted=graph)
    scale = {name: np.sort(values[nodes]) for name, values in clean.items()}
    return _compare(clean, scale, graph, nodes, alone)


def _choose(
    clean: dict[str, np.ndarray], scale: dict[str, np.ndarray], graph: Graph, nodes: np.ndarray, alone: bool
) -> Choice:
    compared = _compare(clean, scale, graph, nodes, alone)
    if not compared:
        return Choice(FALLBACK_ALLOWANCE, np.nan, np.nan)
    allowed = [one for one in compared if one.unknown >= compared[0].unknown - TOLERANCE]
    return max(allowed, key=lambda one: one.mixed)  # the first among ties: the largest allowance


def _compare(
    clean: dict[str, np.ndarray], scale: dict[str, np.ndarray], graph: Graph, nodes: np.ndarray, alone: bool
) -> list[Choice]:
    surrogates = surrogates_of(graph, alone=alone)
    if surrogates.unknown_evidence is None:
        return []
    mixed, unknown = dict(clean), dict(clean)
    mixed["features"] = propagate(surrogates.mixed_mismatch, graph)
    if "evidence" in clean:
        mixed["evidence"] = propagate(surrogates.mixed_evidence, graph)
        unknown["evidence"] = propagate(surrogates.unknown_evidence, graph)
    found = []
    for allowance in ALLOWANCES:
        own, *others = (propagate(_total(fields, scale, allowance), graph)[nodes] for fields in (clean, mixed, unknown))
        found.append(Choice(allowance, *(_auroc(own, other) for other in others)))
    return found


def _fields(
    prediction: ClassPrediction, graph: Graph, evidence: Evidence, parts: Sequence[str], *, fitted: Graph
) -> dict[str, np.ndarray]:
    """Each part, averaged with the neighbours'; ``fitted`` is the graph of the evidence.  # [N] each"""
    found = {}
    if "energy" in parts:
        logits = prediction.mean_logits
        assert logits is not None
        found["energy"] = propagate(-log_sum_exp(logits), graph)
    if "evidence" in parts:
        found["evidence"] = evidence.propagated if graph is fitted else propagate(evidence.of(graph), graph)
    if "features" in parts:
        found["features"] = propagate(feature_mismatch(graph, evidence.encoder), graph)
    return found


def _total(fields: dict[str, np.ndarray], scale: dict[str, np.ndarray], allowance: float) -> np.ndarray:
    total = np.zeros(len(next(iter(fields.values()))))
    for name, values in fields.items():
        surprise = -np.log(upper_tail(values, scale[name]))
        total += np.maximum(surprise - allowance, 0.0) if name == "features" else surprise
    return total


def _auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([inside, outside]))[len(inside) :]
    return float((ranks.mean() - (len(outside) + 1) / 2) / len(inside))
