"""Graph convolutional network with a Gaussian over every weight."""

from __future__ import annotations

from typing import Any, Literal, Unpack

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from graphsde.graph.sparse import SparseMatrix
from graphsde.models.base import register_model
from graphsde.models.neural import Inputs, NeuralSettings, Outputs
from graphsde.models.options import BGCNMeanFieldOptions
from graphsde.models.sampled import SampledLearner, SampledModel
from graphsde.nn.keyed_masks import KeyedMasks
from graphsde.nn.layers import Features, Randomness, dropout, glorot, normal

RELEASED: dict[str, Any] = {
    "hidden": 64,
    "activation": "softplus",
    "init": "normal",
    "rho": -3.0,
    "dropout": 0.0,
    "kl_unit": "weight",
    "kl_weight": 0.01,
    "lr": 0.001,
}
"""What the public code of the LGNSDE study ran under the name BGCN: ``BGCNMeanField(**RELEASED)``."""


class BGCNMeanFieldSettings(NeuralSettings):
    """Settings of :class:`BGCNMeanField`.

    Args:
        hidden: width of the hidden layer.
        activation: between the layers.
        dropout: on the input and on the hidden layer, in training only: the samples differ only by their weights.
        init: of the means: ``glorot``, or ``normal`` with standard deviation 0.1 (then ρ is drawn around ``rho``, too).
        rho: where ρ starts; the weights' standard deviation is softplus(ρ).
        kl_weight: share of the KL divergence in the loss, in units of ``kl_unit``.
        kl_unit: ``elbo`` adds ``kl_weight · KL / (training nodes)`` to the mean cross-entropy, so that 1 is the true
            evidence bound and less is a tempered posterior; ``weight`` adds ``kl_weight`` times the mean over weights.
        validation_samples: draws whose mean is used for validation.
    """

    hidden: int = Field(64, ge=1, le=65536)
    activation: Literal["relu", "softplus"] = "relu"
    dropout: float = Field(0.5, ge=0, lt=1)
    init: Literal["glorot", "normal"] = "glorot"
    rho: float = Field(-5.0, ge=-30, le=10)
    kl_weight: float = Field(0.05, ge=0)
    kl_unit: Literal["elbo", "weight"] = "elbo"
    validation_samples: int = Field(5, ge=1, le=10_000)


class GaussianWeight(nn.Module):
    r"""Independent normals :math:`w = \mu + \mathrm{softplus}(\rho)\,\varepsilon`, given where μ and ρ start."""

    def __init__(self, mean: Tensor, rho: Tensor) -> None:
        super().__init__()
        self.mean, self.rho = nn.Parameter(mean), nn.Parameter(rho)

    def forward(self, randomness: Randomness = None) -> Tensor:
        """One draw, the same for all nodes; without randomness, the mean."""
        if randomness is None:
            return self.mean
        if isinstance(randomness, KeyedMasks):
            # the middle of each cell of the uniform grid: neither 0 nor 1
            uniform = randomness.scalars(self.mean.numel()).cpu().double() + 2.0**-25
            noise = torch.special.ndtri(uniform).to(self.mean.dtype).view(self.mean.shape)
        else:
            noise = torch.randn(self.mean.shape, generator=randomness, dtype=self.mean.dtype)
        return self.mean + functional.softplus(self.rho) * noise.to(self.mean.device)

    def kl(self) -> Tensor:
        """KL(q ‖ N(0, 1)) = Σ ½ (σ² + μ² − 1) − ln σ."""
        scale = functional.softplus(self.rho)
        return (0.5 * (scale.square() + self.mean.square() - 1.0) - scale.log()).sum()


class GaussianConv(nn.Module):
    """Graph convolution Â X W + b with random W and b.  # [N, inputs] -> [N, outputs]"""

    def __init__(self, inputs: int, outputs: int, settings: BGCNMeanFieldSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = _weight((inputs, outputs), settings, generator)
        self.bias = _weight((outputs,), settings, generator)

    def forward(self, x: Features, adjacency: SparseMatrix, randomness: Randomness) -> Tensor:
        return adjacency @ (x @ self.weight(randomness)) + self.bias(randomness)


class BGCNMeanFieldModule(nn.Module):
    def __init__(self, width: int, classes: int, settings: BGCNMeanFieldSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.first = GaussianConv(width, settings.hidden, settings, generator)
        self.second = GaussianConv(settings.hidden, classes, settings, generator)
        self.rate = settings.dropout
        self.activation = {"relu": torch.relu, "softplus": functional.softplus}[settings.activation]

    def forward(self, inputs: Inputs, randomness: Randomness = None) -> Outputs:
        masks = randomness if isinstance(randomness, torch.Generator) else None
        hidden = self.first(dropout(inputs.features, self.rate, masks), inputs.adjacency, randomness)
        hidden = self.activation(hidden)
        return Outputs(self.second(dropout(hidden, self.rate, masks), inputs.adjacency, randomness), hidden)

    def kl(self) -> Tensor:
        return torch.stack([part.kl() for part in self._weights()]).sum()

    def count(self) -> int:
        """Number of random weights."""
        return sum(part.mean.numel() for part in self._weights())

    def _weights(self) -> list[GaussianWeight]:
        return [part for part in self.modules() if isinstance(part, GaussianWeight)]


class BGCNMeanFieldLearner(SampledLearner):
    """One draw of the weights a step, and the KL divergence of their distribution."""

    module: BGCNMeanFieldModule
    settings: BGCNMeanFieldSettings

    def loss(self, epoch: int) -> Tensor:
        share = len(self.train) if self.settings.kl_unit == "elbo" else self.module.count()
        return super().loss(epoch) + self.settings.kl_weight / share * self.module.kl()


@register_model
class BGCNMeanField(SampledModel):
    r"""A two-layer GCN whose weights are independent normals; a sample is one draw of all of them.

    Paper: Blundell, Cornebise, Kavukcuoglu and Wierstra, "Weight uncertainty in neural networks", ICML 2015, on the
    graph convolution of Kipf and Welling. With :math:`w = \mu + \mathrm{softplus}(\rho)\,\varepsilon`, prior N(0, 1),

    .. math:: L = \frac1n \sum_{i} -\log p(y_i \mid w) + \frac{\beta}{n} \sum_w \mathrm{KL}(q(w) \,\|\, N(0, 1)).

    With a few labels and tens of thousands of weights the untempered bound (β = 1) ignores the data: all weights
    fall back to the prior. The default β was chosen on validation nodes.

    This is what the LGNSDE study ran as "BGCN"; the system it cites under that name is ``bgcn``. Its code averages
    the KL over the weights, starts at other values and uses a tenth of the learning rate: see :data:`RELEASED`.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> gs.BGCNMeanField(hidden=8, epochs=5).fit(graph).predict(graph, samples=4).probs.shape
        (4, 1797, 10)
    """

    name = "bgcn-meanfield"
    summary = "a GCN with a Gaussian over every weight; draws of the weights are samples"
    paper, year = "Blundell et al., Weight uncertainty in neural networks", 2015
    Settings = BGCNMeanFieldSettings
    Module, Learner = BGCNMeanFieldModule, BGCNMeanFieldLearner  # the prior is the decay
    settings: BGCNMeanFieldSettings

    def __init__(self, **settings: Unpack[BGCNMeanFieldOptions]) -> None:
        super().__init__(**settings)


def _weight(shape: tuple[int, ...], settings: BGCNMeanFieldSettings, generator: torch.Generator) -> GaussianWeight:
    if settings.init == "normal":
        mean = 0.1 * normal(shape, generator)
        return GaussianWeight(mean, settings.rho + 0.1 * normal(shape, generator))
    mean = glorot(shape[0], shape[1], generator) if len(shape) == 2 else torch.zeros(shape)
    return GaussianWeight(mean, torch.full(shape, settings.rho))
