"""The propagated variance of a linear graph SDE, fitted after training, as a temperature per node."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from graphsde.base.arguments import number
from graphsde.base.errors import BadUsage
from graphsde.sde.marginals import propagated_variance
from graphsde.uncertainty.calibration.base import Calibrator, Surroundings, register_calibrator
from graphsde.uncertainty.calibration.covariates import (
    COVARIATES,
    FittedNodes,
    TailShare,
    raw_covariates,
    scale_of,
    standardised,
)
from graphsde.uncertainty.calibration.diffusion_forms import DiffusionData, FittedForm, fit_form, noise_of, unit_noise

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph

DEFAULT_FILTER = (0.9, 10)
"""κ and K for a model without a linear drift: the usual ones of personalised PageRank."""


class DiffusedSurroundings(Surroundings):
    """The graph with the variances of its nodes.

    Args:
        around: of the graph.
        variance: v under the calibrator that made it.  # [N]
    """

    def __init__(self, around: Surroundings, variance: Tensor) -> None:
        super().__init__(around._incoming, around._trained)
        self.variance = variance


@dataclass(frozen=True, eq=False)
class HeldNoise:
    """The noise of a graph, for copies of it that differ at one node.

    Args:
        noise: c s² of every node.  # [N]
        variance: v of every node.  # [N]
        row: the node.
    """

    noise: Tensor
    variance: Tensor
    row: int

    def variance_on(self, changed: Graph, linear_filter: tuple[float, int]) -> Tensor:
        """v, with the node's own for the changed edges, exactly; the others' unchanged.  # [N]"""
        row = torch.tensor([self.row])
        own = propagated_variance(changed.adjacency.operator, *linear_filter, self.noise, row, relative_error=0.0)
        return self.variance.index_copy(0, row, own)


@register_calibrator
class DiffusionTemperature(Calibrator):
    r"""A temperature per node from the variance of its state under noise:
    :math:`p_i = \mathrm{softmax}(\mu_i / \sqrt{\tau^2 + v_i})`.

    Paper: MacKay, "The evidence framework applied to classification networks", 1992, for the closed form of the mean
    softmax of a Gaussian state (and the choice of the ridge).

    .. math::
        v_i = c \sum_{k < K} \kappa^{2k} \sum_j (\hat A^k)_{ij}^2\, s_j^2, \qquad
        \log s_j^2 = a + \varphi_j \cdot \theta

    is the variance at node i of :math:`dH = [(\kappa\hat A - I) H + (1 - |\kappa|) H_0] dt + s_j dW_j`, whose mean path
    makes the logits. κ and K are the model's (:meth:`~graphsde.models.base.Model.linear_filter`), or 0.9 and 10.
    φ holds the tail of the training-free evidence, the degree and the distance to training nodes: noise may be larger
    where a node looks unusual, and spreads from there. τ, a and θ are fitted on validation nodes by their NLL, θ
    with a ridge whose strength follows from the nodes
    (:mod:`graphsde.uncertainty.calibration.diffusion_forms`). Predicted classes stay the same for a model with one
    sample.

    The prediction then says how much of its entropy is due to not knowing the state: ``known_state`` has the
    probabilities softmax(μ/τ), their entropy is the aleatoric part, the rest the epistemic one. The division is only as
    good as the fit separates τ from v: if v alone explains the errors, τ is small and nearly all entropy is epistemic.

    Saved with the model are its parameters and ids and classes of training and validation nodes. The evidence is fitted
    again to every graph predicted on, with its known nodes: the same before and after a model is saved.
    So unusual means unusual within that graph; a change of all its nodes alike, training nodes too, does not show in
    v. Without any known node, φ carries no such information.

    Args:
        classes: how many.
        trained: ids of the training nodes.
        tail: source of tail shares, instead of the evidence; not saved.
    """

    name = "diffusion"
    summary = "a temperature per node from the propagated variance of a linear graph SDE; keeps labels"
    paper = "MacKay, The evidence framework applied to classification networks"
    year = 1992
    listens = True
    form: ClassVar[str] = "closed"
    scale: Tensor
    filter: Tensor
    looseness: Tensor
    centre: Tensor
    spread: Tensor
    held: HeldNoise | None

    def __init__(self, classes: int, trained: Sequence[Any] = (), *, tail: TailShare | None = None) -> None:
        super().__init__(classes, trained)
        zero = torch.zeros((), dtype=torch.float64)
        self.log_temperature = nn.Parameter(zero.clone())
        self.log_variance = nn.Parameter(zero.clone())
        self.slopes = nn.Parameter(torch.zeros(len(COVARIATES), dtype=torch.float64))
        # no noise before a fit; 1/λ instead of λ, since files hold finite numbers
        self.register_buffer("scale", zero.clone())
        self.register_buffer("filter", torch.tensor(DEFAULT_FILTER, dtype=torch.float64))
        self.register_buffer("looseness", zero.clone())
        self.register_buffer("centre", torch.zeros(2, dtype=torch.float64))
        self.register_buffer("spread", torch.ones(2, dtype=torch.float64))
        self.nodes = FittedNodes(trained=tuple(trained), trained_classes=(-1,) * len(trained))
        self.familiar_variance = 0.0
        self.tail, self.held = tail, None

    @property
    def linear_filter(self) -> tuple[float, int]:
        return float(self.filter[0]), int(self.filter[1])

    @property
    def ridge(self) -> float:
        """The chosen λ; infinite if noise is the same at every node."""
        return 1.0 / float(self.looseness) if float(self.looseness) > 0 else math.inf

    @property
    def fitted_form(self) -> FittedForm:
        parameters = torch.cat([self.log_temperature[None], self.log_variance[None], self.slopes]).detach()
        return FittedForm(self.form, parameters, self.ridge, math.nan, float(self.scale), self.linear_filter)

    def fit_to(
        self, logits: Tensor, graph: Graph, rows: Tensor, truth: Tensor, linear_filter: tuple[float, int] | None
    ) -> bool:
        self.nodes = FittedNodes.of(graph, rows.numpy())
        raw = raw_covariates(graph, self.nodes, self.tail)
        centre, spread = scale_of(raw)
        chosen = DEFAULT_FILTER if linear_filter is None else linear_filter
        with torch.no_grad():
            self.filter.copy_(torch.tensor(chosen, dtype=torch.float64))
            self.centre.copy_(centre)
            self.spread.copy_(spread)
        found = fit_form(self.form, self.data_of(logits, graph, rows, truth))
        with torch.no_grad():
            self.log_temperature.fill_(found.parameters[0])
            self.log_variance.fill_(found.parameters[1])
            self.slopes.copy_(found.parameters[2:])
            self.scale.fill_(found.scale)
            self.looseness.fill_(1.0 / found.ridge)
        return True

    def data_of(self, logits: Tensor, graph: Graph, rows: Tensor, truth: Tensor) -> DiffusionData:
        """What the form is fitted to.  # [S, N, C], [n], [n]"""
        adjacency = graph.adjacency.operator
        return DiffusionData.of(logits, rows, truth, self.covariates_of(graph), adjacency, self.linear_filter)

    def covariates_of(self, graph: Graph) -> Tensor:
        """φ of all nodes.  # [N, 3]"""
        return standardised(raw_covariates(graph, self.nodes, self.tail), self.centre, self.spread)

    def variance_on(self, graph: Graph) -> Tensor:
        """v of all nodes.  # [N]"""
        return self.fitted_form.variance(self.covariates_of(graph), graph.adjacency.operator)

    def surroundings(self, graph: Graph) -> DiffusedSurroundings:
        held = self.held
        variance = self.variance_on(graph) if held is None else held.variance_on(graph, self.linear_filter)
        return DiffusedSurroundings(super().surroundings(graph), variance)

    def for_changes_at(self, graph: Graph, row: int) -> Calibrator:
        """The noise of every node stays that of ``graph``; how it reaches ``row`` follows from the changed edges."""
        noise = self.scale * noise_of(self.fitted_form.parameters, self.covariates_of(graph))
        twin = copy.copy(self)
        twin.held = HeldNoise(noise, self.variance_on(graph), row)
        return twin

    def forward(self, logits: Tensor, surroundings: Surroundings) -> Tensor:
        return logits / self.temperatures(surroundings)[None, :, None]

    def bound(self, logits: Tensor, surroundings: Surroundings) -> Callable[[Tensor], Tensor]:
        temperatures = self.temperatures(surroundings)[None, :, None]
        return lambda other: other / temperatures

    def temperatures(self, surroundings: Surroundings) -> Tensor:
        """One per node.  # [N]"""
        if not isinstance(surroundings, DiffusedSurroundings):
            raise BadUsage(f"the calibrator '{self.name}' needs covariates", fix="pass calibrator.surroundings(graph)")
        return torch.sqrt(self.log_temperature.exp().square() + surroundings.variance)

    def known_state(self, logits: Tensor, surroundings: Surroundings) -> Tensor:
        assert isinstance(surroundings, DiffusedSurroundings)
        shared = surroundings.variance.clamp_max(self.familiar_variance)
        return logits / torch.sqrt(self.log_temperature.exp().square() + shared)[None, :, None]

    def plain_values(self) -> dict[str, Any]:
        return {
            "trained_classes": list(self.nodes.trained_classes),
            "validated": list(self.nodes.validated),
            "validated_classes": list(self.nodes.validated_classes),
        }

    def recall(self, values: dict[str, Any]) -> None:
        kept = {name: tuple(values[name]) for name in ("trained_classes", "validated", "validated_classes")}
        self.nodes = FittedNodes(trained=tuple(self.trained), **kept)


@register_calibrator
class DistanceAwareTemperature(DiffusionTemperature):
    r"""``diffusion`` with noise that is larger the less familiar a node looks, by a rule instead of a fit:
    :math:`s_j^2 = e^a / p_j`, where :math:`p_j` is the share of validation nodes whose evidence is as low as that of
    node j. Only τ and a are fitted.

    Entropy then detects nodes of unknown classes better; the score ``ood``, which reads the same evidence directly, is
    better still (``docs/results/diffusion.md``).

    Noise that validation nodes have as well can't be distinguished from a temperature. So what would remain if the
    state were known is the entropy at the variance :math:`\min(v_i, \bar v)`, :math:`\bar v` the mean over validation
    nodes: only what a node has beyond that is epistemic, besides what the model itself does not know.
    """

    name = "distance-aware"
    summary = "a temperature per node: noise grows where a node looks unfamiliar, and spreads from there; keeps labels"
    form = "distance-aware"
    distance_aware = True

    def fit_to(
        self, logits: Tensor, graph: Graph, rows: Tensor, truth: Tensor, linear_filter: tuple[float, int] | None
    ) -> bool:
        done = super().fit_to(logits, graph, rows, truth, linear_filter)
        self.familiar_variance = float(self.variance_on(graph)[rows].mean())
        return done

    def plain_values(self) -> dict[str, Any]:
        return super().plain_values() | {"familiar_variance": self.familiar_variance}

    def recall(self, values: dict[str, Any]) -> None:
        super().recall(values)
        # calibrators of earlier versions, which nothing fitted by itself, have none
        self.familiar_variance = number(values.get("familiar_variance", 0.0), "familiar_variance", at_least=0.0)

    def data_of(self, logits: Tensor, graph: Graph, rows: Tensor, truth: Tensor) -> DiffusionData:
        unit, adjacency = self._unit_on(graph), graph.adjacency.operator
        return DiffusionData.of(logits, rows, truth, self.covariates_of(graph), adjacency, self.linear_filter, unit)

    def variance_on(self, graph: Graph) -> Tensor:
        return self.scale * self.log_variance.detach().exp() * self._unit_on(graph)

    def _unit_on(self, graph: Graph) -> Tensor:
        """v / c with a = 0: the same for every fit with these nodes and this filter.  # [N]"""

        def build() -> Tensor:
            return unit_noise(self.form, self.covariates_of(graph), graph.adjacency.operator, self.linear_filter)

        if self.tail is not None:
            return build()
        kept, key = _KEPT.setdefault(graph, {}), (self.nodes, self.linear_filter)
        if key not in kept:
            kept.clear()
            kept[key] = build()
        return kept[key]


_KEPT: WeakKeyDictionary[Graph, dict[tuple[FittedNodes, tuple[float, int]], Tensor]] = WeakKeyDictionary()
