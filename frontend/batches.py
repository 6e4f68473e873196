"""Answers the RPCs about batches. What comes in by ScheduleBatch is batch_intake.py's."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from math import inf
from typing import Final

from atf import task as rules
from atf.auth.caller import caller, permit
from atf.auth.grants import Verb
from atf.errors import FailedPrecondition, InvalidArgument, NotFound
from atf.rpc import batch_pb2 as b
from atf.runtime import happens
from atf.sdk.work_items import MAX_ITEMS, check_batch_id, check_work_item_id
from atf.store.values.batches import BatchCommandAnswer, BatchPlace, BatchRecord, ItemRecord
from atf.task import US, Status

from . import batch_view as view
from .audit import AuditDraft, batch_detail
from .found import permit_found
from .page_tokens import opened, sealed
from .parts import FrontendParts
from .validate import bad_page_token, lambda_of, page_size, shown

MAX_PAGE: Final = 1_000
"""Of ListBatchItems."""
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


class BatchRpcs(FrontendParts):
    """Answers the RPCs about batches."""

    # --- looking at them ----------------------------------------------------------------------------------------------

    async def get_batch(self, request: b.GetBatchRequest, *, timeout: float = 10) -> b.Batch:
        """A batch as it stands."""
        record = await self._record(request.id)
        if request.with_spec:
            record = await self._redaction.batch(record, unredacted=request.unredacted)
        return view.batch(record, with_spec=request.with_spec)

    async def list_batches(self, request: b.ListBatchesRequest, *, timeout: float = 10) -> b.ListBatchesReply:
        """A page of batches, newest first. Where few are of the lambda, it may be short, or empty with a token."""
        size = page_size(request.page_size)
        name = lambda_of(request)
        if name:
            permit(Verb.READ, rules.check_lambda(shown(name)))
        last = parse_token(opened("list_batches", request.page_token), self._store.partitions)
        reply, who, looked_at = b.ListBatchesReply(), caller(), 0
        while len(reply.batches) < size and looked_at < _LOOKED_AT * size:
            some = min(size - len(reply.batches), _READ_TOGETHER)
            found = await self._store.list_batches(last, some)
            looked_at += len(found)
            for record in await asyncio.gather(*(self._store.get_batch(each.id) for each in found)):
                if record is not None and name in {"", record.lambda_name} and who.may(Verb.READ, record.lambda_name):
                    reply.batches.append(view.batch(record))
            if len(found) < some:
                return reply
            last = found[-1]
        if last is not None:
            reply.next_page_token = sealed("list_batches", f"{last.created_at_us}:{last.partition}:{last.id}")
        return reply

    async def list_batch_items(self, request: b.ListBatchItemsRequest, *, timeout: float = 10) -> b.ListBatchItemsReply:
        """A page of the items of a batch."""
        check_batch_id(shown(request.id))
        size, first, statuses = _page(request)
        if not caller().is_unbounded(Verb.READ):
            await self._record(request.id)
        if request.work_item_id:
            return await self._item(request)
        reply, some = b.ListBatchItemsReply(), min(size, _FIRST_READ)
        following: int | None = first
        taken = looks = 0
        while following is not None and len(reply.items) < size and looks < _LOOKED_AT and taken < _ANSWER_BYTES:
            found = await self._store.list_batch_items(request.id, following, some, statuses=statuses)
            following, looks = found.next, looks + 1
            for each in await self._shown_items(found.items, request):
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
        shown_items = await self._shown_items([found], request)
        return b.ListBatchItemsReply(
            items=[view.item(each, with_arguments=request.with_arguments) for each in shown_items]
        )

    async def _shown_items(self, items: Sequence[ItemRecord], request: b.ListBatchItemsRequest) -> Sequence[ItemRecord]:
        """Items without redacted values. Those alone whose own lambda the caller may read: another batch may have been made of the id meanwhile."""
        who = caller()
        items = [each for each in items if who.may(Verb.READ, each.task.lambda_name)]
        unredacted = request.unredacted or not request.with_arguments
        tasks = await self._redaction.with_spec([each.task for each in items], unredacted=unredacted)
        return [each._replace(task=task) for each, task in zip(items, tasks, strict=True)]

    async def watch_batch(
        self, request: b.WatchBatchRequest, *, timeout: float = 3600
    ) -> AsyncGenerator[b.Batch, None]:
        """How a batch goes on, until it has ended. Its counters are read now and then, and when its end is notified."""
        every_us = request.at_most_every_us or DEFAULT_EVERY_US
        if not MIN_EVERY_US <= every_us <= MAX_EVERY_US:
            raise InvalidArgument(
                f"at_most_every_us {every_us}: {MIN_EVERY_US} (50 ms) to {MAX_EVERY_US} (60 s); 0 means {DEFAULT_EVERY_US}"
            )
        check_batch_id(shown(request.id))
        until_s = self._runtime.monotonic() + caller().longest(inf)
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
                if self._runtime.monotonic() > until_s:
                    return
                await happens(notified, every_us / US)

    async def _record(self, batch_id: str, verb: Verb = Verb.READ) -> BatchRecord:
        record = await self._store.get_batch(check_batch_id(shown(batch_id)), caller().seen())
        if record is None:
            raise view.no_batch(batch_id)
        permit_found(verb, record.lambda_name, partial(view.no_batch, batch_id))
        return record

    # --- commands -----------------------------------------------------------------------------------------------------

    async def cancel_batch(self, request: b.CancelBatchRequest, *, timeout: float = 10) -> b.Batch:
        """Cancels every item that has not started, and asks those that run to stop."""
        async with self._audit.write("cancel_batch", request, detail=batch_detail(request.id)) as draft:
            await self._command(draft, request.id, self._store.cancel_batch)
            record = await self._record(request.id, Verb.OPERATE)
            draft.lambda_name = record.lambda_name
        return view.batch(record)

    async def retry_batch(self, request: b.RetryBatchRequest, *, timeout: float = 10) -> b.Batch:
        """Starts the items afresh that failed for good."""
        async with self._audit.write("retry_batch", request, detail=batch_detail(request.id)) as draft:
            done = await self._command(draft, request.id, self._store.retry_batch)
            record = await self._record(request.id, Verb.OPERATE)
            draft.lambda_name = record.lambda_name
        if record.unmade:
            raise FailedPrecondition(
                f"batch {request.id} is a step of a chain that could not be made ({view.batch(record).error}): submit the rest of the chain anew"
            )
        if done is BatchCommandAnswer.CANCELLED:
            raise FailedPrecondition(
                f"batch {request.id} was cancelled: make another one of the items that are still wanted"
            )
        return view.batch(record)

    async def delete_batch(self, request: b.DeleteBatchRequest, *, timeout: float = 10) -> b.DeleteBatchReply:
        """Deletes a batch that has ended; it need not exist."""
        try:
            async with self._audit.write("delete_batch", request, detail=batch_detail(request.id)) as draft:
                done = await self._command(draft, request.id, self._store.delete_batch)
        except NotFound:
            return b.DeleteBatchReply(existed=False)
        if done is BatchCommandAnswer.NOT_ENDED:
            raise FailedPrecondition(
                f"batch {request.id} has not ended: cancel it first, and delete it when its items have ended"
            )
        return b.DeleteBatchReply(existed=True)

    async def _command(
        self, draft: AuditDraft, batch_id: str, verb: Callable[[str, Sequence[str]], Awaitable[BatchCommandAnswer]]
    ) -> BatchCommandAnswer:
        check_batch_id(shown(batch_id))
        if not caller().is_unbounded(Verb.OPERATE):
            await self._record(batch_id, Verb.OPERATE)
        done = await verb(batch_id, caller().scopes(Verb.OPERATE))
        if done is BatchCommandAnswer.MISSING:
            raise view.no_batch(batch_id)
        draft.changed = done is BatchCommandAnswer.DONE
        return done


def parse_token(token: str, partitions: int) -> BatchPlace | None:
    """The place behind which a page of batches begins; None: at the newest."""
    if not token:
        return None
    match = re.fullmatch(r"([0-9]{1,16}):([0-9]{1,5}):([A-Za-z0-9_-]{1,24})", token)
    if match is None or int(match[2]) >= partitions:
        raise bad_page_token(token)
    return BatchPlace(int(match[1]), int(match[2]), match[3])


def _page(request: b.ListBatchItemsRequest) -> tuple[int, int, list[Status]]:
    """The size of a page, the number of its first item, and the statuses of the tasks that are asked for."""
    size = page_size(request.page_size, MAX_PAGE)
    if not 0 <= request.first <= MAX_ITEMS:
        raise InvalidArgument(f"first {request.first}: the number of an item, 0 to {MAX_ITEMS}")
    if request.page_token and request.first:
        raise InvalidArgument("first and page_token: give one of them; a page begins behind the one before")
    if request.work_item_id and (request.page_token or request.first or request.statuses):
        raise InvalidArgument(
            "work_item_id: it asks for one item, however that stands: leave statuses, first and page_token out"
        )
    if request.page_token and not re.fullmatch(r"[0-9]{1,9}", request.page_token):
        raise bad_page_token(request.page_token)
    if len(request.statuses) > len(view.TASK_STATUSES):
        raise InvalidArgument(f"{len(request.statuses)} statuses: at most {len(view.TASK_STATUSES)}, each once")
    statuses: list[Status] = []
    for each in request.statuses:
        if each not in view.TASK_STATUSES:
            raise InvalidArgument(f"statuses: {each} is none; use 0, 1, 100, -1, -2 or -3")
        statuses += view.TASK_STATUSES[each]
    return size, int(request.page_token or request.first), statuses
