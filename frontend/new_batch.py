"""Checks and completes a batch's description, so that nothing needs to be looked up later. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from atf import task as rules
from atf.auth.caller import permit
from atf.auth.grants import Verb
from atf.errors import InvalidArgument
from atf.rpc import batch_pb2 as b, task_pb2 as t
from atf.sdk.sealed import comparable

from .lambdas import Lambdas
from .validate import (
    check_labels,
    check_size,
    check_spec,
    check_trace,
    checked_lambda,
    known_fields,
    lambda_of,
    shown,
    within,
)
from .view import stored

MAX_WORKERS: Final = 1_000
MAX_CALLBACKS: Final = 8
"""Of a batch, or behind one callback."""
MAX_CALLBACKS_IN_ALL: Final = 64
MAX_PAUSE_US: Final = 86_400 * rules.US
_DIGEST_BYTES: Final = 12
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_WHENS: Final = frozenset({b.Callback.SUCCESS_OF_ALL, b.Callback.ANY_FAILURE, b.Callback.COMPLETION})
_GIVES: Final = frozenset(b.Callback.Gives.values())
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def digest(spec: b.BatchSpec) -> bytes:
    """What tells two descriptions of one id apart: all of it but the trace in which it was made."""
    if spec.traceparent or spec.callbacks:
        bare = b.BatchSpec()
        bare.CopyFrom(spec)
        bare.ClearField("traceparent")
        bare.ClearField("tracestate")
        for task in tasks_of(bare.callbacks):
            task.payload = comparable(task.payload)
        spec = bare
    return hashlib.blake2b(spec.SerializeToString(deterministic=True), digest_size=_DIGEST_BYTES).digest()


def spec_of(spec: bytes) -> b.BatchSpec:
    """A batch's description; empty where somebody has damaged it."""
    return stored(b.BatchSpec, spec) or b.BatchSpec()


def needs_single_partition(spec: b.BatchSpec) -> bool:
    """Whether all items lie in one partition, since they share keys."""
    return bool(spec.max_in_flight or spec.pause_us or spec.workers)


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
        PermissionDenied: the caller may not schedule one of them.
    """
    permit(Verb.SCHEDULE, checked_lambda(asked))
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
    if asked.traceparent or asked.tracestate:
        check_trace(asked)
    if asked.traced_at_us:
        raise InvalidArgument("traced_at_us: only the frontend sets it")
    check_size("spec", asked.ByteSize(), " with its callbacks")
    spec = known_fields(asked)
    known = lambdas.get(lambda_of(asked))
    spec.options.CopyFrom(known.options(asked.options))
    spec.options.max_attempts = min(spec.options.max_attempts, max_attempts, max_attempts_cap)
    _complete_callbacks(spec.callbacks, lambdas, max_attempts_cap)
    return spec


def tasks_of(callbacks: Iterable[b.Callback]) -> Iterator[t.TaskSpec]:
    """The tasks of callbacks, and of those that follow them."""
    left = list(callbacks)
    while left:
        callback = left.pop()
        yield callback.task
        left += callback.then


def lambdas_of(spec: b.BatchSpec) -> set[str]:
    """The names of all lambdas in a description."""
    return {lambda_of(spec), *map(lambda_of, tasks_of(spec.callbacks))}


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
    permit(Verb.SCHEDULE, lambda_of(task))
    if task.ordering_key or task.HasField("concurrency") or task.HasField("unique"):
        raise InvalidArgument(
            "task: a callback has no ordering_key, concurrency or unique; it runs once when its batch has ended"
        )
    if task.traceparent:
        raise InvalidArgument("task.traceparent: a callback belongs to the trace of its batch; give the batch one")
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
