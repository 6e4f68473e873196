"""Applies the outbox: the changes that one partition has for another, and acknowledges those that are done."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import msgspec

from atf.calls.single_flight import SingleFlight
from atf.errors import Unavailable
from atf.store.servers.sockets import Arg

from .partitions import REGISTRY_PARTITION, Partitions
from .values.passes import OutboxRecord

BATCH_SYNC: Final = "batch"
"""The kind of outbox record by which a batch's own partition tells another one what it knows."""
BATCH_ENDED: Final = "batch_ended"
"""And that says so to whoever makes the callbacks."""
_OF_BATCHES: Final = b'\n["batch'
_OUTBOX_AT_ONCE = 256


class OutboxVerbs(Partitions):
    """The verbs of Store about the outbox."""

    async def apply_outbox(self, record: OutboxRecord) -> None:
        """Applies a change of the outbox in its target partition, then acknowledges it. May be repeated.

        The end of a batch is left as it is: what comes of that is the store consumer's to say, which acknowledges it itself.
        """
        if await self._apply(record):
            await self.acknowledge_outbox(record)

    async def _apply(self, record: OutboxRecord) -> bool:
        """Whether it was applied."""
        version, _, body = record.body.partition(b"\n")
        kind, name, *rest = msgspec.json.decode(body, type=list[str])
        args: list[Arg] = [version, kind, name, *rest]
        if kind == BATCH_ENDED:
            return False
        if kind == "ask_permits":
            if await self._call("ask_permits", record.target, args[2:]) == 0:
                raise Unavailable(
                    f"partition {record.target} of the task store has lost its data, and no role has opened it since"
                )
        elif kind == "resync":
            await self._call("resync_lambdas", record.target, [self.partitions, name, *rest])
        elif kind == "grant_permits":
            await self._call("grant_permits", record.target, args[2:])
        elif kind == BATCH_SYNC:
            while not await self.sync_batch(record):
                pass
        elif kind == "batch_report":
            await self._call("report_batch", record.target, args[2:])
        else:
            await self._call("apply_outbox", record.target, args)
        return True

    async def sync_batch(self, record: OutboxRecord) -> bool:
        """Applies a record of a batch's outbox to a partition: does to some of its items what is to be done to all. Whether that was the last step."""
        args = msgspec.json.decode(record.body.partition(b"\n")[2], type=list[str])
        return bool(await self._call("sync_batch", record.target, args[1:]) == 0)

    async def acknowledge_outbox(self, record: OutboxRecord) -> None:
        """Takes out of the outbox what has been applied."""
        await self._call("acknowledge_outbox", record.partition, [record.number])

    @cached_property
    def _apply_all_outboxes(self) -> SingleFlight[None]:
        """Applies the outboxes of all partitions. Many that change lambdas at the same time share it."""
        return SingleFlight(self._apply_outboxes)

    async def _apply_outboxes(self) -> None:
        reply = await self._call("list_outbox", REGISTRY_PARTITION, [_OUTBOX_AT_ONCE])
        by_target: dict[int, list[OutboxRecord]] = {}
        for number, target, body in zip(reply[::3], reply[1::3], reply[2::3], strict=True):
            if _OF_BATCHES not in body:  # a walk over many items is for store consumers
                by_target.setdefault(int(target), []).append(
                    OutboxRecord(REGISTRY_PARTITION, int(number), int(target), body)
                )
        for error in await asyncio.gather(*map(self._apply_records, by_target.values()), return_exceptions=True):
            # where only that partition is away, a store consumer tells it once it is back
            if error is not None and not (isinstance(error, Unavailable) and self._link.parted):
                raise error

    async def _apply_records(self, records: Sequence[OutboxRecord]) -> None:
        done: list[Arg] = [record.number for record in records if await self._apply(record)]
        await self._call("acknowledge_outbox", REGISTRY_PARTITION, done)
