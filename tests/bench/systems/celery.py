"""Celery: prefork, acknowledged late, no results.

* One worker command with two prefork processes, one per core.
* `task_acks_late` and `task_reject_on_worker_lost`: a message is acknowledged when its task has ended, so that a kill costs none.
* `visibility_timeout` 60 s (default 1 h): after it the broker's Redis transport gives out again what a dead worker held. It has
  to be longer than the longest task or countdown ("Using Redis", section "Visibility timeout"); here that is 10 s.
* `worker_prefetch_multiplier` 128: the guide "Optimizing" wants it large for lots of short tasks (64 or 128, says its edition for
  2.1, section "Prefetch limit"; later ones say to experiment).
* `task_ignore_result`, no backend, no events, and `--without-gossip --without-mingle --without-heartbeat`: nothing is written or
  sent that the task does not need (guide "Optimizing"; guide "Workers").
* Many are scheduled by one producer that is kept (`producer=`, guide "Calling Tasks", "Connection management"), one message a
  task: there is no call that sends several. An instant is `eta=`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from celery import Celery

from tests.bench import driver, ledger

app = Celery("bench", broker=f"redis+socket://{driver.store_socket()}")
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 60},
    task_acks_late=True,
    task_create_missing_queues=True,
    task_ignore_result=True,
    task_reject_on_worker_lost=True,
    worker_disable_rate_limits=True,
    worker_prefetch_multiplier=128,
)


@app.task(name="noop")
def noop(text: str) -> None:
    """Writes down that it has started."""
    ledger.mark(text)


class Client(driver.Client):
    """One producer, kept."""

    def open(self) -> None:
        self._producer: Any = app.amqp.Producer(app.connection_for_write(), auto_declare=False)

    def one(self, number: int) -> None:
        noop.apply_async((ledger.payload(number),))

    def many(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            noop.apply_async((ledger.payload(number),), producer=self._producer)

    def at(self, number: int, due: float) -> None:
        when = datetime.fromtimestamp(due, UTC)
        noop.apply_async((ledger.payload(number),), eta=when, producer=self._producer)


WORKERS = [
    (
        "celery -A tests.bench.systems.celery:app worker --pool prefork --concurrency 2 --loglevel WARNING"
        " --without-gossip --without-mingle --without-heartbeat"
    )
]

if __name__ == "__main__":
    driver.run(Client, WORKERS, ["celery", "kombu", "redis"])
