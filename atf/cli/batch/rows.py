"""The rows of a file as elements of a batch: `items.jsonl` or `items.csv`. A row that does not fit is named by its line."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import Any

from atf.cli.arguments import Parameters, untyped
from atf.cli.json_values import json_value
from atf.errors import InvalidArgument
from atf.sdk.work_items import COMMAND


def rows(lines: Iterable[str], form: str, lambda_name: str, parameters: Parameters | None) -> Iterator[tuple[int, Any]]:
    """The rows of a file, each with the number of its line.

    Args:
        lines: of the file.
        form: "jsonl" or "csv".
        lambda_name: whose arguments they are.
        parameters: what it takes; None: nobody knows.

    Raises:
        InvalidArgument: a row can't be read; names its line.
    """
    if form == "jsonl":
        return _json_rows(lines, lambda_name, parameters)
    if lambda_name == COMMAND:
        return _words(lines)
    return _table(lines, parameters)


def _json_rows(lines: Iterable[str], lambda_name: str, parameters: Parameters | None) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json_value(line)
        except (ValueError, InvalidArgument) as error:
            raise InvalidArgument(f"line {number} is no JSON: {error}") from None
        if lambda_name != COMMAND and parameters is not None:
            try:
                row = _named(row, parameters)
                parameters.check(row)
            except InvalidArgument as error:
                raise InvalidArgument(f"line {number}: {error}") from None
        elif lambda_name != COMMAND and isinstance(row, list):
            row = tuple(row)
        yield number, row


def _named(row: Any, parameters: Parameters) -> dict[str, Any]:
    """The arguments of a row by name: an array has them by position, what is no object either is the first one."""
    if isinstance(row, dict):
        return row
    given = row if isinstance(row, list) else [row]
    if len(given) > len(parameters.positional):
        takes = ", ".join(parameters.positional) or "none"
        raise InvalidArgument(f"{len(given)} arguments by position, but the lambda takes so {takes}")
    return dict(zip(parameters.positional, given, strict=False))


def _words(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(lines, strict=True)
    for row in _read(reader):
        while row and not row[-1]:
            row.pop()
        if row:
            yield reader.line_num, row


def _table(lines: Iterable[str], parameters: Parameters | None) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.reader(lines, strict=True)
    found = _read(reader)
    names = next(found, [])
    if len(set(names)) < len(names) or not all(names):
        raise InvalidArgument("line 1: the first row names the arguments, each once")
    for row in found:
        if not row:
            continue
        if len(row) != len(names):
            raise InvalidArgument(f"line {reader.line_num}: {len(row)} columns, but the first row names {len(names)}")
        cells = zip(names, row, strict=True)
        try:
            yield reader.line_num, _arguments(cells, parameters)
        except InvalidArgument as error:
            raise InvalidArgument(f"line {reader.line_num}: {error}") from None


def _arguments(cells: Iterable[tuple[str, str]], parameters: Parameters | None) -> dict[str, Any]:
    """The arguments in a row. An empty cell leaves an argument out that has a default."""
    if parameters is None:
        return {name: untyped(text) for name, text in cells}
    needed = parameters.required
    left = [(name, text) for name, text in cells if text or name in needed or name not in parameters.names]
    given = {name: parameters.read(name, text) for name, text in left}
    parameters.check(given)
    return given


def _read(reader: Any) -> Iterator[list[str]]:
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InvalidArgument(f"line {reader.line_num} is no CSV: {error}") from None
        yield row
