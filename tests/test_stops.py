"""What asks a process to end, and what asks it to end at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from atf.process.stops import StopRequests, stop_signals


@pytest.mark.parametrize(
    ("signals", "at_once"),
    [
        ([(signal.SIGTERM, 0.0)], False),
        ([(signal.SIGTERM, 0.0), (signal.SIGTERM, 0.0)], False),
        ([(signal.SIGTERM, 0.0), (signal.SIGINT, 0.999)], False),
        ([(signal.SIGTERM, 0.0), (signal.SIGTERM, 1.0)], True),
        ([(signal.SIGINT, 0.0), (signal.SIGTERM, 0.6), (signal.SIGTERM, 1.2)], True),
        ([(signal.SIGHUP, 0.0), (signal.SIGTERM, 9.0)], False),
        ([(signal.SIGTERM, 0.0), (signal.SIGHUP, 9.0)], False),
        ([(signal.SIGTERM, 0.0), (signal.SIGHUP, 0.5), (signal.SIGINT, 9.0)], True),
    ],
)
def test_only_another_signal_a_second_later_asks_to_end_at_once(
    signals: list[tuple[signal.Signals, float]], at_once: bool
) -> None:
    asked = StopRequests()
    assert [asked.at_once(number, 100 + at) for number, at in signals][-1] is at_once


@pytest.fixture
def _restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("_restored")
def test_a_hangup_that_nohup_has_ignored_stays_ignored() -> None:
    assert signal.SIGHUP in stop_signals()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert stop_signals() == (signal.SIGTERM, signal.SIGINT)
