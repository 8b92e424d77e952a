"""Which features drive a node's uncertainty: by the model's gradient, or by trial if it has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.graph.graph import Graph
from graphsde.models import Model
from graphsde.models.base import encode
from graphsde.models.neural import Inputs, NeuralModel
from graphsde.models.perturbation import entropy_gradient
from graphsde.nn.encoding import FeatureEncoder

BY_GRADIENT = (
    "to first order, from the gradient of the central prediction's entropy with respect to the features as the model "
    "sees them"
)
BY_TRIAL = (
    "by trial: the model has no gradient, so features were set to their average one at a time; the {} that are "
    "farthest from it were tried"
)
NOT_AT_ALL = "none: with all of its features at their average the prediction is the same"


@dataclass(frozen=True)
class FeatureEffect:
    """One feature of a node.

    Args:
        name: of the column; a value of a text column as ``column=value``.
        value: what the node has, in the user's own unit; ``None`` for text columns.
        average: over all nodes.
        adds: how much uncertainty the node has because the feature is not at its average: entropy in nats, or for
            regression the standard deviation.
        moves: for regression, how much of the predicted mean has the same cause.
    """

    name: str
    value: float | None
    average: float | None
    adds: float
    moves: float | None = None


def feature_effects(
    model: Model, graph: Graph, node: int, entropy: float, most: int, samples: int, seed: int | None
) -> tuple[list[FeatureEffect], str]:
    """The features with the largest effect, and in words how it was computed."""
    if isinstance(model, NeuralModel) and model.encoder is not None:
        return _by_gradient(model, model.encoder, graph, node, most), BY_GRADIENT
    return _by_trial(model, graph, node, entropy, most, samples, seed)


def _by_gradient(
    model: NeuralModel, encoder: FeatureEncoder, graph: Graph, node: int, most: int
) -> list[FeatureEffect]:
    matrix = encoder.transform(graph)
    inputs = Inputs(encode(encoder, graph), graph.adjacency.operator)
    gradient = entropy_gradient(model, graph, inputs, node).numpy().astype(np.float64)
    adds = gradient * (_row(matrix, node) - _means(matrix))
    own, averages = _row(graph.features, node), _means(graph.features)
    names = _names(graph, encoder)
    chosen = [k for k in np.argsort(-np.abs(adds), kind="stable")[:most].tolist() if adds[k] != 0]
    return [
        FeatureEffect(
            name=names[k],
            value=float(own[k]) if k < len(own) else None,
            average=float(averages[k]) if k < len(own) else None,
            adds=float(adds[k]),
        )
        for k in chosen
    ]


def _by_trial(
    model: Model, graph: Graph, node: int, entropy: float, most: int, samples: int, seed: int | None
) -> tuple[list[FeatureEffect], str]:
    def entropy_on(moved: Graph) -> tuple[float, None]:
        return float(model.predict_total(moved, samples=samples, seed=seed).total[node]), None

    return tried_effects(entropy_on, (entropy, None), graph, node, most, BY_TRIAL)


def tried_effects(
    measure: Callable[[Graph], tuple[float, float | None]],
    here: tuple[float, float | None],
    graph: Graph,
    node: int,
    most: int,
    words: str,
) -> tuple[list[FeatureEffect], str]:
    """The effect of one numeric feature after another, the most unusual first, and in words how it was computed.

    Args:
        measure: the node's uncertainty, and for regression its mean, on another graph.
        here: both on ``graph`` itself.
        graph: the original.
        node: which one.
        most: how many features to try at most.
        words: with a place for how many were tried.
    """
    untried = ", text columns were not" if graph.categorical else ""
    if measure(_with_row(graph, node, _means(graph.features))) == here:
        return [], f"none: the numeric ones have no effect{untried}" if graph.categorical else NOT_AT_ALL
    (doubt, mean), found = here, []
    for name, value, average, moved in _trials(graph, node, most):
        other, elsewhere = measure(moved)
        moves = None if mean is None or elsewhere is None else mean - elsewhere
        found.append(FeatureEffect(name, value, average, doubt - other, moves))
    found.sort(key=lambda one: -abs(one.adds))
    return found, words.format(len(found)) + untried


def _trials(graph: Graph, node: int, most: int) -> Iterator[tuple[str, float, float, Graph]]:
    """Name, value and average of a feature, and the graph with the node at that average."""
    own, averages = _row(graph.features, node), _means(graph.features)
    spread = np.sqrt(np.maximum(_means(_squares(graph.features)) - averages**2, 0.0))
    unusual = np.divide(np.abs(own - averages), spread, out=np.zeros_like(own), where=spread > 0)
    for k in np.argsort(-unusual, kind="stable")[:most].tolist():
        usual = own.copy()
        usual[k] = averages[k]
        name = graph.feature_names[k] if graph.feature_names is not None else f"feature {k}"
        yield name, float(own[k]), float(averages[k]), _with_row(graph, node, usual)


def _names(graph: Graph, encoder: FeatureEncoder) -> list[str]:
    numeric = graph.feature_names or tuple(f"feature {k}" for k in range(int(graph.features.shape[1])))
    return [*numeric, *(f"{column}={value}" for column, values in encoder.vocabulary.items() for value in values)]


def _with_row(graph: Graph, node: int, row: np.ndarray) -> Graph:
    if not sp.issparse(graph.features):
        features = np.array(graph.features)
        features[node] = row
        return graph.with_features(features)
    above, below = graph.features[:node], graph.features[node + 1 :]
    own = sp.csr_array(row[None].astype(np.float32))
    return graph.with_features(sp.csr_array(sp.vstack([above, own, below], format="csr")))


def _row(matrix: Any, node: int) -> np.ndarray:
    return np.asarray(matrix[[node]].toarray()[0] if sp.issparse(matrix) else matrix[node], dtype=np.float64)


def _means(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.sum(axis=0, dtype=np.float64)).ravel() / matrix.shape[0]


def _squares(matrix: Any) -> Any:
    return matrix.power(2) if sp.issparse(matrix) else np.square(matrix, dtype=np.float64)
