"""Calls functions on the partitions of a store, and opens each: makes or checks its record, once more where a call meets another server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from atf.config.settings import StoreSettings, Timing
from atf.durability import Durability
from atf.errors import AtfError, FailedPrecondition, Unavailable
from atf.metrics.metrics import Metrics
from atf.metrics.table import STORE_CALL_SECONDS, STORE_CALLS
from atf.runtime import Runtime
from atf.store.servers.connection import Link
from atf.store.servers.sockets import Arg
from atf.task import US, partition_of

from . import keys, library
from .claim_pause import PauseCause

REGISTRY_PARTITION: Final = 0
"""The partition where lambdas and gates are written first; of what concerns all, most lies there alone."""
PARTITIONS: Final = 1
"""Of a new store on one server, with replicas or without, where none are set: more gain nothing there, and make each task dearer."""
CLUSTER_PARTITIONS: Final = 16
"""Of a new store on a cluster, where none are set: enough for every master of a small one to have some."""


class Partitions:
    """The lower half of Store, which every class of verbs builds on.

    Attributes:
        partitions: how many there are; 0 until `_open_all` knows, where none are set.
        settings: as the store was opened; whoever waits for something reads its poll_interval there.
        now: in tests, answers the instant (µs) that every function takes for the server's TIME.
        metrics: where its calls are counted and timed, and what they have ended; of the process.
        pause_met: set where a call found that claims are paused; who says so (claim_pause.py) clears it when they are given again.
    """

    def __init__(self, link: Link, settings: StoreSettings, timing: Timing, runtime: Runtime) -> None:
        self.partitions = settings.partitions
        self.settings = settings
        self.now: Callable[[], int] | None = None
        self.metrics = Metrics()
        self.pause_met = asyncio.Event()
        self._link = link
        self._lease_us = timing.heartbeat_timeout_us
        self._runtime = runtime
        self._opened: dict[int, str] = {}
        """Partition -> the run id of the server that it was last opened on."""
        self._ready = False
        """Whether all partitions were opened once, as far as they are not away: from then on each is opened again when needed."""
        self._made: dict[int, int] = {}
        """Partition -> the instant at which its record was made."""

    def partition_for(self, routing_key: str) -> int:
        """The partition of an ordering key or a task id as the client made it."""
        return keys.partition_for(routing_key, self.partitions)

    def _partition(self, task_id: str) -> int:
        """The partition a stored id names; InvalidArgument where it names none."""
        return partition_of(task_id, self.partitions)

    async def open_partitions(self, agree: bool) -> None:
        """Makes the partitions' records, or checks them. Those that are away are opened with their first call."""
        away: Unavailable | None = None
        if not self.partitions:
            self.partitions = await self._recorded_partitions() or new_partitions(self._link)
        partition = 0
        while partition < self.partitions:  # the first record that answers may say another number
            try:
                timeout_us = await self.open_partition(partition, record=agree)
                if agree and timeout_us != self._lease_us:
                    raise FailedPrecondition(self._disagreement(timeout_us))
                self._lease_us = timeout_us
            except Unavailable as error:
                if not self._link.parted:
                    raise
                away = error
            partition += 1
        if away is not None and not self._opened:
            raise away
        self._ready = True

    async def _recorded_partitions(self) -> int:
        """How many the first record says that can be read; 0: the store is new.

        Raises:
            Unavailable: where one of the first can't be reached, and the others have none: it may be the one that says it.
        """
        away: Unavailable | None = None
        for partition in range(new_partitions(self._link)):
            key = keys.record(partition)
            try:
                recorded = await self._link.command("HGET", key, "partitions", key=key)
            except Unavailable as error:
                away = error
                continue
            if recorded is not None:
                return int(recorded)
        if away is not None:
            raise away
        return 0

    def _disagreement(self, recorded_us: int) -> str:
        recorded, ours = recorded_us / US, self._lease_us / US
        return (
            f"the task store at {self._link.where} is used with heartbeat_timeout = {recorded:g} s, and this role is set to"
            f" {ours:g} s; executors must not count on longer leases than they are given. Set heartbeat_timeout = {recorded:g}"
            f" (ATF_HEARTBEAT_TIMEOUT), or change it for all roles with atf store timing --set {ours:g}"
        )

    async def open_partition(self, partition: int, *, record: bool = True) -> int:
        """Makes a partition's record, or checks it; returns the heartbeat timeout on record, or ours where none is."""
        args: list[Arg] = [self.partitions, library.VERSION, self._lease_us, int(record)]
        try:
            made, timeout_us = self._check_record(await self._call("open_partition", partition, args, server=True))
            run_id = self._link.run_id(keys.record(partition))
            if self._made.setdefault(partition, made) != made:
                # The server came back with nothing, not even the name of the one before: only this role can tell, and a task
                # whose id is sent again must not run beside the run that was forgotten.
                await self._pause_claims(partition, timeout_us, PauseCause.EMPTIED)
                self._made[partition] = made
        except BaseException:
            self._opened.pop(partition, None)  # all of it is done before the next call
            raise
        self._opened[partition] = run_id
        return timeout_us

    def _check_record(self, reply: Any) -> tuple[int, int]:
        """A partition's record fits this role. Returns when it was made, and the heartbeat timeout on record."""
        recorded, version, timeout_us, made = map(int, reply)
        if version != library.VERSION:
            raise FailedPrecondition(
                f"the task store at {self._link.where} holds data of version {version}, and this role's release works on"
                f" version {library.VERSION}. Run the release that the data are of, or move the tasks to a new store with"
                " its atf store export and the other release's atf store import"
            )
        if not self.settings.partitions and not self._opened:
            # another role, to which a number is set, may have made the store since we looked
            self.partitions = recorded
        if recorded != self.partitions:
            raise FailedPrecondition(
                f"the task store at {self._link.where} was made with {recorded} partitions, and this role is set to"
                f" {self.partitions}. Leave partitions (ATF_PARTITIONS) unset, or set {recorded}, or move the tasks to a new"
                " store with atf store export and atf store import"
            )
        return made, timeout_us

    async def _call(
        self,
        verb: str,
        partition: int,
        args: Sequence[Arg],
        *,
        server: bool = False,
        demand: Durability = Durability.RELAXED,
    ) -> Any:
        """Calls one function on one partition; its first argument, the instant, is put before `args`."""
        record, now = keys.record(partition), self.now() if self.now else ""
        if not self.settings.push_when_scheduled:
            now = f"-{now}"
        again = self._ready and verb not in {"open_partition", "pause_claims"}
        if again and partition not in self._opened:
            await self.open_partition(partition)  # it was away when this role started, or failed to be opened since
        result, began = "cancelled", self._runtime.monotonic()
        try:
            reply = await self._link.call(verb, record, [now, *args], server=server, demand=demand)
            result = "ok"
        except AtfError as error:
            result = error.code.lower()
            raise
        finally:
            self.metrics.counter(STORE_CALLS, verb, result).inc()
            self.metrics.histogram(STORE_CALL_SECONDS, verb).observe(self._runtime.monotonic() - began)
        # Whoever meets another server first has it noted, so that none is forgotten that was the master for a while.
        if again and self._link.run_id(record) != self._opened.get(partition):
            with contextlib.suppress(Unavailable):  # then it is done before the next call
                await self.open_partition(partition)
        return reply

    async def _pause_claims(self, partition: int, time_us: int, cause: PauseCause) -> int:
        """Has one partition give no claims for so long; returns until when."""
        # Made safe where it can be: a server that forgets this pause could be known to have forgotten no lease.
        args: list[Arg] = [time_us, cause]
        if self._link.proves:
            with contextlib.suppress(FailedPrecondition):
                return int(await self._call("pause_claims", partition, args, demand=Durability.DISK))
        return int(await self._call("pause_claims", partition, args))


def new_partitions(link: Link) -> int:
    """How many a new store behind `link` is given where none are set."""
    return CLUSTER_PARTITIONS if link.parted else PARTITIONS
