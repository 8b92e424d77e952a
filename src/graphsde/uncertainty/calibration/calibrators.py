"""Calibrators (deviation, graph attention temperatures, temperature, vector) and how they are fitted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from graphsde.base.errors import BadInput, BadUsage, Diverged
from graphsde.base.registry import Rules
from graphsde.base.seeds import torch_stream
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction, SummarisedPrediction, require
from graphsde.uncertainty.calibration.base import (
    CALIBRATORS,
    Calibrator,
    Surroundings,
    centred_logits,
    register_calibrator,
)
from graphsde.uncertainty.held_out import UNKNOWN, align_labels, require_same_nodes

NARROWEST, WIDEST = 0.05, 20.0


@register_calibrator
class Deviation(Calibrator):
    r"""Every predictive distribution stretched by one factor s around its mean: :math:`\sigma_i \to s\,\sigma_i`.

    Paper: Laves, Ihler, Fast, Kahrs and Ortmaier, "Well-calibrated regression uncertainty in medical imaging with deep
    learning", MIDL 2020. The factor minimises the NLL of the validation nodes; means are unchanged, and so are the
    shares of aleatoric and epistemic variance.
    """

    name = "deviation"
    summary = "for regression: one factor for all standard deviations; keeps means"
    paper = "Laves et al., Well-calibrated regression uncertainty in medical imaging with deep learning"
    year = 2020
    target = "regression"

    def __init__(self, classes: int, trained: Sequence[Any] = ()) -> None:
        super().__init__(classes, ())
        self.log_factor = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

    @property
    def factor(self) -> float:
        return float(self.log_factor.detach().exp())

    def forward(self, logits: Tensor, surroundings: Surroundings) -> Tensor:
        raise NotImplementedError("numbers have no logits")

    def apply_to(self, prediction: Prediction, graph: Graph) -> Prediction:
        return require(prediction, RegressionPrediction, "the calibrator 'deviation'").widened(self.factor)


def fit_deviation(prediction: RegressionPrediction, graph: Graph, nodes: np.ndarray | None = None) -> Deviation:
    """The factor that fits the validation nodes, or ``nodes``, best.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("diabetes")
        >>> fit_deviation(gs.GCN(epochs=5).fit(graph).predict(graph), graph).factor > 0
        True
    """
    from scipy.optimize import minimize_scalar

    require_same_nodes(prediction, graph)
    mask = graph.val_mask if nodes is None else np.asarray(nodes, dtype=bool)
    rows = np.array([], dtype=np.int64) if mask is None else np.flatnonzero(mask & graph.labelled)
    if not len(rows) or graph.values is None:
        raise BadInput(
            f"'{graph.name}' has no validation nodes with a value to fit a calibrator on",
            code="E-SPLIT-EMPTY",
            fix="use a split with validation nodes, or in Python pass others (nodes=…)",
        )
    own, truth = prediction.subset(rows), graph.values[rows]
    found = minimize_scalar(
        lambda log_factor: -float(np.mean(own.widened(math.exp(log_factor)).log_density(truth))),
        bounds=(math.log(NARROWEST), math.log(WIDEST)),
        method="bounded",
    )
    calibrator = Deviation(0)
    with torch.no_grad():
        calibrator.log_factor.fill_(float(found.x))
    return calibrator.eval()


HEADS = 8
LEAK = 0.2


@register_calibrator
class GATS(Calibrator):
    r"""A temperature per node that depends on the neighbours: :math:`p_i = \mathrm{softmax}(z_i / T_i)`.

    Paper: Hsu, Shen, Tomani and Cremers, "What makes graph neural networks miscalibrated?", NeurIPS 2022.

    .. math::
        T_i = T_0 + \frac1H \sum_h \mathrm{softplus}\Bigl(\omega\,\delta_i + \sum_{j \in N(i)} \alpha_{ij} \gamma_j
        \tau_j^h\Bigr), \quad \alpha_{ij} = \mathrm{softmax}_j\,\mathrm{LeakyReLU}\Bigl(\tfrac{z_i^\top z_j}
        {\gamma_i \gamma_j}\Bigr)

    where N(i) holds i itself, :math:`\tau_j = \theta \tilde z_j` is linear in the node's logits rescaled to [0, 1] and
    sorted (so that it sees the shape of the distribution, not the classes), :math:`\delta_i` is the mean over N(i) of
    the difference in confidence, and :math:`\gamma` is a learned coefficient of training nodes, another of their
    neighbours, 1 elsewhere. Predicted classes stay the same for a model with one sample.

    Three choices are ours: logits are centred per node (softmax does not see the shift, the inner product does), with
    several samples the temperature is made from their mean and divides each of them, and the decay pulls towards a
    temperature of 1 for every node.
    """

    name = "gats"
    summary = "a temperature per node by attention over neighbours; keeps labels, needs some hundred validation nodes"
    paper = "Hsu, Shen, Tomani and Cremers, What makes graph neural networks miscalibrated?"
    year = 2022
    decay = 5e-3
    listens = True

    def __init__(self, classes: int, trained: Sequence[Any] = ()) -> None:
        super().__init__(classes, trained)
        width = math.sqrt(6.0 / (classes + HEADS))
        uniform = torch.rand(classes, HEADS, generator=torch_stream(0, "gats"), dtype=torch.float64)
        self.shape_weight = nn.Parameter((2 * uniform - 1) * width)
        self.relative_confidence = nn.Parameter(torch.zeros((), dtype=torch.float64))
        # softplus(0) = ln 2: without attention the temperature is 1
        self.base = nn.Parameter(torch.tensor(1.0 - math.log(2.0), dtype=torch.float64))
        self.near_training = nn.Parameter(torch.ones(2, dtype=torch.float64))

    def forward(self, logits: Tensor, surroundings: Surroundings) -> Tensor:
        return logits / self.temperatures(logits.mean(0), surroundings)[None, :, None]

    def likewise(self, other: Tensor, logits: Tensor, surroundings: Surroundings) -> Tensor:
        return self.bound(logits, surroundings)(other)

    def bound(self, logits: Tensor, surroundings: Surroundings) -> Callable[[Tensor], Tensor]:
        temperatures = self.temperatures(logits.mean(0), surroundings)[None, :, None]
        return lambda other: other / temperatures

    def resting_place(self) -> list[Tensor]:
        """The temperature 1 for every node; weights start at random only so that heads differ."""
        return [
            torch.zeros_like(start) if name == "shape_weight" else start
            for (name, _), start in zip(self.named_parameters(), super().resting_place(), strict=True)
        ]

    def temperatures(self, logits: Tensor, surroundings: Surroundings) -> Tensor:
        """One per node.  # [N, C] -> [N]"""
        receivers, senders = surroundings.receivers, surroundings.senders
        coefficient = torch.cat([self.near_training, self.near_training.new_ones(1)])[surroundings.distance]  # [N]
        low, high = logits.amin(-1, keepdim=True), logits.amax(-1, keepdim=True)
        shape = torch.sort((logits - low) / (high - low).clamp_min(1e-12), -1).values  # [N, C]
        own = (shape @ self.shape_weight) * coefficient[:, None]  # [N, H]

        scaled = logits / coefficient[:, None]
        alike = functional.leaky_relu((scaled[receivers] * scaled[senders]).sum(-1), LEAK)  # [E]
        attention = _softmax_over(alike, receivers, len(logits))
        heard = own.new_zeros(own.shape).index_add(0, receivers, attention[:, None] * own[senders])  # [N, H]

        confidence = torch.softmax(logits, -1).amax(-1)
        count = confidence.new_zeros(len(logits)).index_add(0, receivers, torch.ones_like(alike))
        others = confidence.new_zeros(len(logits)).index_add(0, receivers, confidence[senders]) / count
        relative = self.relative_confidence * (confidence - others)
        return functional.softplus(heard + relative[:, None]).mean(-1) + self.base.clamp_min(1e-2)


def _softmax_over(values: Tensor, group: Tensor, groups: int) -> Tensor:
    highest = values.new_full((groups,), float("-inf")).scatter_reduce(0, group, values.detach(), "amax")
    weight = torch.exp(values - highest[group])
    return weight / values.new_zeros(groups).index_add(0, group, weight)[group]


@register_calibrator
class Temperature(Calibrator):
    r"""All logits divided by one temperature: :math:`p = \mathrm{softmax}(z / T)`.

    Paper: Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", ICML 2017. Predicted classes
    stay the same for a model with one sample. With one parameter it hardly overfits; use it if validation nodes
    are few.
    """

    name = "temperature"
    summary = "one temperature for all nodes; keeps the ranking of classes, hardly overfits"
    paper = "Guo, Pleiss, Sun and Weinberger, On calibration of modern neural networks"
    year = 2017

    def __init__(self, classes: int, trained: Sequence[Any] = ()) -> None:
        super().__init__(classes, ())
        self.log_temperature = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, logits: Tensor, surroundings: Surroundings) -> Tensor:
        return logits / self.log_temperature.exp()

    @property
    def common_temperature(self) -> float:
        return float(self.log_temperature.detach().exp())


ENOUGH = 20
"""Nodes from which on a fitted temperature stands for itself."""


def best_temperature(logits: Tensor, labels: Tensor) -> float:
    """The temperature that minimises the NLL of the mean probabilities over samples.  # [n, S, C], [n]

    If every node is right, the NLL keeps falling with the temperature, which would turn n right answers into
    certainty. One wrong answer at an average node is added then, as in the rule of succession.

    Fewer than :data:`ENOUGH` nodes are taken for a part of that many, of which the others say 1: the logarithm of the
    temperature shrinks by n / :data:`ENOUGH`. Alone they decide by chance: with two right answers the one that is
    added is a third of all, which would turn every confidence into a guess.
    """
    from scipy.optimize import minimize_scalar

    logits, labels = logits.cpu().double(), labels.cpu()
    rows = torch.arange(len(labels))
    flawless = bool((torch.softmax(logits, -1).mean(1).argmax(-1) == labels).all())

    def nll(log_temperature: float) -> float:
        right = torch.softmax(logits / math.exp(log_temperature), -1).mean(1)[rows, labels]
        loss = float(-right.clamp_min(1e-12).log().mean())
        return loss + float(-(1 - right).clamp_min(1e-12).log().mean()) / len(labels) if flawless else loss

    fitted = float(minimize_scalar(nll, bounds=(math.log(0.05), math.log(20.0)), method="bounded").x)
    return math.exp(fitted if len(labels) >= ENOUGH else fitted * len(labels) / ENOUGH)


@register_calibrator
class Vector(Calibrator):
    r"""Each class with its own factor and offset: :math:`p = \mathrm{softmax}(w \odot z + b)`.

    Paper: Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", ICML 2017. It can change
    predicted classes, and corrects a model that favours some of them: use it if training was balanced and the graph
    is not. A weak pull towards :math:`w = 1, b = 0` keeps it finite if a class is separated perfectly.
    """

    name = "vector"
    summary = "a factor and an offset per class; corrects favoured classes, may change labels"
    paper = "Guo, Pleiss, Sun and Weinberger, On calibration of modern neural networks"
    year = 2017
    decay = 1e-3

    def __init__(self, classes: int, trained: Sequence[Any] = ()) -> None:
        super().__init__(classes, ())
        self.factor = torch.nn.Parameter(torch.ones(classes, dtype=torch.float64))
        self.offset = torch.nn.Parameter(torch.zeros(classes, dtype=torch.float64))

    def forward(self, logits: Tensor, surroundings: Surroundings) -> Tensor:
        return logits * self.factor + self.offset


MOST_STEPS = 200


def require_calibrator(by: str, target: str) -> None:
    """Refuse a calibrator that is for another kind of target."""
    if CALIBRATORS.get(by).target != target:
        able = [name for name in CALIBRATORS if CALIBRATORS.get(name).target == target]
        raise BadUsage(
            f"the calibrator '{by}' does not apply to {target}, which this model predicts",
            code="E-TARGET",
            found=by,
            expected="one of " + ", ".join(able),
        )


def fit_calibrator(
    prediction: Prediction,
    graph: Graph,
    *,
    by: str = "temperature",
    nodes: np.ndarray | None = None,
    linear_filter: tuple[float, int] | None = None,
) -> Calibrator:
    """Fit a calibrator on some nodes, by their negative log-likelihood under the mean over samples.

    Args:
        prediction: of all nodes of ``graph``, not calibrated.
        graph: with the masks that the model was fitted with.
        by: one of ``CALIBRATORS``.
        nodes: mask; default: the validation nodes. Keep calibration nodes out of it: they are for conformal sets
            and for abstaining, whose guarantees need nodes that nothing was fitted to.
        linear_filter: κ and K of the linear graph SDE whose mean is the model's logits, for calibrators that need it
            (``diffusion``).

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> prediction = gs.LabelPropagation().fit(graph).predict(graph)
        >>> fit_calibrator(prediction, graph, by="temperature").common_temperature > 0
        True
    """
    require_calibrator(by, prediction.target_kind)
    require_same_nodes(prediction, graph)
    return FITTING.of(prediction)(prediction, graph, by, nodes, linear_filter)


def calibrate(prediction: Prediction, graph: Graph, *, by: str = "auto", nodes: np.ndarray | None = None) -> Prediction:
    """Calibrate a prediction on the validation nodes, for one made by another library's model.

    Models have :meth:`graphsde.Model.calibrate`, which then applies to all their predictions.

    Args:
        prediction: of all nodes of ``graph``, such as one of :meth:`graphsde.Prediction.from_logits`.
        graph: with the roles from training.
        by: see ``graphsde list calibrators``; ``auto`` is a temperature for classes, one factor of all standard
            deviations for numbers.
        nodes: mask of the nodes to fit on, instead of the validation nodes.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> prediction = gs.Prediction.from_probabilities(gs.LabelPropagation().fit(graph).predict(graph).mean, graph)
        >>> gs.calibrate(prediction, graph).uncalibrated is prediction
        True
    """
    by = DEFAULT_CALIBRATOR.of(prediction) if by == "auto" else by
    return fit_calibrator(prediction, graph, by=by, nodes=nodes).apply_to(prediction, graph)


DEFAULT_CALIBRATOR: Rules[str] = Rules("calibrating")
DEFAULT_CALIBRATOR.register("classification")(Temperature.name)
DEFAULT_CALIBRATOR.register("regression")(Deviation.name)
FITTING: Rules[Callable[[Any, Graph, str, np.ndarray | None, tuple[float, int] | None], Calibrator]] = Rules(
    "fitting a calibrator"
)


FITTING.register("regression")(lambda prediction, graph, by, nodes, _: fit_deviation(prediction, graph, nodes))


@FITTING.register("classification")
def _fit_to_classes(
    prediction: ClassPrediction,
    graph: Graph,
    by: str,
    nodes: np.ndarray | None,
    linear_filter: tuple[float, int] | None,
) -> Calibrator:
    kind = CALIBRATORS.get(by)
    labels = align_labels(graph, prediction.class_names)
    mask = graph.val_mask if nodes is None else np.asarray(nodes, dtype=bool)
    rows = np.array([], dtype=np.int64) if mask is None else np.flatnonzero(mask & graph.familiar & (labels != UNKNOWN))
    if not len(rows):
        raise BadInput(
            f"'{graph.name}' has no labelled validation nodes to fit a calibrator on",
            code="E-SPLIT-EMPTY",
            fix="use a split with validation nodes, or in Python pass others (nodes=…)",
        )
    calibrator = kind(prediction.num_classes, graph.node_ids[graph.role("train")].tolist())
    truth = torch.from_numpy(labels[rows].copy())
    if isinstance(prediction, SummarisedPrediction) and not kind.listens:
        # only samples of the fitted nodes are needed
        prediction, rows = prediction.with_samples(rows), np.arange(len(rows))
    logits = centred_logits(prediction)
    if isinstance(calibrator, Temperature):
        # one parameter: a search in an interval, independent of the start
        chosen = logits[:, torch.from_numpy(rows)].transpose(0, 1)
        with torch.no_grad():
            calibrator.log_temperature.fill_(math.log(best_temperature(chosen, truth)))
    elif not calibrator.fit_to(logits, graph, torch.from_numpy(rows), truth, linear_filter):
        _minimise(calibrator, logits, graph, torch.from_numpy(rows), truth)
    return calibrator.eval()


def _minimise(calibrator: Calibrator, logits: Tensor, graph: Graph, rows: Tensor, truth: Tensor) -> None:
    parameters = list(calibrator.parameters())
    starts = calibrator.resting_place()
    surroundings = calibrator.surroundings(graph)
    if not calibrator.listens:
        logits, rows = logits[:, rows], torch.arange(len(rows))
    optimizer = torch.optim.LBFGS(
        parameters, max_iter=MOST_STEPS, tolerance_grad=1e-8, tolerance_change=1e-10, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        probs = torch.softmax(calibrator(logits, surroundings)[:, rows], -1).mean(0)
        value = -probs[torch.arange(len(rows)), truth].clamp_min(1e-12).log().mean()
        for parameter, start in zip(parameters, starts, strict=True):
            value = value + 0.5 * calibrator.decay * (parameter - start).square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    if not all(bool(torch.isfinite(parameter).all()) for parameter in parameters):
        raise Diverged(f"fitting the calibrator '{calibrator.name}' did not converge", fix="use temperature")
