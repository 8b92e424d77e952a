"""The calls by which a process changes files below a folder: counted, and one of them disturbed on request.

Nothing is listed by hand: the functions by which Python changes a file system are wrapped, so that whatever a verb does
is a numbered call. An audit hook, which nothing in Python can avoid, counts beside it: a change that the wrappers have
missed is told.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Operation = Literal["open", "write", "fsync", "rename", "link", "unlink", "mkdir", "rmdir", "truncate"]
When = Literal["before", "during", "after", "fault", "full", "pause"]

# which of a call's arguments are paths that it changes, and which operation it is
BY_PATH: dict[str, Operation] = {
    "replace": "rename", "rename": "rename", "renames": "rename", "link": "link", "symlink": "link",
    "unlink": "unlink", "remove": "unlink", "mkdir": "mkdir", "rmdir": "rmdir",
}  # fmt: skip
BY_HANDLE: dict[str, Operation] = {
    "write": "write", "pwrite": "write", "writev": "write", "fsync": "fsync", "fdatasync": "fsync",
    "ftruncate": "truncate", "sendfile": "write", "copy_file_range": "write",
}  # fmt: skip
# a full disk refuses what needs room, and nothing else
NEEDS_ROOM = ("open", "write", "mkdir", "link", "fsync")
AUDITED = {
    "os.rename": "rename", "os.link": "link", "os.symlink": "link", "os.remove": "unlink", "os.mkdir": "mkdir",
    "os.rmdir": "rmdir",
}  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Disturbance:
    """What to do at call ``number``: end the process around it, let it pause before, let it fail.

    ``full``: and all later ones that need room fail as well."""

    number: int
    when: When
    code: int = errno.EIO


@dataclass(frozen=True)
class Call:
    """One change of the file system; ``path`` is relative to the folder, random parts of names replaced."""

    operation: Operation
    path: str


@dataclass
class Disk:
    """Everything that this process changes below ``folder`` from :meth:`install` on; there is no way back."""

    folder: str
    disturbance: Disturbance | None = None
    calls: list[Call] = field(default_factory=list)
    audited: list[Call] = field(default_factory=list)
    _full: bool = False

    def install(self) -> None:
        self.folder = os.path.abspath(self.folder)
        for name, operation in BY_PATH.items():
            setattr(os, name, self._by_path(operation, getattr(os, name)))
        for name, operation in BY_HANDLE.items():
            setattr(os, name, self._by_handle(operation, getattr(os, name)))
        os.open = self._os_open(os.open)
        builtins.open = io.open = self._open(io.open)
        if self.disturbance is None:
            sys.addaudithook(self._audit)

    @property
    def missed(self) -> list[Call]:
        """Changes that the audit hook has seen and the wrappers have not."""
        seen = list(self.calls)
        found = []
        for call in self.audited:
            if call in seen:
                seen.remove(call)
            else:
                found.append(call)
        return found

    def _below(self, path: Any, folder_handle: Any = None) -> str | None:
        if isinstance(path, int):
            full = _of_handle(path)
        else:
            text = os.fsdecode(path)
            full = text if folder_handle in (None, -1) else os.path.join(_of_handle(folder_handle) or "", text)
        if full is None:
            return None
        full = os.path.abspath(full)
        if full != self.folder and not full.startswith(self.folder + os.sep):
            return None
        return re.sub(r"\.[0-9a-f]{8}\.part$", ".*.part", os.path.relpath(full, self.folder))

    def _around(self, operation: Operation, path: str, real: Callable[[], Any], half: Callable[[], Any] | None) -> Any:
        number = len(self.calls)
        self.calls.append(Call(operation, path))
        plan = self.disturbance
        if plan is None or (number != plan.number and not (self._full and operation in NEEDS_ROOM)):
            return real()
        if plan.when == "pause":
            os.kill(os.getpid(), signal.SIGSTOP)
            return real()
        if plan.when in ("fault", "full"):
            self._full = plan.when == "full"
            raise OSError(plan.code, os.strerror(plan.code), os.path.join(self.folder, path))
        try:
            if plan.when == "during" and half is not None:
                half()
            if plan.when == "after":
                real()
        finally:  # a call may fail as it always does: a folder that is there already
            os.kill(os.getpid(), signal.SIGKILL)
        return None

    def _by_path(self, operation: Operation, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **options: Any) -> Any:
            # of two paths the second is what changes
            two = operation in ("rename", "link")
            target, handle = (rest[0], "dst_dir_fd") if two and rest else (path, "src_dir_fd" if two else "dir_fd")
            inside = self._below(target, options.get(handle))
            if inside is None and operation == "rename":
                inside = self._below(path, options.get("src_dir_fd"))
            if inside is None:
                return real(path, *rest, **options)
            return self._around(operation, inside, lambda: real(path, *rest, **options), None)

        return call

    def _by_handle(self, operation: Operation, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(handle: Any, *rest: Any, **options: Any) -> Any:
            inside = self._below(handle if isinstance(handle, int) else handle.fileno())
            if inside is None:
                return real(handle, *rest, **options)
            half = None
            if real.__name__ == "write":
                half = lambda: real(handle, bytes(rest[0])[: len(rest[0]) // 2])  # noqa: E731
            return self._around(operation, inside, lambda: real(handle, *rest, **options), half)

        return call

    def _os_open(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            inside = self._below(path, options.get("dir_fd")) if flags & WRITING else None
            if inside is None:
                return real(path, flags, *rest, **options)
            return int(self._around("open", inside, lambda: real(path, flags, *rest, **options), None))

        return call

    def _open(self, real: Callable[..., Any]) -> Callable[..., Any]:
        disk = self

        class Watched(io.FileIO):
            """What lies below Python's buffers: every write here is one of the system."""

            inside: str

            def write(self, content: Any, /) -> int:
                whole = super().write
                half = lambda: whole(bytes(content)[: len(bytes(content)) // 2])  # noqa: E731
                return int(disk._around("write", self.inside, lambda: whole(content), half))

            def truncate(self, size: int | None = None, /) -> int:
                shorten = super().truncate
                return int(disk._around("truncate", self.inside, lambda: shorten(size), None))

        def call(file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **options: Any) -> Any:
            inside = None if isinstance(file, int) or not set(mode) & set("wxa+") else disk._below(file)
            if inside is None:
                return real(file, mode, buffering, *rest, **options)
            plain = mode.replace("b", "").replace("t", "")
            raw = disk._around("open", inside, lambda: Watched(file, plain), None)
            raw.inside = inside
            if buffering == 0:
                return raw
            buffered: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, *rest, **options)

        return call

    def _audit(self, event: str, values: tuple[Any, ...]) -> None:
        if event in AUDITED:
            two = AUDITED[event] in ("rename", "link")
            handle = values[3] if two else values[-1] if event != "os.mkdir" else values[2]
            inside = self._below(values[1] if two else values[0], handle)
            if inside is not None:
                self.audited.append(Call(AUDITED[event], inside))  # type: ignore[arg-type]
        elif event == "open" and isinstance(values[2], int) and values[2] & WRITING and values[0] is not None:
            inside = self._below(values[0]) if not isinstance(values[0], int) else None
            if inside is not None and inside != ".":
                self.audited.append(Call("open", inside))


def _of_handle(handle: int) -> str | None:
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        return None
