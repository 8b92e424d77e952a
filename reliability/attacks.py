"""All attacks by name, the quick ones first."""

from __future__ import annotations

from reliability.arena import Attack
from reliability.faults import faults
from reliability.kills import kills

ATTACKS: dict[str, Attack] = {"kills": kills, "faults": faults}
