"""Which features move a node's uncertainty: by the model's gradient, or by trying where it has none."""

from __future__ import annotations

from collections.abc import Iterator
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
    "to first order, from the gradient of the entropy of the model's central answer with respect to the features as it "
    "sees them"
)
BY_TRIAL = "by trial: the model has no gradient, so features were set to their average one at a time"
NOT_AT_ALL = "not at all: with all of its features at their average the model says the same"


@dataclass(frozen=True)
class FeatureEffect:
    """One feature of a node.

    Args:
        name: of the column; a value of a text column as ``column=value``.
        value: what the node has, in the user's own unit; ``None`` for text columns.
        average: over all nodes.
        adds: how much uncertainty the node has because the feature is not at its average: entropy in nats, or of
            numbers the standard deviation.
        moves: of numbers, how much of the predicted mean is there for the same reason.
    """

    name: str
    value: float | None
    average: float | None
    adds: float
    moves: float | None = None


def feature_effects(
    model: Model, graph: Graph, node: int, entropy: float, most: int, samples: int, seed: int | None
) -> tuple[list[FeatureEffect], str]:
    """The features with the largest effect, and in words how it was found."""
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
    def entropy_on(moved: Graph) -> float:
        return float(model.predict(moved, samples=samples, seed=seed).total[node])

    if entropy_on(average_node(graph, node)) == entropy:
        return [], nothing_found(graph)
    effects = [
        FeatureEffect(one.name, one.value, one.average, entropy - entropy_on(one.graph))
        for one in trials(graph, node, most)
    ]
    words = f"{BY_TRIAL}; the {len(effects)} that are farthest from it were tried{untried(graph)}"
    return sorted(effects, key=lambda one: -abs(one.adds)), words


def nothing_found(graph: Graph) -> str:
    """In words, where trying the numeric features changed nothing."""
    return NOT_AT_ALL if not graph.categorical else f"not at all: the numeric ones do nothing{untried(graph)}"


def untried(graph: Graph) -> str:
    return ", text columns were not" if graph.categorical else ""


@dataclass(frozen=True, eq=False)
class Trial:
    """The graph with one feature of a node at its average."""

    name: str
    value: float
    average: float
    graph: Graph


def trials(graph: Graph, node: int, most: int) -> Iterator[Trial]:
    """One numeric feature of a node after another at its average, the most unusual ones first."""
    own, averages = _row(graph.features, node), _means(graph.features)
    spread = np.sqrt(np.maximum(_means(_squares(graph.features)) - averages**2, 0.0))
    unusual = np.divide(np.abs(own - averages), spread, out=np.zeros_like(own), where=spread > 0)
    for k in np.argsort(-unusual, kind="stable")[:most].tolist():
        usual = own.copy()
        usual[k] = averages[k]
        name = graph.feature_names[k] if graph.feature_names is not None else f"feature {k}"
        yield Trial(name, float(own[k]), float(averages[k]), _with_row(graph, node, usual))


def average_node(graph: Graph, node: int) -> Graph:
    """The graph with all numeric features of a node at their averages."""
    return _with_row(graph, node, _means(graph.features))


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
    row = matrix[[node]].toarray()[0] if sp.issparse(matrix) else matrix[node]
    return np.asarray(row, dtype=np.float64)


def _means(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.sum(axis=0, dtype=np.float64)).ravel() / matrix.shape[0]


def _squares(matrix: Any) -> Any:
    return matrix.power(2) if sp.issparse(matrix) else np.square(matrix, dtype=np.float64)
