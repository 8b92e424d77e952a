"""Untrusted text for the page: made safe for HTML, for Markdown and for errors; and upload limits."""

from __future__ import annotations

import html
import re

import numpy as np

from graphsde.base.errors import GraphsdeError, shorten

UPLOAD_MEGABYTES = 50
UPLOAD_BYTES = UPLOAD_MEGABYTES * 1024 * 1024
UPLOAD_QUOTA = 20 * UPLOAD_BYTES
"""Bytes of all uploads together, unpacked."""
SHORTEST_TOKEN = 16
NAME_LENGTH = 60
"""Characters of a name from a file that the page shows; 200 if it stands alone."""

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_LINKS = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?=@)", re.IGNORECASE)
_INVISIBLE = "\u200b"


def plain(value: object, limit: int = NAME_LENGTH) -> str:
    """One short, printable line."""
    value = value.item() if isinstance(value, np.generic) else value
    return shorten(value if isinstance(value, str) else str(value), limit)


def share(value: float) -> str:
    """A share in percent with one digit, which never claims all or nothing.

    Example:
        >>> share(0.5), share(0.99999), share(0.0), share(1e-6)
        ('50.0 %', '> 99.9 %', '0.0 %', '< 0.1 %')
    """
    if 0 < value < 0.0005:
        return "< 0.1 %"
    return "> 99.9 %" if 0.9995 <= value < 1 else f"{100 * value:.1f} %"


def small(value: float) -> str:
    """An amount of uncertainty with three digits.

    Example:
        >>> small(1.23456), small(3e-7)
        ('1.235', '< 0.001')
    """
    return "< 0.001" if 0 < value < 0.0005 else f"{value:.3f}"


def in_html(value: object, limit: int = NAME_LENGTH) -> str:
    """For text inside HTML that we wrote."""
    return html.escape(plain(value, limit), quote=True)


def in_markdown(value: object, limit: int = NAME_LENGTH) -> str:
    """For labels of buttons and messages, which are Markdown: every mark escaped, no automatic links.

    Example:
        >>> in_markdown("**bold** :red[x]")
        '\\\\*\\\\*bold\\\\*\\\\* \\\\:red\\\\[x\\\\]'
    """
    text = _LINKS.sub(_INVISIBLE, plain(value, limit))
    return _PUNCTUATION.sub(r"\\\1", text)


def error_in_words(error: BaseException) -> str:
    """What a visitor reads when something went wrong; never a traceback."""
    if isinstance(error, GraphsdeError):
        return str(error)
    if isinstance(error, MemoryError):
        return "E-MEM: not enough memory. Fix: use a smaller graph or a smaller hidden width."
    if isinstance(error, OSError):
        return f"E-IO: {shorten(error.strerror or type(error).__name__)}. Fix: check the folder and the disk."
    kind = type(error).__name__
    return (
        f"E-INTERNAL: {shorten(f'{kind}: {error}', 300)}. Fix: this is a bug in graphsde; the terminal shows more "
        "with GRAPHSDE_DEBUG=1."
    )
