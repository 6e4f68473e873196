"""taskiq with taskiq-redis's stream broker: two worker commands of 100 concurrent tasks, no results.

* Two commands, one per core, with `--workers 1 --max-async-tasks 100`, on uvloop, which taskiq takes when it is installed;
  `--no-parse`: arguments are passed as they came (options of `taskiq worker`).
* RedisStreamBroker is the one of its brokers that acknowledges. `xread_count` 200 (default 100): more messages a read.
* `idle_timeout` 60 s (default 10 min): after it, messages of a dead worker are taken over, whenever a live one has read something
  new. `unacknowledged_lock_timeout` 10 s (default none): a worker that dies within the take-over does not block it for ever.
  `--ack-type when_executed`: acknowledged when the task has ended.
* ORJSONSerializer: the fastest of its serializers.
* No result backend, which is the default: results are dropped.
* Many are scheduled by 64 concurrent callers, one task a call: there is no call for several. An instant is
  `schedule_by_time` into a ListRedisScheduleSource, with one `taskiq scheduler` that looks once a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

import uvloop
from taskiq import TaskiqScheduler
from taskiq.serializers import ORJSONSerializer
from taskiq_redis import ListRedisScheduleSource, RedisStreamBroker

from tests.bench import driver, ledger

_URL = f"unix://{driver.store_socket()}"
broker = RedisStreamBroker(
    _URL,
    consumer_id="0",
    idle_timeout=60_000,
    unacknowledged_lock_timeout=10.0,
    xread_count=200,
    max_connection_pool_size=256,
).with_serializer(ORJSONSerializer())
source = ListRedisScheduleSource(_URL, max_connection_pool_size=128)
scheduler = TaskiqScheduler(broker, [source])


@broker.task(task_name="noop")
async def noop(text: str) -> None:
    """Writes down that it has started."""
    ledger.mark(text)


class Client(driver.Client):
    """One broker, on a loop of its own."""

    lacks: ClassVar[dict[str, str]] = {"one": "taskiq has no synchronous client", "concurrent": driver.SAME}

    def open(self) -> None:
        self._loop = driver.Loop(uvloop.new_event_loop)
        self._loop.run(broker.startup())
        self._loop.run(source.startup())

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


_HERE = "tests.bench.systems.taskiq"
_WORKER = (
    f"taskiq worker {_HERE}:broker --workers 1 --max-async-tasks 100 --no-parse --ack-type when_executed"
    " --log-level WARNING"
)
WORKERS = [
    _WORKER,
    _WORKER,
    f"taskiq scheduler {_HERE}:scheduler --update-interval 1 --loop-interval 1 --log-level WARNING",
]

if __name__ == "__main__":
    driver.run(Client, WORKERS, ["taskiq", "taskiq-redis", "redis", "uvloop"])
