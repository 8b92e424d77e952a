"""Space for large intermediate arrays: in memory, or in temporary files under a memory limit."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from graphsde.base.memory import memory_limit
from graphsde.base.storage import io_error

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SHARE_OF_LIMIT = 32
"""An array larger than this share of the limit goes into a file."""


def scratch_array(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An uninitialised array.

    Inside :func:`~graphsde.base.memory.within_memory` a large one is a map of an unnamed file in the folder for
    temporary files (``TMPDIR``), which disappears with the array: its pages can be written out when memory is short.

    Example:
        >>> scratch_array((2, 3), np.float32).shape
        (2, 3)
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return _in_file(shape, dtype) if is_large(size) else np.empty(shape, dtype=dtype)


def _in_file(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    size = math.prod(shape) * np.dtype(dtype).itemsize
    try:
        with tempfile.TemporaryFile() as file:
            if hasattr(os, "posix_fallocate"):  # report a full disk now, not by a signal once a page is written
                os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, dtype=dtype, mode="r+" if hasattr(os, "posix_fallocate") else "w+", shape=shape)
    except OSError as error:
        raise io_error("write", Path(tempfile.gettempdir()), error) from error


_FILED: WeakValueDictionary[int, np.ndarray] = WeakValueDictionary()


def scratch_tensor(shape: Sequence[int], dtype: torch.dtype, *, parts: int = 1) -> Tensor:
    """Like :func:`scratch_array`, for torch; ``parts`` of a graph hold one each, and share the limit."""
    import torch

    size = math.prod(shape) * dtype.itemsize
    if not is_large(parts * size):
        return torch.empty(tuple(shape), dtype=dtype)
    array = _in_file((size,), np.uint8)
    tensor = torch.from_numpy(array).view(dtype).view(tuple(shape))
    _FILED[tensor.untyped_storage().data_ptr()] = array
    return tensor


def is_large(size: int) -> bool:
    """Whether an array of this many bytes goes into a file."""
    limit = memory_limit()
    return limit is not None and size * SHARE_OF_LIMIT > limit


def to_file(tensor: Tensor, *, parts: int = 1) -> Tensor:
    """A copy of a large tensor in a file; a small one, or one already in a file, is returned as is."""
    size = tensor.numel() * tensor.element_size()
    if tensor.device.type != "cpu" or not is_large(parts * size) or _is_filed(tensor):
        return tensor
    return scratch_tensor(tensor.shape, tensor.dtype, parts=parts).copy_(tensor.detach())


def _is_filed(tensor: Tensor) -> bool:
    return tensor.untyped_storage().data_ptr() in _FILED


def saves_in_files(parts: int = 1) -> contextlib.AbstractContextManager[object]:
    """Inside, large tensors that autograd saves for the backward pass go into files, if there is a limit."""
    if memory_limit() is None:
        return contextlib.nullcontext()
    import torch

    def pack(tensor: Tensor) -> Tensor:
        return tensor if tensor.is_leaf and tensor.requires_grad else to_file(tensor, parts=parts)

    return torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
