"""Reads batches and their items. Reads only."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Sequence
from typing import Final

from atf.store.servers.server_info import text
from atf.task import Status

from .reading import TaskVerbs
from .values.batches import BatchPlace, BatchRecord, ItemPage, ItemRecord

_LOOKS: Final = 8
"""How often a page asks all partitions at most: where few items match it is given as it is."""


class BatchReading(TaskVerbs):
    """The reading verbs of Store about batches."""

    def batch_partition(self, batch_id: str) -> int:
        """Where a batch's record lies."""
        return self.partition_for(batch_id)

    async def get_batch(self, batch_id: str, within: Sequence[str] = ()) -> BatchRecord | None:
        """A batch and its counts as they are now; None where there is none, or it was deleted.

        Args:
            batch_id: which.
            within: namespaces (with their slashes) and lambdas: a batch of another one does not exist for this call, and takes as long. Empty:
                of all.

        Raises:
            Unavailable: a partition is away.
        """
        partition = self.batch_partition(batch_id)
        reply = await self._call("get_batch", partition, [batch_id, " ".join(within)])
        if not reply:
            return None
        now_us, counts, *fields = reply
        found = {name.decode(): value for name, value in zip(fields[::2], fields[1::2], strict=True)}
        if "sums" in found and "deleting" not in found:  # it has ended: its partition was told by all others
            items, done, failed, cancelled = map(int, found["sums"].split())
            return _record(batch_id, int(now_us), found, [items, 0, 0, done, 0, failed, cancelled, 1])
        others = [] if found["alone"] == b"1" else [each for each in range(self.partitions) if each != partition]
        more = await asyncio.gather(*(self._call("count_items", each, [batch_id]) for each in others))
        return _record(batch_id, int(now_us), found, [sum(each) for each in zip(counts, *more, strict=True)])

    async def list_batches(self, last: BatchPlace | None, size: int) -> list[BatchPlace]:
        """Batches, newest first; one that was deleted for a while, too. Of each partition as many are read.

        Args:
            last: the batch seen last; None: from the start.
            size: batches at most. Fewer: that was all.
        """

        async def part(partition: int) -> list[BatchPlace]:
            seen, at_us = "", 0
            if last is not None:  # of one instant, batches are in the order of their partitions
                seen = last.id if partition == last.partition else ""
                at_us = last.created_at_us - int(partition < last.partition)
            reply = await self._call("list_batches", partition, [seen, at_us, size])
            pairs = zip(reply[::2], reply[1::2], strict=True)
            return [BatchPlace(-int(float(score)), partition, text(batch_id)) for batch_id, score in pairs]

        found = [each for some in await asyncio.gather(*map(part, range(self.partitions))) for each in some]
        return sorted(found, key=lambda each: (-each.created_at_us, each.partition))[:size]

    async def list_batch_items(
        self,
        batch_id: str,
        first: int,
        size: int,
        *,
        partitions: Collection[int] | None = None,
        statuses: Collection[Status] = (),
    ) -> ItemPage:
        """A page of the items of a batch, by number.

        Args:
            batch_id: of the batch.
            first: items with smaller numbers are left out.
            size: items at most.
            partitions: where they lie; None: in all.
            statuses: of the tasks that are asked for; none: all.

        Returns:
            The items, and the number from which the next page is to be asked for, or None: that was all. Where few match, a page may
            hold fewer than `size`, or none.
        """
        where = range(self.partitions) if partitions is None else partitions
        names = [each.name for each in statuses]
        page: list[tuple[int, int, str]] = []
        following: int | None = first
        share = math.ceil(size / len(where) * 1.2) + 8
        for _ in range(_LOOKS):
            following, found = await self._listed(batch_id, where, first, min(share, size), names)
            page += found
            if following is None or len(page) >= size:
                break
            first, share = following, 2 * share
        if len(page) > size:
            page, following = page[:size], page[size][0]
        records = await self.get_tasks([f"{partition}-{batch_id}.{item}" for _, partition, item in page])
        items = [
            ItemRecord(number, item, record)
            for (number, _, item), record in zip(page, records, strict=True)
            if record is not None  # it is being deleted
        ]
        return ItemPage(items, following)

    async def _listed(
        self, batch_id: str, where: Collection[int], first: int, size: int, names: list[str]
    ) -> tuple[int | None, list[tuple[int, int, str]]]:
        """At most `size` items of each partition, by number, as far as all partitions have told: where to go on, and number, partition, id."""

        async def part(partition: int) -> tuple[int | None, list[tuple[int, int, str]]]:
            following, *found = await self._call("list_batch_items", partition, [batch_id, first, size, *names])
            listed = [
                (int(number), partition, text(item)) for number, item in zip(found[::2], found[1::2], strict=True)
            ]
            return int(following) if following else None, listed

        parts = await asyncio.gather(*(part(each) for each in where))
        told = min((following for following, _ in parts if following is not None), default=None)
        return told, sorted(each for _, listed in parts for each in listed if told is None or each[0] < told)

    async def get_batch_item(self, batch_id: str, work_item_id: str) -> ItemRecord | None:
        """One item of a batch by its work-item id, "<md5>" or "<md5>-<number>"."""
        name = f"{batch_id}.{work_item_id.partition('-')[0]}"
        where = dict.fromkeys((self.partition_for(name), self.batch_partition(batch_id)))
        records = await self.get_tasks([f"{each}-{batch_id}.{work_item_id}" for each in where])
        record = next((each for each in records if each is not None), None)
        return None if record is None else ItemRecord(record.number, work_item_id, record)


def _record(batch_id: str, now_us: int, found: dict[str, bytes], counts: Sequence[int]) -> BatchRecord:
    items, created, in_progress, done, failed, permanently_failed, cancelled, begun = counts
    return BatchRecord(
        id=batch_id,
        lambda_name=text(found["l"]),
        spec=bytes(found["spec"]),
        digest=bytes(found["d"]),
        retention_us=int(found["ret"]),
        created_at_us=int(found["at"]),
        ended_at_us=int(found.get("ended", 0)),
        round=int(found["round"]),
        total=int(found["main"]) + int(found.get("extra", 0)) if "main" in found else -1,
        prefix=int(found.get("prefix", 0)),
        single_partition=found["alone"] == b"1",
        cancel_requested="cancelled" in found and "unmade" not in found,
        deleting="deleting" in found,
        now_us=now_us,
        items=items,
        created=created,
        in_progress=in_progress,
        done=done,
        failed=failed,
        permanently_failed=permanently_failed,
        cancelled=cancelled,
        begun=begun > 0,
        error=found.get("err", b"").decode("utf-8", "replace"),
        unmade="unmade" in found,
    )
