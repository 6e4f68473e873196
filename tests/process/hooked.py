"""An app with every kind of hook; each writes a line to the file that ATF_TEST_HOOKS names, with its process."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import atf

app = atf.App("g")
broken = atf.App("g")
LOOPS: list[asyncio.AbstractEventLoop] = []


def say(what: str) -> None:
    with Path(os.environ["ATF_TEST_HOOKS"]).open("a") as file:
        file.write(f"{what} {os.getpid()}\n")


@app.on_worker_start
def start() -> None:
    say("start")


@app.on_worker_start
async def start_async() -> None:
    LOOPS.append(asyncio.get_running_loop())
    say("start_async")


@app.on_worker_stop
def stop() -> None:
    say("stop")
    time.sleep(600)  # the worker goes all the same


@app.on_worker_stop
async def stop_fails() -> None:
    assert [asyncio.get_running_loop()] == LOOPS
    say("stop_fails")
    raise SystemExit(3)


@app.around_run
def around(ctx: atf.Context) -> Iterator[None]:
    thread = threading.get_ident()
    say(f"before {ctx.lambda_name}")
    yield
    assert thread == threading.get_ident()
    say(f"after {ctx.lambda_name}")


@app.around_run
async def around_async(ctx: atf.Context) -> AsyncIterator[None]:
    assert [asyncio.get_running_loop()] == LOOPS
    yield
    say("async")


@app.task
def here() -> int:
    return os.getpid()


@app.task
async def on_loop() -> bool:
    return [asyncio.get_running_loop()] == LOOPS


@app.task(isolate=True)
def alone() -> list[int]:
    return [os.getpid(), os.getppid()]


@broken.on_worker_start
def no_database() -> None:
    raise SystemExit("no database")


@broken.task
def never() -> None: ...
