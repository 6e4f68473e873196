"""Reads the file of an export: to its end, where an import takes it, or as far as an export that was interrupted has come."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from atf.errors import InvalidArgument
from atf.task import MAX_PAYLOAD_BYTES

from .export_lines import decode
from .export_records import FORMAT, ExportedJob, ExportedPage, ExportedTask, ExportEnd, ExportHeader, Line

MAX_LINE_BYTES: Final = 4 * MAX_PAYLOAD_BYTES
"""Of a line; a full spec takes four bytes for three."""


class Contents(NamedTuple):
    """What an export holds."""

    tasks: int
    jobs: int
    begun_us: int  # when the export began


def contents_of(path: Path) -> Contents:
    """Reads an export to its end, and stores nothing.

    Raises:
        InvalidArgument: the file is no export, is incomplete, or a line of it is damaged.
    """
    tasks = jobs = begun_us = 0
    complete = False
    for line in records_of(path):
        match line:
            case ExportHeader():
                begun_us = line.begun_us
            case ExportedTask():
                tasks += 1
            case ExportedJob():
                jobs += 1
            case ExportEnd():
                complete = True
    if not complete:
        raise InvalidArgument(f"{path}: the export was interrupted after {tasks} tasks. Finish it first")
    return Contents(tasks, jobs, begun_us)


def header_of(path: Path) -> ExportHeader:
    """The first line of an export.

    Raises:
        InvalidArgument: the file is no export.
    """
    header = next(records_of(path), None)
    if isinstance(header, ExportHeader):
        return header
    raise InvalidArgument(f"{path}: this is no export of a task store; it is empty")


def records_of(path: Path) -> Iterator[Line]:
    """The records of an export, one after the other.

    Raises:
        InvalidArgument: the file is no export, or a line of it is damaged.
    """
    with path.open("rb") as file:
        for number, raw in enumerate(_lines_of(file), 1):
            try:
                line = decode(raw)
            except InvalidArgument as error:
                raise InvalidArgument(
                    f"{path} line {number}: {error}. Export again; what was imported before stays"
                ) from error
            if (number == 1) != isinstance(line, ExportHeader):
                raise InvalidArgument(f"{path} line {number}: this is no export of a task store")
            if isinstance(line, ExportHeader) and line.format != FORMAT:
                raise InvalidArgument(f"{path}: format {line.format}; this release reads format {FORMAT}")
            yield line


class ExportPoint(NamedTuple):
    """How far an export has come: the file is good up to `bytes`, the next page begins at `cursor`."""

    tasks: int = 0
    cursor: str = ""
    bytes: int = 0
    complete: bool = False


def point_of(path: Path, partitions: int) -> ExportPoint:
    """How far the export of a store with so many partitions has come in a file, which need not be there yet.

    Raises:
        InvalidArgument: the file is something else, or an export of another store.
    """
    point, size = ExportPoint(), 0
    if not path.exists():
        return point
    with path.open("rb") as file:
        for number, raw in enumerate(_lines_of(file)):
            size += len(raw)
            line = decode_line(raw)
            if number == 0 and not isinstance(line, ExportHeader):
                raise InvalidArgument(f"{path} exists, and is no export; write to a new file")
            match line:
                case ExportHeader() if line.format != FORMAT or line.partitions != partitions:
                    raise InvalidArgument(f"{path} is an export of another store; write to a new file")
                case ExportedPage():
                    point = ExportPoint(line.tasks, line.cursor, size)
                case ExportEnd():
                    return ExportPoint(line.tasks, "", size, complete=True)
                case None:
                    break  # cut off in the middle of a line
    return point


def decode_line(raw: bytes) -> Line | None:
    """Reads a line of an export that goes on; None: it is not whole."""
    try:
        return decode(raw) if raw.endswith(b"\n") else None
    except InvalidArgument:
        return None


def _lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; one that is longer than any of ours comes in pieces, whatever the memory."""
    while raw := file.readline(MAX_LINE_BYTES):
        yield raw
