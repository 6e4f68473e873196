"""Takes the stream of ScheduleBatch: its header makes a batch or finds it, its messages bring items, its end says how many there were.

What a description must be is for new_batch.py to say, what its items for batch_items.py, how items travel to the store for batch_writer.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from atf import task as rules
from atf.auth.caller import caller, permit
from atf.auth.grants import Verb
from atf.errors import AlreadyExists, AtfError, FailedPrecondition, InvalidArgument, Unavailable
from atf.log import get_logger
from atf.rpc import batch_pb2 as b
from atf.sdk.work_items import MAX_ITEMS, check_batch_id, stored_id
from atf.store.store import Store
from atf.store.values.batches import BatchAnswer, NewItem, OpenedBatch

from .batch_items import ItemTemplate
from .batch_view import no_batch
from .batch_writer import BatchWriter
from .found import permit_found
from .new_batch import completed, digest, lambdas_of, needs_single_partition, spec_of
from .parts import FrontendParts
from .validate import asked_durability, lambda_of, shown

MAX_MESSAGE_ITEMS: Final = 1_000
"""Of one message of ScheduleBatch."""
_STREAM_S: Final = 480.0
"""Seconds after which a caller that shows a token begins another stream: its batch may be deleted meanwhile, and ten minutes after that another one of
another lambda may have the id."""

_log = get_logger()


class ScheduleBatchRpc(FrontendParts):
    """Stores the items of batches."""

    async def schedule_batch(
        self, requests: AsyncIterator[b.ScheduleBatchRequest], *, timeout: float = 600
    ) -> b.ScheduleBatchReply:
        """Makes a batch, goes on with one, or extends one."""
        request = await anext(requests, None)
        if request is None or request.WhichOneof("part") != "header":
            raise InvalidArgument("the first message of the stream is its header: which batch its items are of")
        header = request.header
        durability = asked_durability(header.durability)
        opened, template = await self._open(header)
        numbers = ItemNumbers(self._store, header, opened)
        first = None if header.extend else header.first
        writer = BatchWriter(self._store, self._runtime, header.id, template.terms, durability, first)
        try:
            sent = await self._feed(requests, header.id, template, numbers, writer)
            await writer.flush()
            await writer.note()
        except AtfError:
            await writer.wait()
            with contextlib.suppress(AtfError):
                await writer.note()  # whoever goes on begins there
            raise
        finally:
            await writer.close()
        if not header.extend:
            await self._store.close_batch(header.id, numbers.end, keep_open=header.keep_open)
        _log.debug("schedule_batch", batch=header.id, items=sent, stored=writer.stored, extend=header.extend)
        items = numbers.end
        if header.extend:
            if (record := await self._store.get_batch(header.id)) is None:
                raise no_batch(header.id)
            items = record.items
        return b.ScheduleBatchReply(id=header.id, stored=writer.stored, items=max(items, opened.total))

    async def _open(self, header: b.BatchHeader) -> tuple[OpenedBatch, ItemTemplate]:
        """Makes the batch, or finds it."""
        _check_header(header)
        made, told = b.BatchSpec(), b""
        if header.HasField("spec"):
            await self._lambdas.load(lambdas_of(header.spec))
            made = completed(header.spec, self._lambdas, self._settings.batch_max_attempts, self._cap)
            if made.traceparent:
                made.traced_at_us = self._runtime.wall_us()
            told = digest(header.spec)
        elif not caller().is_unbounded(Verb.SCHEDULE) and (
            record := await self._store.get_batch(header.id, caller().seen())
        ):
            permit_found(Verb.SCHEDULE, record.lambda_name, partial(no_batch, header.id))
            permit(Verb.SCHEDULE, *lambdas_of(spec_of(record.spec)))  # more items have its callbacks made once more
        opened = await self._store.open_batch(
            header.id,
            told,
            made.SerializeToString(deterministic=True),
            lambda_of(made),
            made.options.retention_us,
            extend=header.extend,
            single_partition=needs_single_partition(made),
            within=caller().scopes(Verb.SCHEDULE),
        )
        _check_found(header.id, opened.found)
        if opened.found is BatchAnswer.SAME:
            made = spec_of(opened.spec)  # its options are those of the lambda at that time
            await self._lambdas.load([lambda_of(made)])
        if not header.extend and header.first > opened.prefix:
            raise FailedPrecondition(
                f"first {header.first}: of batch {header.id} the items before number {opened.prefix} are stored, and no others are known to"
                " be; begin there"
            )
        known = self._lambdas.find(lambda_of(made))
        return opened, ItemTemplate(
            header.id,
            made,
            self._store.partition_for,
            single_partition=opened.single_partition,
            declared=known.spec if known else None,
        )

    async def _feed(
        self,
        requests: AsyncIterator[b.ScheduleBatchRequest],
        batch_id: str,
        template: ItemTemplate,
        numbers: ItemNumbers,
        writer: BatchWriter,
    ) -> int:
        """Sends all items of a stream on their way; returns how many there were."""
        sent, until_s = 0, self._runtime.monotonic() + _STREAM_S
        async for request in requests:
            if caller().grant is not None and self._runtime.monotonic() > until_s:
                raise Unavailable(
                    f"the stream of batch {batch_id} is open for long: call again, and begin at the batch's prefix"
                )
            match request.WhichOneof("part"):
                case "items":
                    if len(request.items.items) > MAX_MESSAGE_ITEMS:
                        raise InvalidArgument(
                            f"{len(request.items.items)} items: at most {MAX_MESSAGE_ITEMS} in one message"
                        )
                    if self._draining:
                        raise Unavailable(f"this frontend ends: go on with batch {batch_id} at another one")
                    if numbers.announced:  # the batch waits for what was announced, so nothing of it may be refused
                        for place, each in enumerate(request.items.items, sent):
                            template.item(place, each)
                    first = await numbers.take(len(request.items.items))
                    items = [template.item(number, each) for number, each in enumerate(request.items.items, first)]
                    await self._let_items_in(batch_id, template, items, writer)
                    sent += len(items)
                case "end":
                    if request.end.items != sent:
                        raise InvalidArgument(
                            f"the stream's end speaks of {request.end.items} items, and {sent} came before it"
                        )
                    return sent
                case _:
                    raise InvalidArgument(
                        "behind the header of the stream come items, and then its end; this message is neither"
                    )
        raise Unavailable(
            f"the stream of batch {batch_id} broke off behind {sent} items, without its end (BatchEnd); call again, and begin at the"
            " batch's prefix"
        )

    async def _let_items_in(
        self, batch_id: str, template: ItemTemplate, items: Sequence[tuple[int, NewItem]], writer: BatchWriter
    ) -> None:
        """Sends items on their way, as many of them as their lambda may have."""
        known = self._lambdas.get(template.lambda_name)
        if not known.in_force.max_pending:
            await writer.add(items)
            return
        for start in range(0, len(items), rules.MAX_BATCH):
            some = items[start : start + rules.MAX_BATCH]
            ids = [stored_id(partition, batch_id, each.md5) for partition, each in some]
            numbers = [each.number for _, each in some]
            entry = await self._pending.enter(known, ids, partial(self._stored, ids, numbers))
            before = writer.stored
            try:
                await writer.add(some[: min(entry.refusals, default=rules.MAX_BATCH)])
                await writer.flush()
            finally:
                entry.ended(writer.stored - before)
            if entry.refusals:
                raise entry.refusals[min(entry.refusals)]

    async def _stored(self, ids: Sequence[str], numbers: Sequence[int]) -> list[bool]:
        """Whether items are stored already, of which those that are identical to another one have their number in their id."""
        plain = await self._store.get_tasks(ids)
        numbered = await self._store.get_tasks([f"{each}-{number}" for each, number in zip(ids, numbers, strict=True)])
        either = zip(plain, numbered, numbers, strict=True)
        return [bool(other) or (first is not None and first.number == number) for first, other, number in either]


class ItemNumbers:
    """Which numbers the items of one call get."""

    def __init__(self, store: Store, header: b.BatchHeader, opened: OpenedBatch) -> None:
        self._store, self._header, self._opened = store, header, opened
        self._next = header.first
        self._given = 0
        self.announced: Final = header.extend
        """Whether the batch waits for the items from `take` on."""

    async def take(self, count: int) -> int:
        """The first of `count` numbers, which follow each other."""
        if self._header.extend:
            taken = await self._store.reserve_items(self._header.id, self._header.request_id, self._given, count)
            self._given += count
            if taken.found is BatchAnswer.OTHER:
                raise AlreadyExists(
                    f"request_id {self._header.request_id!r} of batch {self._header.id} asked for other items before; the same ones"
                    " again would be fine"
                )
            _check_found(self._header.id, taken.found)
            return taken.first
        first, self._next = self._next, self._next + count
        if self._opened.total >= 0 and self._next > self._opened.prefix:
            raise FailedPrecondition(
                f"batch {self._header.id} was made of {self._opened.prefix} items, and item {self._next - 1} is none of them; extend ="
                " true adds more"
            )
        return first

    @property
    def end(self) -> int:
        """The number behind the last one, of items that are no extension."""
        return self._next


def _check_header(header: b.BatchHeader) -> None:
    check_batch_id(shown(header.id))
    if not 0 <= header.first <= MAX_ITEMS:
        raise InvalidArgument(f"first {header.first}: the number of the first item that follows, 0 to {MAX_ITEMS}")
    if header.extend and (header.first or header.keep_open):
        raise InvalidArgument(
            "extend: the items come behind all that the batch has, which stays open if it was: leave first and keep_open out"
        )
    if header.request_id and not header.extend:
        raise InvalidArgument(
            "request_id: only an extension has one; a batch is told from others by its id, and its items by their numbers"
        )
    if header.request_id:
        rules.check_id(shown(header.request_id))


def _check_found(batch_id: str, found: BatchAnswer) -> None:
    match found:
        case BatchAnswer.OTHER:
            raise AlreadyExists(
                f"batch id {batch_id!r} is taken by a batch with another description; the same description again would be fine, and none at"
                " all, too"
            )
        case BatchAnswer.MISSING:
            raise no_batch(batch_id)
        case BatchAnswer.CANCELLED:
            raise FailedPrecondition(f"batch {batch_id} was cancelled: it takes no more items")
        case BatchAnswer.DELETED:
            raise AlreadyExists(
                f"batch id {batch_id!r} was taken by a batch that was deleted; it is free ten minutes after that"
            )
