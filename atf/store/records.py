"""Turns the store's replies into records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from atf.errors import Internal
from atf.rpc.stored_spec import whole
from atf.task import Status

from . import keys
from .values.tasks import JobTask, MisfitRecord, RunRecord, TaskRecord

SUCCEEDED: Final = "succeeded"
"""Why a run ended of which the store says nothing."""
_NULL: Final = b"null"
"""The result of a task that succeeded and whose record has none."""
_HELD: Final = (Status.CLAIMED, Status.PROCESSING)
_MOVED: Final = [(f"t{status.value}", status) for status in Status]


def task_record(task_id: str, reply: Sequence[bytes]) -> TaskRecord | None:
    """One answer of the function `get`; None where there is no such task.

    Raises:
        Internal: somebody has damaged the record.
    """
    try:
        return _record(task_id, reply) if len(reply) > 1 else None
    except (ValueError, LookupError, OverflowError) as error:
        kind = type(error).__name__  # its words may tell a piece of a payload
        raise Internal(
            f"the task store's record of {task_id} can't be read ({kind}): has somebody written there?"
        ) from None


def _record(task_id: str, reply: Sequence[bytes]) -> TaskRecord:
    field = {name.decode(): value for name, value in zip(reply[1::2], reply[2::2], strict=True)}

    def number(name: str) -> int:
        return int(field.get(name, 0))

    def text(name: str) -> str:
        return field.get(name, b"").decode("utf-8", "replace")

    queue = text("q")
    lambda_name, _, priority = queue.rpartition(":")
    entries, _, group = text("ix").partition("!")
    score = reply[0].decode()
    status = Status[text("s")]
    fence, runs, nonce, owner = (text("c").split(" ", 3) + [""] * 4)[:4]
    return TaskRecord(
        id=task_id,
        lambda_name=lambda_name,
        priority=int(priority),
        status=status,
        attempts=number("a"),
        losses=number("l"),
        runs=int(runs or 0),
        fence=int(fence or 0),
        scheduled_at_us=number("at"),
        next_at_us=0 if score in {"", "inf"} else int(float(score)),
        moved_at_us={status: int(field[name]) for name, status in _MOVED if name in field},
        owner=owner if status in _HELD else "",
        cancel_requested=text("x") not in {"", keys.LAST_RUN},
        result=field.get("res", _NULL if status is Status.SUCCESS else b""),
        result_encoding=number("enc"),
        error=text("err"),
        progress=text("p"),
        ended_runs=[_run(line) for line in text("R").split("\n")[:-1]],
        spec=whole(queue, field.get("spec", b"")),
        ordering_key=keys.bare(text("k")),
        digest=field.get("d", b""),
        limits=text("lim"),
        lapses=text("y"),
        alone="z" in field,
        failed_version=number("v"),
        concurrency=text("kc"),
        nonce=nonce,
        number=int(field.get("i", -1)),
        misfit=_misfit(text("mf"), text("me")) if "mf" in field else None,
        of_job=_of_job(text("w")),
        held="hd" in field,
        last_run=text("x") == keys.LAST_RUN,
        labels=text("lb"),
        entries=entries.rstrip(),
        has_log="log" in field,
        failure_group=group,
        waited=text("wr"),
        traceparent=text("tp"),
        late=text("wp"),
    )


def _misfit(said: str, error: str) -> MisfitRecord:
    since, grace, _, wait, _, digests = said.split(" ")
    return MisfitRecord(int(since), int(since) + int(grace) if int(wait) else 0, digests.split(","), error)


def _of_job(watched: str) -> JobTask | None:
    return JobTask(watched[1:], watched[0] == keys.BESIDE_OF) if watched[:1] in {keys.TICK_OF, keys.BESIDE_OF} else None


def _run(line: str) -> RunRecord:
    owner, ended, ran, attempt, why = line.split("\t", 4)
    started_at_us = int(ended) - int(ran) if ran else 0
    return RunRecord(
        owner=owner,
        started_at_us=started_at_us,
        ended_at_us=int(ended),
        why=why or SUCCEEDED,
        attempt=int(attempt),
    )
