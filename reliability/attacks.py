"""All attacks by name, the quick ones first."""

from __future__ import annotations

from reliability.arena import Attack
from reliability.bad_inputs import bad_inputs
from reliability.faults import faults
from reliability.fuzzing import fuzzing
from reliability.guarantees import named_tests, slow_tests
from reliability.kills import kills
from reliability.tampering import tampering
from reliability.writers import writers

ATTACKS: dict[str, Attack] = {
    "inputs": bad_inputs,
    "writers": writers,
    "tampering": tampering,
    "fuzzing": fuzzing,
    "kills": kills,
    "faults": faults,
    "tests": named_tests,
    "slow": slow_tests,
}
UNASKED = tuple(name for name in ATTACKS if name != "slow")
"""What is run where nothing is named."""
