"""The tasks that the benchmark schedules, and how it waits for their ends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from atf.client import AsyncClient, Handle, TaskInfo
from atf.errors import Internal, Unavailable
from atf.sdk.schedulable import Prepared, named
from atf.task import Status
from atf.verify.stored import StoredTasks

BATCH: Final = 1_000
AT_ONCE: Final = 4
CHECKED: Final = 20_000
"""Of so many tasks of a round the records are read: whether each ran once. The last ones, since records go after RETENTION_S."""
KINDS: Final = {"noop": "def", "noop_async": "async def"}
STALLED_S: Final = 120.0
_WARM_UP_S: Final = 60.0
_LOOK_S: Final = 0.02
"""Seconds until the first look at what is left to do."""
_LOOK_MOST_S: Final = 0.25
"""Seconds between two such looks at most: each later one comes half as long again after the one before. A look costs the store about as
much as some tasks, times its lambdas and partitions."""


class Ends(NamedTuple):
    """Of some tasks: when the last one ended (seconds since 1970, by the store's clock), and how many ran more than once."""

    last_s: float
    ran_again: int


class NoopTasks:
    """Tasks that do nothing.

    Args:
        namespace: of their lambdas.
        client: of the frontend.

    Attributes:
        stored: what the store says of them.
    """

    def __init__(self, namespace: str, client: AsyncClient) -> None:
        self._namespace, self._client = namespace, client
        self.stored = StoredTasks(client, [f"{namespace}/{name}" for name in KINDS])

    async def warm_up(self, executors: int) -> None:
        """Until every executor has run tasks."""
        until, owners = time.monotonic() + _WARM_UP_S, set[str]()
        while len(owners) < executors:
            if time.monotonic() > until:
                raise Unavailable(f"{len(owners)} of {executors} executors run tasks after {_WARM_UP_S:g} s")
            infos = await self.finished([self.task(number) for number in range(64 * executors)])
            owners |= {run.owner for each in infos for run in each.ended_runs}

    def task(self, number: int, names: Sequence[str] = tuple(KINDS), **options: Any) -> Prepared[Any]:
        name = names[number % len(names)]
        return named(f"{self._namespace}/{name}", {"number": number}, options)  # type: ignore[arg-type]

    async def schedule(self, tasks: int, names: Sequence[str] = tuple(KINDS), **options: Any) -> list[Handle[Any]]:
        """Schedules tasks as fast as the client can; the last CHECKED of them."""
        batches = iter([range(start, min(start + BATCH, tasks)) for start in range(0, tasks, BATCH)])
        handles = deque[Handle[Any]](maxlen=CHECKED)

        async def send() -> None:
            for batch in batches:
                handles.extend(
                    await self._client.schedule_many([self.task(number, names, **options) for number in batch])
                )

        await asyncio.gather(*(send() for _ in range(AT_ONCE)))
        return list(handles)

    async def ends(self, handles: Sequence[Handle[Any]]) -> Ends:
        """When the last of these tasks ended, which have all ended, and how many ran more than once.

        Raises:
            Internal: one of them did not end well.
        """
        infos = await self.ended(handles)
        if bad := [each for each in infos if each.status is not Status.SUCCESS]:
            raise Internal(f"{len(bad)} of {len(infos)} tasks failed; the first: {bad[0].id}: {bad[0].error}")
        last_s = max(each.finished_at.timestamp() for each in infos if each.finished_at is not None)
        return Ends(last_s, sum(each.runs != 1 for each in infos))

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Within the block no task starts: what a call costs is measured, not what its task does to the machine."""
        names = [f"{self._namespace}/{name}" for name in KINDS]
        for name in names:
            await self._client.pause(name)
        try:
            yield
        finally:
            for name in names:
                await self._client.resume(name)

    async def finished(self, tasks: Sequence[Prepared[Any]]) -> list[TaskInfo]:
        return await self.ended(await self._client.schedule_many(tasks))

    async def ended(self, handles: Sequence[Handle[Any]]) -> list[TaskInfo]:
        """The records of tasks, when all of them have finished.

        Raises:
            Internal: some have not in time.
        """
        infos = await self._client.wait(handles, timeout=STALLED_S)
        if len(infos) < len(handles):
            raise Internal(
                f"{len(handles) - len(infos)} of {len(handles)} tasks have not finished within {STALLED_S:g} s"
            )
        return infos

    async def drained(self) -> None:
        """Until nothing is left to do, seen up to _LOOK_MOST_S later.

        Raises:
            Internal: none ends any more.
        """
        await until_none(self.stored.left, f"tasks are left to do, and none has ended for {STALLED_S:g} s")


async def until_none(left: Callable[[], Awaitable[int]], stalled: str) -> None:
    """Waits until a count is 0.

    Raises:
        Internal: it has stayed the same for STALLED_S; says it with `stalled` behind.
    """
    before, moved, look = 0, time.monotonic(), _LOOK_S
    while now := await left():
        if now != before:
            before, moved = now, time.monotonic()
        if time.monotonic() - moved > STALLED_S:
            raise Internal(f"{now} {stalled}")
        await asyncio.sleep(look)
        look = min(1.5 * look, _LOOK_MOST_S)
