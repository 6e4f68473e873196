"""arq: two worker commands of 100 concurrent jobs, no results.

* Two commands, one per core; `max_jobs` 100 each.
* `poll_delay` 0.05 s (default 0.5 s) and `queue_read_limit` 1,000 (default five per job): arq polls; with the defaults no worker
  starts more than 1,000 jobs a second, and all start late (arguments of arq.worker.Worker). Of limits of 100, 500 and 1,000 the
  last took the least CPU per task when they were tried.
* uvloop in workers and client, which took 10 % less CPU per task in the workers when it was tried: its policy is set where the
  settings are (issue 228 of its repository).
* `keep_result` 0 and `log_results` off: nothing is kept or said of a job that has succeeded.
* `job_timeout` 30 s (default 300 s): a job stays marked as running for so long and 10 s more after its worker died, then another
  worker takes it; `max_tries` 5 is the default ("Pessimistic execution" of arq's page "Usage").
* At its defaults: two commands, no uvloop, ten jobs at once, a look every 0.5 s, and results are kept.
* Many are scheduled by 64 concurrent callers, one job a call: there is no call for several. An instant is `_defer_until`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import uvloop
from arq import create_pool
from arq.connections import RedisSettings

from proof.benchmarks import driver, ledger

if not driver.at_defaults():
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


async def noop(_ctx: Any, text: str) -> None:
    """Writes down that it has started."""
    await ledger.work(text)


class WorkerSettings:
    """Of the arq command."""

    functions: ClassVar[list[Any]] = [noop]
    redis_settings = RedisSettings(unix_socket_path=driver.store_socket())
    if not driver.at_defaults():
        max_jobs = 100
        poll_delay = 0.05
        queue_read_limit = 1_000
        keep_result = 0
        log_results = False
        job_timeout = 30
        max_tries = 5


class Client(driver.SystemClient):
    """One pool, on a loop of its own."""

    lacks: ClassVar[dict[str, str]] = {"one": "arq has no synchronous client", "concurrent": driver.SAME}

    def open(self) -> None:
        self._loop = driver.Loop()
        self._pool = self._loop.run(create_pool(WorkerSettings.redis_settings))

    def many(self, numbers: Sequence[int]) -> None:
        self._loop.run(self._loop.callers(self._enqueue, numbers))

    def at(self, number: int, due: float) -> None:
        self._loop.run(self._enqueue(number, due))

    def stream(self, stream: driver.Stream) -> None:
        self._loop.run(self._loop.stream(self._enqueue, stream))

    def many_at(self, numbers: Sequence[int], due: float) -> None:
        self._loop.run(self._loop.callers(lambda number: self._enqueue(number, due), numbers))

    async def _enqueue(self, number: int, due: float | None = None) -> None:
        when = None if due is None else datetime.fromtimestamp(due, UTC)
        await self._pool.enqueue_job("noop", ledger.payload(number), _defer_until=when)


WORKERS = ["arq proof.benchmarks.systems.arq.WorkerSettings"] * 2

if __name__ == "__main__":
    driver.run(Client, WORKERS, ["arq", "redis", "uvloop"])
