"""Where tensors are computed: on the CPU, on a CUDA card or on Apple's GPU."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from graphsde.base.errors import BadUsage

if TYPE_CHECKING:
    import torch
    from torch import Tensor

DEVICE_VARIABLE = "GRAPHSDE_DEVICE"
"""Environment variable that sets the device of a process and of the workers it starts."""
NAMES = "auto, cpu, cuda, cuda:1 (any card by its number) or mps"
WITHOUT_FLOAT64 = frozenset({"mps"})
_NAME = re.compile(r"auto|cpu|mps|meta|cuda(:\d+)?")
_chosen: ContextVar[str | None] = ContextVar("graphsde_device", default=None)


def available_devices() -> tuple[str, ...]:
    """The devices that torch can use on this machine; ``auto`` picks the first.

    Example:
        >>> "cpu" in available_devices()
        True
    """
    import torch

    cards = [f"cuda:{number}" for number in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return (*cards, *(["mps"] if torch.backends.mps.is_available() else []), "cpu")


def check_device_name(wanted: str) -> str:
    """``wanted``, if it is a valid device name, on this machine or another."""
    if not isinstance(wanted, str) or not _NAME.fullmatch(wanted):
        raise BadUsage(f"unknown device {wanted!r}", code="E-DEVICE", found=str(wanted), expected=NAMES)
    return wanted


def find_device(wanted: str) -> torch.device:
    """The device of that name on this machine; ``auto`` is the first of :func:`available_devices`.

    Example:
        >>> find_device("cpu")
        device(type='cpu')
    """
    check_device_name(wanted)
    import torch

    if wanted == "cpu":
        return torch.device("cpu")
    here = available_devices()
    for name in here:
        if wanted in ("auto", name, name.partition(":")[0]):
            return torch.device(name)
    raise BadUsage(
        f"this machine has no device '{wanted}' that torch can use",
        code="E-DEVICE",
        found=wanted,
        expected=f"one of {', '.join(here)}, or auto",
        fix="choose one of these, or install a torch that was built for the device",
    )


def widest_type(device: torch.device) -> torch.dtype:
    """float64, or float32 on Apple's GPU, which has no float64."""
    import torch

    return torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64


def widened(x: Tensor) -> Tensor:
    """``x`` in the highest precision of its device."""
    return x.to(widest_type(x.device))


@contextmanager
def on_device(wanted: str | None) -> Iterator[None]:
    """Fit and predict on this device inside the block, unless a model sets its own ``device``.

    Args:
        wanted: ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``; ``None`` changes nothing.

    Example:
        >>> import graphsde as gs
        >>> with gs.on_device("auto"):
        ...     model = gs.GCN(epochs=2).fit(gs.load("digits"))
    """
    if wanted is None:
        yield
        return
    token = _chosen.set(str(find_device(wanted)))
    try:
        yield
    finally:
        _chosen.reset(token)


def device_variable() -> dict[str, str]:
    """Environment variables that make a child process compute on the same device."""
    chosen = _chosen.get()
    return {} if chosen is None else {DEVICE_VARIABLE: chosen}


def device_for(wanted: str | None = None) -> torch.device:
    """``wanted``, otherwise the device of :func:`on_device`, then ``GRAPHSDE_DEVICE``, then the CPU."""
    return find_device(wanted or _chosen.get() or os.environ.get(DEVICE_VARIABLE) or "cpu")
