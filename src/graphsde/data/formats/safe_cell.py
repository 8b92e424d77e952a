"""Cells of exports that people open in a spreadsheet."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def safe_cell(value: object) -> str:
    """A value as a cell that no spreadsheet takes for a formula.

    Text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return gets an apostrophe in front; numbers
    stay numbers. For exports only: a file that is read back must keep its cells as they are.

    Example:
        >>> safe_cell("=cmd()"), safe_cell(-0.5), safe_cell("ann")
        ("'=cmd()", '-0.5', 'ann')
    """
    text = "" if value is None else str(value)
    if text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) and not _NUMBER.fullmatch(text):
        return "'" + text
    return text
