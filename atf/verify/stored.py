"""Asks the store what became of a load's tasks: how many have not finished, and how each ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from atf.client import AsyncClient, TaskInfo
from atf.errors import AtfError, TaskNotFound, UnknownLambda
from atf.task import LIVE

from .outcome import FinalRecord
from .record import key_of

_ALL: Final = 1 << 40


class StoredTasks:
    """The tasks of some lambdas.

    Args:
        client: of the frontend.
        lambdas: full names; nobody else schedules tasks of them.
    """

    def __init__(self, client: AsyncClient, lambdas: Sequence[str]) -> None:
        self._client, self.lambdas = client, lambdas

    async def left(self) -> int:
        """Tasks that have not finished, by the store's counters; at least 1 while it can't be asked."""
        try:
            return sum([await self._left_of(name) for name in self.lambdas])
        except AtfError:
            return 1

    async def _left_of(self, name: str) -> int:
        try:
            (info,) = await self._client.lambdas(name)  # alone: numbers of all lambdas may be a second old
        except UnknownLambda:
            return 0
        return sum(info.counts[status] for status in LIVE)

    async def endings(self, accepted: Mapping[str, str]) -> dict[str, FinalRecord]:
        """Every task that the store knows, by key.

        Args:
            accepted: ids by key of those that it must know; one that is on no list is asked for by its id.

        Raises:
            AtfError: the frontend does not answer.
        """
        found: dict[str, FinalRecord] = {}
        for name in self.lambdas:
            for task in await self._client.list(name, limit=_ALL):
                found[key_of(task.id)] = _ending(task)
        for key, task_id in accepted.items():
            if key not in found or not found[key].finished:  # it may have moved from one list to another meanwhile
                with suppress(TaskNotFound):
                    found[key] = _ending(await self._client.get(task_id))
        return found

    async def cancel_all(self) -> int:
        """Cancels every task that has not finished; how many.

        Raises:
            AtfError: the frontend does not answer.
        """
        live = [
            each
            for name in self.lambdas
            for status in sorted(LIVE)
            for each in await self._client.list(name, status, limit=_ALL)
        ]
        await asyncio.gather(*(self._client.cancel(each.id) for each in live))
        return len(live)


def _ending(task: TaskInfo) -> FinalRecord:
    return FinalRecord(task.status.name, task.status.finished, task.attempts, task.losses, task.result)
