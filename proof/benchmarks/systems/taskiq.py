"""taskiq with taskiq-redis's stream broker: two worker commands of 100 concurrent tasks, no results.

* Two commands, one per core, with `--workers 1 --max-async-tasks 100`, on uvloop, which taskiq takes when it is installed;
  `--no-parse`: arguments are passed as they came (options of `taskiq worker`).
* taskiq 0.11, taskiq-redis 1.1 and redis-py 6, which took the least CPU per task, all processes, end to end (medians of four or five
  rounds of 6,000 tasks in turns on a busy machine): 459 µs; taskiq-redis 1.0 with redis-py 5 548, taskiq 0.12 with redis-py 7 623 and
  with redis-py 8 694, and the newest of all, taskiq 0.13 with redis-py 8, 773.
* JSONFormatter: 487 µs, where its default formatter with ORJSONSerializer, the fastest of its serializers, took 563 (four rounds of
  5,000 in turns, another time); with redis-py 5 483 and 525.
* RedisStreamBroker is the one of its brokers that acknowledges. `xread_count` 200 (default 100): more messages a read.
* `idle_timeout` 60 s (default 10 min): after it, messages of a dead worker are taken over, whenever a live one has read something
  new. `--ack-type when_executed`: acknowledged when the task has ended. A worker that dies within the take-over itself leaves a lock
  behind that never ends in this release (1.2 has a setting for it).
* Tried, too, and no cheaper than what rounds of one setting differ by: 1,000 messages a read (491 µs beside 487, 680 beside 623);
  once each 300 and 500 messages ahead (its prefetch, default 0), 20, 500 and 1,000 concurrent tasks, to acknowledge when saved, 64
  connections, a kicker that is kept.
* No result backend, which is the default: results are dropped.
* Many are scheduled by 64 concurrent callers, one task a call: there is no call for several. An instant is
  `schedule_by_time` into a ListRedisScheduleSource, with one `taskiq scheduler` that looks once a second.
* At its defaults: one command, which starts two worker processes, and the broker's own numbers and formatter.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import uvloop
from taskiq import TaskiqScheduler
from taskiq.formatters.json_formatter import JSONFormatter
from taskiq_redis import ListRedisScheduleSource, RedisStreamBroker

from proof.benchmarks import driver, ledger

_URL = f"unix://{driver.store_socket()}"
broker: Any = (
    RedisStreamBroker(_URL, max_connection_pool_size=256)
    if driver.at_defaults()
    else RedisStreamBroker(
        _URL, consumer_id="0", idle_timeout=60_000, xread_count=200, max_connection_pool_size=256
    ).with_formatter(JSONFormatter())
)
source = ListRedisScheduleSource(_URL, max_connection_pool_size=128)
scheduler = TaskiqScheduler(broker, [source])


@broker.task(task_name="noop")
async def noop(text: str) -> None:
    """Writes down that it has started."""
    await ledger.work(text)


class Client(driver.SystemClient):
    """One broker, on a loop of its own."""

    lacks: ClassVar[dict[str, str]] = {"one": "taskiq has no synchronous client", "concurrent": driver.SAME}

    def open(self) -> None:
        self._loop = driver.Loop(uvloop.new_event_loop)
        self._loop.run(broker.startup())
        self._loop.run(source.startup())

    def prompt(self, number: int) -> int:
        async def call() -> int:
            began = time.monotonic_ns()
            await noop.kiq(ledger.payload(number))
            return began

        return self._loop.run(call())

    def many(self, numbers: Sequence[int]) -> None:
        async def call(number: int) -> None:
            await noop.kiq(ledger.payload(number))

        self._loop.run(self._loop.callers(call, numbers))

    def at(self, number: int, due: float) -> None:
        self._loop.run(self._at(number, due))

    def stream(self, stream: driver.Stream) -> None:
        self._loop.run(self._loop.stream(self._at, stream))

    def many_at(self, numbers: Sequence[int], due: float) -> None:
        self._loop.run(self._loop.callers(lambda number: self._at(number, due), numbers))

    async def _at(self, number: int, due: float) -> None:
        await noop.schedule_by_time(source, datetime.fromtimestamp(due, UTC), ledger.payload(number))


_HERE = "proof.benchmarks.systems.taskiq"
_WORKER = (
    f"taskiq worker {_HERE}:broker --workers 1 --max-async-tasks 100 --no-parse --ack-type when_executed"
    " --log-level WARNING"
)
_WORKERS = [f"taskiq worker {_HERE}:broker --log-level WARNING"] if driver.at_defaults() else [_WORKER, _WORKER]
WORKERS = [
    *_WORKERS,
    f"taskiq scheduler {_HERE}:scheduler --update-interval 1 --log-level WARNING",
]

if __name__ == "__main__":
    driver.run(Client, WORKERS, ["taskiq", "taskiq-redis", "redis", "uvloop"])
