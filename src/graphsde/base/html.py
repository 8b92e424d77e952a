"""What notebooks show of an object: a title, facts and small tables as HTML, every value escaped.

Styles are inline and name no colour of text or paper, so that light and dark notebooks keep their own.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from graphsde.base.errors import shorten

MOST_ROWS = 12
LONGEST = 80
_RULE = "1px solid rgba(128,128,128,0.35)"
_CELL = "padding:0.15em 0.9em 0.15em 0;vertical-align:top;background:none;border:none;color:inherit"
_QUIET = "opacity:0.72"


def text_of(value: object, limit: int = LONGEST) -> str:
    """A value of any origin as one short line that makes no element.

    Example:
        >>> text_of("<b>ann</b>"), text_of(None), text_of(0.12345), text_of(1797)
        ('&lt;b&gt;ann&lt;/b&gt;', '—', '0.123', '1,797')
    """
    if value is None or value != value:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return html.escape(shorten(value if isinstance(value, str) else str(value), limit))


def table(rows: Sequence[Mapping[str, object]], *, limit: int = LONGEST, more: int = 0) -> str:
    """Rows as a table, at most :data:`MOST_ROWS` of them; columns that hold numbers alone stand to the right.

    Args:
        rows: all with the same keys, which are the heads of the columns.
        limit: characters of a cell.
        more: rows that are missing already, to be counted below.
    """
    if not rows:
        return ""
    names, shown = list(rows[0]), rows[:MOST_ROWS]
    numeric = {name: all(_is_number(row[name]) for row in shown) for name in names}
    side = {name: "text-align:right;font-variant-numeric:tabular-nums" if numeric[name] else "text-align:left"
            for name in names}  # fmt: skip
    head = "".join(
        f'<th scope="col" style="{_CELL};{side[name]};border-bottom:{_RULE};font-weight:500;{_QUIET}">'
        f"{text_of(name)}</th>"
        for name in names
    )
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL};{side[n]}"><bdi>{text_of(row[n], limit)}</bdi></td>' for n in names)
        + "</tr>"
        for row in shown
    )  # fmt: skip
    left = more + len(rows) - len(shown)
    rest = note(f"and {left:,} more") if left else ""
    return (
        f'<table style="border-collapse:collapse;margin:0.5em 0 0 0;color:inherit;font:inherit">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"
    )


def note(text: str) -> str:
    """A quiet line below something."""
    return f'<div style="{_QUIET};max-width:60em;margin-top:0.3em">{text_of(text, 1000)}</div>'


def card(title: str, facts: Mapping[str, object] | None = None, *parts: str) -> str:
    """A title, facts next to each other, and further parts made by :func:`table` and :func:`note`.

    Example:
        >>> card("Graph", {"nodes": 1797}).endswith("&nbsp;1,797</div></div>")
        True
    """
    told = (
        f'<span style="{_QUIET}">{text_of(key)}</span>&nbsp;{text_of(value)}' for key, value in (facts or {}).items()
    )
    line = " &nbsp; ".join(told)
    body = f"<div>{line}</div>" if line else ""
    return f'<div style="line-height:1.5"><b>{text_of(title)}</b>{body}{"".join(parts)}</div>'


def counted(number: int, singular: str) -> str:
    """ "1 node", "1,797 nodes", "2 classes"."""
    plural = singular + ("es" if singular.endswith("s") else "s")
    return f"{number:,} {singular if number == 1 else plural}"


def listed(names: Iterable[object], most: int = 6) -> str:
    """ "a, b, c and 4 more"."""
    all_names = [str(name) for name in names]
    shown = ", ".join(shorten(name, 30) for name in all_names[:most])
    return shown if len(all_names) <= most else f"{shown} and {len(all_names) - most:,} more"


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
