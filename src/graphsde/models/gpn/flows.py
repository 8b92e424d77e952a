"""One normalising flow per class, all classes at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch.utils.checkpoint import checkpoint

# floats of one layer that are worked on at once: more fall out of the processor's cache and take twice the time
CHUNK_FLOATS = 2**19
# floats of all layers that may be kept for the way back; beyond, they are computed a second time
KEPT_FLOATS = 2**28


class RadialFlows(nn.Module):
    r"""A density per class: radial layers from the latent space to a standard normal.

    Paper: Rezende and Mohamed, "Variational inference with normalizing flows", ICML 2015. One layer is

    .. math:: y = x + b\,h(r)\,(x - x_0), \quad r = \|x - x_0\|, \quad h(r) = 1 / (a + r)
        \ln|\det| = (d - 1) \ln(1 + b h) + \ln(1 + b h - b h^2 r)

    with :math:`a = \mathrm{softplus}(a')` and :math:`b = -a + s`, :math:`s = \mathrm{softplus}(b')`, which makes it
    invertible. Both factors are computed as :math:`(r + s)/(r + a)` and :math:`(r^2 + 2ar + as)/(r + a)^2`: no
    difference of near-equal numbers.

    Args:
        classes, width, layers: C, d and L.
        generator: for the parameters, which are uniform in ±1/√d.

    Example:
        >>> import torch
        >>> flows = RadialFlows(3, 2, 4, torch.Generator().manual_seed(0))
        >>> flows(torch.zeros(5, 2)).shape
        torch.Size([5, 3])
    """

    def __init__(self, classes: int, width: int, layers: int, generator: torch.Generator) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.centre = nn.Parameter(_uniform((layers, classes, width), bound, generator))
        self.scale = nn.Parameter(_uniform((layers, classes), bound, generator))  # a'
        self.slope = nn.Parameter(_uniform((layers, classes), bound, generator))  # b'

    def forward(self, latent: Tensor) -> Tensor:
        """Log-densities of every node under every class, nodes in chunks.  # [N, d] -> [N, C]"""
        _, classes, width = self.centre.shape
        chunks = latent.split(max(1, CHUNK_FLOATS // (classes * width)))
        if torch.is_grad_enabled() and kept_floats(*self.centre.shape) * len(latent) > KEPT_FLOATS:
            again = [checkpoint(self.density, part, use_reentrant=False, preserve_rng_state=False) for part in chunks]
            return torch.cat(again)
        return torch.cat([self.density(part) for part in chunks])

    def density(self, latent: Tensor) -> Tensor:
        """:meth:`forward` in one piece."""
        away, volume = self.transform(latent)
        normal = -0.5 * (away.square().sum(1) + away.shape[1] * math.log(2 * math.pi))
        return (normal + volume).T

    def transform(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Where the flows take each node, and the logarithm of the change of volume.  # [C, d, N], [C, N]"""
        layers, classes, width = self.centre.shape
        volume = latent.new_zeros(classes, len(latent))
        a, s = softplus(self.scale)[..., None], softplus(self.slope)[..., None]  # [L, C, 1]
        following = torch.cat([self.centre[1:], self.centre.new_zeros(1, classes, width)])
        step = (self.centre - following)[..., None]  # [L, C, d, 1]
        # what is kept is the way from the next layer's centre, so that a layer is one product and one sum; nodes come
        # last, so that sums over the latent space run along contiguous rows
        away = latent.T - self.centre[0][..., None]
        for layer in range(layers):
            r = torch.linalg.vector_norm(away, dim=1)  # [C, N]
            reach = r + a[layer]
            growth = (r + s[layer]) / reach
            radial = (r * (r + 2 * a[layer]) + a[layer] * s[layer]).log() - 2 * reach.log()
            volume = volume + (width - 1) * growth.log() + radial
            away = torch.addcmul(step[layer], away, growth[:, None])
        return away, volume


def kept_floats(layers: int, classes: int, width: int) -> int:
    """Floats per node that the way back through the flows reads."""
    return layers * classes * (2 * width + 6)


def _uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator) -> Tensor:
    if torch.get_default_device().type == "meta":
        return torch.empty(shape)  # only the size is wanted
    return (torch.rand(shape, generator=generator) * 2 - 1) * bound
