"""Lambdas that run in processes of their own, and what they do there."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atf

app = atf.App("g")
FORK = multiprocessing.get_context("fork")
print("imported")
SEEN: list[int] = []
HELPER = subprocess.Popen(["sleep", "600"])
os.chdir("/")


@app.task(isolate=True)
def nothing() -> None:
    return None


@app.task
def nothing_here() -> None:
    return None


@app.task
def whose() -> list[int]:
    return [os.getpid(), os.getppid()]


def _reach_the_store() -> str:
    with atf.Client("redis://stores:6379") as client:
        try:
            client.schedule("g/nothing_here", {})
        except atf.FailedPrecondition as error:
            return str(error)
    return "reached"


@app.task
def reaches_the_store() -> str:
    return _reach_the_store()


@app.task(isolate=True)
def reaches_the_store_alone() -> str:
    return _reach_the_store()


@app.task(isolate=True)
def whose_alone(ctx: atf.Context) -> list[int]:
    """Its process, and how many runs that process has seen; memory is its own."""
    SEEN.append(1)
    print(f"printed by {ctx.task_id}")
    ctx.log.warning("logged by it")
    print(f"half a line of {ctx.task_id}", end="")
    return [os.getpid(), len(SEEN), "grpc" in sys.modules, threading.active_count()]


@app.task(isolate=True, redact=["password"])
def writes_past_python(password: str) -> None:
    """As C code and programs do."""
    os.write(1, b"by descriptor 1\nhalf, ")
    os.write(2, b"by descriptor 2\n")
    subprocess.run(["echo", f"by a program with {password}"], check=True)
    ctypes.CDLL(None).printf(b"by C\n")
    sys.__stdout__.write("by the first stdout\n")  # type: ignore[union-attr]
    ctypes.CDLL(None).printf(b"half a line by C")


@app.task(isolate=True)
def inherits() -> list[object]:
    """The files in memory that it has open, how many descriptors a program has that it starts, and whether its app's helper lives."""
    own = [str(each.resolve()) for each in Path("/proc/self/fd").iterdir()]
    code = "import os; print(len(os.listdir('/proc/self/fd')) - 4)"  # the three, and the listing's own
    seen = subprocess.run([sys.executable, "-c", code], close_fds=False, capture_output=True, text=True, check=True)
    return [[each for each in own if "memfd" in each], int(seen.stdout), Path(f"/proc/{HELPER.pid}").exists()]


@app.task(isolate=True)
def context(ctx: atf.Context) -> list[object]:
    ctx.progress({"done": 1})
    left = None if ctx.deadline is None else ctx.deadline.timestamp() - time.time()
    facts = [
        ctx.task_id,
        ctx.lambda_name,
        ctx.attempt,
        ctx.run,
        ctx.fence,
        left is not None and 0 < left < 60,
        dict(ctx.labels),
    ]
    return [*facts, ctx.first_time("key"), ctx.cancelled, ctx.stopping]


async def three() -> int:
    await asyncio.sleep(0)
    return 3


def forwarding(fn: Callable[..., Any]) -> Any:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


@app.task(isolate=True)
@forwarding
async def wrapped(ctx: atf.Context) -> list[object]:
    """A plain def that returns the coroutine."""
    await asyncio.sleep(0)
    return [os.getpid(), await ctx.first_time_async("wrapped")]


def square(number: int) -> int:
    return number * number


@app.task(isolate=True)
def starts_more() -> list[object]:
    """Children of its own, one of which is terminated; a loop; and what only a main thread may do."""
    with FORK.Pool(2) as workers:
        squares = workers.map(square, range(4))
    child = FORK.Process(target=time.sleep, args=(60,))
    child.start()
    child.terminate()
    child.join()
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    return [sum(squares), child.exitcode, asyncio.run(three())]


@app.task(isolate=True)
def fails(how: str) -> object:
    match how:
        case "raise":
            raise ValueError("no good")
        case "fatal":
            raise atf.Fatal("never")
        case "retry":
            raise atf.Retry("later", after=7)
        case "hand back":
            raise atf.HandBack("not mine")
        case "exit":
            os._exit(3)
        case "crash":
            ctypes.string_at(0)
        case "no outputs":
            sys.stdout.close()
            sys.stdout = sys.stderr = None  # a lambda can
            return "ran"
    return "x" * 70_000


@app.task(isolate=True, timeout=0.3)
def hangs(file: str) -> None:
    """Starts a program too, in a session of its own."""
    Path(file).write_text(f"{os.getpid()} {subprocess.Popen(['sleep', '600'], start_new_session=True).pid}")
    time.sleep(600)


@app.task(isolate=True)
def waits(ctx: atf.Context, file: str) -> str:
    Path(file).write_text(str(os.getpid()))
    while not ctx.cancelled and not ctx.stopping:
        time.sleep(0.01)
    return "cancelled" if ctx.cancelled else "stopping"


@app.task(isolate=True)
def sleeps(file: str, seconds: float) -> str:
    Path(file).write_text(str(os.getpid()))
    threading.Event().wait(seconds)
    return "woke"


@app.task(isolate=True)
def schedules() -> str:
    return nothing_here.schedule().id


@app.task(isolate=True)
def leaves(file: str) -> None:
    """Leaves a daemon behind."""
    if not os.fork():
        os.setsid()
        if not os.fork():
            Path(file).write_text(str(os.getpid()))
            time.sleep(600)
        os._exit(0)
    while not Path(file).exists() or not Path(file).read_text():
        time.sleep(0.01)
