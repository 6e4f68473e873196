"""ATF, as it is by default: results, run records and heartbeats on, wake-ups on.

One partition, as the store of `atf up` has; two executors, one per core. The lambda is an `async def`, or what BENCH_LAMBDA says. The client is the SDK's:
`Client.schedule` for one synchronous caller, `AsyncClient.schedule` from 64 concurrent callers, and `schedule_many` in batches
of 1,000, four at once, where the fastest way is asked for. `AsyncClient` runs on uvloop, as its docstring says one may, and as the
clients of taskiq, SAQ and arq do here: single calls took 35 µs of the client's CPU with it and 37 without, those of 1,000 tasks 14 and 15
per task (medians of five rounds in turns on a busy machine).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import uvloop

import atf
from proof.benchmarks import driver, ledger

app = atf.App("bench")
BATCH = 1_000
AT_ONCE = 4
LAMBDA = "BENCH_LAMBDA"
"""The environment variable that says which kind of lambda runs: "def", or "async def"."""


async def _coroutine(text: str) -> None:
    """Writes down that it has started."""
    await ledger.work(text)


def _function(text: str) -> None:
    """The same, in a thread."""
    ledger.mark(text)


# One of them only: with both kinds an executor has a call open for each.
noop: Any = app.task(name="noop")(_function) if os.environ.get(LAMBDA) == "def" else app.task(name="noop")(_coroutine)


class Client(driver.SystemClient):
    """The SDK's clients."""

    def open(self) -> None:
        self._sync = atf.Client()
        self._loop = driver.Loop(uvloop.new_event_loop)
        self._async = atf.AsyncClient(timeout=60)

    def one(self, number: int) -> None:
        self._sync.schedule(noop.prepare(ledger.payload(number)))

    def many(self, numbers: Sequence[int]) -> None:
        self._loop.run(self._many(numbers))

    def concurrent(self, numbers: Sequence[int]) -> None:
        async def call(number: int) -> None:
            await self._async.schedule(noop.prepare(ledger.payload(number)))

        self._loop.run(self._loop.callers(call, numbers))

    def at(self, number: int, due: float) -> None:
        self._sync.schedule(_due(due).prepare(ledger.payload(number)))

    def stream(self, stream: driver.Stream) -> None:
        async def call(number: int, due: float) -> None:
            await self._async.schedule(_due(due).prepare(ledger.payload(number)))

        self._loop.run(self._loop.stream(call, stream))

    def many_at(self, numbers: Sequence[int], due: float) -> None:
        self._loop.run(self._many(numbers, _due(due)))

    def jobs(self, numbers: Sequence[int], due: float, every: str) -> list[int]:
        first, schedule = datetime.fromtimestamp(due, UTC), f"@every {every}" if every else None
        calls: list[int] = []

        async def call(number: int) -> None:
            task, before = noop.prepare(ledger.payload(number)), time.monotonic_ns()
            await self._async.schedule_job(f"bench/{number}", task, schedule, due_time=first)
            calls.append(time.monotonic_ns() - before)

        self._loop.run(self._loop.callers(call, numbers))
        return sorted(calls)

    def batch(self, numbers: Sequence[int], batch: str) -> None:
        texts = (ledger.payload(number) for number in numbers)
        self._loop.run(self._async.batch(noop, texts, batch_id=batch))

    def results(self, batch: str) -> Iterator[Any]:
        return self._sync.batch_handle(batch).results()

    async def _many(self, numbers: Sequence[int], task: Any = noop) -> None:
        batches = driver.chunks(numbers, BATCH)

        async def send() -> None:
            for batch in batches:
                await self._async.schedule_many([task.prepare(ledger.payload(number)) for number in batch])

        await asyncio.gather(*(send() for _ in range(AT_ONCE)))


def _due(due: float) -> Any:
    return noop.options(at=datetime.fromtimestamp(due, UTC))


if __name__ == "__main__":
    driver.run(Client, [], ["atf-tasks", "grpcio", "redis"])
