"""Celery: two workers of one process each, acknowledged late, no results.

* Two worker commands, one per core, with `--pool solo` (guide "Concurrency"): a task runs in the process that fetches it. CPU per
  task of all processes, tried beside one another on a busy machine: 4.0 ms with one command of two prefork processes (201 tasks/s),
  3.8 with two commands of one prefork process (253), 3.3 with two of solo (354), 3.0 with two of two threads (385); another time 3.6
  with solo (246), 4.0 with two threads (236), 4.1 with one (226), 4.2 with eight (191).
  Only where tasks are scheduled for later, the two commands have a prefork process each (`--pool prefork --concurrency 1`): a solo
  worker looks at its timers between two messages alone, and 1,500 tasks for one instant started up to 40 s late there.
* `task_acks_late` and `task_reject_on_worker_lost`: a message is acknowledged when its task has ended, so that a kill costs none that
  has begun. One that a worker has popped and not yet noted as unacknowledged is lost with it, whatever the pool: kombu's Redis
  transport does both in two steps (QoS.append). Of 24 workers of each pool that were killed under load, solo ones lost 7 messages
  together, prefork ones 7.
* `visibility_timeout` 60 s (default 1 h): after it the broker's Redis transport gives out again what a dead worker held. It has
  to be longer than the longest task or countdown ("Using Redis", section "Visibility timeout"); here that is 10 s.
  `unacked_restore_throttle` 1 (default 10): it looks for them every 10 s, not every 100 (docstring of kombu.transport.redis).
* `worker_prefetch_multiplier` 128: the guide "Optimizing" wants it large for lots of short tasks (64 or 128, says its edition for
  2.1, section "Prefetch limit"; later ones say to experiment).
* At its defaults: one command, which has a prefork process per core, with gossip, mingle and heartbeats, and prefetches four tasks for each.
* `task_ignore_result`, no backend, no events, and `--without-gossip --without-mingle --without-heartbeat`: nothing is written or
  sent that the task does not need (guide "Optimizing"; guide "Workers").
* Tasks are scheduled by a producer that is kept (`producer=`, guide "Calling Tasks", "Connection management"), by one synchronous
  caller, too; each of the 64 callers keeps one of its own, for which `broker_pool_limit` is 65 (default 10). It is one message a
  task: there is no call that sends several. An instant is `eta=`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from celery import Celery

from proof.benchmarks import driver, ledger

app = Celery("bench", broker=f"redis+socket://{driver.store_socket()}")
app.conf.update(
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_create_missing_queues=True,
    task_ignore_result=True,
    task_reject_on_worker_lost=True,
)
if not driver.at_defaults():
    app.conf.update(
        broker_pool_limit=driver.CALLERS + 1,
        broker_transport_options={"visibility_timeout": 60, "unacked_restore_throttle": 1},
        worker_disable_rate_limits=True,
        worker_prefetch_multiplier=128,
    )


@app.task(name="noop")
def noop(text: str) -> None:
    """Writes down that it has started."""
    ledger.mark(text)


class Client(driver.SystemClient):
    """A producer of the pool for each caller, kept."""

    def open(self) -> None:
        self._producer: Any = app.producer_pool.acquire(block=True)

    def one(self, number: int) -> None:
        noop.apply_async((ledger.payload(number),), producer=self._producer)

    def many(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.one(number)

    @contextmanager
    def caller(self) -> Iterator[Callable[[int], None]]:
        with app.producer_pool.acquire(block=True) as producer:  # one that several threads use is not safe
            yield lambda number: noop.apply_async((ledger.payload(number),), producer=producer)

    def at(self, number: int, due: float) -> None:
        when = datetime.fromtimestamp(due, UTC)
        noop.apply_async((ledger.payload(number),), eta=when, producer=self._producer)


_COMMAND = (
    "celery -A proof.benchmarks.systems.celery:app worker --pool {} --loglevel WARNING"
    " --without-gossip --without-mingle --without-heartbeat --hostname {}@%h"
)
_POOL = "prefork --concurrency 1" if driver.for_later() else "solo"
WORKERS = (
    ["celery -A proof.benchmarks.systems.celery:app worker --loglevel WARNING"]
    if driver.at_defaults()
    else [_COMMAND.format(_POOL, name) for name in ("first", "second")]
)

if __name__ == "__main__":
    driver.run(Client, WORKERS, ["celery", "kombu", "redis"])
