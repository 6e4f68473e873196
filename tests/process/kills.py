"""Lambdas that keep a record of their own of when they started and ended, and some that do what no lambda should."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time

import atf
from atf.demo import record

app = atf.App("k")


@app.task(backoff=atf.Backoff(0.1, factor=1, jitter=0))
def short(ctx: atf.Context, seconds: float = 0.02) -> int:
    """Takes its time in a thread; ends early when told to."""
    record.write_start(ctx.task_id, ctx.run)
    until = time.monotonic() + seconds
    while time.monotonic() < until and not ctx.cancelled:
        time.sleep(min(0.02, seconds))
    record.write_end(ctx.task_id, ctx.run, 0)
    return os.getpid()


@app.task
async def short_async(ctx: atf.Context, seconds: float = 0.02) -> int:
    """The same on the event loop."""
    record.write_start(ctx.task_id, ctx.run)
    try:
        await asyncio.sleep(seconds)
    finally:
        record.write_end(ctx.task_id, ctx.run, 0)
    return os.getpid()


@app.task(max_losses=1)
def fragile(ctx: atf.Context, seconds: float) -> int:
    """As `short`, and the first loss is its end."""
    ran_in: int = short.fn(ctx, seconds)
    return ran_in


@app.task(max_losses=1)
async def fragile_async(ctx: atf.Context, seconds: float) -> int:
    """As `short_async`, and the first loss is its end."""
    ran_in: int = await short_async.fn(ctx, seconds)
    return ran_in


@app.task
async def block(ctx: atf.Context, seconds: float) -> None:
    """Blocks the event loop of its neighbours."""
    record.write_start(ctx.task_id, ctx.run)
    time.sleep(seconds)  # noqa: ASYNC251
    record.write_end(ctx.task_id, ctx.run, 0)


@app.task(timeout=0.5, backoff=atf.Backoff(0.05, factor=1, jitter=0))
def stubborn(ctx: atf.Context, path: str) -> int:
    """Its first attempt ignores its timeout, and says all the time that it still runs."""
    if ctx.attempt == 1:
        with open(path, "ab", buffering=0) as file:  # noqa: PTH123
            while True:
                file.write(b"%d\n" % time.monotonic_ns())
                time.sleep(0.002)
    return time.monotonic_ns()


@app.task
def hold_lock(ctx: atf.Context) -> int:
    """Its first run never lets the interpreter go."""
    record.write_start(ctx.task_id, ctx.run)
    if ctx.run == 1:
        re.match(r"(a+)+b", "a" * 60)
    record.write_end(ctx.task_id, ctx.run, 0)
    return ctx.run


@app.task
def poison(ctx: atf.Context, how: str) -> None:
    """Ends its process."""
    record.write_start(ctx.task_id, ctx.run)
    time.sleep(0.05)
    match how:
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "memory":
            kept = []
            while True:
                kept.append(bytearray(os.urandom(1 << 20)) * 16)
                time.sleep(0.05)
