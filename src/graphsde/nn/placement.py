"""Modules and features on a device."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphsde.base.device import widest_type
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.layers import Features


def features_on(device: torch.device, features: Features) -> Features:
    return features.on(device) if isinstance(features, SparseMatrix) else features.to(device)


def place(module: nn.Module, device: torch.device) -> dict[str, Tensor]:
    """Move ``module`` to ``device``, and say what had to become narrower there: float64 where there is none."""
    widest = widest_type(device)
    if widest is torch.float64:
        module.to(device)
        return {}
    narrowed = {name: one.detach().clone() for name, one in _named(module).items() if one.dtype is torch.float64}
    module._apply(lambda one: one.to(device, widest if one.dtype is torch.float64 else one.dtype))
    return narrowed


def bring_home(module: nn.Module, narrowed: dict[str, Tensor]) -> None:
    """Move ``module`` to the CPU; what has not changed since :func:`place` has all its digits again."""
    module.cpu()
    tensors = _named(module)
    for name, before in narrowed.items():
        now = tensors[name].detach()
        tensors[name].data = torch.where(before.to(now.dtype) == now, before, now.to(before.dtype))


def _named(module: nn.Module) -> dict[str, Tensor]:
    return dict(module.state_dict(keep_vars=True))
