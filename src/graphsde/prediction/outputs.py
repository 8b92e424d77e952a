"""Predictions from the outputs of any model: probabilities, logits, or means with standard deviations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.graph.features import as_array
from graphsde.graph.graph import Graph
from graphsde.prediction.classification import ClassPrediction, softmax
from graphsde.prediction.regression import RegressionPrediction

Output = Literal["logits", "probabilities"]
SUM_TOLERANCE = 5e-3
"""Tolerance for the sum of a row: bfloat16 and rounding to two digits pass, a wrong array does not."""

FAR_BELOW = 1e4  # nats: exp of minus this is 0 in double precision


def from_probabilities(
    probs: Any,
    graph: Graph | None = None,
    *,
    ids: Any = None,
    class_names: Sequence[Any] | None = None,
    embedding: Any = None,
) -> ClassPrediction:
    """See :meth:`graphsde.Prediction.from_probabilities`."""
    values = _samples_of_rows(probs, "probabilities")
    _refuse_what_is_no_probability(values)
    values = values / values.sum(axis=-1, keepdims=True)
    return _classes(values, None, graph, ids, _column_names(probs, class_names), embedding)


def from_logits(
    logits: Any,
    graph: Graph | None = None,
    *,
    ids: Any = None,
    class_names: Sequence[Any] | None = None,
    embedding: Any = None,
) -> ClassPrediction:
    """See :meth:`graphsde.Prediction.from_logits`."""
    values = _samples_of_rows(logits, "logits")
    # a probability of 0 has the log-probability -inf: made finite, and still 0 after the softmax
    values = np.where(values == -np.inf, values.max(axis=-1, keepdims=True) - FAR_BELOW, values)
    return _classes(softmax(values), values, graph, ids, _column_names(logits, class_names), embedding)


def from_mean_std(
    mean: Any, std: Any, graph: Graph | None = None, *, ids: Any = None, embedding: Any = None
) -> RegressionPrediction:
    """See :meth:`graphsde.Prediction.from_mean_std`."""
    means, deviations = _samples_of_numbers(mean, "means"), _samples_of_numbers(std, "standard deviations")
    if deviations.shape != means.shape:
        raise BadInput(
            f"the standard deviations have shape {deviations.shape}, the means {means.shape}",
            code="E-LEN",
            expected="one standard deviation per mean",
        )
    if np.any(deviations <= 0):
        raise BadInput(
            f"{int(np.count_nonzero((deviations <= 0).any(axis=0))):,} nodes have a standard deviation of 0 or below",
            expected="standard deviations above 0, in the unit of the target",
            fix="use the standard deviation of validation residuals if the model has none of its own",
        )
    known = _ids(ids, graph, means.shape[1])
    kind: Literal["samples", "deterministic"] = "samples" if len(means) > 1 else "deterministic"
    found = RegressionPrediction(means, deviations**2, known, kind, embedding=_embedding(embedding, len(known)))
    return found.known_to_be_of(graph)


def recognise(values: np.ndarray) -> Output:
    """Whether rows are probabilities or logits, if that is certain. Log-probabilities are logits, too.

    Raises:
        BadUsage: it is ambiguous.
    """
    if values.min() < 0 or values.max() > 1 + SUM_TOLERANCE:
        return "logits"
    if np.abs(values.sum(axis=-1) - 1).max() <= SUM_TOLERANCE:
        return "probabilities"
    raise BadUsage(
        "the outputs are between 0 and 1, but their rows don't sum to 1: they may be logits, or sigmoids of each class",
        expected="logits, log-probabilities or probabilities",
        fix="set output='logits' or output='probabilities'; for sigmoids of each class return their inputs",
    )


def as_numbers(values: Any, what: str) -> np.ndarray:
    """A tensor, a data frame, a list or an array as an array of floats; half precision becomes single."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = (values.float() if values.element_size() < 4 else values).numpy()
    array = as_array(values, what)
    if array.dtype.kind not in "fiub":
        raise BadInput(f"{what} are not numbers", code="E-DTYPE", found=str(array.dtype), expected="an array of floats")
    return array.astype(array.dtype if array.dtype in (np.float32, np.float64) else np.float64)


def _samples_of_rows(values: Any, what: str) -> np.ndarray:
    array = as_numbers(values, what)
    if array.ndim == 1 or (array.ndim in (2, 3) and array.shape[-1] == 1):
        raise BadInput(
            f"{what} of shape {array.shape} have one number per node",
            code="E-SHAPE",
            expected="[nodes, classes] or [samples, nodes, classes]",
            fix="for two classes pass both columns: numpy.stack([1 - p, p], axis=-1) of probabilities, "
            "numpy.stack([0 * z, z], axis=-1) of logits",
        )
    if array.ndim not in (2, 3) or not array.size:
        raise BadInput(
            f"{what} have shape {array.shape}",
            code="E-SHAPE",
            expected="[nodes, classes] or [samples, nodes, classes]",
        )
    array = array if array.ndim == 3 else array[None]
    # -inf is the logarithm of 0, unless nothing else is in the row
    bad = np.isnan(array) | (array == np.inf)
    if what == "logits":
        bad |= (array == -np.inf).all(axis=-1, keepdims=True)
    else:
        bad |= array == -np.inf
    _refuse_nodes(bad.any(axis=(0, 2)), what)
    return array


def _samples_of_numbers(values: Any, what: str) -> np.ndarray:
    array = as_numbers(values, what)
    if array.ndim == 2 and array.shape[1] == 1 and len(array) > 1:
        raise BadInput(
            f"{what} have shape {array.shape}",
            code="E-SHAPE",
            expected="[nodes] or [samples, nodes]",
            fix="use the single column: values[:, 0]",
        )
    if array.ndim not in (1, 2) or not array.size:
        raise BadInput(f"{what} have shape {array.shape}", code="E-SHAPE", expected="[nodes] or [samples, nodes]")
    array = array if array.ndim == 2 else array[None]
    _refuse_nodes(~np.isfinite(array).all(axis=0), what)
    return array


def _refuse_nodes(bad: np.ndarray, what: str) -> None:
    if bad.any():
        raise BadInput(
            f"{int(bad.sum()):,} nodes have {what} that are not finite",
            code="E-NAN",
            place=f"row {int(np.flatnonzero(bad)[0])}",
            fix="remove these nodes from graph and prediction, or find the division by zero that caused it",
        )


def _refuse_what_is_no_probability(values: np.ndarray) -> None:
    sums = values.sum(axis=-1)
    if values.min() >= 0 and np.abs(sums - 1).max() <= SUM_TOLERANCE:
        return
    sample, row = np.unravel_index(int(np.argmax(np.abs(sums - 1))), sums.shape)
    if values.min() < 0:
        sample, row = np.unravel_index(int(np.argmin(values.min(axis=-1))), sums.shape)
    with np.errstate(over="ignore"):
        logs = values.max() <= 0 and bool(np.abs(np.exp(values).sum(axis=-1) - 1).max() <= SUM_TOLERANCE)
    look = "log-probabilities" if logs else "logits" if values.min() < 0 or values.max() > 1 else ""
    shown = np.array2string(values[sample, row], precision=4, threshold=8)
    raise BadInput(
        "these are not probabilities" + (f" (they look like {look})" if look else ""),
        place=f"row {row}",
        found=f"{shown}, which sums to {sums[sample, row]:.4g}",
        expected="numbers from 0 to 1, with rows that sum to 1",
        fix="use from_logits, which takes log-probabilities too" if look else "divide each row by its sum",
    )


def _classes(
    probs: np.ndarray,
    logits: np.ndarray | None,
    graph: Graph | None,
    ids: Any,
    class_names: Sequence[Any] | None,
    embedding: Any,
) -> ClassPrediction:
    known = _ids(ids, graph, probs.shape[1])
    names = names_of_columns(class_names, graph, probs.shape[2])
    return ClassPrediction(
        probs,
        known,
        names,
        "samples" if len(probs) > 1 else "deterministic",
        logits=logits,
        embedding=_embedding(embedding, len(known)),
    ).known_to_be_of(graph)


def _column_names(values: Any, given: Sequence[Any] | None) -> Sequence[Any] | None:
    """The columns of a data frame are the classes, unless others are given."""
    return list(values.columns) if given is None and hasattr(values, "columns") else given


def _ids(ids: Any, graph: Graph | None, nodes: int) -> np.ndarray:
    if ids is not None and graph is not None:
        raise BadUsage("ids given twice", fix="leave out ids: those of the graph are used, in its order")
    known: np.ndarray = graph.node_ids if graph is not None else np.arange(nodes) if ids is None else np.asarray(ids)
    if len(known) != nodes:
        owner = "the graph has" if graph is not None else "there are ids of"
        raise BadInput(
            f"the prediction has {nodes:,} nodes, {owner} {len(known):,}",
            code="E-LEN",
            found=nodes,
            expected=f"{len(known):,} rows, in the order of the nodes",
            fix="predict all nodes of the graph, not only the test nodes" if graph is not None else None,
        )
    return known.astype(object) if known.dtype.kind in "US" else known


def names_of_columns(class_names: Sequence[Any] | None, graph: Graph | None, columns: int) -> tuple[str, ...]:
    """The class of each column of a prediction: as given, otherwise as in the graph, otherwise numbered."""
    of_graph = () if graph is None else graph.class_names
    if class_names is None:
        if not of_graph or len(of_graph) == columns:
            return of_graph or tuple(str(position) for position in range(columns))
        if all(name.isdecimal() and int(name) < columns for name in of_graph):  # numbered, and some have no node
            return tuple(str(position) for position in range(columns))
        raise BadInput(
            f"the prediction has {columns:,} classes, the graph {len(of_graph):,}",
            code="E-CLASS-MAP",
            found=columns,
            expected="one column for each of " + _list(of_graph),
            fix="pass class_names=[…] with a name for each column",
        )
    names = tuple(str(name) for name in class_names)
    if len(names) != columns or len(set(names)) != columns:
        raise BadInput(
            f"{len(set(names)):,} distinct class names don't match {columns:,} columns",
            code="E-CLASS-NAMES",
            found=_list(names),
            expected="a unique name for each column",
        )
    if of_graph and not set(of_graph) & set(names):
        raise BadInput(
            "none of the class names is a class of the graph",
            code="E-CLASS-MAP",
            found=_list(names),
            expected="names among " + _list(of_graph),
            fix="use the graph's names: graph.class_names",
        )
    return names


def _list(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(shorten(name, 40) for name in names[:most]) + (", …" if len(names) > most else "")


def _embedding(values: Any, nodes: int) -> np.ndarray | None:
    if values is None:
        return None
    array = as_numbers(values, "embeddings")
    if array.ndim != 2 or len(array) != nodes:
        raise BadInput(
            f"the embedding has shape {array.shape}", code="E-LEN", expected=f"[{nodes}, width]: a row per node"
        )
    _refuse_nodes(~np.isfinite(array).all(axis=1), "embeddings")
    return array
