"""The option of the command line that says how a table is read, as it can be pasted into a shell."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

_PLAIN = re.compile(r"[^\W\d_][\w .\-]*(?<! )")  # words that YAML and shells read as they are written
_NOT_TEXT = frozenset({"y", "n", "yes", "no", "on", "off", "t", "f", "true", "false", "null", "none"})
_NOT_TEXT |= {"nan", "inf", "infinity"}
LONGEST = 2_000


def read_option(key: str, columns: str | Sequence[str]) -> str:
    """``--read key=column``, or a list of columns.

    Names are written in full, since a shortened one names no column; more than :data:`LONGEST` characters of them are
    left for the user to fill in: ``COLUMN``.

    Example:
        >>> print(read_option("label", "topic"), read_option("drop", ["zip", "a,b"]))
        --read label=topic --read 'drop=[zip, "a,b"]'
    """
    names = [columns] if isinstance(columns, str) else columns
    if sum(map(len, names)) > LONGEST:
        return f"--read {key}=COLUMN" if isinstance(columns, str) else f"--read '{key}=[COLUMN, …]'"
    words = ", ".join(map(_word, names))
    return "--read " + shlex.quote(f"{key}={words}" if isinstance(columns, str) else f"{key}=[{words}]")


def _word(name: str) -> str:
    if _PLAIN.fullmatch(name) and name.isprintable() and name.lower() not in _NOT_TEXT:
        return name
    quoted = json.dumps(name, ensure_ascii=False)
    # what could rewrite a terminal is escaped in a way that YAML reads back
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in quoted)
