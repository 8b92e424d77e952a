"""Small files that announce large contents."""

from __future__ import annotations

from pathlib import Path

from graphsde.errors import BadInput
from graphsde.memory import human_bytes

LARGEST_CONTENT = 2_000_000_000
# compression beyond this ratio is suspicious, but sparse one-hot tables of moderate size reach it honestly
LARGEST_RATIO = 100
MODERATE_CONTENT = 200_000_000


def refuse_bomb(
    path: Path, *, declared: int, compressed: int, moderate: int = MODERATE_CONTENT, ratio: int = LARGEST_RATIO
) -> None:
    """Compare what a file says it unpacks to with limits, before any of it is unpacked.

    Args:
        path: the file, for the message.
        declared: bytes that its content would take.
        compressed: bytes that the file has.
        moderate: content up to this size may be compressed as well as it can.
        ratio: beyond that, how many times the size of the file is plausible.
    """
    found = declared / max(compressed, 1)
    if declared > LARGEST_CONTENT or (declared > moderate and found > ratio):
        beyond = f"{ratio} times the size of the file beyond {human_bytes(moderate)}"
        raise BadInput(
            f"{path.name} has {human_bytes(compressed)} and would unpack to {human_bytes(declared)}",
            code="E-BOMB",
            place=path.name,
            found=f"{found:,.0f} times its size",
            expected=f"at most {human_bytes(LARGEST_CONTENT)}, and at most {beyond}",
            fix="store features as sparse (CSR) arrays, or split the graph",
        )
