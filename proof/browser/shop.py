"""Lambdas whose tasks end in every way, with the worst texts that each field takes."""

from __future__ import annotations

import time

import atf

from .texts import SEEN, WORST

app = atf.App("shop")


@app.task(owner=SEEN, runbook="javascript:alert(1)", max_attempts=1)
def fails(text: str = "") -> None:
    print(WORST)
    raise ValueError(text + WORST)


@app.task(max_attempts=5, backoff=atf.Backoff(3_600, max=3_600))
def tries_again() -> None:
    raise TimeoutError(WORST)


@app.task(logs="all", schedule="0 30 2 * * *", tz="Europe/Paris")
def works(text: str = "") -> str:
    print("worked", text[:100])
    return WORST + text[:40_000]


@app.task
def sleeps(ctx: atf.Context, seconds: float) -> None:
    ctx.progress(SEEN)
    print(WORST, flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not ctx.cancelled:
        time.sleep(0.2)


@app.task
def speaks(ctx: atf.Context) -> None:
    """Says a line each half second."""
    number = 0
    while not ctx.cancelled:
        number += 1
        print(f"line {number} {SEEN}", flush=True)
        time.sleep(0.5)


@app.task(stop_on_fatal=True, max_attempts=1)
def in_order() -> None:
    raise KeyError(WORST)


@app.task(max_attempts=1)
def item(number: int, text: str = "") -> int:
    if number % 3 == 0:
        raise RuntimeError(text + WORST)
    return number


@app.task
def gated(text: str = "") -> None:
    """Never starts: a gate keeps it."""


@app.task
def paused(text: str = "") -> None:
    """Never starts: somebody has paused it."""


@app.task(pool="gpu")
def nobody_runs(text: str = "") -> None:
    """Never starts: no host has this pool."""
