"""Keeps tasks waiting in the store while everything else is measured: due in a year, and removed at the end.

Their ids stay taken for ten minutes more, as long as the records of the other tasks stay.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from atf.cli.remote import connect
from atf.client import AsyncClient
from atf.errors import FailedPrecondition
from atf.rpc import frontend_pb2 as f
from atf.task import MAX_BATCH, Status

from .store import TaskStore
from .tasks import until_none

AHEAD: Final = dt.timedelta(days=365)
BYTES: Final = 450
"""Of the store for each of them, somewhat more than one takes: rather too many are refused than all memory taken. Beside 300,000 one took 411,
and takes 30 more where the server has just doubled its tables."""


async def check_room(store: TaskStore, count: int) -> None:
    """Passes if so many tasks have room in the store, or it has no bound, or does not say.

    Raises:
        FailedPrecondition: they have not.
    """
    room = await store.room_bytes()
    if room is not None and count * BYTES > room:
        raise FailedPrecondition(
            f"--pending {count:,}: that many tasks take about {_mib(count * BYTES)}, and up to its maxmemory the store takes"
            f" {_mib(room)} more: raise maxmemory, or give at most {room // BYTES:,}"
        )


async def remove(frontend: str, name: str) -> None:
    """Cancels every task of a lambda that has not begun; returns when their records are gone, too.

    Args:
        frontend: its address.
        name: of the lambda, of whose finished tasks no record stays for long.

    Raises:
        AtfError: the frontend does not answer, or the records do not go.
    """
    async with AsyncClient(frontend) as client, connect(frontend) as stub:
        while found := await client.list(name, Status.NEW, limit=MAX_BATCH):
            await stub.cancel_tasks(f.CancelTasksRequest(ids=[each.id for each in found]))

        async def left() -> int:
            return sum(sum(each.counts.values()) for each in await client.lambdas(name))

        await until_none(left, f"records of cancelled tasks of {name} do not go")


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"
