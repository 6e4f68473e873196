"""Makes, commands and ends batches in the store.

What a batch's description means is for the caller to say; the store counts its items and knows when they have ended.

A batch's record lies in the batch's own partition, `partition_for(batch id)`. An item lies in `partition_for("<batch>.<md5>")`, so that identical ones meet; all
items of a batch whose items share keys all lie in the batch's own partition. See lua/shared/batches.lua.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atf.durability import Durability
from atf.errors import FailedPrecondition
from atf.rpc.stored_spec import packed
from atf.store.servers.sockets import Arg

from . import keys, library
from .batch_reading import BatchReading
from .calls import by_partition
from .values.batches import (
    BatchAnswer,
    BatchCommandAnswer,
    ItemTerms,
    NewItem,
    OpenedBatch,
    ReservedNumbers,
)


class BatchVerbs(BatchReading):
    """The verbs of Store about batches."""

    async def open_batch(
        self,
        batch_id: str,
        digest: bytes,
        spec: bytes,
        lambda_name: str,
        retention_us: int,
        *,
        extend: bool = False,
        single_partition: bool = False,
        within: Sequence[str] = (),
    ) -> OpenedBatch:
        """Makes a batch, or finds it. Idempotent by its id.

        Args:
            batch_id: 1 to 20 of A-Z a-z 0-9 _ -
            digest: of the description; two requests of one id must have the same. b"": whichever the batch has, which must exist.
            spec: the serialized BatchSpec.
            lambda_name: of its items.
            retention_us: from its end.
            extend: it must exist.
            single_partition: its items all lie in the batch's own partition, since they share keys. Of a batch that exists, what it was made with holds.
            within: namespaces (with their slashes) and lambdas: where no digest is given, a batch of another one does not exist. Empty: of all.
        """
        args: list[Arg] = [batch_id, digest, spec, lambda_name, retention_us]
        args += (self.partitions, int(single_partition), int(extend), " ".join(within))
        what, total, prefix, first, alone, spec = await self._durable_call("open_batch", batch_id, args)
        return OpenedBatch(BatchAnswer(what), int(total), int(prefix), int(first), alone == 1, bytes(spec))

    async def reserve_items(self, batch_id: str, request_id: str, offset: int, count: int) -> ReservedNumbers:
        """Hands out `count` numbers, one after the other, for more items of a batch; what has ended goes on, in its next round.

        A batch ends only when all items are stored whose numbers were handed out; it needs no `close_batch` for them. Where nobody stores
        them, it ends without them once no numbers have been asked for in library.BATCH_PATIENCE_US and all else has ended.

        Args:
            batch_id: of a batch that exists.
            request_id: of the extension: the same call again answers with the same numbers; "": with others.
            offset: items that the request has asked numbers for before.
            count: of items.
        """
        what, first = await self._durable_call("reserve_items", batch_id, [batch_id, request_id, offset, count])
        return ReservedNumbers(BatchAnswer(what), int(first))

    async def schedule_items(
        self,
        partition: int,
        batch_id: str,
        terms: ItemTerms,
        items: Sequence[NewItem],
        durability: Durability = Durability.RELAXED,
    ) -> list[bool]:
        """(no record) → NEW, items of one partition. Idempotent by number.

        Args:
            partition: where all of them lie.
            batch_id: whose items they are.
            terms: what they have in common.
            items: which.
            durability: at least.

        Returns:
            Per item whether it had been stored before.

        Raises:
            FailedPrecondition: the batch was cancelled, or is being deleted.
            ResourceExhausted: the store is full.
        """
        demand = max(durability, self.settings.floor)
        queue = keys.queue(terms.lambda_name, terms.priority)
        limits = library.limits(terms.max_attempts, terms.max_losses, library.ITEM_RETENTION_US)
        common: list[Arg] = [batch_id, self.batch_partition(batch_id), queue, limits, terms.pause_us, terms.labels]
        common.append(terms.trace)

        async def call(_: int, batch: list[NewItem]) -> list[bool]:
            args = common.copy()
            for number, md5, spec, ordering_key, concurrency, affinity, entries in batch:
                ordering = keys.ordering(terms.lambda_name, ordering_key) if ordering_key else ""
                args += (number, md5, packed(queue, spec), ordering, concurrency, affinity, entries)
            reply = await self._call("schedule_items", partition, args, demand=demand)
            if not reply:
                raise FailedPrecondition(f"batch {batch_id} was cancelled or deleted: it takes no more items")
            return [existed == 1 for existed in reply]

        return await by_partition(items, lambda _: partition, call, size=lambda each: len(each.spec))

    async def note_prefix(self, batch_id: str, prefix: int) -> bool:
        """Notes that all items with smaller numbers are stored; False: there is no such batch."""
        return bool(await self._call("note_prefix", self.batch_partition(batch_id), [batch_id, prefix]) == 1)

    async def note_error(self, batch_id: str, why: str, *, unmade: bool = False) -> bool:
        """Notes why a callback of a batch was not made, until it goes on; False: there is no such batch.

        Args:
            batch_id: the batch.
            why: for people.
            unmade: the batch is a link of a chain, and it is the link itself that could not be made.
        """
        args: list[Arg] = [batch_id, why, int(unmade)]
        return bool(await self._call("note_error", self.batch_partition(batch_id), args) == 1)

    async def close_batch(self, batch_id: str, total: int, *, keep_open: bool = False) -> None:
        """Says of how many items a batch is made, extensions aside; with `keep_open` more may come. What was said first holds."""
        if not keep_open:
            await self._durable_call("close_batch", batch_id, [batch_id, total])

    async def cancel_batch(self, batch_id: str, within: Sequence[str] = ()) -> BatchCommandAnswer:
        """Has all items of a batch cancelled. As the other commands it is done bit by bit, by who applies the outbox.

        Args:
            batch_id: which.
            within: as of `open_batch`.
        """
        return await self._command_batch(batch_id, "cancel", within)

    async def retry_batch(self, batch_id: str, within: Sequence[str] = ()) -> BatchCommandAnswer:
        """Has the items started afresh that failed for good."""
        return await self._command_batch(batch_id, "retry", within)

    async def delete_batch(self, batch_id: str, within: Sequence[str] = ()) -> BatchCommandAnswer:
        """Has a batch deleted, with its items."""
        return await self._command_batch(batch_id, "delete", within)

    async def _command_batch(self, batch_id: str, command: str, within: Sequence[str]) -> BatchCommandAnswer:
        args: list[Arg] = [batch_id, command, " ".join(within)]
        return BatchCommandAnswer(await self._durable_call("command_batch", batch_id, args))

    async def _durable_call(self, verb: str, batch_id: str, args: Sequence[Arg]) -> Any:
        """Calls a function on a batch's own partition; what it writes is as safe as the store is to be."""
        return await self._call(verb, self.batch_partition(batch_id), args, demand=self.settings.floor)
