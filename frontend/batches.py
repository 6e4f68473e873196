"""Answers the RPCs about batches. What a description and its items must be is for new_batch.py to say, how items travel for batch_writer.py."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from atf import task as rules
from atf.errors import AlreadyExists, AtfError, FailedPrecondition, InvalidArgument, NotFound, Unavailable
from atf.log import get_logger
from atf.rpc import batch_pb2 as b
from atf.runtime import Runtime, happens
from atf.sdk.work_items import MAX_ITEMS, check_batch_id, check_work_item_id, stored_id
from atf.store.store import Store
from atf.store.types import BatchAnswer, BatchCommandAnswer, BatchPlace, BatchRecord, ItemRecord, NewItem, OpenedBatch
from atf.task import US, Status

from . import batch_view as view
from .batch_writer import BatchWriter
from .lambdas import Lambdas
from .new_batch import Template, completed, digest, lambdas_of, needs_single_partition, spec_of
from .pending import PendingLimits
from .redaction import Redaction
from .validate import asked_durability, shown
from .waiting import TaskWaits

MAX_MESSAGE_ITEMS: Final = 1_000
"""Of one message of ScheduleBatch."""
MAX_PAGE: Final = 1_000
"""Of ListBatchItems."""
DEFAULT_PAGE: Final = 100
MIN_EVERY_US: Final = US // 20
MAX_EVERY_US: Final = 60 * US
DEFAULT_EVERY_US: Final = US // 4
_ANSWER_BYTES: Final = 3 << 19
"""Where a page stops to grow: with the item added last, of 1 MiB of arguments in two forms, it stays below 4 MiB."""
_READ_TOGETHER: Final = 8
"""Batches that are read side by side: each of them takes a call per partition."""
_FIRST_READ: Final = 32
"""Items of the first read of a page: of results of 64 KiB each they are 2 MiB. Later ones go by what was found."""
_LOOKED_AT: Final = 10
"""Reads of one call of ListBatchItems or ListBatches: where few of very many match, a page is short rather than late."""

_log = get_logger()


class _Numbers:
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


class BatchRpcs:
    """Answers the RPCs about batches."""

    def __init__(
        self,
        store: Store,
        lambdas: Lambdas,
        redaction: Redaction,
        pending: PendingLimits,
        waiting: TaskWaits,
        runtime: Runtime,
        *,
        max_attempts: int,
        max_attempts_cap: int,
    ) -> None:
        self._store = store
        self._lambdas = lambdas
        self._redaction = redaction
        self._pending = pending
        self._waiting = waiting
        self._runtime = runtime
        self._max_attempts = max_attempts
        self._cap = max_attempts_cap
        self._draining = False

    def drain(self) -> None:
        """Ends the streams: their callers go on at another frontend."""
        self._draining = True

    # --- making them --------------------------------------------------------------------------------------------------

    async def schedule_batch(self, requests: AsyncIterator[b.ScheduleBatchRequest]) -> b.ScheduleBatchReply:
        """Makes a batch, goes on with one, or extends one."""
        request = await anext(requests, None)
        if request is None or request.WhichOneof("part") != "header":
            raise InvalidArgument("the first message of the stream is its header: which batch its items are of")
        header = request.header
        durability = asked_durability(header.durability)
        opened, template = await self._open(header)
        numbers = _Numbers(self._store, header, opened)
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
        items = (await self._record(header.id)).items if header.extend else numbers.end
        return b.ScheduleBatchReply(id=header.id, stored=writer.stored, items=max(items, opened.total))

    async def _open(self, header: b.BatchHeader) -> tuple[OpenedBatch, Template]:
        """Makes the batch, or finds it."""
        _check_header(header)
        made, told = b.BatchSpec(), b""
        if header.HasField("spec"):
            await self._lambdas.load(lambdas_of(header.spec))
            made = completed(header.spec, self._lambdas, self._max_attempts, self._cap)
            told = digest(header.spec)
        opened = await self._store.open_batch(
            header.id,
            told,
            made.SerializeToString(deterministic=True),
            getattr(made, "lambda"),
            made.options.retention_us,
            extend=header.extend,
            single_partition=needs_single_partition(made),
        )
        _check_found(header.id, opened.found)
        if opened.found is BatchAnswer.SAME:
            made = spec_of(opened.spec)  # its options are those of the lambda at that time
            await self._lambdas.load([getattr(made, "lambda")])
        if not header.extend and header.first > opened.prefix:
            raise FailedPrecondition(
                f"first {header.first}: of batch {header.id} the items before number {opened.prefix} are stored, and no others are known to"
                " be; begin there"
            )
        return opened, Template(header.id, made, self._store.partition_for, single_partition=opened.single_partition)

    async def _feed(
        self,
        requests: AsyncIterator[b.ScheduleBatchRequest],
        batch_id: str,
        template: Template,
        numbers: _Numbers,
        writer: BatchWriter,
    ) -> int:
        """Sends all items of a stream on their way; returns how many there were."""
        sent = 0
        async for request in requests:
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
                    await self._let_in(batch_id, template, items, writer)
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

    async def _let_in(
        self, batch_id: str, template: Template, items: Sequence[tuple[int, NewItem]], writer: BatchWriter
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

    # --- looking at them ----------------------------------------------------------------------------------------------

    async def get_batch(self, request: b.GetBatchRequest) -> b.Batch:
        """A batch as it stands."""
        record = await self._record(request.id)
        if request.with_spec and not request.unredacted:
            record = await self._redaction.batch(record)
        return view.batch(record, with_spec=request.with_spec)

    async def list_batches(self, request: b.ListBatchesRequest) -> b.ListBatchesReply:
        """A page of batches, newest first. Where few are of the lambda, it may be short, or empty with a token."""
        if not 0 <= request.page_size <= rules.MAX_BATCH:
            raise InvalidArgument(f"page_size {request.page_size}: use 1 to {rules.MAX_BATCH}; 0 means {DEFAULT_PAGE}")
        name = getattr(request, "lambda")
        if name:
            rules.check_lambda(shown(name))
        last = self._after(request.page_token)
        size = request.page_size or DEFAULT_PAGE
        reply, looked_at = b.ListBatchesReply(), 0
        while len(reply.batches) < size and looked_at < _LOOKED_AT * size:
            some = min(size - len(reply.batches), _READ_TOGETHER)
            found = await self._store.list_batches(last, some)
            looked_at += len(found)
            for record in await asyncio.gather(*(self._store.get_batch(each.id) for each in found)):
                if record is not None and name in {"", record.lambda_name}:
                    reply.batches.append(view.batch(record))
            if len(found) < some:
                return reply
            last = found[-1]
        if last is not None:
            reply.next_page_token = f"{last.created_at_us}:{last.partition}:{last.id}"
        return reply

    def _after(self, token: str) -> BatchPlace | None:
        if not token:
            return None
        match = re.fullmatch(r"([0-9]{1,16}):([0-9]{1,5}):([A-Za-z0-9_-]{1,24})", token)
        if match is None or int(match[2]) >= self._store.partitions:
            raise InvalidArgument(f"page_token {shown(token)!r}: give the next_page_token of the page before")
        return BatchPlace(int(match[1]), int(match[2]), match[3])

    async def list_batch_items(self, request: b.ListBatchItemsRequest) -> b.ListBatchItemsReply:
        """A page of the items of a batch."""
        check_batch_id(shown(request.id))
        size, first, statuses = _page(request)
        if request.work_item_id:
            return await self._item(request)
        reply, some = b.ListBatchItemsReply(), min(size, _FIRST_READ)
        following: int | None = first
        taken = looks = 0
        while following is not None and len(reply.items) < size and looks < _LOOKED_AT and taken < _ANSWER_BYTES:
            found = await self._store.list_batch_items(request.id, following, some, statuses=statuses)
            following, looks = found.next, looks + 1
            for each in await self._shown(found.items, request):
                if taken >= _ANSWER_BYTES:
                    following = each.number
                    break
                reply.items.append(view.item(each, with_arguments=request.with_arguments))
                taken += reply.items[-1].ByteSize()
            # as many more as fit, if they are like these
            per_item = max(taken // max(len(reply.items), 1), 1)
            some = max(min((_ANSWER_BYTES - taken) // per_item, rules.MAX_BATCH, size - len(reply.items)), 1)
        if not reply.items and following is None:
            await self._record(request.id)  # raises where there is none
        if following is not None:
            reply.next_page_token = str(following)
        return reply

    async def _item(self, request: b.ListBatchItemsRequest) -> b.ListBatchItemsReply:
        found = await self._store.get_batch_item(request.id, check_work_item_id(shown(request.work_item_id)))
        if found is None:
            await self._record(request.id)
            return b.ListBatchItemsReply()
        (item,) = await self._shown([found], request)
        return b.ListBatchItemsReply(items=[view.item(item, with_arguments=request.with_arguments)])

    async def _shown(self, items: Sequence[ItemRecord], request: b.ListBatchItemsRequest) -> Sequence[ItemRecord]:
        """Items without redacted values."""
        unredacted = request.unredacted or not request.with_arguments
        tasks = await self._redaction.with_spec([each.task for each in items], unredacted=unredacted)
        return [each._replace(task=task) for each, task in zip(items, tasks, strict=True)]

    async def watch_batch(self, request: b.WatchBatchRequest) -> AsyncGenerator[b.Batch, None]:
        """How a batch goes on, until it has ended. Its counters are read now and then, and when its end is notified."""
        every_us = request.at_most_every_us or DEFAULT_EVERY_US
        if not MIN_EVERY_US <= every_us <= MAX_EVERY_US:
            raise InvalidArgument(
                f"at_most_every_us {every_us}: {MIN_EVERY_US} (50 ms) to {MAX_EVERY_US} (60 s); 0 means {DEFAULT_EVERY_US}"
            )
        check_batch_id(shown(request.id))
        with self._waiting.notification_of(request.id) as notified:
            said: b.Batch | None = None
            while True:
                notified.clear()
                now = view.batch(await self._record(request.id))
                if said is None or not view.same(now, said):
                    said = now
                    yield now
                if now.ended_at_us or now.status == b.BATCH_DELETED or self._draining:
                    return
                await happens(notified, every_us / US)

    async def _record(self, batch_id: str) -> BatchRecord:
        record = await self._store.get_batch(check_batch_id(shown(batch_id)))
        if record is None:
            raise _none(batch_id)
        return record

    # --- commands -----------------------------------------------------------------------------------------------------

    async def cancel_batch(self, request: b.CancelBatchRequest) -> b.Batch:
        """Cancels every item that has not started, and asks those that run to stop."""
        await self._command(request.id, "cancel_batch", self._store.cancel_batch)
        return view.batch(await self._record(request.id))

    async def retry_batch(self, request: b.RetryBatchRequest) -> b.Batch:
        """Starts the items afresh that failed for good."""
        done = await self._command(request.id, "retry_batch", self._store.retry_batch)
        record = await self._record(request.id)
        if record.unmade:
            raise FailedPrecondition(
                f"batch {request.id} is a step of a chain that could not be made ({record.error}): submit the rest of the chain anew"
            )
        if done is BatchCommandAnswer.CANCELLED:
            raise FailedPrecondition(
                f"batch {request.id} was cancelled: make another one of the items that are still wanted"
            )
        return view.batch(record)

    async def delete_batch(self, request: b.DeleteBatchRequest) -> b.DeleteBatchReply:
        """Deletes a batch that has ended; it need not exist."""
        try:
            done = await self._command(request.id, "delete_batch", self._store.delete_batch)
        except NotFound:
            return b.DeleteBatchReply(existed=False)
        if done is BatchCommandAnswer.NOT_ENDED:
            raise FailedPrecondition(
                f"batch {request.id} has not ended: cancel it first, and delete it when its items have ended"
            )
        return b.DeleteBatchReply(existed=True)

    async def _command(
        self, batch_id: str, event: str, verb: Callable[[str], Awaitable[BatchCommandAnswer]]
    ) -> BatchCommandAnswer:
        done = await verb(check_batch_id(shown(batch_id)))
        if done is BatchCommandAnswer.MISSING:
            raise _none(batch_id)
        if done is not BatchCommandAnswer.NOTHING:
            _log.info(event, batch=batch_id, done=done.name)
        return done


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
            raise _none(batch_id)
        case BatchAnswer.CANCELLED:
            raise FailedPrecondition(f"batch {batch_id} was cancelled: it takes no more items")
        case BatchAnswer.DELETED:
            raise AlreadyExists(
                f"batch id {batch_id!r} was taken by a batch that was deleted; it is free ten minutes after that"
            )


def _page(request: b.ListBatchItemsRequest) -> tuple[int, int, list[Status]]:
    """The size of a page, the number of its first item, and the statuses of the tasks that are asked for."""
    if not 0 <= request.page_size <= MAX_PAGE:
        raise InvalidArgument(f"page_size {request.page_size}: use 1 to {MAX_PAGE}; 0 means {DEFAULT_PAGE}")
    if not 0 <= request.first <= MAX_ITEMS:
        raise InvalidArgument(f"first {request.first}: the number of an item, 0 to {MAX_ITEMS}")
    if request.page_token and request.first:
        raise InvalidArgument("first and page_token: give one of them; a page begins behind the one before")
    if request.work_item_id and (request.page_token or request.first or request.statuses):
        raise InvalidArgument(
            "work_item_id: it asks for one item, however that stands: leave statuses, first and page_token out"
        )
    if request.page_token and not re.fullmatch(r"[0-9]{1,9}", request.page_token):
        raise InvalidArgument(f"page_token {shown(request.page_token)!r}: give the next_page_token of the page before")
    if len(request.statuses) > len(view.TASK_STATUSES):
        raise InvalidArgument(f"{len(request.statuses)} statuses: at most {len(view.TASK_STATUSES)}, each once")
    statuses: list[Status] = []
    for each in request.statuses:
        if each not in view.TASK_STATUSES:
            raise InvalidArgument(f"statuses: {each} is none; use 0, 1, 100, -1, -2 or -3")
        statuses += view.TASK_STATUSES[each]
    return request.page_size or DEFAULT_PAGE, int(request.page_token or request.first), statuses


def _none(batch_id: str) -> NotFound:
    return NotFound(f"there is no batch {shown(batch_id)!r}, or it was deleted: its retention counts from its end")
