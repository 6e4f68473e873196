"""Lambdas that do to their process what a guard has to cope with."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import atf

app = atf.App("g")


@app.task
def fine(word: str) -> str:
    return word


@app.task
async def fine_async(word: str) -> str:
    await asyncio.sleep(0.01)
    return word


@app.task
def freeze() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@app.task
def leave(code: int) -> None:
    os._exit(code)


@app.task
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
def leave_a_thread() -> None:
    """The interpreter would wait for it at its end."""
    ThreadPoolExecutor(1).submit(threading.Event().wait)


@app.task
def hold_lock() -> None:
    """Native code that does not let the interpreter go: no other thread of the process runs."""
    re.match(r"(a+)+b", "a" * 60)


@app.task
def start_child(file: str, leave: bool) -> None:
    """Leaves a process behind, which writes its number, then the word "alive" again and again."""
    lines = [
        "import os, sys, time",
        "out = open(sys.argv[1], 'w')",
        "print(os.getpid(), file=out, flush=True)",
        "while True:",
        "    print('alive', file=out, flush=True)",
        "    time.sleep(0.02)",
    ]
    # In a group of its own, as a shell's jobs are.
    subprocess.Popen([sys.executable, "-c", "\n".join(lines), file], process_group=0)
    while not Path(file).exists() or not Path(file).read_text():
        threading.Event().wait(0.01)
    if leave:
        os._exit(9)


@app.task
def eat(ctx: atf.Context, mib: int, more: int) -> None:
    """Takes some memory, and more in a drain."""
    taken = [os.urandom(1 << 20) for _ in range(mib)]
    while not ctx.stopping:
        threading.Event().wait(0.05)
    threading.Event().wait(1)
    taken += [os.urandom(1 << 20) for _ in range(more)]
    threading.Event().wait(60)
    del taken  # not before: the guard looks twice a second


@app.task(timeout=0.5)
def ignore_timeout() -> None:
    threading.Event().wait(60)


@app.task
def wait_for_cancel(ctx: atf.Context) -> str:
    while not ctx.cancelled:
        threading.Event().wait(0.01)
    return "saw it"


@app.task
def wait_for_stop(ctx: atf.Context) -> str:
    while not ctx.stopping:
        threading.Event().wait(0.01)
    return "cancelled" if ctx.cancelled else "stopped"


@app.task
def work_on(seconds: float) -> str:
    """Knows nothing of stops."""
    threading.Event().wait(seconds)
    return "worked"


@app.task
def crash_in_drain(ctx: atf.Context) -> None:
    while not ctx.stopping:
        threading.Event().wait(0.01)
    threading.Event().wait(0.3)
    ctypes.string_at(0)


@app.task
def come_back() -> str:
    """Forks, and returns in both."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return "parent" if child else "child"


@app.task
def exit_quietly() -> None:
    sys.exit(0)


def tell(writing: int, errors: list[str]) -> NoReturn:
    """Ends a forked child, having said what it found: how many threads, and what gRPC would be told of forks."""
    threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    found = {"threads": threads, "told": "GRPC_ENABLE_FORK_SUPPORT" in os.environ, "said": errors}
    os.write(writing, json.dumps(found).encode())
    os._exit(0)


def told(reading: int, child: int) -> dict[str, object]:
    """What the child said."""
    os.waitpid(child, 0)
    found: dict[str, object] = json.loads(os.read(reading, 10_000))
    return found


@app.task
def look_from_child(ctx: atf.Context) -> dict[str, object]:
    """What a forked child finds, and what calls say in it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        return told(reading, child)
    said = []
    for call in (come_back.schedule, lambda: ctx.first_time("key")):
        try:
            call()
        except atf.FailedPrecondition as error:
            said.append(str(error))
    tell(writing, said)


@app.task
async def look_from_async_child(ctx: atf.Context) -> dict[str, object]:
    """As look_from_child, by the calls of an `async def`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        return told(reading, child)
    said = []
    for call in (come_back.schedule_async, lambda: ctx.first_time_async("key")):
        try:
            await call()
        except atf.FailedPrecondition as error:
            said.append(str(error))
    tell(writing, said)
