"""How a run hears that it must end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from edgewright.devices.flasher.stop_signals import SIGNALS, Stop


@pytest.fixture
def signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_only_the_first_asking_is_told() -> None:
    told: list[bool] = []
    stop = Stop()
    stop.tell(lambda: told.append(True))
    assert told == []
    stop.ask()
    stop.ask()
    assert told == [True]


def test_who_comes_late_is_told_at_once() -> None:
    told: list[bool] = []
    stop = Stop()
    stop.ask()
    stop.tell(lambda: told.append(True))
    assert told == [True]


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_asks(number: signal.Signals) -> None:
    stop = Stop()
    stop.hear_signals()
    assert not stop.asked
    os.kill(os.getpid(), number)
    assert stop.asked
