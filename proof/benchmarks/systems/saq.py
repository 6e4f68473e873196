"""SAQ: two worker commands of 20 concurrent jobs, no results.

* Two commands, one per core. `concurrency` 20 (default 10): a sweep waits up to 5 s for each job that a dead worker had
  taken, one after another (RedisQueue.sweep, Job.refresh). With 100 the last one came back after 11 of the 15 minutes when it was
  tried, and 98 jobs ran twice; the CPU per task was the same with 10, 20 and 100.
* `ttl=-1`: nothing is kept of a job that has ended (Job's docstring).
* `retries=5` (default 1) and `timeout=10`, the default: the sweep takes a job for stuck when its timeout is over, and queues it
  again only if it has retries left; with the default it would be aborted. The sweep looks every 60 s, its default: with 5 s it
  took jobs that had just been popped for stuck, and they ran twice.
* uvloop in workers and client, which took 10 % less CPU per task when it was tried: its policy is set where the settings are, and
  workers make their loop after they have imported these (saq.worker.start).
* `max_concurrent_ops` 64 in the client (default 20): as many as there are callers (RedisQueue's docstring).
* At its defaults: two commands of ten jobs at once, no uvloop, and jobs that have ended are kept for ten minutes.
* Many are scheduled by 64 concurrent callers, one job a call: there is no call for several that does not wait for their results.
  An instant is `scheduled=`, in whole seconds; the workers look once a second (`timers`, both as by default; 1 s is the least).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import redis.asyncio as aioredis
import uvloop
from saq.queue.redis import RedisQueue

from proof.benchmarks import driver, ledger

if not driver.at_defaults():
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def _queue() -> Any:
    return RedisQueue(aioredis.from_url(f"unix://{driver.store_socket()}"), max_concurrent_ops=driver.CALLERS)


async def noop(_ctx: Any, *, text: str) -> None:
    """Writes down that it has started."""
    await ledger.work(text)


queue = _queue()
settings: dict[str, Any] = {"queue": queue, "functions": [noop]}
if not driver.at_defaults():
    settings |= {"concurrency": 20, "timers": {"schedule": 1, "sweep": 60}}


class Client(driver.SystemClient):
    """One queue, on a loop of its own."""

    lacks: ClassVar[dict[str, str]] = {"one": "SAQ has no synchronous client", "concurrent": driver.SAME}

    def open(self) -> None:
        self._loop = driver.Loop()
        self._queue = _queue()

    def many(self, numbers: Sequence[int]) -> None:
        self._loop.run(self._loop.callers(self._enqueue, numbers))

    def at(self, number: int, due: float) -> None:
        self._loop.run(self._enqueue(number, math.ceil(due)))

    def stream(self, stream: driver.Stream) -> None:
        self._loop.run(self._loop.stream(lambda number, due: self._enqueue(number, math.ceil(due)), stream))

    def many_at(self, numbers: Sequence[int], due: float) -> None:
        self._loop.run(self._loop.callers(lambda number: self._enqueue(number, math.ceil(due)), numbers))

    async def _enqueue(self, number: int, scheduled: int = 0) -> None:
        options: dict[str, Any] = {"retries": 5} if driver.at_defaults() else {"retries": 5, "timeout": 10, "ttl": -1}
        await self._queue.enqueue("noop", text=ledger.payload(number), scheduled=scheduled, **options)


WORKERS = ["saq proof.benchmarks.systems.saq.settings --quiet"] * 2

if __name__ == "__main__":
    driver.run(Client, WORKERS, ["saq", "redis", "uvloop"])
