"""The task store: a method per verb, each one function of the library over batches within one partition.

Owns every read and write of Redis. Knows nothing of RPCs, payloads or lambdas' code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from atf.config.settings import StoreSettings, Timing
from atf.errors import Unavailable
from atf.runtime import Runtime
from atf.store.servers.check_results import CheckResult
from atf.store.servers.connection import Link
from atf.store.servers.modes import fake_link, open_link
from atf.store.servers.notifications import Notifications, listen
from atf.store.servers.sockets import Arg
from atf.task import MAX_BATCH, US, Status

from . import keys, library
from .audit import AuditVerbs
from .batches import BatchVerbs
from .calls import by_partition
from .capacity import DRAINS, CapacityVerbs, ServeAnswer
from .claims import ClaimVerbs
from .failures import FailureVerbs
from .gates import GateVerbs
from .jobs import JobVerbs, due_jobs
from .lambdas import LambdaVerbs
from .listing import ListVerbs
from .partitions import REGISTRY_PARTITION
from .queues import QueueVerbs
from .reading import TaskVerbs
from .run_logs import LogVerbs
from .scheduling import ScheduleVerbs
from .servers import checks
from .status import StatusVerbs
from .tokens import TokenVerbs
from .user_keys import UserKeyVerbs
from .values.claims import FirstTimeKey
from .values.passes import EnqueuePass, OutboxRecord
from .values.tasks import CancelResult, RetryResult


class Store(
    ScheduleVerbs,
    AuditVerbs,
    TokenVerbs,
    BatchVerbs,
    CapacityVerbs,
    ClaimVerbs,
    FailureVerbs,
    GateVerbs,
    JobVerbs,
    ListVerbs,
    QueueVerbs,
    StatusVerbs,
    TaskVerbs,
    LambdaVerbs,
    LogVerbs,
    UserKeyVerbs,
):
    """One process's view of the task store. `open` it, `close` it.

    Attributes:
        check_results: what was found of the servers when it was opened.
    """

    check_results: Sequence[CheckResult] = ()

    @property
    def link(self) -> Link:
        """Its connections: for tools and tests that look at a store, or spoil it, past its verbs."""
        return self._link

    @classmethod
    async def open(
        cls,
        settings: StoreSettings,
        timing: Timing,
        runtime: Runtime,
        *,
        fake: Any = None,
        agree: bool = True,
        blocking: bool = False,
    ) -> Store:
        """Connects, checks the server, loads the function library and the partition record.

        Args:
            settings: where the store is.
            timing: the lease's length.
            runtime: spawns the listeners for notifications.
            fake: a fakeredis.FakeServer to use instead of a real server.
            agree: whether the heartbeat timeout on record must be this one. Without, the one on record is taken: for tools,
                which give no leases.
            blocking: whether its calls block the thread that makes them (servers/blocking.py); only where the store is one server.

        Raises:
            Unavailable: the server can't be reached, is loading, or is set so that tasks would be lost; trying again makes sense.
            FailedPrecondition: the server or its data don't fit; trying again does not help.
        """
        link = open_link(settings, blocking=blocking) if fake is None else fake_link(fake)
        store = cls(link, settings, timing, runtime)
        try:
            if fake is None:
                store.check_results = await checks.check(store._link, runtime)
            await store._link.load_library()
            await store.open_partitions(agree)
        except BaseException:
            await store.close()
            raise
        return store

    async def retime(self, heartbeat_timeout_us: int) -> None:
        """Puts another heartbeat timeout on record. Roles compare theirs with it when they start."""
        for partition in range(self.partitions):
            await self._call("retime", partition, [heartbeat_timeout_us])
        self._lease_us = heartbeat_timeout_us

    async def allow_direct(self, allowed: bool) -> None:
        """Notes whether clients may be a frontend of their own (atf/direct)."""
        await self._call("allow_direct", REGISTRY_PARTITION, [int(allowed)])

    async def direct_allowed(self) -> bool:
        """Whether they may; until an operator says so they may not."""
        record = keys.record(REGISTRY_PARTITION)
        said = await self._link.command("HGET", record, "direct", key=record)
        return bool(said == b"1")

    @property
    def heartbeat_timeout_us(self) -> int:
        """How long a lease lasts here."""
        return self._lease_us

    async def examine(self) -> list[CheckResult]:
        """What can be found of the servers now; nothing of a fake in this process.

        Raises:
            Unavailable: they can't be reached.
        """
        return [] if self._link.in_process else await checks.examine(self._link, self._runtime)

    async def close(self) -> None:
        """Closes the connections. A process that asked for leases is struck off the rosters."""
        if self._on_roster or self._enlisting:
            await self.leave()
        await self._link.close()

    def listen(self, kind: str, partitions: Sequence[int]) -> AbstractAsyncContextManager[Notifications]:
        """Notifications: `due` for store consumers, `ready` for controllers (queues, as notifications.place_of splits them), `done` (task ids) for who waits for ends."""
        return listen(self._link, self._runtime, kind, partitions, self.settings.wakeups)

    # --- verbs --------------------------------------------------------------------------------------------------------

    async def enqueue(
        self, partition: int, believed_us: int, jobs: int = library.JOBS_PER_PASS, *, step_back: str = ""
    ) -> EnqueuePass:
        """NEW, RETRIABLE_FAILURE (due), ENQUEUED (astray) → ENQUEUED; CLAIMED, PROCESSING (lease expired) → as `report_loss`.

        Args:
            partition: the one to pass over.
            believed_us: no lease ends after this instant, whatever the server's clock says; 0: no bound.
            jobs: due jobs that are told of at most; 0: none is, and the next instant is without theirs.
            step_back: the last step back of the server's clock since which the caller has seen a heartbeat timeout go by; "": it has
                just started.
        """
        answer = await self._call("enqueue", partition, [believed_us, MAX_BATCH, jobs, step_back, self._lease_us])
        now, wait, enqueued, again, lost, queues, outbox, due, gated, failing, *rest = answer
        standing, stepped, over, expired, unfit, late = rest
        names, expired, unfit = ([each.decode() for each in ids] for ids in (failing, expired, unfit))
        await self._register_with_rq(keys.rq_name(partition, queue.decode()) for queue in queues)
        records = [
            OutboxRecord(partition, int(number), int(target), body)
            for number, target, body in zip(outbox[::3], outbox[1::3], outbox[2::3], strict=True)
        ]
        next_in, jobs_due = None if int(wait) < 0 else int(wait), due_jobs(due)
        more = gated, names, standing, stepped.decode(), bool(over), expired, unfit, int(late)
        return EnqueuePass(int(now), next_in, enqueued, again, lost, records, jobs_due, *more)

    async def serve(
        self,
        pool: str,
        seconds: float,
        host: str = "",
        quarantined: Mapping[str, float] | None = None,
        lambdas: Sequence[str] = (),
        *,
        executors: int | None = None,
        why_not: str = "",
    ) -> ServeAnswer:
        """Notes that workers of a pool ("": of no name) are alive, and count as such for so long; or why none can start on a host.

        Args:
            pool: theirs.
            seconds: how long that counts.
            host: the host they are on; "": it says nothing of itself.
            quarantined: the lambdas that it quarantines ("*": all), each with the seconds for which it does (0: it is on trial).
            lambdas: that it serves, each perhaps with the digest of its signature behind a space, and then once for each that runs
                there; it has its part of those that are spread. None: what its workers run is not known.
            executors: how many run there; None: it does not say.
            why_not: why no worker can start on the host; then none is alive there. STARTS: that is not known yet, and what was said holds.
                Empty: they can.
        """
        said = list((quarantined or {}).items())[:MAX_BATCH]
        args: list[Arg] = [why_not, len(said)]
        for name, left in said:
            args += (name, round(left * US))
        count = "" if executors is None else str(executors)

        async def say(partition: int, _: Sequence[int]) -> list[int | None]:
            told: int | None = None
            for start in range(0, max(len(lambdas), 1), MAX_BATCH):
                of = (pool, round(seconds * US), host, count, int(start > 0), *args)
                try:
                    told = await self._call("serve", partition, [*of, *lambdas[start : start + MAX_BATCH]])
                except Unavailable:  # it is said again
                    return [None]
            return [told]

        told = await by_partition(range(self.partitions), int, say)
        at_registry = told[REGISTRY_PARTITION]
        return ServeAnswer(None if at_registry is None else at_registry == DRAINS, None not in told)

    async def cancel_tasks(self, ids: Sequence[str], within: Sequence[str] = ()) -> list[CancelResult]:
        """NEW, ENQUEUED, RETRIABLE_FAILURE → CANCELLED; what runs is flagged.

        Args:
            ids: which.
            within: namespaces (with their slashes) and lambdas: a task of another one does not exist for this call. Empty: of all.
        """
        bound = " ".join(within)

        async def call(partition: int, batch: list[str]) -> list[CancelResult]:
            reply = await self._call("cancel_tasks", partition, [bound, *batch])
            return [
                CancelResult(_status(name), bool(cancelled), bool(flagged), of.decode())
                for name, cancelled, flagged, of in reply
            ]

        return await by_partition(ids, self._partition, call)

    async def retry_tasks(self, ids: Sequence[str], within: Sequence[str] = ()) -> list[RetryResult]:
        """FATAL_FAILURE, CANCELLED → NEW, due now, unless an unfinished task holds its unique key. `within` as of `cancel_tasks`."""
        bound = " ".join(within)

        async def call(partition: int, batch: list[str]) -> list[RetryResult]:
            reply = await self._call("retry_tasks", partition, [bound, *batch])
            return [
                RetryResult(_status(name), bool(done), holder.decode(), of.decode()) for name, done, holder, of in reply
            ]

        return await by_partition(ids, self._partition, call)

    async def watch_tasks(self, ids: Sequence[str]) -> list[Status | None]:
        """Reads statuses, and has `done` notified at the end of those unfinished."""

        async def call(partition: int, batch: list[str]) -> list[Status | None]:
            return [_status(name) for name in await self._call("watch_tasks", partition, batch)]

        return await by_partition(ids, self._partition, call)

    async def first_time(self, asked: Sequence[FirstTimeKey]) -> list[bool]:
        """Whether each task is the first that asks for its key. The same task again gets the same answer, while the key is kept.

        Raises:
            ResourceExhausted: the store is full.
        """

        def name(each: FirstTimeKey) -> str:
            return f"{each.namespace}/{each.key}"

        async def call(partition: int, batch: list[FirstTimeKey]) -> list[bool]:
            args: list[Arg] = []
            for each in batch:
                args += (name(each), each.task_id, each.ttl_us)
            return [first == 1 for first in await self._call("first_time", partition, args, demand=self.settings.floor)]

        return await by_partition(asked, lambda each: self.partition_for(name(each)), call)

    async def sweep(self, partition: int, max_finished: int, *, early: bool = False) -> int:
        """Removes a batch of records whose time is over; returns how many, 0 when none are left.

        With `early`, where none is left, of the finished tasks the oldest instead: those that succeeded first, dead letters last.
        """
        return int(await self._call("sweep", partition, [max_finished, MAX_BATCH, int(early)]))


def _status(name: bytes) -> Status | None:
    return Status[name.decode()] if name else None
