"""Checks and completes a batch's description, so that nothing needs to be looked up later.

Pure. The items come in great numbers: what they have in common is encoded once, as the beginning of their TaskSpec, and an item's own
part is put behind it as it is. (In Protocol Buffers, messages that follow each other are one message.)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from atf import task as rules
from atf.errors import InvalidArgument
from atf.rpc import batch_pb2 as b
from atf.rpc import task_pb2 as t
from atf.sdk.work_items import COMMAND, MAX_ITEMS, digest_of, texts_of
from atf.store import keys
from atf.store.values.batches import ItemTerms, NewItem

from .lambdas import Lambdas
from .validate import check_labels, check_size, check_spec, checked_lambda, lambda_of, shown, within
from .view import stored

MAX_WORKERS: Final = 1_000
MAX_CALLBACKS: Final = 8
"""Of a batch, or behind one callback."""
MAX_CALLBACKS_IN_ALL: Final = 64
MAX_PAUSE_US: Final = 86_400 * rules.US
MAX_ARGUMENTS: Final = 1_000
MAX_ARGUMENT_BYTES: Final = 32 << 10
"""Of one item together: a command's result repeats them."""
_DIGEST_BYTES: Final = 12
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_TARGET: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_WHENS: Final = frozenset({b.Callback.SUCCESS_OF_ALL, b.Callback.ANY_FAILURE, b.Callback.COMPLETION})
_GIVES: Final = frozenset(b.Callback.Gives.values())
_encode = msgspec.json.Encoder().encode
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def digest(spec: b.BatchSpec) -> bytes:
    """What tells two descriptions of one id apart."""
    return hashlib.blake2b(spec.SerializeToString(deterministic=True), digest_size=_DIGEST_BYTES).digest()


def spec_of(spec: bytes) -> b.BatchSpec:
    """A batch's description; empty where somebody has damaged it."""
    return stored(b.BatchSpec, spec) or b.BatchSpec()


def needs_single_partition(spec: b.BatchSpec) -> bool:
    """Whether all items lie in one partition, since they share keys."""
    return bool(spec.max_in_flight or spec.pause_us or spec.workers)


# --- the description --------------------------------------------------------------------------------------------------


def completed(asked: b.BatchSpec, lambdas: Lambdas, max_attempts: int, max_attempts_cap: int) -> b.BatchSpec:
    """What is kept of a description: its options, and those of its callbacks, all filled in.

    Args:
        asked: as the caller sent it.
        lambdas: those that are registered, the batch's and the callbacks' among them.
        max_attempts: what no item exceeds.
        max_attempts_cap: what no task exceeds.

    Raises:
        InvalidArgument: what is wrong, with the field.
        UnknownLambda: a lambda is not registered.
    """
    checked_lambda(asked)
    if asked.labels:
        check_labels(asked.labels)
    if asked.affinity_key:
        rules.check_key(asked.affinity_key, "affinity_key")
    within("max_in_flight", asked.max_in_flight, 0, rules.MAX_CONCURRENCY, f"{rules.MAX_CONCURRENCY}; 0: no bound")
    within("pause_us", asked.pause_us, 0, MAX_PAUSE_US, "a day; 0: none")
    within("workers", asked.workers, 0, MAX_WORKERS, f"{MAX_WORKERS}; 0: chunks form as executors ask")
    if asked.workers and asked.max_in_flight:
        raise InvalidArgument(
            f"max_in_flight {asked.max_in_flight} and workers {asked.workers}: of each of the workers one item runs at a time, so"
            " leave max_in_flight out"
        )
    check_size("spec", asked.ByteSize(), " with its callbacks")
    spec = b.BatchSpec()
    spec.CopyFrom(asked)
    spec.DiscardUnknownFields()  # of any size, and no rule has looked at them
    known = lambdas.get(lambda_of(asked))
    spec.options.CopyFrom(known.options(asked.options))
    spec.options.max_attempts = min(spec.options.max_attempts, max_attempts, max_attempts_cap)
    _complete_callbacks(spec.callbacks, lambdas, max_attempts_cap)
    return spec


def lambdas_of(spec: b.BatchSpec) -> set[str]:
    """The names of all lambdas in a description."""
    names, left = {lambda_of(spec)}, list(spec.callbacks)
    while left:
        callback = left.pop()
        names.add(lambda_of(callback.task))
        left.extend(callback.then)
    return names


def _complete_callbacks(callbacks: Sequence[b.Callback], lambdas: Lambdas, max_attempts_cap: int) -> None:
    left = [(callbacks, "callbacks")]
    number = 0
    while left:
        some, name = left.pop()
        number += len(some)
        if len(some) > MAX_CALLBACKS:
            raise InvalidArgument(f"{name}: {len(some)} of them, at most {MAX_CALLBACKS}")
        if number > MAX_CALLBACKS_IN_ALL:
            raise InvalidArgument(f"callbacks: more than {MAX_CALLBACKS_IN_ALL}, with those that follow others")
        for place, each in enumerate(some):
            try:
                _complete_callback(each, lambdas, max_attempts_cap)
            except InvalidArgument as error:
                raise InvalidArgument(f"{name}[{place}]: {error}") from None
            left.append((each.then, f"{name}[{place}].then" if len(name) < 80 else "…then"))


def _complete_callback(callback: b.Callback, lambdas: Lambdas, max_attempts_cap: int) -> None:
    if callback.when not in _WHENS:
        raise InvalidArgument(f"when {callback.when}: use SUCCESS_OF_ALL (1), ANY_FAILURE (2) or COMPLETION (3)")
    if callback.gives not in _GIVES:
        raise InvalidArgument(f"gives {callback.gives}: use SUMMARY (0), RESULTS (1) or NOTHING (2)")
    if callback.parameter and not _PARAMETER.fullmatch(callback.parameter):
        raise InvalidArgument(
            f"parameter {shown(callback.parameter)!r}: the name of a parameter, 1 to 64 letters, digits and _, such as batch"
        )
    if callback.parameter and callback.gives == b.Callback.NOTHING:
        raise InvalidArgument(
            f"parameter {shown(callback.parameter)!r}: it is given NOTHING; leave it out, or use SUMMARY (0) or RESULTS (1)"
        )
    if callback.unwrap and callback.gives != b.Callback.RESULTS:
        raise InvalidArgument("unwrap: it is for RESULTS, of a batch of one item")
    task = callback.task
    check_spec(task)
    if task.ordering_key or task.HasField("concurrency") or task.HasField("unique"):
        raise InvalidArgument(
            "task: a callback has no ordering_key, concurrency or unique; it runs once when its batch has ended"
        )
    if callback.gives != b.Callback.NOTHING:
        _check_extensible(task)
    task.options.CopyFrom(lambdas.get(lambda_of(task)).options(task.options))
    task.options.max_attempts = min(task.options.max_attempts, max_attempts_cap)


def _check_extensible(task: t.TaskSpec) -> None:
    """Something can be added to its arguments."""
    try:
        if task.encoding != t.JSON:
            raise InvalidArgument(
                "task.encoding: the arguments must be JSON, since the callback is given more; or gives = NOTHING"
            )
        if task.payload:
            _object(task.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise InvalidArgument("task.payload: give the arguments by name as a JSON object; or gives = NOTHING") from None


# --- the items --------------------------------------------------------------------------------------------------------


class ItemTemplate:
    """What all items of a batch have in common.

    Args:
        batch_id: of the batch.
        spec: its completed description.
        partition_for: where what is routed by a text lies.
        home_only: whether all items lie where the batch does, as the store has it.
    """

    def __init__(
        self, batch_id: str, spec: b.BatchSpec, partition_for: Callable[[str], int], *, single_partition: bool
    ) -> None:
        self.lambda_name = lambda_of(spec)
        self._batch_id = batch_id
        self._affinity_key = spec.affinity_key
        options = spec.options
        self.terms: Final = ItemTerms(
            self.lambda_name, options.priority, options.max_attempts, options.max_losses, spec.pause_us
        )
        self._partition_for = partition_for
        self._partition = partition_for(batch_id) if single_partition else None
        self._concurrency = ""
        task = t.TaskSpec(options=spec.options, labels=spec.labels, affinity_key=spec.affinity_key)
        setattr(task, "lambda", self.lambda_name)
        task.batch.id = batch_id
        if spec.max_in_flight:
            self._concurrency = self._key(task, batch_id, spec.max_in_flight)
        self._front = task.SerializeToString(deterministic=True)
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
        if self.lambda_name == COMMAND:
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
        return partition, NewItem(number, md5, spec, ordering_key, concurrency, affinity)


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
