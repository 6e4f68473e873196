"""What a store server shows from outside: when it is back after its death, and when each role works with it again.

It looks into the store itself, by keys alone, and asks no role.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from atf.store import keys
from atf.verify.bench import Bench
from atf.verify.history import Accepted
from atf.verify.record import now_us, wall_us

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
ALWAYS, EVERYSEC = "disk", "relaxed"
RESUMES_S: Final = 5.0
"""Seconds from the store's return until each role works with it again."""


def connect(url: str) -> redis.Redis:
    """A connection that repeats nothing."""
    return redis.Redis.from_url(
        url, retry=Retry(NoBackoff(), 0), socket_timeout=_TIMEOUT_S, max_connections=2, decode_responses=True
    )


async def back(bench: Bench, since: float) -> float:
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
    """Watches for the first successes after a return of the store, which is the moment it is made.

    Args:
        bench: with a store of one partition.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._began_us, self._wall_us = now_us(), wall_us()
        self._events, self._begun = len(bench.stream.events), len(bench.record.begun)
        self._pushed: int | None = None
        self.took_s: dict[str, float] = {}

    async def watch(self, within: float) -> dict[str, float]:
        """Waits until there is a first success of each kind; the seconds that each took. What did not come in time is missing."""
        until = time.monotonic() + within
        async with connect(self._bench.cluster.redis_url) as client:
            while time.monotonic() < until and len(self.took_s) < len(ROLES):
                self._from_the_load()
                await self._from_the_store(client)
                await asyncio.sleep(_LOOK_S)
        return dict(self.took_s)

    def _from_the_load(self) -> None:
        events = self._bench.stream.events
        for each in events[self._events :]:
            if isinstance(each, Accepted) and each.at_us > self._began_us:
                self._note("schedule", each.at_us - self._began_us)
        self._events = len(events)
        begun = self._bench.record.begun
        for run in begun[self._begun :]:
            if run.fence > self._wall_us:  # a claim's number is the store's clock when it was made
                self._note("claim", run.fence - self._wall_us)
                self._note("start", run.at_us - self._began_us)
        self._begun = len(begun)

    async def _from_the_store(self, client: redis.Redis) -> None:
        names = [f"{self._bench.namespace}/{name}:1" for name in ("work", "work_async")]
        record = keys.record(0)
        try:
            pushed = sum([int(await client.hget(f"{record}:q:{each}", "pushed") or 0) for each in names])
            held = [await client.zrange(f"{record}:s:{each}:PROCESSING", -1, -1, withscores=True) for each in names]
        except (RedisError, OSError):
            return
        if self._pushed is not None and pushed > self._pushed:
            self._note("enqueue", now_us() - self._began_us)
        self._pushed = pushed if self._pushed is None else self._pushed
        lease_us = self._bench.timing.heartbeat_timeout_us
        for each in held:
            renewed_us = round(float(each[0][1])) - lease_us if each else 0
            if renewed_us > self._wall_us:
                self._note("heartbeat", renewed_us - self._wall_us)

    def _note(self, what: str, took_us: int) -> None:
        self.took_s.setdefault(what, round(took_us / 1e6, 3))


def bars(bench: Bench, durability: str) -> dict[str, float]:
    """Seconds from the store's return until there must be a first success of each kind; see ROLES.

    Where claims may have been forgotten none are made for one heartbeat_timeout, so nothing starts and nothing is renewed either.
    """
    more = bench.timing.heartbeat_timeout if durability == EVERYSEC else 0.0
    return {what: RESUMES_S + (more if what in {"claim", "start", "heartbeat"} else 0.0) for what in ROLES}
