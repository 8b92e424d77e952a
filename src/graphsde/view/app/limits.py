"""How much the page takes in and shows, in one place."""

from __future__ import annotations

UPLOAD_MEGABYTES = 50
UPLOAD_BYTES = UPLOAD_MEGABYTES * 1024 * 1024
SHORTEST_TOKEN = 16
NAME_LENGTH = 60
"""Characters of a name from a file that the page shows; 200 where it stands alone."""
