"""Unfinished work on a run: the request and the checkpoint, in a separate folder.

An existing run is unchanged until the work is done, and the work survives the process that did it.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from graphsde.base import storage
from graphsde.base.renames import as_currently
from graphsde.nn.checkpoint import Checkpoint
from graphsde.runs.state import remove_tree

FITTING = ".fitting"
LEARNING = ".learning"


class Work:
    """A fit or a round of learning in progress.

    Args:
        run: the folder of the run.
        name: :data:`FITTING` or :data:`LEARNING`.
    """

    def __init__(self, run: Path, name: str) -> None:
        self.folder = run / name
        self._request = self.folder / "request.json"
        self.checkpoint = Checkpoint(self.folder / "checkpoint.safetensors")

    def request(self) -> dict[str, Any] | None:
        """The request, in current names; ``None`` if there is no work, or nothing readable to resume."""
        with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError):
            return as_currently(json.loads(self._request.read_text(encoding="utf-8")))
        return None

    def begin(self, request: dict[str, Any]) -> bool:
        """Whether there is work on the same ``request`` to resume; otherwise it starts now."""
        if self.request() == plain(request):
            return True
        remove_tree(self.folder)
        storage.write_json(self._request, request)
        return False

    def adopt(self, checkpoint: Path) -> None:
        """Resume from a checkpoint that an earlier version kept elsewhere."""
        with contextlib.suppress(FileNotFoundError):
            try:
                os.replace(checkpoint, self.checkpoint.path)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise storage.io_error("write", self.checkpoint.path, error) from error


def plain(value: Any) -> Any:
    """As JSON would give it back."""
    return json.loads(json.dumps(value))
