"""Evidential graph network with a kernel prior and a teacher."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Self, Unpack

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import one_hot, softplus

from graphsde.base.interrupt import InterruptGuard
from graphsde.base.seeds import derive
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.build import require_trainable
from graphsde.graph.graph import Graph
from graphsde.models.base import Estimate, Model, register_model
from graphsde.models.evidential import LARGEST_LOG_EVIDENCE, EvidentialModel, dirichlet_kl
from graphsde.models.gcn import GCN
from graphsde.models.neural import GraphLearner, Inputs, NetworkSettings, Outputs
from graphsde.models.options import GKDEOptions
from graphsde.nn.callbacks import Callback
from graphsde.nn.checkpoint import Checkpoint
from graphsde.nn.encoding import FeatureEncoder
from graphsde.nn.layers import GraphConv, Randomness, dropout

# distances held at once while the kernel is summed
BLOCK_FLOATS = 2**21


class GKDESettings(NetworkSettings):
    """Settings of :class:`GKDE`.

    Args:
        hidden: width of the hidden layer, here and in the teacher.
        dropout: on the input and on the hidden layer, here and in the teacher.
        weight_decay: on the first layer only, here and in the teacher.
        bandwidth: σ of the kernel, in hops.
        prior_weight: λ₁, of the divergence from the kernel prior. The paper has 0.001 where nodes are classified and
            0.1 for OOD detection: vacuity then detects OOD nodes, at the cost of calibration.
        teacher_weight: of the divergence from the teacher, per class as in the authors' code; 0 trains none.
        teacher_ramp: epochs over which that weight grows from 0.
        reduction: the three terms are means over nodes, as in the authors' code, or sums, as in later comparisons. With
            sums the two divergences, which run over all nodes, outweigh the training nodes by N / N_train.
    """

    hidden: int = Field(16, ge=1, le=65536)
    dropout: float = Field(0.5, ge=0, lt=1)
    weight_decay: float = Field(5e-4, ge=0)
    bandwidth: float = Field(1.0, gt=0)
    prior_weight: float = Field(0.001, ge=0)
    teacher_weight: float = Field(1.0, ge=0)
    teacher_ramp: int = Field(200, ge=1)
    reduction: Literal["mean", "sum"] = "mean"
    epochs: int = Field(1000, ge=1, le=1_000_000)


class GKDEModule(nn.Module):
    def __init__(self, width: int, classes: int, settings: GKDESettings, generator: torch.Generator) -> None:
        super().__init__()
        self.first = GraphConv(width, settings.hidden, generator)
        self.second = GraphConv(settings.hidden, classes, generator)
        self.rate = settings.dropout

    def forward(self, inputs: Inputs, randomness: Randomness = None) -> Outputs:
        hidden = torch.relu(self.first(dropout(inputs.features, self.rate, randomness), inputs.adjacency))
        score = self.second(dropout(hidden, self.rate, randomness), inputs.adjacency)
        # ln(1 + eᶻ) is the logarithm of the concentration itself
        return Outputs(softplus(score.double().clamp(max=LARGEST_LOG_EVIDENCE)), hidden)


class GKDELearner(GraphLearner):
    """The three-part loss of :class:`GKDE`; without a teacher's probabilities, uniform ones are used."""

    settings: GKDESettings

    def __init__(self, model: GKDE, module: nn.Module, encoder: FeatureEncoder, graph: Graph) -> None:
        super().__init__(model, module, encoder, graph)
        train, labels = self.train.cpu().numpy(), self.train_labels.cpu().numpy()
        prior = kernel_prior(graph.adjacency, train, labels, graph.num_classes, self.settings.bandwidth)
        self.prior = torch.from_numpy(prior).to(self.device)
        lesson = torch.full_like(self.prior, 1 / graph.num_classes) if model._lesson is None else model._lesson
        self.log_lesson = lesson.to(self.device).clamp_min(1e-12).log()

    def loss(self, epoch: int) -> Tensor:
        s = self.settings
        self.module.train()
        log_alpha = self.module(self.inputs, self.dropout).logits
        gather = torch.mean if s.reduction == "mean" else torch.sum
        loss = gather(squared_risk(log_alpha[self.train].exp(), self.train_labels))
        if s.prior_weight > 0:
            loss = loss + s.prior_weight * gather(dirichlet_kl(log_alpha.exp(), self.prior))
        if s.teacher_weight > 0:
            log_mean = torch.log_softmax(log_alpha, -1)
            # a mean over classes too, as the authors take it: their reduction runs over nodes and classes alike
            divergence = (log_mean.exp() * (log_mean - self.log_lesson)).mean(-1)
            loss = loss + s.teacher_weight * min(1.0, epoch / s.teacher_ramp) * gather(divergence)
        return loss


@register_model
class GKDE(EvidentialModel):
    r"""A graph network that predicts evidence instead of probabilities, limited by what the neighbourhood provides.

    Paper: Zhao et al., "Uncertainty aware semi-supervised learning on graph data", NeurIPS 2020, there S-BGCN-T-K. Two
    graph convolutions give z, :math:`\alpha = 1 + e^z`, :math:`\bar p = \alpha/\alpha_0`. The loss is

    .. math:: \mathrm{mean}_{train} \sum_c \left[(y_c - \bar p_c)^2 + \bar p_c (1 - \bar p_c) / (\alpha_0 + 1)\right]
        + \lambda_1\,\mathrm{mean}_i\,KL(Dir(\alpha_i) \| Dir(\hat\alpha_i))
        + \lambda_2(t)\,\mathrm{mean}_i\,KL(\bar p_i \| p^{teacher}_i) / C

    with :func:`kernel_prior` :math:`\hat\alpha` and a GCN, trained before, as teacher. ``vacuity`` is the paper's score
    for OOD nodes, ``dissonance`` the one for errors. Evidence at prediction is that of the network without dropout.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> gs.GKDE(epochs=5).fit(graph).predict(graph).alpha.shape
        (1797, 10)
    """

    name = "gkde"
    version = 2  # the divergence from the teacher is a mean over classes, where it was a sum
    summary = "evidential GCN with a kernel prior over hops and a teacher; Dirichlet"
    paper, year = "Zhao et al., Uncertainty aware semi-supervised learning on graph data", 2020
    Settings = GKDESettings
    Module, Learner = GKDEModule, GKDELearner
    decayed = ("first.",)
    own_score = "vacuity"
    settings: GKDESettings

    def __init__(self, **settings: Unpack[GKDEOptions]) -> None:
        super().__init__(**settings)
        self._lesson: Tensor | None = None
        self._taught_by: GCN | None = None
        self._first_teacher: GCN | None = None

    def fit(
        self,
        graph: Graph,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
        interrupt: InterruptGuard | None = None,
    ) -> Self:
        """The teacher first, silently; a resumed fit trains it again, to the same bits."""
        self.resolve(graph)
        require_trainable(graph, early_stop=self.settings.early_stop)
        if self.settings.teacher_weight > 0:
            teacher = self.teacher()
            if self._first_teacher is not None:
                teacher.start_from(self._first_teacher, momentum=bool(self._first_momentum))
            self._taught_by = teacher.fit(graph, interrupt=interrupt)
            self._lesson = torch.from_numpy(teacher.predict(graph).mean)
        try:
            return super().fit(graph, callbacks=callbacks, checkpoint=checkpoint, interrupt=interrupt)
        finally:
            self._lesson = None

    @property
    def optimiser_state(self) -> dict[str, Tensor] | None:
        return None  # not known in full: its teacher has an optimiser of its own

    @optimiser_state.setter
    def optimiser_state(self, state: dict[str, Tensor] | None) -> None:
        self._momentum = None

    def start_from(self, previous: Model, *, momentum: bool = False) -> Self:
        """Student and teacher continue; the teacher of a model loaded from a file is trained again."""
        super().start_from(previous, momentum=momentum)
        assert isinstance(previous, GKDE)
        self._first_teacher = previous._taught_by
        return self

    def teacher(self) -> GCN:
        """The untrained teacher: a GCN of the same shape with its own seed."""
        s = self.settings
        shared = {
            name: getattr(s, name) for name in ("hidden", "dropout", "weight_decay", *NetworkSettings.model_fields)
        }
        return GCN(**shared | {"temperature": False, "seed": derive(s.seed, "teacher")})

    def estimate(self, graph: Graph, *, samples: int = 64) -> Estimate:
        """Teacher and student."""
        own = super().estimate(graph, samples=samples)
        if self.settings.teacher_weight == 0:
            return own
        before = self.teacher().estimate(graph, samples=1)
        peak = max(own.peak or 0, before.peak or 0)
        return Estimate(max(own.bytes, before.bytes), own.seconds + before.seconds, own.epochs, peak)

    def activations(self, graph: Graph) -> int:
        # concentrations, prior, teacher and the terms of the divergences are float64
        return super().activations(graph) + 40 * graph.num_classes


def squared_risk(alpha: Tensor, labels: Tensor) -> Tensor:
    r"""Expected squared error :math:`E_{p \sim Dir(\alpha)} \|y - p\|^2`.  # [n, C], [n] -> [n]

    Paper: Sensoy, Kaplan and Kandemir, "Evidential deep learning to quantify classification uncertainty", NeurIPS 2018.
    """
    total = alpha.sum(-1, keepdim=True)
    mean = alpha / total
    target = one_hot(labels, alpha.shape[-1]).to(alpha.dtype)
    return ((target - mean).square() + mean * (1 - mean) / (total + 1)).sum(-1)


def kernel_prior(
    adjacency: Adjacency, train: np.ndarray, labels: np.ndarray, classes: int, bandwidth: float = 1.0
) -> np.ndarray:
    r"""Concentrations from distance alone, :math:`1 + \sum_{j: y_j = c} e^{-d_{ij}^2/2\sigma^2}`.

    The sum runs over the training nodes; :math:`d_{ij}` is the number of hops along the edges from j to i. Unreachable
    nodes add nothing, nor do kernel values below 1e-12. Memory is O(N·C): training nodes come in blocks.

    Args:
        adjacency: of the graph; weights don't matter.
        train: positions of the training nodes.  # [n]
        labels: their classes.  # [n]
        classes: C.
        bandwidth: σ.

    Returns:
        float64.  # [N, C]

    Example:
        >>> import numpy as np
        >>> import graphsde as gs
        >>> path = gs.from_arrays(np.zeros((3, 1)), np.array([[0, 1], [1, 2]]))
        >>> kernel_prior(path.adjacency, np.array([0]), np.array([1]), 2)[:, 1].round(3).tolist()
        [2.0, 1.607, 1.135]
    """
    from scipy.sparse.csgraph import dijkstra

    prior = np.ones((adjacency.num_nodes, classes))
    farthest = bandwidth * math.sqrt(-2 * math.log(1e-12))
    block = max(1, BLOCK_FLOATS // max(1, adjacency.num_nodes))
    for start in range(0, len(train), block):
        part = slice(start, start + block)
        hops = dijkstra(adjacency.matrix, directed=True, indices=train[part], unweighted=True, limit=farthest)
        kernel = np.exp(-0.5 * np.square(hops / bandwidth))  # [block, N]; 0 where the distance is infinite
        prior += kernel.T @ np.eye(classes)[labels[part]]
    return prior
