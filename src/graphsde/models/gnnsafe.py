"""GNNSafe++: a graph convolutional network trained to give exposed OOD nodes a high energy."""

from __future__ import annotations

from typing import Any, Literal, Unpack

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from graphsde.base.errors import BadUsage
from graphsde.base.seeds import derive
from graphsde.datasets.shifts import interpolate_features, rewire_sbm
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.base import encode, register_model
from graphsde.models.gcn import GCN, GCNSettings
from graphsde.models.neural import GraphLearner, Inputs
from graphsde.models.options import GNNSafeOptions
from graphsde.models.recipes import recipe
from graphsde.nn.encoding import FeatureEncoder

Exposure = Literal["auto", "nodes", "features", "structure"]


class GNNSafeSettings(GCNSettings):
    """Settings of :class:`GNNSafe`; the defaults are its authors' for Cora.

    Args:
        exposure: the OOD nodes to train on. ``nodes``: those of the graph's ``exposure`` mask; ``features`` and
            ``structure``: all nodes of a copy of the graph with mixed features or with random edges; ``auto``:
            ``nodes`` if the graph has such a mask, otherwise ``features``.
        margin_in: energies of training nodes above it are penalised.
        margin_out: energies of OOD nodes below it are penalised.
        energy_weight: λ of the penalty.
        propagate: rounds of averaging energies with the neighbours' before the comparison with a margin.
    """

    hidden: int = Field(64, ge=1, le=65536)
    dropout: float = Field(0.0, ge=0, lt=1)
    weight_decay: float = Field(0.01, ge=0)
    decay_all: bool = True
    batch_norm: bool = True
    patience: int = Field(200, ge=1)
    exposure: Exposure = "auto"
    margin_in: float = -5.0
    margin_out: float = -1.0
    energy_weight: float = Field(0.01, ge=0)
    propagate: int = Field(2, ge=0, le=1000)


class GNNSafeLearner(GraphLearner):
    """Cross-entropy and the penalty on the energies of training and OOD nodes."""

    settings: GNNSafeSettings

    def __init__(self, model: GNNSafe, module: nn.Module, encoder: FeatureEncoder, graph: Graph) -> None:
        super().__init__(model, module, encoder, graph)
        self.walk = neighbour_mean(graph).on(self.device)
        self.ood: Inputs | None = None  # the graph itself
        self.ood_walk = self.walk
        kind = exposure_of(self.settings.exposure, graph)
        if kind == "nodes":
            assert graph.exposure_mask is not None
            self.ood_rows = torch.from_numpy(np.flatnonzero(graph.exposure_mask)).to(self.device)
            return
        shift = interpolate_features if kind == "features" else rewire_sbm
        shifted = shift(graph, derive(self.settings.seed, "exposure"))
        self.ood = Inputs(encode(encoder, shifted), shifted.adjacency.operator).on(self.device)
        self.ood_walk = neighbour_mean(shifted).on(self.device)
        self.ood_rows = torch.arange(graph.num_nodes, device=self.device)

    def loss(self, epoch: int) -> Tensor:
        self.module.train()
        logits = self.module(self.inputs, self.dropout).logits
        inside = self._spread(energies(logits), self.walk)
        outside = inside
        if self.ood is not None:
            # like its authors: the copy is normalised by its own statistics, and both sides enter the running ones
            outside = self._spread(energies(self.module(self.ood, self.dropout).logits), self.ood_walk)
        s = self.settings
        penalty = energy_penalty(inside[self.train], outside[self.ood_rows], s.margin_in, s.margin_out)
        return functional.cross_entropy(logits[self.train], self.train_labels) + s.energy_weight * penalty

    def _spread(self, values: Tensor, walk: SparseMatrix) -> Tensor:
        for _ in range(self.settings.propagate):
            values = 0.5 * (values + (walk @ values[:, None])[:, 0])
        return values


@register_model
class GNNSafe(GCN):
    r"""A GCN whose energies :math:`E = -\log\sum_c e^{z_c}` are pushed below a margin on training nodes and above
    another on OOD ones: :math:`\mathrm{CE} + \lambda\,[\mathrm{mean}_{in}\,\mathrm{relu}(\tilde E - m_{in})^2 +
    \mathrm{mean}_{out}\,\mathrm{relu}(m_{out} - \tilde E)^2]`, where :math:`\tilde E` is E averaged over the graph,
    :math:`e \leftarrow \frac12 e + \frac12 D^{-1} A e`.

    Paper: Wu et al., "Energy-based out-of-distribution detection for graph neural networks", ICLR 2023.

    Deterministic. OOD nodes are detected by the scores ``gnnsafe`` (propagated) and ``energy``. If no OOD nodes
    are available, they are made from the training graph by a shift; the test's shift must be drawn with another seed.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> prediction = gs.GNNSafe(epochs=3).fit(graph).predict(graph)
        >>> gs.score("gnnsafe", prediction, graph).shape
        (1797,)
    """

    name = "gnnsafe++"
    summary = "GCN trained to give exposed OOD nodes a high energy; deterministic"
    paper, year = "Wu et al., Energy-based out-of-distribution detection for graph neural networks", 2023
    Settings = GNNSafeSettings
    Learner = GNNSafeLearner
    own_score = "gnnsafe"
    settings: GNNSafeSettings

    def __init__(self, **settings: Unpack[GNNSafeOptions]) -> None:
        given: dict[str, Any] = {**settings}  # more than a GCN has
        super().__init__(**given)

    def defaults_for(self, graph: Graph) -> dict[str, Any]:
        kind = exposure_of(self._given.get("exposure", "auto"), graph)
        return {"exposure": kind, **recipe(GNNSafe.name, graph)[kind]}

    def memory(self, graph: Graph) -> int:
        return super().memory(graph) * (1 if self.settings.exposure == "nodes" else 2)


def exposure_of(wanted: Exposure, graph: Graph) -> Exposure:
    """Which OOD nodes ``graph`` has; a requested mask that is missing is refused."""
    there = graph.exposure_mask is not None and bool(graph.exposure_mask.any())
    if wanted == "nodes" and not there:
        raise BadUsage(
            f"{graph.name} has no OOD nodes to train on",
            code="E-SETTING",
            found="exposure=nodes",
            expected="an 'exposure' mask, as from the split label-leave-out",
            fix="use exposure=features or exposure=structure, which make OOD nodes from the graph itself",
        )
    if wanted == "auto":
        return "nodes" if there else "features"
    return wanted


def energies(logits: Tensor) -> Tensor:
    """−logsumexp of the logits.  # [N, C] -> [N]"""
    return -torch.logsumexp(logits, -1)


def energy_penalty(inside: Tensor, outside: Tensor, margin_in: float, margin_out: float) -> Tensor:
    """mean relu(E_in − m_in)² + mean relu(m_out − E_out)²; the two sides may differ in size.  # [n], [m] -> []"""
    return functional.relu(inside - margin_in).square().mean() + functional.relu(margin_out - outside).square().mean()


def neighbour_mean(graph: Graph) -> SparseMatrix:
    """D⁻¹A, with a one on the diagonal of nodes that have no neighbours.  # [N, N]"""
    walk = graph.adjacency.random_walk
    lonely = (np.diff(walk.indptr) == 0).astype(np.float32)
    return SparseMatrix.from_scipy(sp.csr_array(walk + sp.dia_array((lonely[None], [0]), shape=walk.shape)))
