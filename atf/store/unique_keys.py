"""Reads open windows of unique keys out of one store, and writes them into another. What they do is lua/task/schedule.lua's matter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from atf.store.servers.sockets import Arg

from . import keys
from .calls import by_partition
from .partitions import Partitions

_PAGE: Final = 256


class HeldUniqueKey(NamedTuple):
    """A unique key of which there is one task until an instant."""

    key: str  # as the store knows it: lambda:key
    task_id: str
    until_us: int


class UniqueKeyVerbs(Partitions):
    """The verbs of Store about windows."""

    async def list_unique_keys(self) -> AsyncIterator[HeldUniqueKey]:
        """Every window that is open and has a task; one that is put off meanwhile may come twice."""
        for partition in range(self.partitions):
            until, last = "", ""
            while reply := await self._call("list_unique_keys", partition, [until, last, _PAGE]):
                for key, task_id, end in zip(reply[::3], reply[1::3], reply[2::3], strict=True):
                    if task_id:
                        yield HeldUniqueKey(key.decode(), task_id.decode(), int(float(end)))
                until, last = str(int(float(reply[-1]))), reply[-3].decode()

    async def restore_unique_keys(self, windows: Sequence[HeldUniqueKey]) -> list[int]:
        """Opens windows again; per window 1, or 0 where it has ended, or one of its key is open."""

        async def call(partition: int, batch: list[HeldUniqueKey]) -> list[int]:
            args: list[Arg] = []
            for each in batch:
                args += (each.key, each.task_id, each.until_us)
            return list(await self._call("restore_unique_keys", partition, args))

        return await by_partition(windows, lambda each: self.partition_for(keys.bare(each.key)), call)
