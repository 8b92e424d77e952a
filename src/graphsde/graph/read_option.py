"""The option of the command line that says how a table is read, as it can be pasted into a shell."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

from graphsde.base.errors import shorten

_PLAIN = re.compile(r"[^\W\d_][\w .\-]*(?<! )")  # words that YAML and shells read as they are written
_NOT_TEXT = frozenset({"y", "n", "yes", "no", "on", "off", "t", "f", "true", "false", "null", "none", "nan", "inf"})
LONGEST = 200


def read_option(key: str, columns: str | Sequence[str]) -> str:
    """``--read key=column``, or a list of columns.

    Example:
        >>> print(read_option("label", "topic"), read_option("drop", ["zip", "a,b"]))
        --read label=topic --read 'drop=[zip, "a,b"]'
    """
    if isinstance(columns, str):
        return "--read " + shlex.quote(f"{key}={_word(columns)}")
    return "--read " + shlex.quote(f"{key}=[{', '.join(map(_word, columns))}]")


def _word(name: str) -> str:
    shown = shorten(name, LONGEST)
    plain = _PLAIN.fullmatch(shown) and shown.lower() not in _NOT_TEXT
    return shown if plain else json.dumps(shown, ensure_ascii=False)
