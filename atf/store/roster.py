"""Keeps a process on the roster of those that give leases, and finds after a restart whether its last lease is still there.

A server that keeps an append-only file comes back with a prefix of what it had written. So where the last lease that a process was
answered is there, all before it are. Each process that asks for leases has a name on the roster that the store keeps in each partition
(lua/shared/roster.lua), and knows the number of the last call that was answered under it. After a restart the store takes that name no more:
the process takes another one, and says the number that it had under the one before. When all have said one that is there, the store has
forgotten no lease, and gives claims at once.

What must hold in each of these processes, which speaks for itself alone:

1. It is answered no lease under a name before the roster is sure to keep that name.
2. Once it has said a number, it takes no answer any more that was under way under that name: the server of before may have sent it.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, Final

from atf.calls.retry import Trouble
from atf.config.settings import StoreSettings, Timing
from atf.durability import Durability
from atf.errors import AtfError, Unavailable
from atf.log import get_logger
from atf.runtime import Runtime, end, new_id
from atf.store.servers.connection import Link
from atf.store.servers.sockets import Arg
from atf.task import US

from . import keys, library
from .partitions import Partitions

LOOK_S: Final = 1.0
"""Seconds between two looks whether the server is still the same, where nobody asks for leases."""
_TRIES: Final = 3
"""Names under which one call is tried."""
_LEAVES_S: Final = 1.0
"""That striking off its names may take a process which ends."""

_log = get_logger(duty="roster")


@dataclass(slots=True)
class RosterEntry:
    """A name on one partition's roster.

    Attributes:
        number: the highest that was answered under it.
        run_id: the server that answered last.
        answered_at: when that was, by the monotonic clock.
        closed: no answer under it is taken any more.
    """

    name: str
    run_id: str
    answered_at: float
    number: int = 0
    closed: bool = False


class RosterVerbs(Partitions):
    """What Store does before it asks for leases, and after a restart of the server."""

    def __init__(self, link: Link, settings: StoreSettings, timing: Timing, runtime: Runtime) -> None:
        super().__init__(link, settings, timing, runtime)
        self._on_roster: dict[int, RosterEntry] = {}
        """Partition -> this process's name on its roster, where it has asked for leases."""
        self._names: dict[int, str] = {}
        """Partition -> the name that is being put there."""
        self._enlisting: dict[int, asyncio.Task[RosterEntry]] = {}
        self._left = False

    async def attend(self) -> None:
        """Puts this process on every roster, and answers after a restart, also where nobody asks for leases. Runs until cancelled."""
        trouble = Trouble(_log, "store")

        async def look(partition: int) -> None:
            try:
                if await self._lease("heartbeat", partition, [self._lease_us, 0]):
                    self.pause_met.set()
            except Exception as error:  # noqa: BLE001  a duty outlives whatever fails in it; Trouble says what
                trouble.failed(partition, error)
            else:
                trouble.ended(partition)

        everywhere = range(self.partitions)
        await asyncio.gather(*map(look, everywhere))
        while True:
            await asyncio.sleep(LOOK_S)
            # A partition of each server tells of its restart, and where claims pause for another reason, they do in all.
            first = {self._link.run_id(keys.record(each)): each for each in reversed(everywhere)}
            await asyncio.gather(*map(look, first.values()))
            await asyncio.gather(*(look(each) for each in everywhere if self._unsure(each)))

    async def leave(self) -> None:
        """Strikes this process off: it asks for no lease any more. Where that fails, it is struck off later."""
        self._left = True
        await end(self._enlisting.values())
        with contextlib.suppress(AtfError, TimeoutError):
            async with asyncio.timeout(_LEAVES_S):
                await asyncio.gather(*(self._say(partition, "") for partition in self._on_roster))

    def _unsure(self, partition: int) -> bool:
        """Whether this process may have to answer on one roster, or to say that it lives."""
        listed = self._on_roster.get(partition)
        if listed is None or listed.closed or listed.run_id != self._link.run_id(keys.record(partition)):
            return True
        return self._runtime.monotonic() - listed.answered_at > library.ROSTER_SPEAKS_US / US

    async def _lease(
        self, verb: str, partition: int, args: list[Arg], *, demand: Durability = Durability.RELAXED
    ) -> list[Any]:
        """Calls a function that gives or renews leases; returns what it answers, without the call's number.

        Raises:
            Unavailable: the server restarted while the call was under way, or can't make sure that it keeps this process's name.
        """
        for _ in range(_TRIES):
            listed = await self._name(partition)
            reply: list[Any] = await self._call(verb, partition, [listed.name, *args], server=True, demand=demand)
            if reply[0] == b"unlisted":
                listed.closed = True
                continue
            if listed.closed:
                break
            listed.run_id, listed.answered_at = self._link.run_id(keys.record(partition)), self._runtime.monotonic()
            if reply[0] == b"paused":
                self.pause_met.set()
            else:
                listed.number = max(listed.number, int(reply.pop()))
            return reply
        raise Unavailable(f"{verb}: the task store restarted while the call was under way; it may be repeated")

    async def _name(self, partition: int) -> RosterEntry:
        """The name of this process on one roster. To take one may last for a second: no call that is given up breaks that off."""
        listed = self._on_roster.get(partition)
        if listed is not None and not listed.closed:
            return listed
        if self._left:
            raise Unavailable("this process ends, and asks for no lease any more")
        work = self._enlisting.get(partition)
        if work is None:
            work = self._enlisting[partition] = self._runtime.spawn(self._enlist(partition), name=f"enlist {partition}")
            work.add_done_callback(lambda done: self._enlisted(partition, done))
        return await asyncio.shield(work)

    def _enlisted(self, partition: int, work: asyncio.Task[RosterEntry]) -> None:
        del self._enlisting[partition]
        if not work.cancelled():
            work.exception()  # all who waited for it may have given up

    async def _enlist(self, partition: int) -> RosterEntry:
        # Until the store is known to have it, the same name is tried again: none is left behind.
        name = self._names.setdefault(partition, new_id(self._runtime.random))
        if await self._say(partition, name) and self._link.proves:
            await self._say(partition, name, Durability.DISK)
        del self._names[partition]
        run_id = self._link.run_id(keys.record(partition))
        listed = self._on_roster[partition] = RosterEntry(name, run_id, self._runtime.monotonic())
        return listed

    async def _say(self, partition: int, name: str, demand: Durability = Durability.RELAXED) -> bool:
        """Changes names on one roster, and answers for the one before; returns whether the new one is still to be made safe."""
        before = self._on_roster.get(partition)
        if before is not None:
            before.closed = True
        args: list[Arg] = [self._lease_us, name, before.name if before else "", before.number if before else 0]
        unsafe, said, waits_for = await self._call("enlist", partition, args, server=True, demand=demand)
        if said == b"yes":
            _log.info(
                "the task store restarted: it has no lease forgotten that was given here",
                partition=partition,
                waits_for=waits_for,
            )
        elif said == b"no":
            _log.warning(
                "the task store restarted, and has forgotten leases: no claims for one heartbeat_timeout",
                partition=partition,
            )
        return bool(unsafe)
