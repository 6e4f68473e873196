"""Checks what callers send. Pure: no I/O, no clock.

Every rule that is broken raises InvalidArgument with the field, the rule and what was given; nothing has been stored then.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from google.protobuf.message import Message

from atf import task as rules
from atf.durability import Durability
from atf.errors import InvalidArgument
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.sdk.isolation import check_isolation

DEFAULT_BACKOFF: Final = t.Backoff(base_us=rules.US, factor=2, max_us=600 * rules.US, jitter=0.1)
MAX_LABEL_CHARS: Final = 64
MAX_REDACTED: Final = 256
"""Names of a lambda's redacted arguments, aliases among them."""
MAX_PARAMETER_CHARS: Final = 255
MAX_SIGNATURE_CHARS: Final = 2_000
MAX_SCHEDULE_CHARS: Final = 1_000
MAX_REGISTERED_AT_ONCE: Final = 1_000
MAX_TRACESTATE_CHARS: Final = 512
_SHOWN_CHARS: Final = 80

M = TypeVar("M", bound=Message)

_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACESTATE: Final = re.compile(r"[ -~]*")
_DIGEST: Final = re.compile(r"[a-z0-9_-]{1,32}")
_ENCODINGS: Final = frozenset({t.JSON, t.RAW})
_POLICIES: Final = frozenset(t.Concurrency.Policy.values())
_UNIQUE_POLICIES: Final = frozenset(t.Unique.Policy.values())
_DURABILITIES: Final = {t.DURABILITY_UNSPECIFIED: Durability.RELAXED, **{int(each): each for each in Durability}}


def check_when(request: f.ScheduleRequest, now_us: int) -> tuple[int | None, int]:
    """The instant asked for, None if a delay or nothing was; and the delay.

    Args:
        request: what was sent.
        now_us: about now. Only "absurdly far ahead" is measured with it; the store decides what is due.
    """
    if request.WhichOneof("when") == "at_us":
        if request.at_us > now_us + rules.MAX_AHEAD_US:
            raise InvalidArgument(f"at_us {request.at_us}: more than ten years ahead; is it in microseconds?")
        return max(request.at_us, 0), 0
    within("delay_us", request.delay_us, 0, rules.MAX_AHEAD_US, "ten years")
    return None, request.delay_us


def asked_durability(number: int) -> Durability:
    """The class that a request asks for; the least where it names none."""
    durability = _DURABILITIES.get(number)
    if durability is None:
        raise InvalidArgument(f"durability {number}: use RELAXED (1), DISK (2) or REPLICATED (3)")
    return durability


def check_spec(spec: t.TaskSpec) -> None:
    """All of a TaskSpec but its options (check_options), and whether its lambda exists."""
    checked_lambda(spec)
    check_size("payload", len(spec.payload))
    if spec.encoding not in _ENCODINGS:
        raise InvalidArgument(f"encoding {spec.encoding}: use JSON (0) or RAW (1)")
    if spec.labels:
        check_labels(spec.labels)
    if spec.ordering_key:
        rules.check_key(spec.ordering_key, "ordering_key")
    if spec.affinity_key:
        rules.check_key(spec.affinity_key, "affinity_key")
    if spec.HasField("concurrency"):
        _check_concurrency(spec.concurrency)
    if spec.HasField("unique"):
        _check_unique(spec.unique)
    if spec.traceparent or spec.tracestate:
        check_trace(spec)
    _check_not_set(spec)


def _check_not_set(spec: t.TaskSpec) -> None:
    """What a caller leaves unset."""
    if spec.HasField("tick"):
        raise InvalidArgument("tick: only a job sets it")
    if spec.HasField("batch"):
        raise InvalidArgument("batch: only a batch sets it")
    if spec.traced_at_us:
        raise InvalidArgument("traced_at_us: only the frontend sets it")


def check_trace(spec: t.TaskSpec | b.BatchSpec) -> None:
    """The trace context of a TaskSpec or BatchSpec."""
    if not spec.traceparent:
        raise InvalidArgument(
            f"tracestate without traceparent: give the one that it goes with, or leave {shown(spec.tracestate)!r} out"
        )
    if not _TRACEPARENT.fullmatch(spec.traceparent):
        raise InvalidArgument(
            f"traceparent {shown(spec.traceparent)!r}: give that of W3C Trace Context, such as"
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        )
    if len(spec.tracestate) > MAX_TRACESTATE_CHARS or not _TRACESTATE.fullmatch(spec.tracestate):
        raise InvalidArgument(
            f"tracestate {shown(spec.tracestate)!r}: give at most {MAX_TRACESTATE_CHARS} visible characters of ASCII, or leave it out"
        )


def _check_concurrency(asked: t.Concurrency) -> None:
    rules.check_key(asked.key, "concurrency.key")
    within("concurrency.limit", asked.limit, 0, rules.MAX_CONCURRENCY, f"{rules.MAX_CONCURRENCY}; 0 means 1")
    if asked.policy not in _POLICIES:
        raise InvalidArgument(f"concurrency.policy {asked.policy}: use QUEUE (0), SKIP (1) or CANCEL_RUNNING (2)")


def _check_unique(asked: t.Unique) -> None:
    rules.check_key(asked.key, "unique.key")
    within("unique.window_us", asked.window_us, rules.MIN_WINDOW_US, rules.MAX_AHEAD_US, "ten years")
    if asked.policy not in _UNIQUE_POLICIES:
        raise InvalidArgument(f"unique.policy {asked.policy}: use THROTTLE (0) or DEBOUNCE (1)")


def check_labels(labels: Mapping[str, str]) -> None:
    """Labels of a task, or of a collection of tasks."""
    if len(labels) > rules.MAX_LABELS:
        raise InvalidArgument(f"labels: {len(labels)} of them, at most {rules.MAX_LABELS}")
    for name, value in labels.items():
        if not 1 <= len(name) <= MAX_LABEL_CHARS or len(value) > MAX_LABEL_CHARS:
            raise InvalidArgument(
                f"label {shown(name)!r} = {shown(value)!r}: a name has 1 to {MAX_LABEL_CHARS} characters, a value at most"
                f" {MAX_LABEL_CHARS}"
            )


def check_options(options: t.TaskOptions) -> None:
    """The options that are set; of a request or of a lambda."""
    if options.HasField("priority"):
        rules.check_priority(options.priority)
    if options.HasField("max_attempts") and options.max_attempts < 1:
        raise InvalidArgument(f"max_attempts {options.max_attempts}: at least 1")
    if options.HasField("max_losses"):
        within("max_losses", options.max_losses, 1, 100, "100")
    within("timeout_us", options.timeout_us, 0, rules.MAX_AHEAD_US, "ten years")
    within("retention_us", options.retention_us, 0, rules.MAX_AHEAD_US, "ten years")
    if options.HasField("backoff"):
        _check_backoff(options.backoff)


def _check_backoff(backoff: t.Backoff) -> None:
    within("backoff.base_us", backoff.base_us, 0, rules.MAX_AHEAD_US, "ten years")
    within("backoff.max_us", backoff.max_us, 0, rules.MAX_AHEAD_US, "ten years")
    if not math.isfinite(backoff.factor) or (backoff.factor != 0 and not 1 <= backoff.factor <= 1000):
        raise InvalidArgument(f"backoff.factor {backoff.factor}: use a finite number from 1 to 1000")
    if not math.isfinite(backoff.jitter) or not 0 <= backoff.jitter <= 1:
        raise InvalidArgument(f"backoff.jitter {backoff.jitter}: use a finite number from 0 to 1")


def filled_in(options: t.TaskOptions, base: t.TaskOptions | None = None) -> t.TaskOptions:
    """Options with every field set: as given, else by `base`, else by the system's defaults."""
    full = t.TaskOptions()
    full.CopyFrom(base or _DEFAULTS)
    full.MergeFrom(options)
    if options.HasField("backoff"):
        full.backoff.CopyFrom(options.backoff)  # whole: merged, its zeros would let the base shine through
        full.backoff.factor = full.backoff.factor or DEFAULT_BACKOFF.factor
        full.backoff.max_us = full.backoff.max_us or max(DEFAULT_BACKOFF.max_us, full.backoff.base_us)
    return full


def check_lambda_spec(spec: f.LambdaSpec, held: f.LambdaSpec | None = None) -> None:
    """A lambda that somebody registers; `held`: as check_isolation has it."""
    rules.check_lambda(shown(spec.name))
    try:
        check_options(spec.options)
        if len(spec.signature) > MAX_SIGNATURE_CHARS:
            raise InvalidArgument(f"signature: {len(spec.signature)} characters, at most {MAX_SIGNATURE_CHARS}")
        if len(spec.schedule) > MAX_SCHEDULE_CHARS:
            raise InvalidArgument(f"schedule: {len(spec.schedule)} characters, at most {MAX_SCHEDULE_CHARS}")
        if spec.digest and not _DIGEST.fullmatch(spec.digest):
            raise InvalidArgument(f"digest {shown(spec.digest)!r}: use at most 32 of the characters a-z 0-9 _ -")
        if len(spec.redact) > MAX_REDACTED or any(not 1 <= len(each) <= MAX_PARAMETER_CHARS for each in spec.redact):
            raise InvalidArgument(
                f"redact: {len(spec.redact)} names; at most {MAX_REDACTED}, of 1 to {MAX_PARAMETER_CHARS} characters"
            )
        if len(spec.search) > rules.MAX_SEARCH or any(
            not 1 <= len(each) <= MAX_PARAMETER_CHARS for each in spec.search
        ):
            raise InvalidArgument(
                f"search: {len(spec.search)} names; at most {rules.MAX_SEARCH}, of 1 to {MAX_PARAMETER_CHARS} characters"
            )
        if hidden := sorted({*spec.search} & {*spec.redact}):
            raise InvalidArgument(f"search: {shown(hidden[0])!r} is redacted, and the index would show its values")
        check_isolation(spec, held)
    except InvalidArgument as error:
        raise InvalidArgument(f"lambda {spec.name}: {error}") from None


def check_ids(ids: Sequence[str], partitions: int) -> list[str]:
    """Stored ids of one call."""
    check_count("ids", len(ids), rules.MAX_BATCH)
    return [check_stored_id(each, partitions) for each in ids]


def check_stored_id(task_id: str, partitions: int) -> str:
    """One id as Schedule answered with it."""
    rules.partition_of(shown(task_id), partitions)
    return task_id


def lambda_of(message: Message) -> str:
    """The field `lambda` of a message; its name is a word of Python's."""
    name: str = getattr(message, "lambda")
    return name


def checked_lambda(message: Message) -> str:
    """The same, if a lambda may be called so."""
    return rules.check_lambda(shown(lambda_of(message)))


def known_fields(message: M) -> M:
    """A copy without the fields that this release does not know: they may be of any size, and no rule has looked at them."""
    copy = type(message)()
    copy.CopyFrom(message)
    copy.DiscardUnknownFields()
    return copy


def check_count(what: str, count: int, most: int) -> None:
    """How many one call may hold."""
    if count > most:
        raise InvalidArgument(f"{count} {what}: at most {most} in one call")


def page_size(asked: int, most: int = rules.MAX_BATCH, default: int = 100) -> int:
    """How many a page holds at most; 0 asks for the default."""
    if not 0 <= asked <= most:
        raise InvalidArgument(f"page_size {asked}: use 1 to {most}; 0 means {default}")
    return asked or default


def bad_page_token(token: str) -> InvalidArgument:
    """The error of a page_token that no answer gave."""
    return InvalidArgument(f"page_token {shown(token)!r}: give the next_page_token of the page before")


def check_size(field: str, size: int, more: str = "") -> None:
    """What is stored with a task, or with a batch."""
    if size > rules.MAX_PAYLOAD_BYTES:
        raise InvalidArgument(
            f"{field}: {size} bytes{more}, at most {rules.MAX_PAYLOAD_BYTES} (1 MiB); store large data elsewhere and pass where it is"
        )


def spec_lambdas(requests: Iterable[f.ScheduleRequest]) -> set[str]:
    """The names of all lambdas in some requests."""
    return {lambda_of(request.spec) for request in requests}


def shown(text: str) -> str:
    """Text that a caller sent, short enough for a message. What is cut is longer than any rule allows."""
    return text if len(text) <= 3 * _SHOWN_CHARS else text[: 3 * _SHOWN_CHARS] + "…"


def within(name: str, value: int, least: int, most: int, most_said: str) -> None:
    """A number and its bounds."""
    if value < least:
        raise InvalidArgument(f"{name} {value}: at least {least}")
    if value > most:
        raise InvalidArgument(f"{name} {value}: at most {most_said}")


_DEFAULTS: Final = t.TaskOptions(
    priority=rules.DEFAULT_PRIORITY,
    max_attempts=rules.DEFAULT_MAX_ATTEMPTS,
    max_losses=rules.DEFAULT_MAX_LOSSES,
    timeout_us=0,
    backoff=DEFAULT_BACKOFF,
    retention_us=rules.DEFAULT_RETENTION_US,
)
