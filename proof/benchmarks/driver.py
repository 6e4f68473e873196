"""The client process of a measurement: one per system, in that system's own environment, steered over stdin and stdout.

A system's module (systems/<name>.py) has a SystemClient and a list of commands, the two workers first, and ends with `run(SystemClient, ...)`. Then

    python -P -m proof.benchmarks.systems.saq client      reads commands and answers them, a line of JSON each
    python -P -m proof.benchmarks.systems.saq worker 0    becomes the first worker

Commands name a verb of SystemClient and the numbers of tasks; instants in answers are CLOCK_MONOTONIC's, in ns. Standard library alone.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import random
import shlex
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

CALLERS: Final = 64
"""Concurrent callers in one client."""
STORE: Final = "ATF_BENCH_STORE"
"""The variable with the store's socket."""
LATER: Final = "ATF_BENCH_LATER"
"""The variable that says, if set, that tasks are scheduled for later: a system may have other workers then."""
DEFAULTS: Final = "ATF_BENCH_DEFAULTS"
"""The variable that says, if set, that a system has its default settings but for what a killed worker would cost it."""
SAME: Final = "its `many` are its single calls"
"""Why a client lacks `concurrent`: its `many` does the same."""
_SAMPLE: Final = 2_000
"""Results between two looks at the memory."""
T = TypeVar("T")


Stream = Iterable[tuple[float, int, Callable[[], float]]]
"""Tasks of a steady stream: how long to wait before each, as reckoned when the one before has begun, its number, and what gives its
instant, in seconds of the wall clock, when it is called."""


class SystemClient:
    """What a system's client can do; what is left as it is here, it can't, and its measurements say so.

    Attributes:
        lacks: why it can't do a thing, by verb.
    """

    lacks: ClassVar[dict[str, str]] = {}

    def open(self) -> None:
        """Connects."""

    def one(self, number: int) -> None:
        """Schedules one task, as a synchronous caller does, and returns when it is stored."""
        raise self._lacking("one")

    def prompt(self, number: int) -> int:
        """Schedules one task, as a lone caller of its kind does; when the call began, in ns of the monotonic clock."""
        began = time.monotonic_ns()
        self.one(number)
        return began

    def many(self, numbers: Sequence[int]) -> None:
        """Schedules tasks by the fastest documented way that tells whether they are stored."""
        raise self._lacking("many")

    def concurrent(self, numbers: Sequence[int]) -> None:
        """Schedules tasks one per call, from 64 concurrent callers in this one client."""
        with_threads(self.caller, numbers)

    def caller(self) -> AbstractContextManager[Callable[[int], None]]:
        """What one of several threads calls for each of its tasks, with what it keeps meanwhile."""
        return nullcontext(self.one)

    def at(self, number: int, due: float) -> None:
        """Schedules one task for an instant, in seconds of the wall clock."""
        raise self._lacking("at")

    def stream(self, stream: Stream) -> None:
        """Schedules the tasks of a steady stream, one per call, each when its turn comes."""
        for wait_s, number, due in stream:
            if wait_s > 0:
                time.sleep(wait_s)
            self.at(number, due())

    def many_at(self, numbers: Sequence[int], due: float) -> None:
        """Schedules tasks for one instant."""
        for number in numbers:
            self.at(number, due)

    def jobs(self, numbers: Sequence[int], due: float, every: str) -> list[int]:
        """Makes jobs one per call, from 64 concurrent callers in this one client; ns of each call.

        Args:
            numbers: of the tasks that their first ticks make.
            due: the first tick, in seconds of the wall clock.
            every: the time between two, such as "24h"; "": one tick.
        """
        raise self._lacking("jobs")

    def batch(self, numbers: Sequence[int], batch: str) -> None:
        """Submits tasks as one batch of this id; returns when all are stored."""
        raise self._lacking("batch")

    def results(self, batch: str) -> Iterator[Any]:
        """The results of a batch's items, in their order."""
        raise self._lacking("results")

    def close(self) -> None:
        """Disconnects."""

    def _lacking(self, verb: str) -> RuntimeError:
        why = self.lacks.get(verb, "its adapter neither defines this nor says in `lacks` why it can't")
        return RuntimeError(f"{type(self).__module__} can't do {verb!r}: {why}")


class Loop:
    """An event loop in a thread of its own, for clients that are asynchronous.

    Args:
        make: makes the loop.
    """

    def __init__(self, make: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop) -> None:
        self.loop = make()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    @staticmethod
    async def stream(call: Callable[[int, float], Coroutine[Any, Any, Any]], stream: Stream) -> None:
        """Begins a call for each task of a stream when its turn comes, whether or not those before it have ended; waits for all.

        It runs on the loop as a service would do it: a call that came from another thread would cost a hop of its own.
        """
        async with asyncio.TaskGroup() as group:
            for wait_s, number, due in stream:
                await asyncio.sleep(max(wait_s, 0.0))
                group.create_task(call(number, due()))

    async def callers(self, call: Callable[[int], Coroutine[Any, Any, Any]], numbers: Iterable[int]) -> None:
        """Calls once per number, CALLERS at a time."""
        left = iter(numbers)

        async def caller() -> None:
            for number in left:
                await call(number)

        await asyncio.gather(*(caller() for _ in range(CALLERS)))


def with_threads(make: Callable[[], AbstractContextManager[Callable[[int], None]]], numbers: Iterable[int]) -> None:
    """Calls once per number, from CALLERS threads, each of which makes its own caller."""
    left, lock = iter(numbers), threading.Lock()
    raised: list[Exception] = []

    def calls() -> None:
        with make() as call:
            while not raised:
                with lock:
                    number = next(left, None)
                if number is None:
                    return
                call(number)

    def caller() -> None:
        try:
            calls()
        except Exception as error:  # noqa: BLE001  handed to the caller of with_threads
            raised.append(error)

    threads = [threading.Thread(target=caller) for _ in range(CALLERS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if raised:
        raise raised[0]


def chunks(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Runs of at most `size` numbers."""
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]


# --- what the commands do ---------------------------------------------------------------------------------------------


def _single(client: SystemClient, first: int, count: int) -> dict[str, Any]:
    calls = []
    for number in range(first, first + count):
        before = time.monotonic_ns()
        client.one(number)
        calls.append(time.monotonic_ns() - before)
    return {"calls_ns": sorted(calls)}


def _prompt(client: SystemClient, number: int) -> dict[str, Any]:
    return {"called": client.prompt(number)}


def _many(client: SystemClient, first: int, count: int) -> dict[str, Any]:
    client.many(range(first, first + count))
    return {}


def _concurrent(client: SystemClient, first: int, count: int) -> dict[str, Any]:
    client.concurrent(range(first, first + count))
    return {}


def _burst(client: SystemClient, first: int, count: int, due: float) -> dict[str, Any]:
    client.many_at(range(first, first + count), due)
    return {}


def _jobs(client: SystemClient, first: int, count: int, due: float, every: str) -> dict[str, Any]:
    return {"calls_ns": client.jobs(range(first, first + count), due, every)}


def _batch(client: SystemClient, first: int, count: int, batch: str) -> dict[str, Any]:
    client.batch(range(first, first + count), batch)
    return {}


def _identical(client: SystemClient, batch: str, count: int, number: int) -> dict[str, Any]:
    client.batch([number] * count, batch)
    return {"results": sum(1 for _ in client.results(batch))}


def _results(client: SystemClient, batch: str) -> dict[str, Any]:
    """How many there are, how long they took to list, and by how much memory grew after the first few."""
    begun, count, least, most = time.monotonic(), 0, 0, 0
    for count, _ in enumerate(client.results(batch), 1):
        if count % _SAMPLE == 0:
            size = _resident_bytes()
            least, most = least or size, max(most, size)
    return {
        "results": count,
        "seconds": time.monotonic() - begun,
        "grows_mib": round((most - least) / (1 << 20), 2),
    }


def _resident_bytes() -> int:
    with Path("/proc/self/statm").open(encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _ahead(
    client: SystemClient, first: int, count: int, per_s: float, least: float, most: float, seed: int
) -> dict[str, Any]:
    """`per_s` tasks a second, each due `least` to `most` seconds later."""
    chance, begun, dues = random.Random(seed), time.monotonic(), list[float]()

    def due() -> float:
        dues.append(time.time() + chance.uniform(least, most))
        return dues[-1]

    client.stream((begun + place / per_s - time.monotonic(), first + place, due) for place in range(count))
    return {"due": dues, "per_s": count / (time.monotonic() - begun)}


VERBS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "one": _single,
    "prompt": _prompt,
    "many": _many,
    "concurrent": _concurrent,
    "burst": _burst,
    "jobs": _jobs,
    "ahead": _ahead,
    "batch": _batch,
    "identical": _identical,
    "results": _results,
}


def serve(client: SystemClient) -> None:
    """Answers commands until there are no more."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints must not get among the answers
    client.open()
    print(json.dumps({"lacks": client.lacks}), file=answers)
    for line in sys.stdin:
        command = json.loads(line)
        verb = command.pop("do")
        begun = time.monotonic_ns()
        try:
            found: dict[str, Any] = VERBS[verb](client, **command)
        except Exception as error:  # noqa: BLE001  told to whoever asked
            found = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps({"begun": begun, "ended": time.monotonic_ns(), **found}), file=answers)
    client.close()


def run(
    client: Callable[[], SystemClient],
    workers: Sequence[str],
    distributions: Sequence[str],
    env: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """The end of every system's module.

    Args:
        client: makes the client.
        workers: the command line of each worker after `python -P -m`: two that are alike, one for each of two executors of ATF,
            so that the kill of one is the same event for all; then those of what runs no tasks. All questions have the same.
        distributions: whose versions matter.
        env: more variables of the workers.
    """
    what, *rest = sys.argv[1:]
    if what == "client":
        serve(client())
    elif what == "versions":
        print("\n".join(f"{name} {_version(name)}" for name in distributions))
    elif what == "workers":
        print(len(workers))
    else:
        command = [sys.executable, "-P", "-m", *shlex.split(workers[int(rest[0])])]
        os.execve(command[0], command, {**os.environ, **env})


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "of this checkout"


def for_later() -> bool:
    """Whether what is measured is how late tasks start that were scheduled for later."""
    return LATER in os.environ


def at_defaults() -> bool:
    """Whether it has its default settings but for what a killed worker would cost it."""
    return DEFAULTS in os.environ


def store_socket() -> str:
    """The path of the store's socket."""
    return os.environ.get(STORE, "/nowhere")  # none where only versions are asked for
