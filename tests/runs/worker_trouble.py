"""A plugin that kills one worker in the middle of a training, once, and has every epoch kept."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from graphsde.base.errors import Diverged
from graphsde.base.wire import TorchWire
from graphsde.nn.checkpoint import Checkpoint

MARK = "GRAPHSDE_TEST_KILLED"
"""Names the file that is written before the worker goes; without it nobody does."""
DIVERGE = "diverge"
"""In that file, it makes all workers fail instead."""
MEETINGS = 60
_across = TorchWire.across
_calls = 0


def across(self: TorchWire, mine: Mapping[tuple[int, int], Tensor], rows: Mapping[tuple[int, int], int]) -> Any:
    global _calls
    _calls += 1
    mark = os.environ.get(MARK)
    if mark and Path(mark).is_file() and Path(mark).read_text(encoding="utf-8") == DIVERGE:
        raise Diverged("the loss is nan")
    if mark and _calls == MEETINGS and self.parts - 1 in self.held and not Path(mark).exists():
        Path(mark).write_text(str(os.getpid()), encoding="utf-8")
        os.kill(os.getpid(), signal.SIGKILL)
    return _across(self, mine, rows)


if os.environ.get("GRAPHSDE_PLUGINS") == __name__:  # not where a test only looks at the names above
    TorchWire.across = across  # type: ignore[method-assign]
    Checkpoint.due = lambda self: True  # type: ignore[method-assign]
