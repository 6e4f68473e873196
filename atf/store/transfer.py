"""Live tasks to and from a file: for a backup, another store, or another number of partitions.

The file holds one JSON object a line: first a header, then lambdas, then tasks. An export that was interrupted goes on where
it stopped when it is given the same file; an import may simply be run again, since a task that is already there is left alone.

What runs at the time of the export is exported as due now: after an import it runs again. Stop the executors or pause the
lambdas first where that matters. Finished tasks stay behind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from atf.errors import InvalidArgument
from atf.task import Status

from .lines import FORMAT, MAX_LINE_BYTES, EndLine, Header, LambdaLine, Line, PageLine, TaskLine, decode, encode
from .store import Store
from .types import LambdaRecord, RestoredTask, TaskRecord

_PAGE: Final = 256
_WAITING: Final = frozenset({Status.NEW, Status.RETRIABLE_FAILURE})
Progress = Callable[[int], None]
"""Called with the number of tasks dealt with so far."""


async def export_tasks(store: Store, path: Path, progress: Progress = lambda _: None) -> int:
    """Writes every live task to `path`; goes on where an interrupted export stopped.

    Every task that is live from the beginning to the end of the export is in the file, also while roles are at work;
    a task whose record moved within the server's memory meanwhile may be in it twice, which an import does not mind.

    Returns:
        How many task lines the file holds.

    Raises:
        InvalidArgument: the file is something else, or of another store.
    """
    point = _resume(path, store.partitions)
    if point.complete:
        return point.tasks
    done, cursor = point.tasks, point.cursor
    with path.open("r+b" if point.bytes else "wb") as file:
        file.seek(point.bytes)
        file.truncate()
        if not point.bytes:
            file.write(encode(Header(FORMAT, store.partitions)))
            for each in (await store.lambdas()).values():
                file.write(encode(LambdaLine(*each)))
        while True:
            following, records = await store.scan(cursor)
            for record in records:
                file.write(encode(await _task_line(store, record)))
            done += len(records)
            file.write(encode(PageLine(cursor=following, tasks=done)))
            file.flush()
            progress(done)
            cursor = following
            if not cursor:
                break
        file.write(encode(EndLine(done)))
        file.flush()
        os.fsync(file.fileno())
    return done


async def _task_line(store: Store, record: TaskRecord) -> TaskLine:
    place = 0
    if record.ordering_key:
        around = await store.explain(record.id)
        place = max(around.position, 0) if around and not around.in_queue else 0
    return TaskLine(
        id=record.id,
        lambda_name=record.lambda_name,
        priority=record.priority,
        spec=record.spec,
        digest=record.digest,
        scheduled_at_us=record.scheduled_at_us,
        next_at_us=(record.next_at_us or record.scheduled_at_us) if record.status in _WAITING else 0,
        limits=record.limits,
        ordering_key=record.ordering_key,
        place=place,
        attempts=record.attempts,
        losses=record.losses,
        runs=record.runs,
        fence=record.fence,
        error=record.error,
    )


class _Point(NamedTuple):
    """How far an export has come: the file is good up to `bytes`, the next page begins at `cursor`."""

    tasks: int = 0
    cursor: str = ""
    bytes: int = 0
    complete: bool = False


def _resume(path: Path, partitions: int) -> _Point:
    point, size = _Point(), 0
    if not path.exists():
        return point
    with path.open("rb") as file:
        for number, raw in enumerate(_lines(file)):
            size += len(raw)
            line = _decode(raw)
            if number == 0 and not isinstance(line, Header):
                raise InvalidArgument(f"{path} exists, and is no export; write to a new file")
            match line:
                case Header() if line.format != FORMAT or line.partitions != partitions:
                    raise InvalidArgument(f"{path} is an export of another store or release; write to a new file")
                case PageLine():
                    point = _Point(line.tasks, line.cursor if isinstance(line.cursor, str) else "", size)
                case EndLine():
                    return _Point(line.tasks, "", size, complete=True)
                case None:
                    break  # cut off in the middle of a line
    return point


def _decode(raw: bytes) -> Line | None:
    try:
        return decode(raw) if raw.endswith(b"\n") else None
    except InvalidArgument:
        return None


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; one that is longer than any of ours comes in pieces, whatever the memory."""
    while raw := file.readline(MAX_LINE_BYTES):
        yield raw


async def import_tasks(store: Store, path: Path, progress: Progress = lambda _: None) -> tuple[int, int]:
    """Stores every task of an export that is not there yet. Ordered tasks come last, in their order.

    Returns:
        (tasks stored, tasks that were there before).

    Raises:
        InvalidArgument: the file is no export, is incomplete, or a line of it is damaged.
    """
    stored = present = 0
    batch: list[TaskLine] = []
    ordered: list[TaskLine] = []
    complete = False

    async def flush(lines: list[TaskLine]) -> None:
        nonlocal stored, present
        new = await _restore(store, lines)
        stored, present = stored + new, present + len(lines) - new
        progress(stored + present)

    for line in _read(path):
        match line:
            case LambdaLine():
                await _restore_lambda(store, line)
            case TaskLine():
                (ordered if line.ordering_key else batch).append(line)
                if len(batch) == _PAGE:
                    await flush(batch)
                    batch = []
            case EndLine():
                complete = True
    ordered.sort(key=lambda each: (each.ordering_key, each.place))
    await flush(batch + ordered)
    if not complete:
        raise InvalidArgument(
            f"{path}: the export was interrupted; {stored} tasks were stored. Finish it, import again"
        )
    return stored, present


def _read(path: Path) -> Iterator[Line]:
    with path.open("rb") as file:
        for number, raw in enumerate(_lines(file), 1):
            try:
                line = decode(raw)
            except InvalidArgument as error:
                raise InvalidArgument(
                    f"{path} line {number}: {error}. Export again; what was imported stays"
                ) from error
            if (number == 1) != isinstance(line, Header):
                raise InvalidArgument(f"{path} line {number}: this is no export of a task store")
            if isinstance(line, Header) and line.format != FORMAT:
                raise InvalidArgument(f"{path}: format {line.format}; this release reads format {FORMAT}")
            yield line


async def _restore_lambda(store: Store, line: LambdaLine) -> None:
    record = LambdaRecord(line.name, line.spec, line.queue_limit, line.enqueue_timeout_us, line.paused)
    if line.name not in await store.lambdas():
        await store.register([record])
        if line.paused:
            await store.set_paused(line.name, paused=True)


async def _restore(store: Store, lines: list[TaskLine]) -> int:
    tasks = [
        RestoredTask(
            id=each.id.partition("-")[2],
            lambda_name=each.lambda_name,
            priority=each.priority,
            spec=each.spec,
            digest=each.digest,
            scheduled_at_us=each.scheduled_at_us,
            next_at_us=each.next_at_us,
            limits=each.limits,
            ordering_key=each.ordering_key,
            attempts=each.attempts,
            losses=each.losses,
            runs=each.runs,
            fence=each.fence,
            error=each.error,
        )
        for each in lines
    ]
    return sum(await store.restore(tasks))
