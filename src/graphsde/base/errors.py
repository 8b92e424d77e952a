"""Typed errors: each says what went wrong, where, and what to do about it."""

from __future__ import annotations


class GraphsdeError(Exception):
    """Base of every error that this package raises on purpose.

    Args:
        message: what happened, in one sentence, with the value seen.
        code: a stable identifier such as ``"E-NODE-DUP"``, for scripts and for searching the docs.
        place: where it happened, such as ``"nodes.csv, line 17, column age"``.
        found: the offending value.
        expected: what would have been accepted.
        fix: what the reader should do.
    """

    exit_code = 70
    default_code = "E-INTERNAL"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        place: str | None = None,
        found: object = None,
        expected: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.message = message
        self.code = code or self.default_code
        self.place = place
        self.found = found
        self.expected = expected
        self.fix = fix
        super().__init__(str(self))

    def __str__(self) -> str:
        parts = [f"{self.code}: {_ended(self.message)}"]
        if self.place:
            parts.append(f"Where: {'this folder' if self.place == '.' else self.place}.")
        if self.found is not None:
            parts.append(f"Found: {shorten(self.found)}.")
        if self.expected:
            parts.append(f"Expected: {self.expected}.")
        if self.fix:
            parts.append(f"Fix: {_ended(self.fix)}")
        return " ".join(parts)

    def as_dict(self) -> dict[str, object]:
        """The error as plain values, for ``--json``."""
        return {
            "code": self.code,
            "message": self.message,
            "place": self.place,
            "found": None if self.found is None else shorten(self.found),
            "expected": self.expected,
            "fix": self.fix,
        }


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…")) else sentence + "."


class BadInput(GraphsdeError):
    """The user's data can't be used as they are."""

    exit_code = 65
    default_code = "E-INPUT"


class BadUsage(GraphsdeError):
    """An argument, option or setting is wrong."""

    exit_code = 2
    default_code = "E-USAGE"


class UnknownName(BadUsage):
    """A name that should be one of a known list is not."""

    default_code = "E-NAME"


class MissingExtra(GraphsdeError):
    """An optional dependency is not installed."""

    exit_code = 69
    default_code = "E-EXTRA"

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed", fix=f"pip install 'graphsde[{extra}]'", expected=f"the extra '{extra}'"
        )


class Diverged(GraphsdeError):
    """A computation produced a value that is not finite."""

    exit_code = 70
    default_code = "E-DIVERGED"


class NotEnoughMemory(GraphsdeError):
    """A computation is refused before it allocates more than the machine has."""

    exit_code = 71
    default_code = "E-MEM"


class StorageError(GraphsdeError):
    """Reading or writing a file failed for a reason outside the file's content."""

    exit_code = 74
    default_code = "E-IO"


class NotFitted(BadUsage):
    """``predict`` or ``save`` was called before ``fit``."""

    default_code = "E-NOT-FITTED"


def shorten(value: object, limit: int = 200) -> str:
    """A value as one printable line: control characters escaped, cut at ``limit`` characters.

    Node names come from files of unknown origin; a raw escape sequence in an error message could rewrite the reader's
    terminal, and a bidirectional override could disguise it.
    """
    text = value if isinstance(value, str) else repr(value)
    text = text[: limit + 1]
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"
