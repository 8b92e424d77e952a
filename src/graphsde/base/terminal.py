"""Text from files and arguments on a terminal: control characters are shown, never obeyed.

A node's name may hold an escape sequence that rewrites the reader's screen, or a bidirectional override that disguises
what is said. Lines are escaped where they are printed; :func:`guarded_output` catches whatever else is written.
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
# annotations, lone surrogates (bytes of a file name that are no text) and tags, which nobody can see
_UNSAFE = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    r"\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
)
UNSAFE = re.compile(f"[{_UNSAFE}]")
UNSAFE_IN_A_LINE = re.compile(f"[\t\n{_UNSAFE}]")


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def printable(text: str) -> str:
    r"""One line that any terminal may show: control characters, line breaks too, in Python's notation.

    Example:
        >>> print(printable("ann\x1b[2J\nbob"))
        ann\x1b[2J\nbob
    """
    return UNSAFE_IN_A_LINE.sub(_escaped, text)


def printable_json(value: Any) -> str:
    """A JSON document without control characters; it reads back as the same value."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    # outside of its strings JSON is plain ASCII, so that whatever is found is inside of one
    return UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], text)


class GuardedStream:
    """A text stream that escapes control characters, and is the stream behind it in all else.

    It has no ``buffer``: whoever looks for one to write around it gets text through it instead.
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
    """Have standard output and standard error escape control characters until the process ends."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, GuardedStream):  # a program without a console has none
            setattr(sys, name, GuardedStream(stream))


@contextlib.contextmanager
def guarded_output() -> Iterator[None]:
    """The same for a while."""
    before = sys.stdout, sys.stderr
    guard_output()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def make_console(kind: type[Console] | None = None, *, stderr: bool = False, **settings: Any) -> Console:
    """A console for tables and bars, which draw with control sequences of their own.

    It writes past the guard: what it is given must be :func:`printable`.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    trusted = cast(TextIO, getattr(stream, "trusted", stream))
    return (kind or Console)(file=trusted, **settings)
