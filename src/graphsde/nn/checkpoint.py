"""Where a training stands, kept on disk so that an interrupted one goes on to the same end."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphsde.base import storage
from graphsde.base.errors import BadInput


@dataclass
class TrainState:
    """Everything the loop needs to go on as if nothing had happened: tensors by name and plain values."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


class Checkpoint:
    """One file that holds the last :class:`TrainState`.

    Args:
        path: where it lies; its absence means "from the start".
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

        tensors = {name: tensor.detach().contiguous().clone() for name, tensor in state.tensors.items()}
        storage.write_bytes(self.path, save(tensors, metadata={"values": json.dumps(state.values)}))
        self._last = time.monotonic()

    def load(self) -> TrainState | None:
        from safetensors import SafetensorError, safe_open

        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                values = json.loads((file.metadata() or {})["values"])
        except OSError as error:
            raise storage.io_error("read", self.path, error) from error
        except (SafetensorError, KeyError, json.JSONDecodeError) as error:
            raise BadInput(
                f"the checkpoint {self.path.name} is damaged", code="E-CORRUPT", place=str(self.path), fix="delete it"
            ) from error
        return TrainState(tensors, values)

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin with ``prefix``, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{index}.{name}": torch.as_tensor(value)
        for index, entries in state.items()
        for name, value in entries.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".", 2)
            state.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
