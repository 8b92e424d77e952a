"""A disk that fails at a chosen call, for tests of what survives it."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphsde.base import storage


class FaultyDisk:
    """Below ``folder`` the n-th call of one kind fails; all else works."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, operation: str, number: int, code: int) -> None:
        self.folder, self.operation, self.number, self.code = str(folder), operation, number, code
        self.calls = 0
        for name in ("write", "fsync", "replace"):
            patch.setattr(os, name, self._wrapped(name, getattr(os, name)))
        patch.setattr(storage, "open", self._open, raising=False)

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *rest: Any) -> Any:
            path = str(target) if name == "replace" else os.readlink(f"/proc/self/fd/{target}")
            self._meet(name, path)
            return real(target, *rest)

        return call

    def _open(self, path: Any, mode: str = "r", **options: Any) -> Any:
        stream = builtins.open(path, mode, **options)  # noqa: SIM115
        if "x" in mode:
            real = stream.write

            class Writer:
                def __enter__(inner) -> Any:
                    return inner

                def __exit__(inner, *details: object) -> None:
                    stream.close()

                def write(inner, content: bytes) -> int:
                    self._meet("write", str(path))
                    return real(content)

                def __getattr__(inner, name: str) -> Any:
                    return getattr(stream, name)

            return Writer()
        return stream

    def _meet(self, name: str, path: str) -> None:
        if name == self.operation and path.startswith(self.folder) and not os.path.isdir(path):
            self.calls += 1
            if self.calls == self.number:
                raise OSError(self.code, os.strerror(self.code))
