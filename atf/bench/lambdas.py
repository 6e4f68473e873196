"""Defines the lambdas that the benchmark runs: they do nothing."""

from __future__ import annotations

import os
from typing import Final

import atf

NAMESPACE: Final = "ATF_BENCH_NAMESPACE"
"""The environment variable that tells executors in which namespace the lambdas are."""
RETENTION_S: Final = 600.0
"""For so long the records of finished tasks stay."""
LATER: Final = "later"
"""The lambda of tasks that wait while everything else is measured: what the others have left to do is counted without them."""

app = atf.App(os.environ.get(NAMESPACE, "bench"))


@app.task(retention=RETENTION_S)
def noop(number: int) -> None:
    """Nothing, in a thread."""


@app.task(retention=RETENTION_S)
async def noop_async(number: int) -> None:
    """Nothing, on the event loop."""


@app.task(retention=1, name=LATER)
async def later(number: int) -> None:
    """Never run: it is cancelled before its time."""
