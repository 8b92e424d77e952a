"""Strict parsing of request headers: anything that does not follow the standard is refused.

Browsers write these headers correctly. A request with ``Host: 127.0.0.1@evil.example`` hopes that two
readers understand it differently, so nothing is repaired or guessed here.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

# a name may have an underscore in practice; 253 characters is the most that a name can have
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9._-]{0,252})")
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[^:\[\]]*)(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]{0,31})://(.*)", flags=re.DOTALL)
ONCE = ("host", "origin", "content-length")
LONGEST_LENGTH = 18  # digits; Python refuses to read thousands of them


class Malformed(ValueError):
    """A header that no browser sends; the message is for the sender."""


@dataclass(frozen=True)
class Authority:
    """A host and its port, as in ``Host``; an IPv6 address is in brackets and in its short form."""

    name: str
    port: int | None = None


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by lower-case name; those that decide on access may occur only once."""
    found: dict[str, str] = {}
    for name_bytes, value_bytes in raw:
        name, value = name_bytes.decode("latin-1").lower(), value_bytes.decode("latin-1")
        if name in found and name in ONCE:
            raise Malformed(f"Duplicate header {name}.")
        # cookies may come in several lines (HTTP/2); of anything else the last one counts
        found[name] = f"{found[name]}; {value}" if name == "cookie" and name in found else value
    return found


def read_authority(text: str) -> Authority:
    """``Host``, or what follows ``//`` in ``Origin``: a name or an address, and perhaps a port.

    Example:
        >>> read_authority("LOCALHOST:8501")
        Authority(name='localhost', port=8501)
        >>> read_authority("[0:0::1]")
        Authority(name='[::1]', port=None)
    """
    match = _AUTHORITY.fullmatch(text.lower()) if text.isascii() else None
    if match is None:
        raise Malformed("Invalid host name.")
    name, port = match[1], None if match[2] is None else int(match[2])
    if port is not None and not 0 < port < 2**16:
        raise Malformed("Invalid port.")
    if name.startswith("["):
        try:
            name = f"[{ipaddress.IPv6Address(name[1:-1])}]"
        except ValueError:
            raise Malformed("Invalid address.") from None
    elif not _NAME.fullmatch(name):
        raise Malformed("Invalid host name.")
    return Authority(name, port)


def read_origin(text: str) -> Authority | None:
    """The site that a browser sends a request for; ``None`` if it can't be served here."""
    match = _ORIGIN.fullmatch(text)
    if match is None:
        if text == "null":
            return None
        raise Malformed("Invalid origin.")
    return read_authority(match[2]) if match[1] in ("http", "https") else None


def require_path(path: str) -> None:
    """A path of this server: no other server's address, no ``*``, nothing that a file name can't have."""
    if not path.startswith("/") or any(ord(character) < 32 or character == "\x7f" for character in path):
        raise Malformed("Invalid path.")


def read_length(text: str) -> int | None:
    """``Content-Length``; ``None`` if it is invalid."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= LONGEST_LENGTH else None


def cookie_values(text: str, name: str) -> list[str]:
    """All values that a cookie has; written here since ``http.cookies`` needs quadratic time for hostile ones."""
    pairs = [part.strip().partition("=") for part in text.split(";")]
    return [value for key, _, value in pairs if key == name]
