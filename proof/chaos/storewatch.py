"""What a store server shows from outside: when it is back after its death, and when each role works with it again.

It looks into the store itself, by keys alone, and asks no role. Of executors there are several: the slowest of them counts.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from atf.store import keys
from atf.task import DEFAULT_ENQUEUE_TIMEOUT_US, US
from atf.verify.bench import LoadedCluster
from atf.verify.events import Accepted
from atf.verify.record import key_of, now_us, wall_us
from atf.verify.record_files import pid_of

_LOOK_S: Final = 0.01
_TIMEOUT_S: Final = 5.0
_BACK_S: Final = 120.0
"""Seconds that a server may take to load its data."""
ROLES: Final = {
    "schedule": "frontend",
    "enqueue": "store consumer",
    "claim": "controller and HSC",
    "heartbeat": "HSC and executor",
    "start": "executor",
}
"""What is measured, and whose work it is."""
OF_WORKERS: Final = ("claim", "heartbeat", "start")
"""What is measured of each executor's worker."""
ALWAYS, EVERYSEC = "disk", "relaxed"
WORKS_S: Final = 0.5
"""Seconds from the store's return until tasks are accepted, pushed, claimed and started again, by the slower one of two executors, too."""
RESUMES_S: Final = 5.0
"""Seconds from the store's return until leases are renewed again: heartbeats have a rhythm of their own."""
ENQUEUE_TIMEOUT_S: Final = DEFAULT_ENQUEUE_TIMEOUT_US / US
"""Seconds until an id is pushed again that nobody has claimed; the load's lambdas declare no other."""


def connect(url: str) -> redis.Redis:
    """A connection that repeats nothing."""
    return redis.Redis.from_url(
        url, retry=Retry(NoBackoff(), 0), socket_timeout=_TIMEOUT_S, max_connections=2, decode_responses=True
    )


async def back(bench: LoadedCluster, since: float) -> float:
    """Waits until the server that was killed at `since` (monotonic) answers again, its data loaded; the seconds that it was away."""
    async with asyncio.timeout(_BACK_S):
        while bench.cluster.pid("store") in {0, bench.strikes[-1].pid}:
            await asyncio.sleep(_LOOK_S)
        while True:
            try:
                async with connect(bench.cluster.redis_url) as client:
                    await client.ping()
            except (RedisError, OSError):
                await asyncio.sleep(_LOOK_S)
            else:
                return time.monotonic() - since


class Resumption:
    """Watches for the first successes after a return of the store, which is the moment it is made; of what executors do, for the first of each.

    Args:
        bench: with a store of one partition.
    """

    def __init__(self, bench: LoadedCluster) -> None:
        self._bench = bench
        self._began_us, self._wall_us = now_us(), wall_us()
        self._events, self._begun = len(bench.stream.events), len(bench.record.begun)
        self._pushed: int | None = None
        self._took_us: dict[str, int] = {}
        self._of_workers: dict[str, dict[int, int]] = {what: {} for what in OF_WORKERS}
        self._workers = {run.task_id: pid_of(run.process) for run in bench.record.begun}

    async def watch(self, within: float) -> dict[str, float]:
        """Waits until there is a first success of each kind, by every executor that lives; the seconds that each took.

        What did not come in time, or not from every executor, is missing.
        """
        until = time.monotonic() + within
        async with connect(self._bench.cluster.redis_url) as client:
            while time.monotonic() < until and not (self._may_be_all() and len(self.took_s()) == len(ROLES)):
                await self.look(client)
                await asyncio.sleep(_LOOK_S)
        return self.took_s()

    async def look(self, client: redis.Redis) -> None:
        """Takes note of what has happened since."""
        self._from_the_load()
        await self._from_the_store(client)

    def took_s(self) -> dict[str, float]:
        """What is known so far; an executor that has died counts no more, and one that was started since does."""
        found = dict(self._took_us)
        living = {each.worker for each in self._bench.cluster.executors()}
        for what, took in self._of_workers.items():
            if len(living) >= self._bench.executors and living <= took.keys():
                found[what] = max(took[each] for each in living)
        return {what: round(found[what] / 1e6, 3) for what in ROLES if what in found}

    def _may_be_all(self) -> bool:
        """Whether it is worth to ask the kernel who lives."""
        found = len(self._took_us) + len(self._of_workers)
        return found == len(ROLES) and all(len(took) >= self._bench.executors for took in self._of_workers.values())

    def _from_the_load(self) -> None:
        events = self._bench.stream.events
        for each in events[self._events :]:
            if isinstance(each, Accepted) and each.at_us > self._began_us:
                self._took_us.setdefault("schedule", each.at_us - self._began_us)
        self._events = len(events)
        begun = self._bench.record.begun
        for run in begun[self._begun :]:
            worker = self._workers[run.task_id] = pid_of(run.process)
            if run.fence > self._wall_us:  # a claim's number is the store's clock when it was made
                self._of_workers["claim"].setdefault(worker, run.fence - self._wall_us)
                self._of_workers["start"].setdefault(worker, run.at_us - self._began_us)
        self._begun = len(begun)

    async def _from_the_store(self, client: redis.Redis) -> None:
        names = [f"{self._bench.namespace}/{name}:1" for name in ("work", "work_async")]
        record, lease_us = keys.record(0), self._bench.timing.heartbeat_timeout_us
        first_us = self._wall_us + lease_us + 1
        try:
            pushed = sum([int(await client.hget(f"{record}:q:{each}", "pushed") or 0) for each in names])
            held: list[Any] = [
                await client.zrangebyscore(f"{record}:s:{each}:PROCESSING", first_us, "+inf", withscores=True)
                for each in names
            ]
        except (RedisError, OSError):
            return
        if self._pushed is not None and pushed > self._pushed:
            self._took_us.setdefault("enqueue", now_us() - self._began_us)
        self._pushed = pushed if self._pushed is None else self._pushed
        for task_id, lease_end_us in (pair for pairs in held for pair in pairs):
            if worker := self._workers.get(key_of(task_id)):
                took_us = round(float(lease_end_us)) - lease_us - self._wall_us
                self._of_workers["heartbeat"].setdefault(worker, took_us)


def bars(bench: LoadedCluster, durability: str) -> dict[str, float]:
    """Seconds from the store's return until there must be a first success of each kind; see ROLES.

    Where claims may have been forgotten none are made for one heartbeat_timeout, so nothing starts and nothing is renewed either.
    """
    more = bench.timing.heartbeat_timeout + RESUMES_S if durability == EVERYSEC else 0.0
    bar = {what: WORKS_S + (more if what in {"claim", "start"} else 0.0) for what in ROLES}
    return {**bar, "heartbeat": RESUMES_S + more}


def worst_s(bench: LoadedCluster, durability: str) -> float:
    """Seconds from the store's return until every task has started that waited or was cut off.

    Claims whose answer nobody heard come with the repeated ask, or wait with all others where claims are made only after one heartbeat_timeout.
    """
    pause = bench.timing.heartbeat_timeout if durability == EVERYSEC else 0.0
    return RESUMES_S + max(pause, ENQUEUE_TIMEOUT_S)
