"""Huey: two commands of one worker process each, no results. It loses what a killed worker had taken: a pop is the only delivery.

* Two commands with `--worker-type process --workers 1`: one process per core; blocking pops, the default of RedisHuey.
* `results=False`: nothing is stored of a task that has ended ("Huey" in the API documentation).
* `--no-periodic`, `--disable-health-check`: no periodic tasks, no health check of workers. `--scheduler-interval 1`: the scheduler
  looks once a second, its least.
* Many are scheduled one by one: there is no call for several. An instant is `schedule(eta=)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from huey import RedisHuey

from proof.benchmarks import driver, ledger

huey = RedisHuey("bench", results=False, url=f"unix://{driver.store_socket()}")


@huey.task(name="noop")
def noop(text: str) -> None:
    """Writes down that it has started."""
    ledger.mark(text)


class Client(driver.SystemClient):
    """One queue."""

    def one(self, number: int) -> None:
        noop(ledger.payload(number))

    def many(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            noop(ledger.payload(number))

    def at(self, number: int, due: float) -> None:
        noop.schedule((ledger.payload(number),), eta=datetime.fromtimestamp(due, UTC))


WORKERS = [
    (
        "huey.bin.huey_consumer proof.benchmarks.systems.huey.huey --worker-type process --workers 1 --scheduler-interval 1"
        " --no-periodic --disable-health-check --quiet"
    )
] * 2

if __name__ == "__main__":
    # Huey names a task after its module, which has to be the one that the workers import.
    from proof.benchmarks.systems.huey import Client as Imported

    driver.run(Imported, WORKERS, ["huey", "redis"])
