"""Writes live tasks to a file, for a backup, another store, or another number of partitions.

The file holds one JSON object a line: first a header, then lambdas, cores of pools, jobs, ordering keys that have stopped, open
windows of unique keys, then tasks. A tick that becomes a task meanwhile may so be in it
twice, and is never lost. An export that was interrupted goes on where
it stopped when it is given the same file.

What runs at the time of the export is exported as due now: after an import it runs again. Stop the executors or pause the
lambdas first where that matters. Finished tasks stay behind, but for those at which an ordering key has stopped.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from atf.cores.pool import CorePool
from atf.errors import InvalidArgument
from atf.store.store import Store
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.tasks import TaskRecord
from atf.task import HELD, MIN_PRIORITY, WAITING

from .export_files import point_of
from .export_lines import encode
from .export_records import (
    CARRIED,
    FORMAT,
    ExportedCores,
    ExportedGate,
    ExportedJob,
    ExportedLambda,
    ExportedPage,
    ExportedStop,
    ExportedTask,
    ExportedUniqueKey,
    ExportEnd,
    ExportHeader,
    Line,
)

_JOBS_AT_ONCE: Final = 32
_STOPS_AT_ONCE: Final = 32
Progress = Callable[[int], None]
"""Called with the number of tasks dealt with so far."""


async def export_tasks(
    store: Store, path: Path, progress: Progress = lambda _: None, *, overwrite: bool = False
) -> int:
    """Writes every live task to `path`; goes on where an interrupted export stopped.

    Every task that is live from the beginning to the end of the export is in the file, also while roles are at work;
    a task whose record moved within the server's memory meanwhile may be in it twice, which an import does not mind.

    Args:
        store: what is exported.
        path: of the file.
        progress: takes the number of tasks so far.
        overwrite: replace a file that is there, once the new one is complete.

    Returns:
        How many task lines the file holds.

    Raises:
        InvalidArgument: the file is something else, of another store, or a complete export.
    """
    target = path
    if overwrite:  # until the new one is complete, the old one stays
        path = target.with_name(f"{target.name}.unfinished")
    point = point_of(path, store.partitions)
    if point.complete:
        raise InvalidArgument(f"{path} is a complete export already: give another name, or --overwrite")
    done, cursor = point.tasks, point.cursor
    with path.open("r+b" if point.bytes else "wb") as file:
        file.seek(point.bytes)
        file.truncate()
        if not point.bytes:
            async for line in _before_tasks(store):
                file.write(encode(line))
        while True:
            following, records = await store.scan(cursor)
            for record in records:
                file.write(encode(await _task_line(store, record)))
            done += len(records)
            file.write(encode(ExportedPage(cursor=following, tasks=done)))
            file.flush()
            progress(done)
            cursor = following
            if not cursor:
                break
        file.write(encode(ExportEnd(done)))
        file.flush()
        os.fsync(file.fileno())
    path.replace(target)
    return done


async def _before_tasks(store: Store) -> AsyncIterator[Line]:
    """What stands in the file before tasks do, each kind behind what it needs."""
    yield ExportHeader(FORMAT, store.partitions, await store.time_us())
    for each in (await store.list_lambdas()).values():
        yield await _lambda_line(store, each)
    for lines in (_cores(store), _jobs(store), _stops(store)):
        async for line in lines:
            yield line
    async for window in store.list_unique_keys():
        yield ExportedUniqueKey(*window)


async def _lambda_line(store: Store, each: LambdaRecord) -> ExportedLambda:
    gates = await store.list_gates(each.name) if each.gated else []
    lines = [
        ExportedGate(gate.action, gate.labels, gate.amount, gate.until_us, gate.who, gate.why, gate.automatic)
        for gate in gates
    ]
    limits = each.queue_limit, each.enqueue_timeout_us
    return ExportedLambda(each.name, each.spec, *limits, each.settings, each.overrides, lines)


async def _jobs(store: Store) -> AsyncIterator[ExportedJob]:
    for partition in range(store.partitions):
        last = ""
        while names := await store.list_jobs("", partition, last, _JOBS_AT_ONCE):
            last = names[-1]
            for job in await store.get_jobs(names):
                if job is not None and job.next_us is not None:
                    timing = job.next_us, job.ticks, job.paused, job.base_us, job.rhythm
                    yield ExportedJob(job.name, job.spec, job.overlap, *timing)


async def _cores(store: Store) -> AsyncIterator[ExportedCores]:
    for pool in await store.list_capacity():
        record = await store.get_capacity(pool)
        if record is not None:
            yield ExportedCores(pool, CorePool.decode(record.state).settings)


async def _stops(store: Store) -> AsyncIterator[ExportedStop]:
    for name in await store.list_lambdas():
        token = ""
        while True:
            found, token = await store.list_keys(name, _STOPS_AT_ONCE, token)
            records = await store.get_tasks([each.task_id for each in found])
            for key, record in zip(found, records, strict=True):
                gone = ExportedTask(key.task_id, name, MIN_PRIORITY, b"", b"", 0, 0, ordering_key=key.key)
                yield ExportedStop(key.stopped_at_us, await _task_line(store, record) if record else gone)
            if not token:
                break


async def _task_line(store: Store, record: TaskRecord) -> ExportedTask:
    place = 0
    if record.ordering_key:
        around = await store.explain_task(record.id)
        place = max(around.position, 0) if around and not around.in_queue else 0
    return ExportedTask(
        **{name: getattr(record, name) for name in CARRIED},
        next_at_us=(record.next_at_us or record.scheduled_at_us) if record.status in WAITING else 0,
        place=place,
        held=record.status in HELD,
        cancel_requested=record.cancel_requested or record.last_run,
        job=record.of_job.job if record.of_job else "",
        beside=record.of_job is not None and record.of_job.beside,
    )
