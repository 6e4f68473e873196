"""RQ: two SimpleWorkers, no results.

* Two worker commands, one per core, of class SimpleWorker: no fork per job, which RQ's own page on performance names as the cost
  ("Performance Notes" of "Workers").
* `result_ttl=0`: a job that succeeded is deleted at once ("Results"); no descriptions, no logging of jobs.
* `job_timeout=30` and `Retry(max=3)`: what a dead worker had started counts as abandoned when its job's heartbeat is over, 90 s
  after its last one, and goes into the queue again only if it has retries left (StartedJobRegistry.cleanup).
* `--maintenance-interval 30` (default 600 s): how often a worker looks for such jobs.
* Many are scheduled by `Queue.enqueue_many` in batches of 1,000 ("Bulk Job Enqueueing"), one pipeline each. An instant is
  `enqueue_at`, with `--with-scheduler`, which looks once a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from redis import Redis
from rq import Queue, Retry

from proof.benchmarks import driver, ledger

BATCH = 1_000
_NAME = "proof.benchmarks.systems.rq.noop"
_OPTIONS = {"result_ttl": 0, "job_timeout": 30, "description": "noop"}


def noop(text: str) -> None:
    """Writes down that it has started."""
    ledger.mark(text)


class Client(driver.SystemClient):
    """One queue."""

    def open(self) -> None:
        self._redis = Redis(unix_socket_path=driver.store_socket())
        self._queue = Queue("bench", connection=self._redis)

    def one(self, number: int) -> None:
        self._queue.enqueue(_NAME, ledger.payload(number), retry=Retry(max=3), **_OPTIONS)

    def many(self, numbers: Sequence[int]) -> None:
        for batch in driver.chunks(numbers, BATCH):
            jobs = [
                Queue.prepare_data(
                    _NAME, (ledger.payload(each),), retry=Retry(max=3), timeout=30, result_ttl=0, description="noop"
                )
                for each in batch
            ]
            self._queue.enqueue_many(jobs)

    def at(self, number: int, due: float) -> None:
        when = datetime.fromtimestamp(due, UTC)
        self._queue.enqueue_at(when, _NAME, ledger.payload(number), retry=Retry(max=3), **_OPTIONS)


_URL = f"--url unix://{driver.store_socket()} bench"
WORKERS = [
    f"rq.cli worker {_URL}"
    if driver.at_defaults()
    else "rq.cli worker --worker-class rq.worker.SimpleWorker --with-scheduler --quiet --disable-job-desc-logging"
    f" --maintenance-interval 30 {_URL}"
] * 2

if __name__ == "__main__":
    driver.run(Client, WORKERS, ["rq", "redis"])
