"""Dramatiq: two commands of one process with eight threads each, no results.

* Two commands with `--processes 1 --threads 8`: one process per core, the default number of threads.
* `dramatiq_queue_prefetch` 512 (default 2 per thread): more messages a fetch, per process ("Environment Variables" of the
  reference; pull request 674 of its repository says that it counts per process).
* Retries is the only middleware: the others of the default bound the age and run time of messages, which a no-op needs not
  ("Middleware" of the guide). No Results middleware is there by default.
* `heartbeat_timeout` 60 s, the default: after it the messages of a process that is gone go into their queue again, by whoever does
  the maintenance. `maintenance_chance` 10,000 in a million commands (default 1,000): workers that are nearly idle give few commands.
* At its defaults: one command, which starts a process per core, with all of the default middleware.
* Many are scheduled one by one: the Redis broker has no call for several. An instant is `send_with_options(delay=)`, in ms.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Retries

from proof.benchmarks import driver, ledger

_client = redis.Redis(unix_socket_path=driver.store_socket())
broker = (
    RedisBroker(client=_client)
    if driver.at_defaults()
    else RedisBroker(client=_client, middleware=[Retries()], heartbeat_timeout=60_000, maintenance_chance=10_000)
)
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="noop")
def noop(text: str) -> None:
    """Writes down that it has started."""
    ledger.mark(text)


class Client(driver.SystemClient):
    """One broker."""

    def one(self, number: int) -> None:
        noop.send(ledger.payload(number))

    def many(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            noop.send(ledger.payload(number))

    def at(self, number: int, due: float) -> None:
        # An instant in whole ms is made of the delay, by the broker's own reading of the clock: never before the one asked for.
        delay = max(0, math.ceil((due - time.time()) * 1000) + 1)
        noop.send_with_options(args=(ledger.payload(number),), delay=delay)


WORKERS = (
    ["dramatiq proof.benchmarks.systems.dramatiq"]
    if driver.at_defaults()
    else ["dramatiq --processes 1 --threads 8 proof.benchmarks.systems.dramatiq"] * 2
)

if __name__ == "__main__":
    more = {} if driver.at_defaults() else {"dramatiq_queue_prefetch": "512"}
    driver.run(Client, WORKERS, ["dramatiq", "redis"], more)
