"""How a cluster stands, for people: what waits, runs and failed by lambda, which processes are alive and run what, and how full the servers are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from atf.errors import Unavailable
from atf.store.servers.checks import Memory
from atf.store.servers.sockets import Arg
from atf.task import MAX_BATCH, US, Status

from . import keys
from .partitions import REGISTRY_PARTITION, Partitions
from .servers import checks

_AT_ONCE: Final = 32
"""Lambdas in a call: at most some ten milliseconds of the store."""
_PAGE: Final = 1_024
"""Entries of what workers run in a call: they take the store some two milliseconds, and its collection of garbage more now and then."""
COUNTED: Final = (
    *(Status.NEW, Status.RETRIABLE_FAILURE, Status.ENQUEUED, Status.CLAIMED, Status.PROCESSING),
    *(Status.SUCCESS, Status.FATAL_FAILURE, Status.CANCELLED),
)
"""In the order in which `get_status` and `count` answer them."""
_LIVE, _CLAIMED, _PROCESSING, _FATAL = 5, 3, 4, 6
"""How many of them are live, and where some stand."""
_FIELDS: Final = 6 + len(COUNTED)
"""Of a lambda in the answer of `get_status`."""
_MOST_ROLES: Final = 4_096
"""Processes that are listed."""


class LambdaCounts(NamedTuple):
    """How a lambda stands, in one partition or in all."""

    waiting: int  # tasks that are due and do not run yet
    since_us: int  # since when the first of those is due; 0: none waits
    recent: int  # dead letters that failed recently
    failed_id: str  # the newest of all dead letters; "": there is none
    failed_us: int  # when that failed
    by_status: Sequence[int]  # tasks in each status, in the order of COUNTED

    @property
    def counts(self) -> dict[Status, int]:
        """How many tasks are in each status."""
        return dict(zip(COUNTED, self.by_status, strict=True))

    @property
    def unfinished(self) -> int:
        """Tasks that have not ended."""
        return sum(self.by_status[:_LIVE])

    @property
    def later(self) -> int:
        """Tasks that are due in the future."""
        return self.unfinished - self.running - self.waiting

    @property
    def running(self) -> int:
        """Tasks that executors have."""
        return self.by_status[_CLAIMED] + self.by_status[_PROCESSING]

    @property
    def dead(self) -> int:
        """Dead letters."""
        return self.by_status[_FATAL]

    def __add__(self, other: LambdaCounts) -> LambdaCounts:  # type: ignore[override]
        """Two partitions together."""
        return LambdaCounts(
            self.waiting + other.waiting,
            min(self.since_us or other.since_us, other.since_us or self.since_us),
            self.recent + other.recent,
            max(self, other, key=attrgetter("failed_us")).failed_id,
            max(self.failed_us, other.failed_us),
            [here + there for here, there in zip(self.by_status, other.by_status, strict=True)],
        )


NO_TASKS: Final = LambdaCounts(0, 0, 0, "", 0, (0,) * len(COUNTED))
"""A lambda without any."""


class StoreStatus(NamedTuple):
    """How the store stands."""

    now_us: int
    lambdas: dict[str, LambdaCounts]  # those with tasks
    away: int  # partitions that can't be reached
    early_us: int  # when finished tasks last went before their retention; 0: they never did

    def whole(self) -> dict[str, LambdaCounts]:
        """The lambdas.

        Raises:
            Unavailable: a partition is away, and nobody can count its tasks.
        """
        if self.away:
            raise Unavailable(
                f"{self.away} partitions of the task store can't be reached: nobody can count their tasks"
            )
        return self.lambdas


class LiveRole(NamedTuple):
    """A process of a role that is alive; executors are their controllers' matter."""

    role: str
    version: str  # of ATF
    name: str  # host:pid


class StatusVerbs(Partitions):
    """The verbs of Store for `atf status`; among what it says are warnings of roles, each one line a cluster."""

    async def get_status(self, names: Sequence[str], recent_us: int) -> StoreStatus:
        """How some lambdas stand: two commands per lambda and partition, and some ten for each that has tasks.

        Args:
            names: of the lambdas.
            recent_us: how long ago a failure counts as recent.
        """
        names = sorted(
            names, key="{}:".format
        )  # so that their lists, of which each name is the beginning, stand in this order
        now_us = away = early_us = 0
        found: dict[str, LambdaCounts] = {}

        async def look(partition: int) -> None:
            nonlocal now_us, early_us
            for start in range(0, max(len(names), 1), _AT_ONCE):
                some = names[start : start + _AT_ONCE]
                now, early, reply = await self._call("get_status", partition, [recent_us, *some])
                now_us, early_us = max(now_us, int(now)), max(early_us, int(early))
                for at in range(0, len(reply), _FIELDS):
                    number, waiting, since, recent, newest, failed, *counts = reply[at : at + _FIELDS]
                    here = LambdaCounts(waiting, int(since), recent, newest.decode(), int(failed), counts)
                    name = some[number]
                    found[name] = found[name] + here if name in found else here

        for error in await asyncio.gather(*map(look, range(self.partitions)), return_exceptions=True):
            if isinstance(error, Unavailable):
                away += 1
            elif error is not None:
                raise error
        if away == self.partitions:
            raise Unavailable("no partition of the task store can be reached")
        return StoreStatus(now_us, found, away, early_us)

    async def served(self) -> set[tuple[str, str]]:
        """(pool, lambda) of what live workers run; the lambda is "*" where some of a pool did not say."""
        found: set[tuple[str, str]] = set()
        until, told, page = b"", 0, [b""] * _PAGE
        while len(page) == _PAGE:
            reply = await self._call("served", REGISTRY_PARTITION, [until, told, _PAGE])
            until, told, page = reply or (until, told, [])
            found.update((pool, name) for pool, name, *_ in (each.decode().split(" ") for each in page))
        return found

    async def announce(self, processes: Sequence[LiveRole], seconds: float, warnings: Sequence[str] = ()) -> list[bool]:
        """Notes that processes live.

        Args:
            processes: they; no part has a blank.
            seconds: how long they count as alive.
            warnings: what they see that is wrong, by names that are the same in each process.

        Returns:
            of each warning whether it is new: nobody who is alive has said it.
        """
        reply: list[int] = []
        for start in range(0, len(processes), MAX_BATCH):
            some = [" ".join(each) for each in processes[start : start + MAX_BATCH]]
            args: list[Arg] = [round(seconds * US), len(some), *some, *([] if start else warnings)]
            reply += await self._call("announce", REGISTRY_PARTITION, args)
        return [new == 1 for new in reply]

    async def live_roles(self) -> list[LiveRole]:
        """The processes that are alive, by role."""
        found = [
            each.decode().split(" ", 2) for each in await self._call("live_roles", REGISTRY_PARTITION, [_MOST_ROLES])
        ]
        return sorted(LiveRole(*each) for each in found)

    async def memory_ratio(self, partition: int) -> float:
        """What the server of a partition uses, as a part of its maxmemory; 0 where it has no bound, or is a fake in this process."""
        if self._link.in_process:
            return 0
        key = keys.record(partition)
        said = checks.said_of(await checks.told(self._link.link_for(key) or self._link, "INFO", "memory"))
        most = int(said.get("maxmemory", 0))
        return int(said.get("used_memory", 0)) / most if most else 0

    async def memory(self) -> list[Memory]:
        """What each server that takes writes uses; none of a fake in this process, nor where one may not be asked."""
        return [] if self._link.in_process else await checks.memory(self._link)
