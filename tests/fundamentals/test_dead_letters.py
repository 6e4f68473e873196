"""Dead letters: what failed for good is kept, shows why, and can be started afresh."""

from __future__ import annotations

import pytest

import atf
from atf.testing import Harness

app = atf.App("letters")
broken = True


@app.task(max_attempts=2, backoff=atf.Backoff(1, jitter=0))
def deliver(parcel: str) -> str:
    if broken:
        raise RuntimeError(f"nobody at home for {parcel}")
    return f"delivered {parcel}"


def test_a_dead_letter_says_why(h: Harness) -> None:
    handle = deliver.schedule("a book")
    with pytest.raises(atf.TaskFailed, match="RuntimeError: nobody at home for a book"):
        handle.result()
    (letter,) = h.tasks(deliver, atf.Status.FATAL_FAILURE)
    assert (letter.id, letter.attempts, len(letter.ended_runs)) == (handle.id, 2, 2)


def test_a_dead_letter_can_be_retried(h: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = deliver.schedule("a book")
    h.advance(10)
    monkeypatch.setattr(f"{__name__}.broken", False)
    assert handle.retry()
    assert handle.result() == "delivered a book"
    assert not handle.retry()


def test_the_rest_goes_on(h: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    deliver.schedule("a book")
    h.advance(10)
    monkeypatch.setattr(f"{__name__}.broken", False)
    deliver.schedule("a vase")
    assert h.run_until_idle() == 1
