"""The load's lambdas: they take their time, fail when told to, and write down when they ran."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import atf

from . import record

NAMESPACE: Final = "ATF_VERIFY_NAMESPACE"
"""The environment variable that tells executors in which namespace the lambdas are."""
RETENTION: Final = "ATF_VERIFY_RETENTION"
"""The environment variable that tells executors for how many seconds the records of the load's finished tasks stay."""
RETENTION_S: Final = 3600.0
"""How long that is where nothing is said."""

app = atf.App(os.environ.get(NAMESPACE, "verify"))
_RETENTION: Final = float(os.environ.get(RETENTION, RETENTION_S))
_OPTIONS: Final = atf.Backoff(0.2, factor=1, jitter=0)


class PlannedFailure(Exception):
    """The failure that a task was told to have."""


@contextmanager
def _recorded(ctx: atf.Context, fails: int) -> Iterator[None]:
    """Writes down when the run begins and ends; at its end the first `fails` attempts fail."""
    record.began(ctx.task_id, ctx.fence)
    returned = False
    try:
        yield
        if ctx.attempt <= fails:
            raise PlannedFailure("this attempt was told to fail")
        returned = True
    finally:
        record.ended(ctx.task_id, ctx.fence, returned=returned)


@app.task(backoff=_OPTIONS, retention=_RETENTION)
def work(ctx: atf.Context, seconds: float, fails: int = 0) -> int:
    """Takes its time in a thread. Its first `fails` attempts fail. Returns the number of its claim."""
    with _recorded(ctx, fails):
        time.sleep(seconds)
    return ctx.fence


@app.task(backoff=_OPTIONS, retention=_RETENTION)
async def work_async(ctx: atf.Context, seconds: float, fails: int = 0) -> int:
    """The same on the event loop."""
    with _recorded(ctx, fails):
        await asyncio.sleep(seconds)
    return ctx.fence
