"""Pausing: a paused lambda accepts tasks and starts none."""

from __future__ import annotations

import atf
from atf.testing import Harness

app = atf.App("pausing")


@app.task
def send() -> str:
    return "sent"


def test_a_paused_lambda_starts_nothing_until_it_is_resumed(h: Harness) -> None:
    h.client.pause("pausing/send")
    handle = send.schedule()
    h.advance(3_600)
    assert handle.status() is atf.Status.NEW
    assert h.client.explain(handle.id).reason == "paused"
    h.client.resume("pausing/send")
    assert h.run_until_idle() == 1
    assert handle.result() == "sent"
