"""Makes the tasks of a batch's callbacks when the batch has ended. Pure.

A callback becomes one task, whoever makes it and however often: its id follows from the batch, its place and the round. With callbacks
behind it, in a chain, it becomes a batch of one item instead, whose callbacks those are.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from atf.errors import InvalidArgument
from atf.rpc import batch_pb2 as b, task_pb2 as t
from atf.rpc.stored_spec import serialized
from atf.sdk import work_items
from atf.sdk.batch import link_id
from atf.sdk.payload import FAILS
from atf.store import keys
from atf.store.values.batches import BatchRecord, ItemRecord, ItemTerms, NewItem
from atf.store.values.tasks import NewTask
from atf.task import (
    MAX_PAYLOAD_BYTES,
    US,
    check_lambda,
)

from .searched import NOTHING_DECLARED, Declared, entries_of

DEFAULT_PARAMETER: Final = "batch"


class EndedBatch(NamedTuple):
    """A batch at the end of a round."""

    batch: BatchRecord
    round: int
    ended_at_us: int
    items: int
    done: int
    failed: int  # for good
    cancelled: int

    @property
    def status(self) -> str:
        """done, done_with_failures, cancelled"""
        if self.batch.cancel_requested:
            return "cancelled"
        return "done_with_failures" if self.failed or self.cancelled or self.batch.unmade else "done"

    def matches(self, callback: b.Callback) -> bool:
        """Whether a callback is for this end."""
        match callback.when:
            case b.Callback.SUCCESS_OF_ALL:
                return self.status == "done"
            case b.Callback.ANY_FAILURE:
                return self.status != "done"
        return callback.when == b.Callback.COMPLETION

    def summary(self) -> bytes:
        """What a callback is told, as JSON."""
        told = {
            "id": self.batch.id,
            "lambda": self.batch.lambda_name,
            "status": self.status,
            "items": self.items,
            "done": self.done,
            "failed": self.failed,
            "cancelled": self.cancelled,
            "created_at": _iso(self.batch.created_at_us),
            "ended_at": _iso(self.ended_at_us),
            "round": self.round,
        }
        return msgspec.json.encode(told)


def result_of(item: ItemRecord) -> bytes:
    """The result of an item as JSON; null if it has none.

    Raises:
        InvalidArgument: it is raw bytes.
    """
    if item.task.result and item.task.result_encoding != t.JSON:
        raise InvalidArgument(f"the result of item {item.number} is raw bytes, which JSON can't hold")
    return item.task.result or b"null"


def spec_of(callback: b.Callback, value: bytes | None, follows: str = "") -> t.TaskSpec:
    """A callback's task.

    Args:
        callback: as the batch has it.
        value: what it is told, as JSON; None: nothing.
        follows: traceparent of the run before it.

    Raises:
        InvalidArgument: its lambda's name is none, or its arguments can't be extended, or are too large then.
    """
    spec = t.TaskSpec()
    spec.CopyFrom(callback.task)
    if follows:
        spec.batch.follows = follows
    check_lambda(getattr(spec, "lambda"))
    if value is not None:
        if spec.encoding != t.JSON:
            raise InvalidArgument("its payload is raw bytes, which can't be told anything")
        try:
            given = msgspec.json.decode(spec.payload or b"{}", type=dict[str, msgspec.Raw])
            given[callback.parameter or DEFAULT_PARAMETER] = msgspec.Raw(value)
            spec.payload = msgspec.json.encode(given)
        except FAILS as error:
            raise InvalidArgument(f"its payload is no JSON object: {error}") from None
    if len(spec.payload) > MAX_PAYLOAD_BYTES:
        raise InvalidArgument(
            f"its arguments take {len(spec.payload)} bytes, at most {MAX_PAYLOAD_BYTES} (1 MiB) are allowed"
        )
    return spec


def task_of(
    ended: EndedBatch, place: int, spec: t.TaskSpec, partitions: int, declared: Declared = NOTHING_DECLARED
) -> NewTask:
    """The task of the callback at `place`."""
    name = f"b{link_id(ended.batch.id, place, ended.round)}"
    spec.batch.id = ended.batch.id
    options, lambda_name = spec.options, getattr(spec, "lambda")
    concurrency = ""
    if spec.HasField("concurrency"):
        key = spec.concurrency
        concurrency = keys.concurrency(lambda_name, key.key, key.limit or 1, int(key.policy))
    return NewTask(
        id=name,
        partition=keys.partition_for(
            spec.ordering_key or spec.concurrency.key or spec.affinity_key or name, partitions
        ),
        lambda_name=lambda_name,
        priority=options.priority,
        spec=serialized(spec),
        digest=name.encode(),  # the same callback may be told other results when it is made once more: it is the first that counts
        at_us=None,
        delay_us=0,
        max_attempts=options.max_attempts,
        max_losses=options.max_losses,
        retention_us=options.retention_us,
        ordering_key=spec.ordering_key,
        concurrency=concurrency,
        affinity=spec.affinity_key,
        labels=keys.labels(spec.labels),
        entries=entries_of(spec, declared),
    )


class ChainLink(NamedTuple):
    """A link of a chain: a batch of one item."""

    id: str
    lambda_name: str
    spec: bytes  # a serialized BatchSpec
    retention_us: int

    @property
    def digest(self) -> bytes:
        return hashlib.blake2b(self.spec, digest_size=12).digest()


def link_of(ended: EndedBatch, place: int, callback: b.Callback) -> ChainLink:
    """What the callback at `place` becomes where others follow it."""
    described = b.BatchSpec(callbacks=callback.then, labels=callback.task.labels)
    described.traceparent, described.tracestate = callback.task.traceparent, callback.task.tracestate
    described.traced_at_us = callback.task.traced_at_us
    name = getattr(callback.task, "lambda")
    setattr(described, "lambda", name)
    options = callback.task.options
    described.options.CopyFrom(options)
    spec = described.SerializeToString(deterministic=True)
    return ChainLink(link_id(ended.batch.id, place, ended.round), name, spec, options.retention_us)


def item_of(link: ChainLink, spec: t.TaskSpec, declared: Declared = NOTHING_DECLARED) -> tuple[ItemTerms, NewItem]:
    """The item of a link, and its terms."""
    spec.batch.id, spec.batch.number = link.id, 0
    options = spec.options
    texts = work_items.texts_of(spec.payload) if spec.encoding == t.JSON else [spec.payload.hex()]
    labels = keys.labels(spec.labels)
    terms = ItemTerms(link.lambda_name, options.priority, options.max_attempts, options.max_losses, labels=labels)
    md5 = work_items.digest_of(link.lambda_name, texts)
    entries = entries_of(spec, declared)
    return terms, NewItem(0, md5, serialized(spec), affinity=spec.affinity_key, entries=entries)


def _iso(instant_us: int) -> str:
    return datetime.fromtimestamp(instant_us / US, UTC).isoformat()
