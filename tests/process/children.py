"""Lambdas that fork, and say what came of their children."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import atf

app = atf.App("g")
FORK = multiprocessing.get_context("fork")
SLEEPS = ["sleep", "60"]


def square(number: int) -> int:
    return number * number


def sleep() -> None:
    time.sleep(60)


@app.task
def note(word: str) -> str:
    return word


@app.task
def pool() -> int:
    with FORK.Pool(2) as workers:
        return sum(workers.map(square, range(4)))  # the block's end terminates them


@app.task
def executor() -> int:
    with ProcessPoolExecutor(2, mp_context=FORK) as workers:
        return sum(workers.map(square, range(4)))


@app.task
def terminate() -> list[int | None]:
    """Of ten children, each ended as soon as it is there, some of them before they have run a line of Python."""
    codes = []
    for _ in range(10):
        child = FORK.Process(target=sleep)
        child.start()
        child.terminate()
        child.join(10)
        codes.append(child.exitcode)
    return codes


def code_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def end_of(child: int, number: int) -> int:
    """How a child ends that is sent a signal."""
    os.kill(child, number)
    return code_of(child)


@contextlib.contextmanager
def asleep() -> Iterator[int]:
    """A forked child that has come to where it sleeps."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, b"x")
            time.sleep(60)
        except KeyboardInterrupt:
            os._exit(77)
        os._exit(0)
    os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    yield child


@app.task
def signal_child(number: int) -> int:
    with asleep() as child:
        return end_of(child, number)


@app.task
async def signal_async_child(number: int) -> int:
    with asleep() as child:
        return end_of(child, number)


@app.task
def signal_program(number: int) -> int:
    """Of a program that is started by a fork, as `preexec_fn` demands."""
    # It is kept until it has been waited for: one that nothing names is reaped by whatever thread next starts a program.
    with subprocess.Popen(SLEEPS, preexec_fn=os.getpid) as program:  # noqa: PLW1509  what is tried
        program.send_signal(number)
        return program.wait()


@app.task
def signals_of_program() -> list[str]:
    """Which signals a program that a lambda starts has blocked, ignores and catches."""
    code = "print(*(x for x in open('/proc/self/status') if x[:6] in {'SigBlk', 'SigIgn', 'SigCgt'}), sep='', end='')"
    return [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, **how).stdout
        for how in ({}, {"preexec_fn": os.getpid}, {"start_new_session": True})
    ]


@app.task
def descriptors_of_program() -> list[str]:
    code = "import os; print(*(os.readlink(f'/proc/self/fd/{each}') for each in os.listdir('/proc/self/fd') if int(each) > 2))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout.split()


@app.task
def table_of_child() -> int:
    """How many writable mappings of the table a forked child has."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        maps = Path("/proc/self/maps").read_text()
        os.write(writing, str(maps.count("memfd:atf-executor")).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return int(os.read(reading, 10))


def write(file: str, word: object) -> None:
    with Path(file).open("a") as out:
        out.write(f"{word}\n")


@app.task
async def wait_in_child(file: str, seconds: float) -> int:
    """Forks; the child waits for something that was there before, which asyncio does not refuse in a child."""
    slept = asyncio.ensure_future(asyncio.sleep(seconds))
    await asyncio.sleep(0.05)  # until it has begun, and the lambdas beside this one
    child = os.fork()
    await slept
    if not child:
        write(file, "child")
        return 0
    return code_of(child)


@app.task
async def write_later(file: str, seconds: float) -> None:
    await asyncio.sleep(seconds)
    write(file, os.getpid())


@app.task
def daemon(file: str, leave: bool) -> None:
    """Leaves a process behind as daemons are made: forked twice, in a session of its own. Then ends its worker, if told."""
    if not os.fork():
        os.setsid()
        if not os.fork():
            Path(file).write_text(str(os.getpid()))
            time.sleep(600)
        os._exit(0)
    os.wait()
    while not Path(file).exists() or not Path(file).read_text():
        threading.Event().wait(0.01)
    if leave:
        os._exit(9)


@app.task
def grandchild() -> int:
    """Starts a program that leaves another one behind, which ends a moment later; returns that one's pid."""
    done = subprocess.run(["sh", "-c", "sleep 0.05 & echo $!"], stdout=subprocess.PIPE, check=True)
    return int(done.stdout)
