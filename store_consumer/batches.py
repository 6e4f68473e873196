"""Delivers the outbox of batches: what is to be done to all items in a partition, step by step, and the callbacks of a batch that has ended.

Both may take seconds, so they have lines of their own: nothing else in the outbox waits behind them. Nothing is remembered: what is not
done comes up again, and goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from atf.calls.retry import Trouble
from atf.errors import AlreadyExists, AtfError, InvalidArgument, ResourceExhausted, Unavailable
from atf.log import get_logger
from atf.rpc import batch_pb2 as b
from atf.runtime import Runtime
from atf.sdk.tracing import trace_of
from atf.store.outbox import BATCH_ENDED, BATCH_SYNC
from atf.store.store import Store
from atf.store.values.batches import BatchAnswer, OpenedBatch
from atf.store.values.passes import OutboxRecord
from atf.task import MAX_PAYLOAD_BYTES, clip

from .callbacks import ChainLink, EndedBatch, item_of, link_of, result_of, spec_of, task_of
from .searched import SearchedArguments

KINDS: Final = (BATCH_SYNC, BATCH_ENDED)
"""Of outbox records that are delivered here."""
AT_ONCE: Final = 8
"""Records that are delivered side by side."""
MAX_WAITING: Final = 1_000
"""Records held; what does not fit comes up again later."""
MAX_WHY: Final = 500
"""Bytes of what is noted with a batch."""
_PAGE: Final = 256
"""Results that are read at once: memory stays bounded."""

_log = get_logger(duty="batches")


class BatchOutbox:
    """The deliveries under way, and those that wait.

    Args:
        store: where they are.
        runtime: spawns.
        searched: what the tasks of callbacks are found by.
    """

    def __init__(self, *, store: Store, runtime: Runtime, searched: SearchedArguments) -> None:
        self._store = store
        self._searched = searched
        self._runtime = runtime
        self._taken: set[OutboxRecord] = set()
        self._waiting: deque[OutboxRecord] = deque()
        self._deliveries: set[asyncio.Task[None]] = set()
        self._trouble = Trouble(_log, "batch")

    def add(self, records: Iterable[OutboxRecord]) -> None:
        """Has records delivered soon."""
        for record in records:
            if record not in self._taken and len(self._taken) < MAX_WAITING:
                self._taken.add(record)
                self._waiting.append(record)
                if len(self._deliveries) < AT_ONCE:
                    work = self._runtime.spawn(self._deliver(), name="batches")
                    self._deliveries.add(work)
                    work.add_done_callback(self._deliveries.discard)

    async def idle(self) -> None:
        """Waits until all that was taken has been delivered, or has failed."""
        await asyncio.gather(*self._deliveries)

    async def _deliver(self) -> None:
        while self._waiting:
            record = self._waiting.popleft()
            try:
                await (self._make_callbacks(record) if record.kind == BATCH_ENDED else self._sync(record))
                await self._store.acknowledge_outbox(record)
                self._trouble.ended(record.target)
            except AtfError as error:
                self._trouble.failed(record.target, error)
            finally:
                self._taken.discard(record)

    async def _sync(self, record: OutboxRecord) -> None:
        while True:
            began = self._runtime.monotonic()
            if await self._store.sync_batch(record):
                return
            await asyncio.sleep(self._runtime.monotonic() - began)  # half of the store's time is for the others

    async def _make_callbacks(self, record: OutboxRecord) -> None:
        """Makes the tasks of a batch's callbacks."""
        _, name, round_, ended_at, sums = msgspec.json.decode(record.body.partition(b"\n")[2], type=list[str])
        batch = await self._store.get_batch(name)
        if batch is None:
            return  # somebody has deleted it
        items, done, failed, cancelled = map(int, sums.split())
        ended = EndedBatch(batch, int(round_), int(ended_at), items, done, failed, cancelled)
        made = 0
        try:
            described = b.BatchSpec.FromString(batch.spec)
        except Exception as error:  # noqa: BLE001  of another release
            await self._note_error(ended, "", error)
            return
        wanted = [(place, each) for place, each in enumerate(described.callbacks) if ended.matches(each)]
        follows = await self._run_before(ended, described) if wanted else ""
        for place, callback in wanted:
            callback.task.MergeFrom(trace_of(described))
            made += await self._make_callback(ended, place, callback, follows)
        say = _log.info if failed else _log.debug  # every link of a chain is a batch, too
        say("batch ended", batch=name, status=ended.status, items=items, round=ended.round, callbacks=made)

    async def _run_before(self, ended: EndedBatch, described: b.BatchSpec) -> str:
        """The traceparent of the run that callbacks follow: of the only item of a batch that is traced. Empty: there is none, or nobody knows."""
        if not described.traceparent or ended.items != 1:
            return ""
        page = await self._store.list_batch_items(ended.batch.id, 0, 1)
        return page.items[0].task.traceparent if page.items else ""

    async def _make_callback(self, ended: EndedBatch, place: int, callback: b.Callback, follows: str) -> bool:
        """Makes one callback; what is wrong with it holds up no other, nor the batch."""
        in_chain = bool(callback.then) or callback.as_batch
        try:
            spec = spec_of(callback, await self._value_of(ended, callback), follows)
            declared = await self._searched.declared()
            if in_chain:
                link = link_of(ended, place, callback)
                terms, item = item_of(link, spec, declared)
                opened = await self._open(link)
                if opened.found is BatchAnswer.OTHER:
                    raise AlreadyExists(f"somebody else has made a batch of its id, {link.id}")
                # Else it was made before, and somebody has done away with it.
                if opened.found in {BatchAnswer.NEW, BatchAnswer.SAME}:
                    await self._store.schedule_items(self._store.batch_partition(link.id), link.id, terms, [item])
                    await self._store.close_batch(link.id, 1)
            else:
                (made,) = await self._store.schedule([task_of(ended, place, spec, self._store.partitions, declared)])
                if made.conflict:
                    raise AlreadyExists(f"somebody else has scheduled a task of its id, {made.id}")
        except (Unavailable, ResourceExhausted):
            raise  # it comes up again
        except Exception as error:  # noqa: BLE001  of whatever it is made of
            await self._note_error(ended, f"callback {place}, {getattr(callback.task, 'lambda')}: ", error)
            if in_chain and not isinstance(error, AlreadyExists):
                await self._fail_link(link_of(ended, place, callback), error)
            return False
        return True

    async def _value_of(self, ended: EndedBatch, callback: b.Callback) -> bytes | None:
        match callback.gives:
            case b.Callback.NOTHING:
                return None
            case b.Callback.RESULTS:
                return await self._results(ended.batch.id, only=callback.unwrap)
        return ended.summary()

    async def _results(self, batch_id: str, *, only: bool) -> bytes:
        """All results as one JSON list. `only`: the first one itself instead."""
        texts, size = list[bytes](), 0
        first: int | None = 0
        while first is not None:
            page = await self._store.list_batch_items(batch_id, first, _PAGE)
            found = list(map(result_of, page.items))
            texts += found
            size += sum(map(len, found)) + len(found)
            first = page.next
            if size > MAX_PAYLOAD_BYTES:
                raise InvalidArgument(
                    f"the results take more than {MAX_PAYLOAD_BYTES} bytes (1 MiB); let it take the summary and read them itself"
                )
        return (texts or [b"null"])[0] if only else b"[" + b",".join(texts) + b"]"

    async def _note_error(self, ended: EndedBatch, what: str, error: Exception) -> None:
        why = clip(f"{what}{error}", MAX_WHY)
        _log.error("callback can't be made", batch=ended.batch.id, round=ended.round, error=why)
        await self._store.note_error(ended.batch.id, why)

    async def _fail_link(self, link: ChainLink, error: Exception) -> None:
        """Whoever waits for a link of a chain that can't be made finds it: ended, without items, and why."""
        await self._open(link)
        await self._store.note_error(link.id, clip(f"{link.lambda_name}: {error}", MAX_WHY), unmade=True)
        await self._store.cancel_batch(link.id)  # it ends here, and nothing follows it

    async def _open(self, link: ChainLink) -> OpenedBatch:
        """Makes a link, whose only item lies in the link's partition, or finds it."""
        return await self._store.open_batch(
            link.id, link.digest, link.spec, link.lambda_name, link.retention_us, single_partition=True
        )
