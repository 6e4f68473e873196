"""Turns the store's records into the messages that callers see."""

from __future__ import annotations

from typing import Final, TypeVar, cast

from google.protobuf.message import DecodeError, Message

from atf.errors import AtfError, TaskNotFound, TooManyPending
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.sdk.failure import failure_of
from atf.store.capacity import HostRecord
from atf.store.values.tasks import RunRecord, TaskRecord
from atf.task import HELD, STARTS, US, Status, pool_called

ANSWER_BYTES: Final = 3 << 19
"""Where an answer stops to grow: with the records read last, of 64 KiB of result each, it stays below 4 MiB."""
_MAX_SENTENCE_CHARS: Final = 500

M = TypeVar("M", bound=Message)


def task(record: TaskRecord, *, with_spec: bool = False) -> t.Task:
    """A task as GetTask, ListTasks and WaitTasks show it; its spec, with the payload, only where asked for."""
    moved, failed = record.moved_at_us, failure_of(record.error)
    return t.Task(
        id=record.id,
        **{"lambda": record.lambda_name},
        priority=record.priority,
        status=status(record.status),
        attempts=record.attempts,
        losses=record.losses,
        runs=record.runs,
        scheduled_at_us=record.scheduled_at_us,
        next_at_us=record.next_at_us,
        created_at_us=moved.get(Status.NEW, 0),
        enqueued_at_us=moved.get(Status.ENQUEUED, 0),
        claimed_at_us=moved.get(Status.CLAIMED, 0),
        started_at_us=_started_at_us(record),
        failed_at_us=moved.get(Status.RETRIABLE_FAILURE, 0),
        finished_at_us=moved.get(record.status, 0) if record.status.finished else 0,
        owner=record.owner,
        cancel_requested=record.cancel_requested,
        result=record.result,
        result_encoding=cast("t.Encoding", record.result_encoding),
        error=record.error,
        error_type=failed.type,
        error_message=failed.message,
        ended_runs=[_ended(run) for run in record.ended_runs],
        spec=stored(t.TaskSpec, record.spec) if with_spec else None,
        progress=record.progress,
        fence=record.fence,
        has_log=record.has_log,
        failure_group=record.failure_group,
        withheld=record.withheld,
    )


def _started_at_us(record: TaskRecord) -> int:
    """When its last run started, exactly where that has ended, else as a heartbeat has told it; 0: none has, or nobody knows yet."""
    known = record.moved_at_us.get(Status.PROCESSING, 0)
    if record.status in HELD or not record.ended_runs:
        return known
    return record.ended_runs[-1].started_at_us or known


def stored(kind: type[M], message: bytes) -> M | None:
    """A message as the store has it; None where somebody has damaged it: the rest of its record can still be looked at."""
    try:
        return kind.FromString(message)
    except DecodeError:
        return None


def no_task(task_id: str) -> TaskNotFound:
    """The error of a call about a task that the store does not have."""
    return TaskNotFound(f"no task {task_id!r}; the records of finished tasks expire after their retention")


def set_error(said: f.Error, error: AtfError) -> None:
    """Says what went wrong with one item of a call of many."""
    said.code, said.message, said.reason = error.code, str(error)[:_MAX_SENTENCE_CHARS], error.reason
    if isinstance(error, TooManyPending):
        said.retry_after_us = round(error.retry_after_s * US)


def _ended(run: RunRecord) -> t.EndedRun:
    return t.EndedRun(
        owner=run.owner, started_at_us=run.started_at_us, ended_at_us=run.ended_at_us, why=run.why, attempt=run.attempt
    )


def status(value: Status | None) -> t.Status:
    """A status on the wire; None, for "no such task", is unspecified."""
    return cast("t.Status", int(value or 0))


def host(record: HostRecord) -> f.WorkerHost:
    """A worker host."""
    quarantined = [
        f.QuarantinedLambda(until_us=until_us, **{"lambda": name})
        for name, until_us in sorted(record.quarantined.items())
    ]
    signatures = [
        f.HostSignature(digests=digests, **{"lambda": name}) for name, digests in sorted(record.signatures.items())
    ]
    return f.WorkerHost(
        name=record.name,
        pool=pool_called(record.pool),
        until_us=record.until_us,
        quarantined=quarantined,
        signatures=signatures,
        executors=record.executors,
        draining=record.drain_until_us is not None,
        drain_until_us=record.drain_until_us or 0,
        why_not="" if record.why_not == STARTS else record.why_not,
        starting=record.why_not == STARTS,
    )
