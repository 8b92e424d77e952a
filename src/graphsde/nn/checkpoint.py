"""Training checkpoints on disk, so that interrupted training resumes to the same result."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphsde.base import storage
from graphsde.nn.optimizers import Optimizer


@dataclass
class TrainState:
    """Everything the loop needs to resume as if nothing had happened: tensors by name and plain values."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


class Checkpoint:
    """One file that holds the last :class:`TrainState`, also after training: the owner clears it.

    Args:
        path: of the file; if missing, training starts from scratch.
        every: seconds between two saves; an interruption saves at once.
    """

    def __init__(self, path: Path, every: float = 30.0) -> None:
        self.path = Path(path)
        self.every = every
        self._last = time.monotonic()

    def due(self) -> bool:
        return time.monotonic() - self._last >= self.every

    def save(self, state: TrainState) -> None:
        from safetensors.torch import save

        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.tensors.items()}
        values = json.dumps(state.values)
        metadata = {"values": values, "sha256": _digest(tensors, values)}
        storage.write_bytes(self.path, save(tensors, metadata=metadata))
        self._last = time.monotonic()

    def load(self) -> TrainState | None:
        from safetensors import SafetensorError, safe_open

        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                metadata = file.metadata() or {}
            values = json.loads(metadata["values"])
        except OSError as error:
            raise storage.io_error("read", self.path, error) from error
        except (SafetensorError, KeyError, ValueError, RecursionError) as error:
            raise storage.damaged(self.path, type(error).__name__, "delete it: training starts over") from error
        # earlier versions wrote no digest
        if metadata.get("sha256", expected := _digest(tensors, metadata["values"])) != expected:
            raise storage.damaged(self.path, "its content has changed", "delete it: training starts over")
        return TrainState(tensors, values)

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)


def _digest(tensors: dict[str, Tensor], values: str) -> str:
    """Of names, types, shapes and bytes: otherwise training would continue from a flipped bit in a weight."""
    found = hashlib.sha256(values.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names start with ``prefix``, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{index}.{name}": torch.as_tensor(value)
        for index, entries in state.items()
        for name, value in entries.items()
    }


def restore_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".", 2)
            state.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
