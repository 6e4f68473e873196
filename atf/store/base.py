"""Gives the parts of Store what they share: calls of functions, and where ids live."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from atf.config.settings import StoreSettings
from atf.durability import Durability
from atf.errors import AtfError
from atf.runtime import Runtime
from atf.store.servers.connection import Link
from atf.store.servers.sockets import Arg

from .claim_pause import PauseCause
from .shared_calls import SharedCalls
from .values.claims import RunResult, Verdict
from .values.passes import OutboxRecord
from .values.tasks import NewTask, Scheduled, TaskRecord

if TYPE_CHECKING:
    from .roster import RosterEntry


class Caller(Protocol):
    """The lower half of Store."""

    partitions: int
    now: Callable[[], int] | None
    settings: StoreSettings
    _lease_us: int
    _link: Link
    _queues: set[str]
    _runtime: Runtime
    _on_roster: dict[int, RosterEntry]
    _names: dict[int, str]
    _enlisting: dict[int, asyncio.Task[RosterEntry]]
    _left: bool
    pause_met: asyncio.Event
    _set_results_calls: SharedCalls[RunResult, Verdict]
    _schedule_calls: SharedCalls[NewTask, Scheduled | AtfError]

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
        ...

    async def _pause_claims(self, partition: int, time_us: int, cause: PauseCause) -> int:
        """Has one partition give no claims for so long; returns until when."""
        ...

    def partition_for(self, routing_key: str) -> int:
        """The partition of an ordering key or a task id as the client made it."""
        ...

    def _partition(self, task_id: str) -> int:
        """The partition a stored id names; InvalidArgument where it names none."""
        ...

    async def get_tasks(self, ids: Sequence[str]) -> list[TaskRecord | None]:
        """Whole records; None for an id that has none."""
        ...

    async def sync_batch(self, record: OutboxRecord) -> bool:
        """One step of what a batch's own partition has in its outbox for another; whether it was the last."""
        ...
