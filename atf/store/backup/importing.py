"""Reads tasks back from an export: into an empty store, another one, or one with another number of partitions.

An import may be run again, since a task that is already there is left alone. It tells which tasks may have run since the export,
whether this import stored them or an earlier one did that was cut off: the file can't know, so those are all that were running
then, or have become due until now. Where the old store can still be asked, it knows: what has ended there is left out.

Executors may still run what the old store gave them. So that nothing runs twice at the same time, no claims are given for one
heartbeat timeout; by then such executors have ended.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from atf.cores.pool import CorePool
from atf.errors import AtfError, InvalidArgument
from atf.rpc import job_pb2 as j
from atf.sdk import work_items
from atf.store import keys, library
from atf.store.gates import KeepExisting
from atf.store.scheduling import routing_key
from atf.store.store import Store
from atf.store.user_keys import HeldUniqueKey
from atf.store.values.audit import AuditEntry
from atf.store.values.jobs import JobAnswer, NewJob, ReplaceJob
from atf.store.values.lambdas import LambdaRecord, NewGate
from atf.store.values.tasks import JobTask, RestoredTask, TaskRecord
from atf.task import DEFAULT_RETENTION_US, FINISHED, MAX_KEY_CHARS, Status

from .export_files import records_of
from .export_records import (
    CARRIED,
    ExportedCores,
    ExportedJob,
    ExportedLambda,
    ExportedStop,
    ExportedTask,
    ExportedUniqueKey,
    ExportEnd,
    ExportHeader,
    Line,
)
from .exporting import Progress

_PAGE: Final = 256


class WhyMayHaveRun(enum.StrEnum):
    """Why a task may have run since the export."""

    HELD = "held"  # an executor had it when it was exported
    DUE = "due"  # it was due then, or has become due since


class HasRun(enum.StrEnum):
    """Whether a task has run since the export."""

    MAYBE = "maybe"  # nobody can be asked
    YES = "yes"  # it has begun, and has not ended: it runs again
    ENDED = "ended"  # the old store has its end: it was left out


class MayHaveRun(NamedTuple):
    """A task that has run since the export, or may have."""

    id: str  # in the store that it was brought back to
    lambda_name: str
    due_at_us: int  # 0: it was held
    runs: int  # until the export
    why: WhyMayHaveRun
    ran: HasRun
    status: Status | None = None  # in the old store


@dataclass
class Imported:
    """What an import has done."""

    jobs: int = 0  # that were stored
    stored: int = 0  # tasks that were stored
    present: int = 0  # tasks that were there before, and were left alone
    ended: int = 0  # tasks that had ended in the old store, and were left out
    may_have_run: int = 0  # tasks of those stored or present that have run since the export, or may have
    begun_us: int = 0  # when the export began
    claims_from_us: int = 0  # from when on tasks start; 0: at once


async def import_tasks(
    store: Store,
    path: Path,
    progress: Progress = lambda _: None,
    *,
    report: Callable[[MayHaveRun], None] = lambda _: None,
    old: Store | None = None,
    pause_claims: bool = True,
) -> Imported:
    """Stores every task of an export that is not there yet. Ordered tasks come last, in their order.

    Args:
        store: where they go.
        path: the export.
        progress: called with the number of tasks dealt with so far.
        report: called with each task that has run since the export, or may have.
        old: the store that was exported, if it can still be asked.
        pause_claims: whether executors may still hold claims of these tasks, so that none are given for one heartbeat timeout.

    Raises:
        InvalidArgument: the file is no export, is incomplete, or a line of it is damaged.
    """
    done = Imported()
    work = _Import(store, old, await store.time_us(), report, done, set(await store.list_lambdas()))
    batch: list[ExportedTask] = []
    ordered: list[ExportedTask] = []
    complete = False
    for line in records_of(path):
        match line:
            case ExportHeader():
                done.begun_us = line.begun_us
                if pause_claims:
                    done.claims_from_us = await store.pause_claims()
            case ExportedTask():
                (ordered if line.ordering_key else batch).append(line)
                if len(batch) == _PAGE:
                    await work.restore(batch)
                    progress(done.stored + done.present + done.ended)
                    batch = []
            case ExportEnd():
                complete = True
            case _:
                await work.before_tasks(line)
    ordered.sort(key=lambda each: (each.lambda_name, each.ordering_key, each.place))
    await work.restore(batch + ordered)
    progress(done.stored + done.present + done.ended)
    if not complete:
        raise InvalidArgument(
            f"{path}: the export was interrupted; {done.stored} tasks were stored. Finish it, import again"
        )
    return done


async def _restore_lambda(store: Store, line: ExportedLambda, known: set[str]) -> None:
    if line.name in known:
        return
    known.add(line.name)
    limits = line.queue_limit, line.enqueue_timeout_us
    await store.register_lambdas([LambdaRecord(line.name, line.spec, *limits, paused=False, settings=line.settings)])
    if line.overrides:
        await store.set_lambda(line.name, lambda _: line.overrides)
    now = await store.time_us()
    for gate in line.gates:
        if not gate.until_us or gate.until_us > now:
            what = gate.action, gate.labels, gate.amount, gate.until_us or None
            new = NewGate(line.name, *what, who=gate.who, why=gate.why, automatic=gate.automatic)
            made = await store.set_gate(new, unless=KeepExisting.SET)
            if made is not None and made.made:
                said = AuditEntry("set_gate", line.name, gate.labels, gate.who, gate.why, "imported")
                await store.add_audit([said])


async def _restore_cores(store: Store, line: ExportedCores) -> None:
    """A pool that has cores already keeps them."""
    if await store.get_capacity(line.pool) is None:
        pool = CorePool.make(line.settings, await store.time_us())
        await store.set_capacity(line.pool, 0, pool.encode(), deal_anew=True)


def _lambda_of(line: ExportedJob) -> str:
    """Whose tasks a job makes; "" where somebody has damaged it."""
    try:
        return str(getattr(j.JobSpec.FromString(line.spec).task, "lambda"))
    except DecodeError:
        return ""


async def _restore_job(store: Store, line: ExportedJob) -> int:
    """Whether the job was stored: one of its name may be there, from an import before this one."""
    timing = (line.next_us, line.base_us, line.rhythm, line.ticks, line.paused)
    job = NewJob(line.name, "", ReplaceJob.NOT, line.spec, line.overlap, *timing, lambda_name=_lambda_of(line))
    (answer,) = await store.schedule_jobs([job])
    if isinstance(answer, AtfError):
        raise answer
    return int(answer.made is JobAnswer.MADE)


@dataclass
class _Import:
    """Stores lines and counts them."""

    store: Store
    old: Store | None
    now_us: int
    report: Callable[[MayHaveRun], None]
    done: Imported
    lambdas: set[str]
    """That are known."""
    unique_keys: dict[str, str] = field(default_factory=dict)
    """Of the tasks of open windows, by their ids: what decides where they live."""
    windows: list[HeldUniqueKey] = field(default_factory=list)
    """That are to be opened before their tasks come."""

    async def before_tasks(self, line: Line) -> None:
        """What stands in the file before the tasks."""
        match line:
            case ExportedLambda():
                await _restore_lambda(self.store, line, self.lambdas)
            case ExportedCores():
                await _restore_cores(self.store, line)
            case ExportedJob():
                self.done.jobs += await _restore_job(self.store, line)
            case ExportedStop():
                await self.store.restore([_task(line.task)._replace(stopped_at_us=line.since_us)])
            case ExportedUniqueKey():
                await self._window(line)

    async def _window(self, line: ExportedUniqueKey) -> None:
        """Its task follows, unless that has ended."""
        key = self.unique_keys[line.task_id] = keys.bare(line.key)
        task_id = f"{self.store.partition_for(key)}-{line.task_id.partition('-')[2]}"
        self.windows.append(HeldUniqueKey(line.key, task_id, line.until_us))
        if len(self.windows) == _PAGE:
            await self._open_windows()

    async def _open_windows(self) -> None:
        await self.store.restore_unique_keys(self.windows)
        self.windows = []

    def _task(self, line: ExportedTask) -> RestoredTask:
        return _task(line)._replace(unique_key=self.unique_keys.get(line.id, ""))

    async def restore(self, lines: list[ExportedTask]) -> None:
        await self._open_windows()
        known = await self.old.get_tasks([each.id for each in lines]) if self.old else [None] * len(lines)
        kept: list[tuple[ExportedTask, TaskRecord | None]] = []
        for line, record in zip(lines, known, strict=True):
            if record is not None and record.status in FINISHED:
                self.done.ended += 1
                self._report(line, HasRun.ENDED, record)
            else:
                kept.append((line, record))
        results = await self.store.restore([self._task(line) for line, _ in kept])
        for (line, record), stored in zip(kept, results, strict=True):
            self.done.stored += stored
            self.done.present += not stored
            if self._has_run(line, record) and not line.cancel_requested:
                self.done.may_have_run += 1
                self._report(line, HasRun.YES if record else HasRun.MAYBE, record)

    def _has_run(self, line: ExportedTask, record: TaskRecord | None) -> bool:
        """Whether a task has run since the export, or may have where the old store can't be asked."""
        if record is not None:
            return line.held or record.runs > line.runs
        return line.next_at_us <= self.now_us

    def _report(self, line: ExportedTask, ran: HasRun, record: TaskRecord | None) -> None:
        task = self._task(line)
        new_id = f"{self.store.partition_for(routing_key(task))}-{task.id}"
        why = WhyMayHaveRun.HELD if line.held else WhyMayHaveRun.DUE
        due_at_us = 0 if line.held else line.next_at_us or line.scheduled_at_us
        status = record.status if record else None
        self.report(MayHaveRun(new_id, line.lambda_name, due_at_us, line.runs, why, ran, status))


def _task(line: ExportedTask) -> RestoredTask:
    """The task as it comes back. An item of a batch comes back as a task of its own: an export does not carry batches."""
    task = RestoredTask(
        **{name: getattr(line, name) for name in CARRIED},
        next_at_us=line.next_at_us,
        of_job=JobTask(line.job, line.beside) if line.job else None,
        cancelled=line.cancel_requested,  # its executor was to stop it, and is gone: as any cancelled task that is lost
    )
    name = line.id.partition("-")[2].replace(work_items.ITEM_MARK, "-")
    task = task._replace(id=name, ordering_key=line.ordering_key[:MAX_KEY_CHARS])
    if work_items.parse(line.id) is None:
        return task
    attempts, losses, _ = map(int, line.limits.split())  # without its retention, which lasts as long as its batch
    return task._replace(limits=library.limits(attempts, losses, DEFAULT_RETENTION_US))
