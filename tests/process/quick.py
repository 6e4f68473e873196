"""A lambda whose ids come back soon when they went astray, and which keeps a record of its own of when it ran."""

from __future__ import annotations

import time

import atf
from atf.demo import record

app = atf.App("q")


@app.task(enqueue_timeout=1.0, max_losses=10)
def short(ctx: atf.Context) -> None:
    """Takes a hundredth of a second."""
    record.write_start(ctx.task_id, ctx.run)
    time.sleep(0.01)
    record.write_end(ctx.task_id, ctx.run, 0)
