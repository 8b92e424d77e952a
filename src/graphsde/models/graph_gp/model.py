"""Matérn Gaussian process on a graph."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol, Self, Unpack, cast

import numpy as np
import torch
from torch import Tensor

from graphsde.base.errors import BadInput, BadUsage, MissingExtra
from graphsde.base.interrupt import InterruptGuard
from graphsde.base.keyed_normals import node_keys, stream_of
from graphsde.base.memory import require_memory
from graphsde.base.registry import Rules
from graphsde.graph.build import require_trainable
from graphsde.graph.graph import Graph
from graphsde.graph.spectrum import graph_spectrum
from graphsde.models.base import Estimate, Model, register_model
from graphsde.models.graph_gp.kernel import FeatureMap, Knowledge, NodeKernel, Places, infer, length_for, same_prior
from graphsde.models.graph_gp.learner import GraphGPLearner, latent_noise
from graphsde.models.graph_gp.regression import RegressionKnowledge, RegressionLearner
from graphsde.models.graph_gp.settings import GraphGPSettings
from graphsde.models.options import GraphGPOptions
from graphsde.nn.callbacks import Callback
from graphsde.nn.checkpoint import Checkpoint
from graphsde.nn.likelihood import TargetScale
from graphsde.nn.training import rehearse, train
from graphsde.prediction import ClassPrediction, Perturb, Prediction, RegressionPrediction, require_room_for_samples

ALL_MODES_UP_TO = 1500
MODES_OF_LARGER_GRAPHS = 500
INFERENCE_SAMPLES = 64
_NODES_AT_ONCE = 2048


@dataclass(frozen=True)
class Drawn:
    """Which samples are drawn."""

    samples: int
    seed: int


class Inference(Protocol):
    """How the process learns and predicts for one kind of target."""

    def prepare(self) -> None:
        """Report anything missing before the long work starts."""

    def learner(
        self, model: GraphGP, graph: Graph, kernel: NodeKernel, rows: Tensor
    ) -> GraphGPLearner | RegressionLearner: ...

    def blank(self, kernel: NodeKernel, classes: int, inducing: int) -> Knowledge | RegressionKnowledge:
        """The result of a fit, to be filled in."""

    def latent(
        self, model: GraphGP, graph: Graph, kernel: NodeKernel, present: list[int], rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        """See :meth:`GraphGP.latent`; the inducing nodes ``present`` are at ``rows``."""

    def answer(self, model: GraphGP, graph: Graph, mean: Tensor, variance: Tensor, drawn: Drawn) -> Prediction: ...


INFERENCE: Rules[Inference] = Rules("a Gaussian process")


@register_model
class GraphGP(Model):
    r"""Latent functions that are smooth along the edges, one per class, learnt by Bayes' rule.

    Paper: Borovitskiy, Azangulov, Terenin, Mostowsky, Deisenroth and Durrande, "Matérn Gaussian processes on graphs",
    AISTATS 2021.
    Formula: :math:`f_c \sim N(0, K)`, :math:`K \propto (2\nu/\kappa^2 + L)^{-\nu}` (see :class:`NodeKernel`),
    :math:`p(y_i) = softmax(f_i)`; q(f) by variational inference with the training nodes as inducing points.

    It uses no features unless ``features`` is set. K comes from the smallest eigenvalues of the Laplacian L, so that
    no N × N matrix is made. Far from all labels, and in a component without any, it predicts the prior: equal
    probabilities and high epistemic uncertainty. A sample draws the latent values of every node from its own marginal.

    For regression there is one latent function, y = f + noise, and q is exact (see
    :func:`~graphsde.models.graph_gp.regression.collapsed`): no samples are drawn.

    On another graph q is inferred again from the labels of the inducing nodes it contains, under the same kernel; a
    graph without any is refused.
    Needs the extra ``gp``.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.synthetic(200, classes=3)
        >>> graph = gs.make_split(graph, "fractions").apply(graph)
        >>> gs.GraphGP(epochs=10).fit(graph).predict(graph, samples=5).probs.shape
        (5, 200, 3)
    """

    name = "graph-gp"
    summary = "Matérn Gaussian process on the graph's spectrum, no features; samples"
    paper, year = "Borovitskiy et al., Matérn Gaussian processes on graphs", 2021
    Settings = GraphGPSettings
    targets = ("classification", "regression")
    settings: GraphGPSettings

    def __init__(self, **settings: Unpack[GraphGPOptions]) -> None:
        super().__init__(**settings)
        self.module: Knowledge | RegressionKnowledge | None = None
        self.inducing: list[Any] = []
        self._feature_map: FeatureMap | None = None
        self._first: Knowledge | RegressionKnowledge | None = None
        self._first_map: FeatureMap | None = None

    def fit(
        self,
        graph: Graph,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
        interrupt: InterruptGuard | None = None,
    ) -> Self:
        learner, feature_map = self._learner(graph)
        result = train(learner, self.settings, callbacks=callbacks, checkpoint=checkpoint, interrupt=interrupt)
        self.module, self._target_scale = learner.knowledge(), learner.scale
        self.inducing = graph.node_ids[learner.inducing.numpy()].tolist()
        self._feature_map = feature_map
        self.class_names, self.calibrator = graph.class_names, None
        self.history, self.best_epoch = result.records, result.best_epoch
        return self

    def start_from(self, previous: Model, *, momentum: bool = False) -> Self:
        """The next fit starts with the kernel of ``previous`` and the best q for it at the nodes known then.

        These may differ, so q and the optimiser state are not reused.
        """
        if not isinstance(previous, GraphGP) or previous.module is None:
            raise BadUsage(f"{self.name} can't start from {previous.name}", fix="use a fitted model of its kind")
        if previous.settings.features != self.settings.features:
            raise BadUsage(
                "the kernel uses features differently",
                found=previous.settings.features,
                expected=self.settings.features,
            )
        self._first, self._first_map = previous.module, previous._feature_map
        return self

    @property
    def has_feature_gradient(self) -> bool:
        return False

    def predict(
        self, graph: Graph, *, samples: int = 64, seed: int | None = None, perturb: Perturb | None = None
    ) -> Prediction:
        """Sample k of a node is a function of (seed, k, node id) and the node's marginal."""
        self._require_fitted(samples)
        self._refuse_perturbation(perturb)
        self._check_classes(graph)
        mean, variance = self.latent(graph)
        drawn = Drawn(samples, self.settings.seed if seed is None else seed)
        return self._calibrated(INFERENCE.of(self).answer(self, graph, mean, variance, drawn), graph)

    def latent(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of the latent values; the sum of variances over classes is an epistemic score.

        Of a standardised number there is one latent value, C = 1.

        # [N, C], [N, C]
        """
        self._require_fitted()
        assert self.module is not None
        place = graph.position
        present = [k for k, node in enumerate(self.inducing) if node in place]
        if not present:
            raise BadInput(
                "none of the training nodes is in this graph, so nothing is known about it",
                code="E-NO-LABELS",
                fix="predict on a graph that contains training nodes, or use a model with features",
            )
        kernel = copy.deepcopy(self.module.kernel).on(self._places(graph, self._feature_map))
        rows = torch.tensor([place[self.inducing[k]] for k in present])
        with torch.no_grad():
            return INFERENCE.of(self).latent(self, graph, kernel, present, rows)

    def estimate(self, graph: Graph, *, samples: int = 64) -> Estimate:
        """Memory by arithmetic; time by computing the modes (kept for the fit) and trying three steps."""
        self.resolve(graph)
        needed = self._memory(graph)
        require_memory(needed, f"fitting {self.name} on {graph.name}", "use fewer modes or inducing points")
        begin = time.perf_counter()
        learner, _ = self._learner(graph)
        preparing = time.perf_counter() - begin
        rehearsal = rehearse(learner, self.settings, validate=False)
        return Estimate(needed, preparing + rehearsal.seconds, self.settings.epochs)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._require_fitted()
        assert self.module is not None
        features = None if self._feature_map is None else self._feature_map.as_dict()
        values: dict[str, Any] = {"inducing": self.inducing, "features": features}
        if self._target_scale is not None:
            values["target"] = self._target_scale.as_dict()
        return dict(self.module.state_dict()), values

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        from graphsde.models.files import load_tensors

        self.inducing = list(values["inducing"])
        named = all(isinstance(node, str | int) for node in self.inducing)
        if not named or tensors["prior"].shape[0] != len(self.inducing):  # before anything of that size is allocated
            raise ValueError("the inducing nodes are not those of the tensors")
        self._feature_map = None if values["features"] is None else FeatureMap.from_dict(values["features"])
        self._target_scale = TargetScale.from_dict(values["target"]) if "target" in values else None
        kernel = NodeKernel(1.0, 1.0, 1.0, self.settings.features)
        module = INFERENCE.of(self).blank(kernel, len(self._require_fitted()), len(self.inducing))
        load_tensors(module, tensors)
        module.check()
        self.module = module

    def _learner(self, graph: Graph) -> tuple[GraphGPLearner | RegressionLearner, FeatureMap | None]:
        self.resolve(graph)
        require_trainable(graph, early_stop=self.settings.early_stop)
        inference = INFERENCE.of(graph)
        inference.prepare()  # before the modes, which can take a minute
        wanted = self.settings
        features = None if wanted.features == "none" else self._map_of(graph)
        places = self._places(graph, features)
        kappa = wanted.kappa or length_for(places.values, graph.num_classes, wanted.nu)
        kernel = NodeKernel(wanted.nu, kappa, wanted.sigma, wanted.features).on(places)
        if self._first is not None:
            kernel.load_state_dict(self._first.kernel.state_dict())
        rows = self._inducing_rows(graph)
        return inference.learner(self, graph, kernel, rows), features

    def _map_of(self, graph: Graph) -> FeatureMap:
        """The encoder of the previous model, whose kernel was learned with it, or a new one."""
        return self._first_map or FeatureMap.fit(graph, self.settings.scaling, self.settings.hops)

    def _best_q(self, graph: Graph, prior: Tensor, rows: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
        """q of the nodes ``rows`` with these labels, whitened, for a known kernel.  # [C, M], [C, M, M]

        ``classes`` are those of the fit: the graph to predict on need not have any.
        """
        stream = stream_of(self.settings.seed, "graph-gp inference")
        keys = node_keys(graph.node_ids[rows.numpy()])
        noise = latent_noise(stream, keys, INFERENCE_SAMPLES, classes)
        return infer(prior, labels, noise, _variational_parts().JITTER)

    def _places(self, graph: Graph, features: FeatureMap | None) -> Places:
        spectrum = graph_spectrum(graph.adjacency, self.settings.laplacian, self._modes(graph))
        return Places.of(spectrum, None if features is None else features.of(graph))

    def _modes(self, graph: Graph) -> int:
        if self.settings.modes is not None:
            return min(self.settings.modes, graph.num_nodes)
        return graph.num_nodes if graph.num_nodes <= ALL_MODES_UP_TO else MODES_OF_LARGER_GRAPHS

    def _inducing_rows(self, graph: Graph) -> Tensor:
        """All training nodes, or as many as allowed, drawn by their keys.  # [M] int64"""
        assert graph.train_mask is not None
        rows = np.flatnonzero(graph.train_mask)
        if rows.size > self.settings.inducing:
            stream = stream_of(self.settings.seed, "graph-gp inducing")
            lot = latent_noise(stream, node_keys(graph.node_ids[rows]), 1, 1).ravel()
            rows = rows[np.sort(np.argsort(lot.numpy(), kind="stable")[: self.settings.inducing])]
        return torch.from_numpy(rows)

    def _memory(self, graph: Graph) -> int:
        """Bytes: modes and the Krylov space they come from, q with its gradients and moments, one step's matrices."""
        modes, classes = self._modes(graph), max(graph.num_classes, 1)
        trained = 0 if graph.train_mask is None else int(np.count_nonzero(graph.train_mask))
        inducing, batch = min(trained, self.settings.inducing), min(trained, self.settings.batch)
        krylov = 3 * graph.num_nodes * (modes + 200)
        step = 4 * classes * inducing * (inducing + 2 * batch)
        return 8 * (krylov + step) + 24 * graph.num_edges


class _OfClasses:
    """One latent function per class, by variational inference."""

    def prepare(self) -> None:
        _variational_parts()

    def learner(self, model: GraphGP, graph: Graph, kernel: NodeKernel, rows: Tensor) -> GraphGPLearner:
        diagonal = model.settings.covariance == "diagonal"
        posterior = _variational_parts().Posterior(kernel, rows, graph.num_classes, diagonal=diagonal)
        if model._first is not None and graph.labels is not None:
            with torch.no_grad():
                labels = torch.from_numpy(graph.labels[rows.numpy()])
                posterior.begin_at(*model._best_q(graph, kernel.between(rows, rows), rows, labels, graph.num_classes))
        return GraphGPLearner(posterior, model.settings, graph)

    def blank(self, kernel: NodeKernel, classes: int, inducing: int) -> Knowledge:
        return Knowledge(kernel, classes, inducing)

    def latent(
        self, model: GraphGP, graph: Graph, kernel: NodeKernel, present: list[int], rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        known, prior = cast(Knowledge, model.module), kernel.between(rows, rows)
        if same_prior(prior, known.prior):
            q = known.mean, known.root
        else:
            q = model._best_q(graph, prior, rows, known.labels[present], len(known.mean))
        posterior = _variational_parts().Posterior.known(kernel, rows, *q)
        pieces = [posterior.marginals(piece) for piece in torch.arange(graph.num_nodes).split(_NODES_AT_ONCE)]
        mean, variance = (torch.cat(part, dim=1).T for part in zip(*pieces, strict=True))
        return mean, variance

    def answer(self, model: GraphGP, graph: Graph, mean: Tensor, variance: Tensor, drawn: Drawn) -> ClassPrediction:
        names = model._require_fitted()
        require_room_for_samples(drawn.samples, graph.num_nodes, len(names))
        stream = stream_of(drawn.seed, "graph-gp samples")
        noise = latent_noise(stream, node_keys(graph.node_ids), drawn.samples, len(names))
        logits = (mean + variance.sqrt() * noise).float()
        probs = torch.softmax(logits.double(), -1).float().numpy()
        return ClassPrediction(probs, graph.node_ids, names, "samples", logits=logits.numpy())


class _OfNumbers:
    """One latent function and noise, in closed form."""

    def prepare(self) -> None: ...

    def learner(self, model: GraphGP, graph: Graph, kernel: NodeKernel, rows: Tensor) -> RegressionLearner:
        learner = RegressionLearner(kernel, rows, model.settings, graph)
        if isinstance(model._first, RegressionKnowledge):
            learner.module.log_noise.data.copy_(model._first.log_noise)
        return learner

    def blank(self, kernel: NodeKernel, classes: int, inducing: int) -> RegressionKnowledge:
        return RegressionKnowledge(kernel, inducing)

    def latent(
        self, model: GraphGP, graph: Graph, kernel: NodeKernel, present: list[int], rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        mean, variance = cast(RegressionKnowledge, model.module).latent(kernel, present, rows, graph.num_nodes)
        return mean[:, None], variance[:, None]

    def answer(
        self, model: GraphGP, graph: Graph, mean: Tensor, variance: Tensor, drawn: Drawn
    ) -> RegressionPrediction:
        """One Gaussian per node: no samples needed."""
        assert model._target_scale is not None
        scale, noise = model._target_scale, float(cast(RegressionKnowledge, model.module).noise.detach())
        return RegressionPrediction(
            means=scale.mean + scale.scale * mean.T.numpy(),
            variances=scale.scale**2 * np.full((1, graph.num_nodes), noise),
            ids=graph.node_ids,
            kind="gaussian",
            known=scale.scale**2 * variance.T.numpy(),
        )


INFERENCE.register("classification")(_OfClasses())
INFERENCE.register("regression")(_OfNumbers())


def _variational_parts() -> ModuleType:
    try:
        from graphsde.models.graph_gp import posterior
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("gpytorch", "linear_operator"):
            raise
        raise MissingExtra("gpytorch", "gp") from None
    return posterior
