"""Turns the store's records of batches and items into the messages that callers see."""

from __future__ import annotations

import hashlib
from typing import Final, cast

import msgspec

from atf.errors import InvalidArgument, NotFound
from atf.rpc import batch_pb2 as b, task_pb2 as t
from atf.sdk.failure import failure_of
from atf.sdk.sealed import WORD, is_sealed
from atf.sdk.work_items import COMMAND, texts_of
from atf.store.values.batches import BatchRecord, ItemRecord
from atf.store.values.tasks import TaskRecord
from atf.task import Status

from .new_batch import spec_of
from .redaction import WITHHELD, is_withheld
from .validate import shown
from .view import stored

TASK_STATUSES: Final[dict[int, tuple[Status, ...]]] = {
    b.ITEM_CREATED: (Status.NEW, Status.ENQUEUED),
    b.ITEM_IN_PROGRESS: (Status.CLAIMED, Status.PROCESSING),
    b.ITEM_DONE: (Status.SUCCESS,),
    b.ITEM_FAILED: (Status.RETRIABLE_FAILURE,),
    b.ITEM_PERMANENTLY_FAILED: (Status.FATAL_FAILURE,),
    b.ITEM_CANCELLED: (Status.CANCELLED,),
}
_OF_TASK: Final = {status: each for each, some in TASK_STATUSES.items() for status in some}
_arguments = msgspec.json.Decoder(dict[str, list[str]]).decode


def batch(record: BatchRecord, *, with_spec: bool = False) -> b.Batch:
    """A batch as GetBatch and the others show it; its description only where asked for."""
    hidden = bool(record.error) and is_withheld(record.lambda_name)  # what could not be made may be quoted there
    return b.Batch(
        id=record.id,
        **{"lambda": record.lambda_name},
        status=_status(record),
        items=record.items,
        created=record.created,
        in_progress=record.in_progress,
        done=record.done,
        failed=record.failed,
        permanently_failed=record.permanently_failed,
        cancelled=record.cancelled,
        sealed=record.total >= 0 or record.cancel_requested or record.unmade,
        prefix=record.prefix,
        created_at_us=record.created_at_us,
        ended_at_us=record.ended_at_us if record.ended else 0,
        round=record.round,
        spec=spec_of(record.spec) if with_spec else None,
        cancel_requested=record.cancel_requested,
        now_us=record.now_us,
        error=WITHHELD if hidden else record.error,
        withheld=record.withheld or hidden,
    )


def _status(record: BatchRecord) -> b.BatchStatus:
    if record.deleting:
        return b.BATCH_DELETED
    if not record.ended:
        return b.BATCH_IN_PROGRESS if record.begun else b.BATCH_CREATED
    if record.cancel_requested:
        return b.BATCH_CANCELLED
    return b.BATCH_DONE if record.done == record.items and not record.unmade else b.BATCH_DONE_WITH_FAILURES


def same(one: b.Batch, other: b.Batch) -> bool:
    """Whether nothing has changed but the time."""
    before = b.Batch()
    before.CopyFrom(other)
    before.now_us = one.now_us
    return one == before


def item(record: ItemRecord, *, with_arguments: bool) -> b.Item:
    """An item as ListBatchItems shows it."""
    task = record.task
    spec, failed = stored(t.TaskSpec, task.spec) or t.TaskSpec(), failure_of(task.error)
    return b.Item(
        number=record.number,
        work_item_id=record.work_item_id,
        task_id=task.id,
        status=cast("b.ItemStatus", _OF_TASK[task.status]),
        result=task.result,
        result_encoding=cast("t.Encoding", task.result_encoding),
        error=task.error,
        error_type=failed.type,
        error_message=failed.message,
        attempts=task.attempts,
        chunk=_chunk(task, spec),
        peer=task.owner or (task.ended_runs[-1].owner if task.ended_runs else ""),
        arguments=_texts(task, spec) if with_arguments else (),
        payload=spec.payload if with_arguments else b"",
        finished_at_us=task.moved_at_us.get(task.status, 0) if task.status.finished else 0,
        withheld=task.withheld,
    )


def _chunk(task: TaskRecord, spec: t.TaskSpec) -> str:
    """With workers the number of the one that the item was dealt to; else what all tasks that were given out together have in common.

    That is the nonce of their claims. It is told by its digest alone, since whoever has it can end them. A claim that was handed back before it
    ran leaves its nonce in the record: it names no chunk.
    """
    dealt = spec.concurrency.key.partition(".")[2]
    ran = task.nonce if task.owner or task.ended_runs else ""
    return dealt or (hashlib.blake2s(ran.encode(), digest_size=8).hexdigest() if ran else "")


def _texts(task: TaskRecord, spec: t.TaskSpec) -> list[str]:
    try:
        if is_sealed(spec.payload):
            return [WORD]
        return _arguments(spec.payload)["argv"] if task.lambda_name == COMMAND else texts_of(spec.payload)
    except (InvalidArgument, msgspec.MsgspecError, UnicodeDecodeError, LookupError):  # somebody has damaged it
        return []


def no_batch(batch_id: str) -> NotFound:
    """The error of a batch that is not there."""
    return NotFound(f"there is no batch {shown(batch_id)!r}, or it was deleted: its retention counts from its end")
