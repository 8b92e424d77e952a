"""A second device on a machine that has none: its tensors hold values, and refuse to meet those of the CPU.

Its name is ``meta``, for which torch needs no driver; nothing of torch's own meta tensors is left, which hold none.
As on a graphics card, a CPU tensor with a dimension is refused beside one of the device, a generator of the CPU draws
nothing there, and ``.numpy()`` fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from graphsde.base import device

NAME = "meta"
_MOVES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}


class RemoteTensor(Tensor):
    """A tensor that says it is elsewhere; ``held`` has its values."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> RemoteTensor:
        made = Tensor._make_wrapper_subclass(
            cls, held.shape, held.stride(), held.storage_offset(), dtype=held.dtype, device=NAME
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, Tensor)]
    remote = [one for one in tensors if isinstance(one, RemoteTensor)]
    local = [one for one in tensors if not isinstance(one, RemoteTensor)]
    if any(one.device.type == NAME for one in local):
        raise AssertionError(f"{func} met a tensor of torch's own meta device")
    if remote and func not in _MOVES and any(one.dim() for one in local):
        raise RuntimeError(f"{func} got tensors of the CPU and of the remote device")
    there = torch.device(kwargs["device"]).type == NAME if kwargs.get("device") is not None else bool(remote)
    if there and kwargs.get("generator") is not None:
        raise RuntimeError(f"{func} got a generator of the CPU for the remote device")
    if "device" in kwargs:
        kwargs = kwargs | {"device": torch.device("cpu")}
    wrapper = {id(one.held): one for one in remote}
    bare = tree_map(lambda one: one.held if isinstance(one, RemoteTensor) else one, (args, kwargs))
    found = func(*bare[0], **bare[1])
    if func is torch.ops.aten.copy_.default:
        return args[0]

    def back(one: Any) -> Any:
        if not there or not isinstance(one, Tensor):
            return one
        if one.dtype is torch.float64 and NAME in device.WITHOUT_FLOAT64:
            raise TypeError(f"{func}: the remote device has no float64")
        return wrapper[id(one)] if id(one) in wrapper else RemoteTensor(one)

    return tree_map(back, found)


class _Factories(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _FromData(TorchFunctionMode):
    """torch makes tensors from Python's numbers, and numbers from tensors, below the reach of a dispatch mode."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.tolist:
            return args[0].cpu().tolist()
        if func is Tensor.new_tensor:
            kwargs = {"dtype": args[0].dtype, "device": args[0].device, **kwargs}
            func, args = torch.tensor, args[1:]
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            where = kwargs.pop("device")
            return func(*args, **kwargs).to(where)
        return func(*args, **kwargs)


@contextmanager
def remote_device(monkeypatch: pytest.MonkeyPatch, *, float64: bool = True) -> Iterator[str]:
    """The name of the device, which the library takes for one that torch can use; as Apple's, it may lack float64."""
    monkeypatch.setattr(device, "available_devices", lambda: (NAME, "cpu"))
    if not float64:
        monkeypatch.setattr(device, "WITHOUT_FLOAT64", frozenset({NAME}))
    with _FromData(), _Factories():
        yield NAME
