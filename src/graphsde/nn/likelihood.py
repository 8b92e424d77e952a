"""What a network's last layer means: probabilities of classes, or a Gaussian over a number."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from graphsde.base.registry import Rules
from graphsde.graph.graph import Graph
from graphsde.nn.training import Validation

NOISE = "log_noise"
"""Name of the parameter that a module gets for regression."""
# a node's noise variance is at most this factor above or below the shared one: unbounded, a network that is certain
# about a node unlike all others costs more than all the others gain
_RANGE = math.log(10.0)


@dataclass(frozen=True)
class TargetScale:
    """Mean and standard deviation of the training nodes' values; a model works on (y − mean) / scale."""

    mean: float
    scale: float

    @classmethod
    def of(cls, graph: Graph) -> TargetScale:
        assert graph.values is not None and graph.train_mask is not None
        values = graph.values[graph.train_mask]
        return cls(float(values.mean()), float(values.std()))

    def standardise(self, values: np.ndarray) -> np.ndarray:
        return (values - self.mean) / self.scale

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> TargetScale:
        scale = cls(float(state["mean"]), float(state["scale"]))
        if not (math.isfinite(scale.mean) and math.isfinite(scale.scale) and scale.scale > 0):
            raise ValueError("the scale of the target is not a positive number")
        return scale


class Likelihood(ABC):
    """What the outputs of a network mean for one kind of target, and their loss in training.

    C is the width of the last layer.
    """

    scale: TargetScale | None

    @classmethod
    @abstractmethod
    def of(cls, graph: Graph, module: nn.Module, scale: TargetScale | None = None) -> Likelihood:
        """For ``module`` and the target of ``graph``, with numbers in ``scale`` if given."""

    @staticmethod
    @abstractmethod
    def width(classes: int) -> int:
        """C, for a target with the given number of classes."""

    @staticmethod
    def prepare(module: nn.Module) -> nn.Module:
        """``module`` with the parameters that the likelihood needs."""
        return module

    @abstractmethod
    def targets(self, graph: Graph) -> Tensor:
        """The target of every node.  # [N]"""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean negative log-likelihood.  # [n, C], [n] -> []"""

    @abstractmethod
    def of_paths(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Log-likelihood on every path.  # [n, S, C], [n] -> [n, S]"""

    @abstractmethod
    def validation(self, outputs: Tensor, targets: Tensor) -> Validation:
        """# [n, C], [n]"""

    @abstractmethod
    def validation_of_paths(self, outputs: Tensor, targets: Tensor) -> Validation:
        """Of the mean over paths.  # [n, S, C], [n]"""


LIKELIHOODS: Rules[type[Likelihood]] = Rules("a likelihood")


@LIKELIHOODS.register("classification")
@dataclass(frozen=True)
class ClassLikelihood(Likelihood):
    """softmax over C classes."""

    scale = None

    @classmethod
    def of(cls, graph: Graph, module: nn.Module, scale: TargetScale | None = None) -> ClassLikelihood:
        return cls()

    @staticmethod
    def width(classes: int) -> int:
        return classes

    def targets(self, graph: Graph) -> Tensor:
        assert graph.labels is not None
        return torch.from_numpy(graph.labels.copy())

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets)

    def of_paths(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -functional.cross_entropy(
            outputs.flatten(0, 1), targets.repeat_interleave(outputs.shape[1]), reduction="none"
        ).view(outputs.shape[:2])

    def validation(self, outputs: Tensor, targets: Tensor) -> Validation:
        nll = functional.cross_entropy(outputs, targets)
        return Validation(float(nll), float((outputs.argmax(-1) == targets).float().mean()))

    def validation_of_paths(self, outputs: Tensor, targets: Tensor) -> Validation:
        return validation_of_probs(torch.softmax(outputs, -1).mean(1), targets)


def validation_of_probs(probs: Tensor, targets: Tensor) -> Validation:
    """Of given class probabilities.  # [n, C], [n]"""
    nll = functional.nll_loss(probs.clamp_min(1e-12).log(), targets)
    return Validation(float(nll), float((probs.argmax(-1) == targets).to(probs.dtype).mean()))


@LIKELIHOODS.register("regression")
@dataclass(frozen=True)
class GaussianLikelihood(Likelihood):
    """N(m, v) over the standardised target, with m and v from the two outputs of a node; v is learned, node by node.

    Nix and Weigend, "Estimating the mean and variance of the target probability distribution", 1994. Here
    v = v₀ exp(c tanh(o₂ / c)), c = ln 10: a shared level that is learned too, and at most a factor of ten around it.

    Args:
        scale: of the target.
        log_noise: ln v₀, a parameter of the module.
    """

    scale: TargetScale
    log_noise: Tensor

    @classmethod
    def of(cls, graph: Graph, module: nn.Module, scale: TargetScale | None = None) -> GaussianLikelihood:
        return cls(scale or TargetScale.of(graph), module.get_parameter(NOISE))

    @staticmethod
    def width(classes: int) -> int:
        return 2

    @staticmethod
    def prepare(module: nn.Module) -> nn.Module:
        """With ln of the shared noise variance, 0 at the start."""
        module.register_parameter(NOISE, nn.Parameter(torch.zeros(())))
        return module

    def targets(self, graph: Graph) -> Tensor:
        assert graph.values is not None
        return torch.from_numpy(self.scale.standardise(graph.values)).float()

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -log_density(outputs, targets, self.log_noise).mean()

    def of_paths(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return log_density(outputs, targets[:, None], self.log_noise)

    def validation(self, outputs: Tensor, targets: Tensor) -> Validation:
        return Validation(float(self.loss(outputs, targets).detach()), None)

    def validation_of_paths(self, outputs: Tensor, targets: Tensor) -> Validation:
        mixture = torch.logsumexp(self.of_paths(outputs, targets), dim=1) - math.log(outputs.shape[1])
        return Validation(float(-mixture.detach().mean()), None)


def mean_and_variance(outputs: Tensor, log_noise: Tensor) -> tuple[Tensor, Tensor]:
    """The Gaussian of two outputs.  # [..., 2], [] -> [...], [...]"""
    return outputs[..., 0], (log_noise + _RANGE * torch.tanh(outputs[..., 1] / _RANGE)).exp()


def log_density(outputs: Tensor, targets: Tensor, log_noise: Tensor) -> Tensor:
    """``−½ ln 2πv − (y − m)²/2v``.  # [..., 2], [...], [] -> [...]"""
    mean, variance = mean_and_variance(outputs, log_noise)
    return -0.5 * (math.log(2 * math.pi) + variance.log() + (targets - mean).square() / variance)
