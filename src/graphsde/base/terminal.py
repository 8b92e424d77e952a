"""Untrusted text on a terminal: control characters are shown, never executed.

A node's name may hold an escape sequence that rewrites the reader's screen, or a bidirectional override that disguises
the text. Lines are escaped where they are printed; :func:`guarded_output` catches whatever else is written.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console

# C0 but for tab and line feed, DEL and C1; marks and overrides of direction; separators of lines; byte order marks,
# annotations, lone surrogates (undecodable bytes of a file name) and invisible tags
_UNSAFE = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    r"\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
)
UNSAFE = re.compile(f"[{_UNSAFE}]")
UNSAFE_IN_A_LINE = re.compile(f"[\t\n{_UNSAFE}]")


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def printable(text: str) -> str:
    r"""One line that is safe to print: control characters and line breaks in Python's notation.

    Example:
        >>> print(printable("ann\x1b[2J\nbob"))
        ann\x1b[2J\nbob
    """
    return UNSAFE_IN_A_LINE.sub(_escaped, text)


def printable_json(value: Any) -> str:
    """A JSON document without control characters; it parses to the same value."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    # outside strings JSON is plain ASCII, so whatever is found is inside one
    return UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], text)


class GuardedStream:
    """A text stream that escapes control characters and otherwise acts like the stream it wraps.

    It has no ``buffer``, so that code that would write around it has to write text through it.
    """

    def __init__(self, trusted: TextIO) -> None:
        self.trusted = trusted

    def write(self, text: str) -> int:
        self.trusted.write(UNSAFE.sub(_escaped, text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError("a guarded stream takes text only")
        return getattr(self.trusted, name)


def guard_output() -> None:
    """Make standard output and standard error escape control characters until the process ends."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, GuardedStream):  # a program without a console has none
            setattr(sys, name, GuardedStream(stream))


@contextlib.contextmanager
def guarded_output() -> Iterator[None]:
    """The same, inside a block."""
    before = sys.stdout, sys.stderr
    guard_output()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def make_console(kind: type[Console] | None = None, *, stderr: bool = False, **settings: Any) -> Console:
    """A console for tables and progress bars, which use control sequences themselves.

    It bypasses the guard: its input must be :func:`printable`.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    trusted = cast(TextIO, getattr(stream, "trusted", stream))
    return (kind or Console)(file=trusted, **settings)
