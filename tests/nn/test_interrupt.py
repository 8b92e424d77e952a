from __future__ import annotations

import os
import signal

import pytest

from graphsde.base.interrupt import Interrupted, InterruptGuard


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_is_remembered_and_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with InterruptGuard() as guard:
        os.kill(os.getpid(), number)
        assert guard.received == number
        assert signal.getsignal(number) == before  # a second one acts at once
    assert signal.getsignal(number) == before
    assert Interrupted(number).exit_code == 128 + number
