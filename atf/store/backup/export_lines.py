"""Writes and reads the lines of an export, and says what each may hold.

A file may have been edited or damaged. What a line says goes into the store as it is, where no rule looks at it any more, so all
rules are applied here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from atf.errors import InvalidArgument
from atf.sdk import work_items
from atf.store.library import DRAINING_LAPSES, MAX_GATES, UNSTARTED_LAPSES
from atf.store.values.lambdas import GateAction
from atf.task import (
    MAX_AHEAD_US,
    MAX_ERROR_BYTES,
    MAX_KEY_CHARS,
    MAX_LABELS,
    MAX_PAYLOAD_BYTES,
    MAX_SEARCH,
    check_id,
    check_job,
    check_key,
    check_lambda,
    check_name,
    check_priority,
    clip,
)

from .export_records import (
    ExportedCores,
    ExportedGate,
    ExportedJob,
    ExportedLambda,
    ExportedPage,
    ExportedStop,
    ExportedTask,
    ExportedUniqueKey,
    Line,
)

MAX_SPEC_BYTES: Final = MAX_PAYLOAD_BYTES + (64 << 10)
"""A payload, and what surrounds it."""
MAX_JOB_BYTES: Final = 2_000
"""Of a job's name as messages show it; no rule allows so much."""
OVERLAPS: Final = ("allow", "skip", "queue", "cancel_running")
MAX_TEXT_BYTES: Final = 200
"""Of names and ids as messages show them; no rule allows so much."""
MAX_KEY_BYTES: Final = 4 * MAX_KEY_CHARS + 4
"""Of keys, likewise."""

_decoder: Final[msgspec.json.Decoder[Line]] = msgspec.json.Decoder(Line)
_OLD_ID: Final = re.compile(r"[0-9]{1,5}-(?P<id>.*)", re.DOTALL)
_KEY: Final = r"[A-Za-z0-9._-]{1,64}/[A-Za-z0-9._-]{1,64}:[A-Za-z0-9._~%-]{1,3060}"
"""A lambda and a key of it, as keys.stored_key has it."""
_UNIQUE: Final = re.compile(_KEY)
_CONCURRENCY: Final = re.compile(rf"({_KEY} [0-9]{{1,6}} [0-2])?")
_LABEL: Final = r"[A-Za-z0-9._~%-]{1,768}=[A-Za-z0-9._~%-]{0,768}"
_LABELS: Final = re.compile(rf"({_LABEL}( {_LABEL}){{0,{MAX_LABELS - 1}}})?")
_ENTRIES: Final = re.compile(rf"({_LABEL}( {_LABEL}){{0,{MAX_SEARCH - 1}}})?")
_LAPSES: Final = re.compile(rf"([0-{DRAINING_LAPSES}] [0-{UNSTARTED_LAPSES}])?")
_LIMITS: Final = re.compile(r"([0-9]{1,15} [0-9]{1,15} [0-9]{1,16})?")


def encode(value: Line) -> bytes:
    """A line with its end."""
    return msgspec.json.encode(value) + b"\n"


def decode(raw: bytes) -> Line:
    """A line without its end.

    Raises:
        InvalidArgument: it is none of ours, or holds what no task or lambda can have.
    """
    try:
        line = _decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidArgument(str(error) or type(error).__name__) from None
    if (check := _CHECKS.get(type(line))) is not None:
        check(line)
    return line


def _check_page(line: ExportedPage) -> None:
    _within("bytes of cursor", len(line.cursor.encode()), MAX_TEXT_BYTES)


def _check_stop(line: ExportedStop) -> None:
    _check_task(line.task)
    if not line.task.ordering_key:
        raise InvalidArgument("a stop without an ordering_key")
    if line.since_us < 2:  # as a task's next instant, 1 would mean that it was cancelled: see restore.lua
        raise InvalidArgument(f"since_us: {line.since_us} is no instant")


def _check_window(line: ExportedUniqueKey) -> None:
    if not _UNIQUE.fullmatch(line.key):
        raise InvalidArgument(f"key of a window {clip(line.key, MAX_KEY_BYTES)!r}: not lambda:key")
    _check_stored_id(line.task_id)


def _check_lambda(line: ExportedLambda) -> None:
    check_lambda(clip(line.name, MAX_TEXT_BYTES))
    _within("bytes of spec", len(line.spec), MAX_SPEC_BYTES)
    single = sum(gate.action is not GateAction.PAUSE or bool(gate.labels) for gate in line.gates)
    _within("gates beside a pause of the whole lambda", single, MAX_GATES)
    for gate in line.gates:
        _check_gate(gate)


def _check_gate(gate: ExportedGate) -> None:
    _within("labels of a gate", len(gate.labels), MAX_LABELS)
    for text in (*gate.labels, *gate.labels.values()):
        _within("bytes of a gate's label", len(text.encode()), MAX_TEXT_BYTES * 2)
    most = 1 if gate.action is GateAction.ADMIT else MAX_AHEAD_US
    if not 0 <= gate.amount <= most:
        raise InvalidArgument(f"amount of a gate: {gate.amount} is not within 0 to {most}")
    for text in (gate.who, gate.why):
        _within("bytes of a gate's who and why", len(text.encode()), MAX_ERROR_BYTES)


def _check_job(line: ExportedJob) -> None:
    check_job(clip(line.name, MAX_JOB_BYTES))
    if line.overlap not in OVERLAPS:
        raise InvalidArgument(f"overlap {clip(line.overlap, MAX_TEXT_BYTES)!r}: use {', '.join(OVERLAPS)}")
    _within("bytes of spec", len(line.spec), MAX_SPEC_BYTES)
    _within("bytes of rhythm", len(line.rhythm.encode()), MAX_TEXT_BYTES)


def _check_cores(line: ExportedCores) -> None:
    if line.pool:
        check_name(clip(line.pool, MAX_TEXT_BYTES), "pool")
    for name in line.settings.reserved:
        check_lambda(clip(name, MAX_TEXT_BYTES))
    line.settings.check()


def _check_stored_id(given: str) -> str:
    """The batch that it is an item of; "": of none."""
    known = _OLD_ID.fullmatch(clip(given, MAX_TEXT_BYTES))
    if known is None:
        raise InvalidArgument(f"task id {clip(given, MAX_TEXT_BYTES)!r}: not <partition>-<id>")
    batch_id, dot, work_item_id = known["id"].partition(work_items.ITEM_MARK)
    if dot:
        work_items.check_batch_id(batch_id)
        work_items.check_work_item_id(work_item_id)
        return batch_id
    check_id(known["id"])
    return ""


def _check_task(line: ExportedTask) -> None:
    batch_id = _check_stored_id(line.id)
    check_lambda(clip(line.lambda_name, MAX_TEXT_BYTES))
    check_priority(line.priority)
    if line.ordering_key:
        # of an item it is that of its batch, a dot, and one of its own
        key = line.ordering_key.removeprefix(f"{batch_id}.") if batch_id else line.ordering_key
        check_key(clip(key, MAX_KEY_BYTES), "ordering_key")
    if not _CONCURRENCY.fullmatch(line.concurrency):
        raise InvalidArgument(
            f"concurrency {clip(line.concurrency, MAX_TEXT_BYTES)!r}: lambda:key, a limit and 0, 1 or 2; or nothing"
        )
    if line.job:
        check_job(clip(line.job, MAX_JOB_BYTES))
        if line.ordering_key or line.concurrency:
            raise InvalidArgument("a task of a job has neither ordering_key nor concurrency")
    if not _LIMITS.fullmatch(line.limits):
        raise InvalidArgument(f"limits {clip(line.limits, MAX_TEXT_BYTES)!r}: three whole numbers, or nothing")
    if not _LABELS.fullmatch(line.labels):
        said = f"at most {MAX_LABELS} of name=value, with a blank between two"
        raise InvalidArgument(f"labels {clip(line.labels, MAX_TEXT_BYTES)!r}: {said}")
    if not _ENTRIES.fullmatch(line.entries):
        said = f"at most {MAX_SEARCH} of name=value, with a blank between two"
        raise InvalidArgument(f"entries {clip(line.entries, MAX_TEXT_BYTES)!r}: {said}")
    if not _LAPSES.fullmatch(line.lapses):
        said = f"0 to {DRAINING_LAPSES} and 0 to {UNSTARTED_LAPSES}, or nothing"
        raise InvalidArgument(f"lapses {clip(line.lapses, MAX_TEXT_BYTES)!r}: {said}")
    _within("bytes of spec", len(line.spec), MAX_SPEC_BYTES)
    _within("bytes of digest", len(line.digest), MAX_TEXT_BYTES)
    _within("bytes of error", len(line.error.encode()), MAX_ERROR_BYTES)


def _within(what: str, value: int, most: int) -> None:
    if value > most:
        raise InvalidArgument(f"{what}: {value} is not within 0 to {most}")


_CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    ExportedLambda: _check_lambda,
    ExportedCores: _check_cores,
    ExportedJob: _check_job,
    ExportedStop: _check_stop,
    ExportedUniqueKey: _check_window,
    ExportedTask: _check_task,
    ExportedPage: _check_page,
}
