"""A trained torch module as a model: scores, calibration and decisions for it."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.base.registry import unknown_name
from graphsde.base.seeds import derive
from graphsde.datasets.source import as_graph
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.base import ModelSettings
from graphsde.models.given import TrainedElsewhere, content_of
from graphsde.prediction import Perturb, Prediction, require_room_for_samples
from graphsde.prediction.learned_from import LearnedFrom
from graphsde.prediction.outputs import Output, as_numbers, names_of_columns, recognise

Call = Callable[[nn.Module, Any], Any]
PENULTIMATE = "penultimate"
WHOLE = ("data", "batch", "graph")
FEATURES = ("x", "features", "feats", "feat", "h", "inputs", "input", "node_features")
EDGES = ("edge_index", "edges", "edge_indices", "adj_t")


class Wrapped(TrainedElsewhere):
    """A trained torch module with ``predict`` and ``calibrate``, made by :func:`wrap`.

    Attributes:
        graph: that the module was wrapped with, for everything that needs a graph.
        module: the module itself, whose weights and mode are never changed.
    """

    name = "wrapped"
    summary = "a trained torch module of your own"
    Settings = ModelSettings

    def __init__(
        self,
        module: nn.Module,
        graph: Graph,
        data: Any,
        *,
        output: Output | Literal["auto"],
        embedding: str | None,
        dropout: bool,
        call: Call | None,
        seed: int,
    ) -> None:
        super().__init__(seed=seed)
        self.module, self.graph = module, graph
        self.class_names = graph.class_names
        self._data, self._content = data, content_of(graph)
        self._learned_from = LearnedFrom.of(graph)
        self._call = call or _call_by_signature(module)
        self._output, self._embedding, self._dropout = output, embedding, dropout

    def predict(
        self, graph: Graph, *, samples: int = 64, seed: int | None = None, perturb: Perturb | None = None
    ) -> Prediction:
        """The prediction for every node; ``samples`` and ``seed`` are for a module wrapped with ``dropout``."""
        names = self._require_fitted(samples)
        self._refuse_perturbation(perturb)
        self._check_classes(graph)
        data = self._inputs(graph)
        with _evaluating(self.module):
            outputs, embedding = _with_embedding(self.module, self._embedding, graph, lambda: self._run(data, graph))
        if self._dropout:
            require_room_for_samples(samples, graph.num_nodes, len(names))
            outputs = self._draws(data, graph, samples, self.settings.seed if seed is None else seed)
        kind = recognise(outputs) if self._output == "auto" else self._output
        make = Prediction.from_logits if kind == "logits" else Prediction.from_probabilities
        named = names_of_columns(None, self.graph, outputs.shape[-1])
        return self._calibrated(make(outputs, ids=graph.node_ids, class_names=named, embedding=embedding), graph)

    def _inputs(self, graph: Graph) -> Any:
        """The data that the module was trained with, for its own graph; another graph in the same form."""
        device = next((parameter.device for parameter in self.module.parameters()), torch.device("cpu"))
        if content_of(graph) == self._content and not isinstance(self._data, Graph):
            data = self._data
        elif isinstance(self._data, Graph):
            data = _tensors_of(graph)
        else:
            from graphsde.io.pyg import to_pyg

            data = to_pyg(graph)
            if data.x.layout is not torch.strided and self._data.x.layout is torch.strided:
                data.x = data.x.to_dense()
        if device.type == "cpu":
            return data
        if isinstance(data, SimpleNamespace):
            moved = {
                name: value.to(device) if isinstance(value, Tensor) else value for name, value in vars(data).items()
            }
            return SimpleNamespace(**moved)
        return copy.copy(data).to(device)  # a copy: PyG moves a graph in place

    def _run(self, data: Any, graph: Graph) -> np.ndarray:
        try:
            with torch.no_grad():
                found = self._call(self.module, data)
        except Exception as error:
            raise BadUsage(
                f"calling {type(self.module).__name__} failed with {type(error).__name__}: {shorten(str(error), 300)}",
                fix="tell gs.wrap how to call it: gs.wrap(module, data, call=lambda module, data: module(data.x, …))",
            ) from error
        if not isinstance(found, Tensor):
            raise BadUsage(
                f"{type(self.module).__name__} returns a {type(found).__name__}",
                expected="a tensor [nodes, classes]",
                fix="select it: gs.wrap(module, data, call=lambda module, data: module(data.x, data.edge_index)[0])",
            )
        if found.ndim != 2 or len(found) != graph.num_nodes:
            raise BadInput(
                f"{type(self.module).__name__} returns a tensor of shape {tuple(found.shape)}",
                code="E-SHAPE",
                expected=f"[{graph.num_nodes}, classes]: a row for every node of the graph",
                fix="call it so that it predicts all nodes: gs.wrap(module, data, call=…)",
            )
        return as_numbers(found, "outputs")

    def _draws(self, data: Any, graph: Graph, samples: int, seed: int) -> np.ndarray:
        """Outputs with dropout switched on.  # [S, N, C]"""
        with _evaluating(self.module), _dropping(self.module, derive(seed, "wrapped", "dropout")):
            draws = np.stack([self._run(data, graph) for _ in range(samples)])
        if samples > 1 and np.array_equal(draws[0], draws[1]):
            raise BadUsage(
                f"{type(self.module).__name__} has no active dropout: its outputs are the same without it",
                fix="leave out dropout=True",
            )
        return draws

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        raise BadUsage(
            "a wrapped module can't be saved: its code is not part of graphsde",
            code="E-SAVE",
            fix="save its predictions, gs.save_run(model.predict(model.graph), model.graph, folder), "
            "and save the module as you did before",
        )

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.state()

    def __repr__(self) -> str:
        return f"Wrapped({type(self.module).__name__}, {self.graph!r})"


def wrap(
    module: nn.Module,
    data: Any,
    *,
    output: Output | Literal["auto"] = "auto",
    embedding: str | None = PENULTIMATE,
    dropout: bool = False,
    call: Call | None = None,
    seed: int = 0,
) -> Wrapped:
    """Wrap a trained torch module as a model, to predict, calibrate, decide, ask and report with it.

    The graph must mark the nodes that the module was trained on (``train``) and selected by (``val``):
    guarantees need nodes that it has never seen.

    Args:
        module: a trained module. It is run in evaluation mode and without gradients, and not changed.
        data: the PyG ``Data`` that it was trained with, with its masks; or a :class:`Graph`, a networkx graph ….
        output: whether it returns ``logits`` (or log-probabilities) or ``probabilities``; ``auto`` checks, and fails
            if both are possible.
        embedding: the layer whose output is the embedding, as in ``module.named_modules()``; ``penultimate`` is what
            goes into the last layer with weights; ``None`` for none.
        dropout: draw samples with the module's dropout switched on (MC dropout; other layers stay in evaluation mode).
        call: how to call it, ``call(module, data)``; by default by the names of what ``forward`` needs, such as
            ``module(data.x, data.edge_index)`` or ``module(data)``.
        seed: of the samples.

    Raises:
        BadUsage: the call fails, the output is ambiguous, or the graph has no training nodes.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> model = gs.wrap(torch.nn.Linear(64, 10), graph)
        >>> model.calibrate(model.graph).predict(model.graph).kind
        'deterministic'
    """
    if not isinstance(module, nn.Module):
        proba = hasattr(module, "predict_proba")
        raise BadUsage(
            f"a {type(module).__name__} is not a torch module",
            expected="a torch.nn.Module",
            fix="use gs.Prediction.from_probabilities(model.predict_proba(X), graph, class_names=model.classes_)"
            if proba
            else "use gs.Prediction.from_probabilities or from_logits with its predictions",
        )
    graph = as_graph(data, divide=False)
    if graph.values is not None:
        raise BadUsage(
            "only modules that predict classes can be wrapped, and this graph is for regression",
            code="E-TARGET",
            fix="use gs.Prediction.from_mean_std(mean, std, graph) with the module's predictions",
        )
    if not (graph.role("train") & graph.labelled).any():
        raise BadUsage(
            "the graph does not mark the nodes that the module was trained on",
            code="E-NO-MASKS",
            expected="train_mask, and val_mask and test_mask for nodes that it has not seen",
            fix="set data.train_mask, data.val_mask and data.test_mask to the masks of the training"
            + ("" if graph.labels is not None else ", and data.y to the labels"),
        )
    if output not in ("auto", "logits", "probabilities"):
        raise unknown_name("output", str(output), ["auto", "logits", "probabilities"])
    if embedding not in (None, PENULTIMATE):
        layers = [name for name, _ in module.named_modules() if name]
        if embedding not in layers:
            raise unknown_name("layer", str(embedding), [PENULTIMATE, *layers])
    return Wrapped(
        module,
        graph,
        _inputs_for(data, graph),
        output=output,
        embedding=embedding,
        dropout=dropout,
        call=call,
        seed=seed,
    )


def _inputs_for(data: Any, graph: Graph) -> Any:
    """A PyG graph unchanged: the module may use what it holds beyond a :class:`Graph`."""
    own = any(cls.__module__.partition(".")[0] == "torch_geometric" for cls in type(data).__mro__)
    return data if own else graph


def _tensors_of(graph: Graph) -> SimpleNamespace:
    features: Any = graph.features
    return SimpleNamespace(
        x=SparseMatrix.from_scipy(features).csr() if graph.is_sparse else torch.tensor(features),
        edge_index=torch.from_numpy(graph.adjacency.edge_index()),
        edge_weight=torch.tensor(graph.adjacency.matrix.data),
        num_nodes=graph.num_nodes,
    )


def _call_by_signature(module: nn.Module) -> Call:
    """How to call ``forward``: with the whole graph, or with parts of it by their names."""
    takes = [
        one
        for one in inspect.signature(module.forward).parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty
    ]
    names = [one.name for one in takes]
    if len(names) == 1 and names[0] in WHOLE:
        return lambda module, data: module(data)
    if not names:  # such as PyG's Sequential, which accepts anything
        return lambda module, data: module(data.x, data.edge_index)

    def part(data: Any, name: str) -> Any:
        found = "x" if name in FEATURES else "edge_index" if name in EDGES else name
        value = getattr(data, found, None)
        if value is None:
            raise BadUsage(
                f"forward needs '{name}', which the graph does not have",
                fix="say how to call it: gs.wrap(module, data, call=lambda module, data: module(data.x, …))",
            )
        return value

    return lambda module, data: module(*[part(data, name) for name in names])


@contextlib.contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """In evaluation mode; afterwards every part is back in its own mode."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


@contextlib.contextmanager
def _dropping(module: nn.Module, seed: int) -> Iterator[None]:
    """With dropout, with its own random state; layers that gather statistics stay in evaluation mode.

    The flag of every other part is set, not that of dropout layers alone: ``F.dropout(x, training=self.training)``
    reads that of the module around it.
    """
    for part in module.modules():
        part.training = not isinstance(part, nn.modules.batchnorm._NormBase)
    devices = {parameter.device for parameter in module.parameters() if parameter.device.type == "cuda"}
    with torch.random.fork_rng(devices=list(devices)):
        # the module draws from the global state, which is restored afterwards
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        for device in devices:
            torch.cuda.set_rng_state(torch.Generator(device).manual_seed(seed).get_state(), device)
        yield


def _with_embedding(
    module: nn.Module, layer: str | None, graph: Graph, run: Callable[[], np.ndarray]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Outputs, and the output of a layer or the input of the last one with weights."""
    if layer is None:
        return run(), None
    seen: list[Tensor] = []

    def keep(values: tuple[Any, ...]) -> None:
        seen.extend(one for one in values if isinstance(one, Tensor) and one.ndim == 2 and one.is_floating_point())

    def before(part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        fitting = [one for one in (*args, *kwargs.values()) if isinstance(one, Tensor) and one.layout is torch.strided]
        keep(tuple(one for one in fitting if len(one) == graph.num_nodes)[:1])

    def after(part: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        keep(result if isinstance(result, tuple) else (result,))

    if layer == PENULTIMATE:
        parts = [one for name, one in module.named_modules() if name and next(one.parameters(), None) is not None]
        hooks = [part.register_forward_pre_hook(before, with_kwargs=True) for part in parts]
    else:
        hooks = [module.get_submodule(layer).register_forward_hook(after)]
    try:
        outputs = run()
    finally:
        for hook in hooks:
            hook.remove()
    if layer != PENULTIMATE and (not seen or len(seen[-1]) != graph.num_nodes):
        raise BadUsage(
            f"layer '{layer}' has no output with a row for every node",
            code="E-SHAPE",
            found="nothing" if not seen else str(tuple(seen[-1].shape)),
            expected=f"a tensor of shape [{graph.num_nodes}, width]",
            fix="choose another layer, or leave out embedding",
        )
    return outputs, as_numbers(seen[-1], "embeddings") if seen else None
