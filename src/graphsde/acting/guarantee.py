"""Guarantees in words: a name, the meaning in one sentence, and the assumptions."""

from __future__ import annotations

from dataclasses import asdict, dataclass

DRAWN_ALIKE = (
    "the calibration nodes are drawn at random from the same population as the nodes decided on, and neither training "
    "nor selection has seen their labels"
)
_ROUNDING = 1e-9
FROM_VALIDATION = "the threshold comes from validation nodes, drawn from the same population as the nodes decided on"


@dataclass(frozen=True)
class Guarantee:
    """A guarantee in words.

    Args:
        name: in options and tables.
        meaning: what holds, in one sentence.
        rests_on: what it assumes, in one sentence.
    """

    name: str
    meaning: str
    rests_on: str

    @property
    def words(self) -> str:
        """Both sentences."""
        return f"{self.meaning} It assumes: {self.rests_on}."

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def _share(value: float) -> str:
    return f"{100 * value:.4g}%"


def left_to_state(*deltas: float) -> float:
    """The probability with which all of these tests hold together; 0 if none is left."""
    left = 1 - sum(deltas)
    return left if left > _ROUNDING else 0.0


def certified_guarantee(
    delta: float, limits: tuple[float, ...] = (), *, anytime: bool = False, spent: float = 0.0
) -> Guarantee:
    """For the frontier: all certified limits hold together.

    Args:
        delta: of this test.
        limits: that are certified.
        anytime: whether it may be repeated as labels come in.
        spent: δ of other tests on the same labels, any of which could have certified wrongly before.
    """
    which = ", ".join(map(_share, limits)) if limits else "every certified limit"
    looks = ", however often the test was repeated as labels came in" if anytime else ""
    left = left_to_state(delta, spent)
    if not left:
        return Guarantee(
            "certified",
            f"Nothing is guaranteed: earlier looks at the same labels were other tests, and δ of all tests together is "
            f"{_share(delta + spent)}, which leaves no probability to state. Only new calibration labels that no test "
            "has seen give one again.",
            DRAWN_ALIKE + ("" if anytime else ", and the test is run only once"),
        )
    before = f" It is not {_share(1 - delta)}, because an earlier look at the same labels was another test."
    return Guarantee(
        "certified",
        f"With probability {_share(left)} over the draw of the calibration nodes, the share of "
        f"wrong predictions among the nodes accepted at a certified limit is at most that limit, for all of them "
        f"together ({which}){looks}.{before if spent else ''}",
        DRAWN_ALIKE + ("" if anytime else ", and the test is run only once"),
    )


def expected_guarantee(max_error: float) -> Guarantee:
    """For conformal selection."""
    return Guarantee(
        "expected",
        f"On average over draws of the calibration nodes and of the nodes decided on, at most {_share(max_error)} of "
        "the accepted nodes are wrong.",
        DRAWN_ALIKE,
    )


def accepted_and_wrong_guarantee(max_share: float) -> Guarantee:
    """For conformal risk control."""
    return Guarantee(
        "accepted-and-wrong",
        f"On average over draws of the calibration nodes, at most {_share(max_share)} of all nodes are accepted "
        "and wrong.",
        DRAWN_ALIKE,
    )


def fdr_guarantee(level: float) -> Guarantee:
    """For OOD flags by Benjamini–Hochberg."""
    return Guarantee(
        "fdr",
        f"On average at most {_share(level)} of the flagged nodes are in-distribution; without OOD nodes, nothing is "
        f"flagged with probability {_share(1 - level)} or more.",
        DRAWN_ALIKE,
    )


def per_node_guarantee(false_alarm: float) -> Guarantee:
    """For OOD flags by one threshold."""
    return Guarantee(
        "per-node",
        f"An in-distribution node is flagged with probability {_share(false_alarm)} or less; how many OOD nodes are "
        "missed is not guaranteed.",
        FROM_VALIDATION,
    )
