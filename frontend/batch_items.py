"""Completes the items of a batch. Pure.

They come in great numbers: what they have in common is encoded once, as the beginning of their TaskSpec, and an item's own part is put
behind it as it is. (In Protocol Buffers, messages that follow each other are one message.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from atf import task as rules
from atf.errors import InvalidArgument
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.rpc.stored_spec import front
from atf.sdk.sealed import is_sealed
from atf.sdk.tracing import trace_of
from atf.sdk.work_items import COMMAND, MAX_ITEMS, digest_of, texts_of
from atf.store import keys
from atf.store.values.batches import ItemTerms, NewItem

from .search import entries_of
from .validate import check_size, lambda_of, shown

MAX_ARGUMENTS: Final = 1_000
MAX_ARGUMENT_BYTES: Final = 32 << 10
"""Of one item together: a command's result repeats them."""
_TARGET: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_encode = msgspec.json.Encoder().encode


class ItemTemplate:
    """What all items of a batch have in common.

    Args:
        batch_id: of the batch.
        spec: its completed description.
        partition_for: where what is routed by a text lies.
        single_partition: whether all items lie where the batch does, as the store has it.
        declared: their lambda as it is registered; None: nothing of them is indexed.
    """

    def __init__(
        self,
        batch_id: str,
        spec: b.BatchSpec,
        partition_for: Callable[[str], int],
        *,
        single_partition: bool,
        declared: f.LambdaSpec | None = None,
    ) -> None:
        self.lambda_name = lambda_of(spec)
        self._batch_id = batch_id
        self._declared = declared if declared is not None and declared.search else None
        self._affinity_key = spec.affinity_key
        options = spec.options
        self.terms: Final = ItemTerms(
            self.lambda_name,
            options.priority,
            options.max_attempts,
            options.max_losses,
            spec.pause_us,
            keys.labels(spec.labels),
            trace_of(spec).SerializeToString(deterministic=True),
        )
        self._partition_for = partition_for
        self._partition = partition_for(batch_id) if single_partition else None
        self._concurrency = ""
        task = t.TaskSpec(labels=spec.labels, affinity_key=spec.affinity_key)
        task.batch.id = batch_id
        if spec.max_in_flight:
            self._concurrency = self._key(task, batch_id, spec.max_in_flight)
        self._front = front(self.lambda_name, options) + task.SerializeToString(deterministic=True)
        self._chunks = [self._chunk(number) for number in range(spec.workers)]

    def _key(self, task: t.TaskSpec, key: str, limit: int) -> str:
        task.concurrency.CopyFrom(t.Concurrency(key=key, limit=limit))
        return keys.concurrency(self.lambda_name, key, limit, int(t.Concurrency.QUEUE))

    def _chunk(self, number: int) -> tuple[bytes, str, str]:
        """What items that are dealt to one of the workers have more: in their spec, and as the store knows it."""
        key, task = f"{self._batch_id}.{number}", t.TaskSpec()
        concurrency = self._key(task, key, 1)
        if not self._affinity_key:
            task.affinity_key = key
        return task.SerializeToString(deterministic=True), concurrency, self._affinity_key or key

    def item(self, number: int, asked: b.BatchItem) -> tuple[int, NewItem]:
        """An item to store, and its partition.

        Args:
            number: its place in the batch.
            asked: as the caller sent it.

        Raises:
            InvalidArgument: what is wrong with which item.
        """
        try:
            if number >= MAX_ITEMS:
                raise InvalidArgument(f"a batch has at most {MAX_ITEMS} items")
            return self._item(number, asked)
        except InvalidArgument as error:
            raise InvalidArgument(f"item {number}: {error}") from None

    def _item(self, number: int, asked: b.BatchItem) -> tuple[int, NewItem]:
        payload, arguments = asked.payload, asked.arguments
        if self.lambda_name == COMMAND and not is_sealed(payload):
            payload = _command(payload, arguments)
        elif len(payload) > rules.MAX_PAYLOAD_BYTES:
            check_size("payload", len(payload))
        md5 = digest_of(self.lambda_name, arguments or texts_of(payload))
        own = varint(number)
        spec = b"%b\x12%b%b\x5a%c\x10%b" % (self._front, varint(len(payload)), payload, len(own) + 1, own)
        ordering_key, concurrency = "", self._concurrency
        if not self.terms.pause_us and asked.target:
            raise InvalidArgument(
                f"target {shown(asked.target)!r}: the batch has no pause that it would be kept between; give the batch a pause_us, or"
                " leave target out"
            )
        if self.terms.pause_us:
            ordering_key = f"{self._batch_id}.{_target(asked.target)}"
            spec += b"\x32%b%b" % (varint(len(ordering_key)), ordering_key.encode())
        affinity = self._affinity_key
        if self._chunks:
            more, concurrency, affinity = self._chunks[number % len(self._chunks)]
            spec += more
        partition = self._partition_for(f"{self._batch_id}.{md5}") if self._partition is None else self._partition
        entries = entries_of(self._declared, payload, t.JSON) if self._declared is not None else ""
        return partition, NewItem(number, md5, spec, ordering_key, concurrency, affinity, entries)


def varint(number: int) -> bytes:
    """A number as Protocol Buffers write it."""
    if number < 0x80:
        return _SMALL[number]
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SMALL: Final = [bytes([each]) for each in range(0x80)]


def _command(payload: bytes, arguments: Sequence[str]) -> bytes:
    if payload:
        raise InvalidArgument(
            f"payload: an item of {COMMAND} has none; give the command line as arguments, program first"
        )
    if not 1 <= len(arguments) <= MAX_ARGUMENTS or not arguments[0]:
        raise InvalidArgument(
            f"arguments: {len(arguments)} of them; give the command line, program first, of at most {MAX_ARGUMENTS}"
        )
    made = _encode({"argv": list(arguments)})
    if len(made) > MAX_ARGUMENT_BYTES and sum(len(each.encode()) for each in arguments) > MAX_ARGUMENT_BYTES:
        raise InvalidArgument(
            f"arguments: more than {MAX_ARGUMENT_BYTES} bytes together; put what is large into a file, and pass where it is"
        )
    if any("\0" in each for each in arguments):
        raise InvalidArgument("arguments: an argument of a program can't hold a null character")
    return made


def _target(target: str) -> str:
    if not target:
        raise InvalidArgument(
            "target: it has none, and the batch has a pause between the items of one target; say which with target=, in an extension, too"
        )
    if not _TARGET.fullmatch(target):
        raise InvalidArgument(
            f"target {shown(target)!r}: the batch has a pause between items of one target; use 1 to 64 of the characters A-Z a-z 0-9 ."
            " _ -"
        )
    return target
