"""A small picture from numbers: a greyscale PNG inside a data URI, without an imaging library."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

MAX_SIDE = 64


def pixel_png(pixels: np.ndarray, low: float, high: float) -> str:
    """A data URI of the picture, ``low`` as white and ``high`` as black, one byte per pixel.

    The browser enlarges it; a picture wider or higher than 64 pixels is thinned out to that.

    Args:
        pixels: brightness values.  # [height, width]
        low, high: the range that all pictures of one graph share, so that they can be compared.

    Example:
        >>> pixel_png(np.eye(8), 0.0, 1.0)[:22]
        'data:image/png;base64,'
    """
    stride = max(1, -(-max(pixels.shape) // MAX_SIDE))
    small = np.asarray(pixels, dtype=np.float64)[::stride, ::stride]
    span = high - low if high > low else 1.0
    ink = np.nan_to_num(np.clip((small - low) / span, 0.0, 1.0))
    grey = (255 - np.rint(255 * ink)).astype(np.uint8)
    return "data:image/png;base64," + base64.b64encode(_png(grey)).decode("ascii")


def _png(grey: np.ndarray) -> bytes:
    height, width = grey.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)  # 8 bits, greyscale, no interlace
    rows = np.concatenate([np.zeros((height, 1), np.uint8), grey], axis=1)  # each row begins with filter 0
    parts = [_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)), _chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
