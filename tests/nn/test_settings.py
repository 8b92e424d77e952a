from __future__ import annotations

import pytest

from graphsde.base.errors import BadUsage
from graphsde.nn.settings import TrainSettings


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"epoch": 3}, "did you mean 'epochs'"),
        ({"lr": 0}, "greater than 0"),
        ({"lr": float("nan")}, "finite number"),
        ({"epochs": 0}, "greater than or equal to 1"),
        ({"patience": "many"}, "integer"),
    ],
)
def test_mistakes_are_answered_in_words(values: dict, words: str) -> None:
    with pytest.raises(BadUsage) as caught:
        TrainSettings.parse(values, "training")
    assert words in str(caught.value)
    assert caught.value.exit_code == 2


def test_settings_do_not_change() -> None:
    settings = TrainSettings()
    with pytest.raises(Exception, match="frozen"):
        settings.lr = 1.0
