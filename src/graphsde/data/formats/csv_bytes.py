"""The bytes of a CSV file: bounded lines, one encoding, nothing that is not text."""

from __future__ import annotations

import codecs
import io
from pathlib import Path
from typing import BinaryIO

import numpy as np

from graphsde.data.formats.opening import opened
from graphsde.errors import BadInput
from graphsde.memory import require_memory

LONGEST_LINE = 1_000_000
MOST_COLUMNS = 100_000
_PIECE = 1 << 20
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# text encodings by name that no file is written in; some take quadratic time on hostile input
_NOT_FOR_FILES = {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "unicode-escape", "raw-unicode-escape"}
_NOT_FOR_FILES |= {"undefined", "mbcs", "oem", "utf-7"}


def load_text(path: Path, encoding: str = "utf-8") -> bytes:
    """A text file as UTF-8 without a byte-order mark."""
    with opened(path) as stream:
        size = stream.seek(0, io.SEEK_END)
        stream.seek(0)
        fix = "convert it to Parquet, which takes less, or use a larger machine"
        require_memory(3 * size, f"reading {path.name}", fix)
        data = _bounded_lines(stream, path, encoding)
    text = _utf8(data, path, encoding)
    if not text.strip():
        raise BadInput(f"{path.name} is empty", code="E-EMPTY", place=path.name, expected="a header line and rows")
    return text


def is_text_encoding(name: str) -> bool:
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        return False
    return getattr(codec, "_is_text_encoding", True) and codec.name not in _NOT_FOR_FILES


def _bounded_lines(stream: BinaryIO, path: Path, encoding: str) -> bytearray:
    """Read piece by piece, so that a line without end is refused after its first megabyte."""
    data = bytearray()
    line, line_start = 1, 0
    while piece := stream.read(_PIECE):
        if not data and _is_utf8(encoding) and piece.startswith(_UTF16):
            raise _encoding_error(path, encoding, 0, "it begins like UTF-16", "utf-16")
        letters = np.frombuffer(piece, np.uint8)
        breaks = np.flatnonzero((letters == 10) | (letters == 13)) + len(data)
        data += piece
        lengths = np.diff(np.concatenate([[line_start - 1], breaks, [len(data)]])) - 1
        if lengths.max() > LONGEST_LINE:
            raise BadInput(
                f"a line of {path.name} is longer than {LONGEST_LINE:,} bytes",
                code="E-LINE-LEN",
                place=f"{path.name}, about line {line + int(np.argmax(lengths > LONGEST_LINE))}",
                expected=f"lines of at most {LONGEST_LINE:,} bytes and {MOST_COLUMNS:,} columns",
                fix="check that it is a CSV file with one row per line; wide features fit better into an .npz file",
            )
        if breaks.size:
            line, line_start = line + breaks.size, int(breaks[-1]) + 1
    return data


def _utf8(data: bytearray, path: Path, encoding: str) -> bytes:
    decoder = codecs.getincrementaldecoder("utf-8" if _is_utf8(encoding) else encoding)()
    text = bytearray()
    for start in range(0, len(data) + 1, _PIECE):
        waiting = len(decoder.getstate()[0])
        try:
            piece = decoder.decode(bytes(data[start : start + _PIECE]), final=start + _PIECE > len(data))
            if not _is_utf8(encoding):
                text += piece.encode("utf-8")
        except UnicodeDecodeError as error:
            guess = "utf-16" if b"\0" in data[:100] else "cp1252"
            raise _encoding_error(path, encoding, start - waiting + error.start, error.reason, guess) from None
        except UnicodeError as error:
            raise _encoding_error(path, encoding, start, str(error), "utf-8") from None
    result = bytes(data if _is_utf8(encoding) else text).removeprefix(codecs.BOM_UTF8)
    if (offset := result.find(b"\0")) >= 0:
        raise _encoding_error(path, encoding, offset, "it contains a NUL", "utf-16")
    return result


def _is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


def _encoding_error(path: Path, encoding: str, offset: int, reason: str, guess: str) -> BadInput:
    return BadInput(
        f"{path.name} is no {encoding} text: {reason} at byte {offset}",
        code="E-ENCODING",
        place=f"{path.name}, byte {offset}",
        expected=f"text in {encoding}",
        fix=f"save it as UTF-8, or read with encoding={guess} ('encoding: {guess}' in graph.yaml)",
    )
