"""The rows of a file as elements of a batch: `items.jsonl` or `items.csv`. A row that does not fit is named by its line."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import Any

from atf.cli.arguments import Parameters, untyped
from atf.cli.json_values import json_value
from atf.errors import InvalidArgument
from atf.rpc import batch_pb2 as b
from atf.sdk.items import Elements
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


def checked(found: Iterable[tuple[int, Any]], elements: Elements, name: str) -> Iterator[Any]:
    """The elements, each after it was found to fit.

    Args:
        found: rows with the numbers of their lines.
        elements: what they shall be.
        name: of the file.

    Raises:
        InvalidArgument: a row does not fit; names its line.
    """
    for line, element in found:
        try:
            elements.add(b.BatchItems(), element)
        except (TypeError, ValueError, InvalidArgument) as error:
            raise InvalidArgument(f"{name}, line {line}: {error}") from None
        yield element


def _json_rows(lines: Iterable[str], lambda_name: str, parameters: Parameters | None) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json_value(line)
        except (ValueError, InvalidArgument) as error:
            raise InvalidArgument(f"line {number} is no JSON: {error}") from None
        if lambda_name != COMMAND and parameters is not None:
            row = _named(row, parameters, number)
            _check_names(row, parameters, number)
        elif lambda_name != COMMAND and isinstance(row, list):
            row = tuple(row)
        yield number, row


def _named(row: Any, parameters: Parameters, line: int) -> dict[str, Any]:
    """The arguments of a row by name: an array has them by position, what is no object either is the first one."""
    if isinstance(row, dict):
        return row
    given = row if isinstance(row, list) else [row]
    if len(given) > len(parameters.positional):
        takes = ", ".join(parameters.positional) or "none"
        raise InvalidArgument(f"line {line}: {len(given)} arguments by position, but the lambda takes so {takes}")
    return dict(zip(parameters.positional, given, strict=False))


def _check_names(row: dict[str, Any], parameters: Parameters, line: int) -> None:
    try:
        parameters.check(row)
    except InvalidArgument as error:
        raise InvalidArgument(f"line {line}: {error}") from None


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
        given = {
            name: _cell(name, text, parameters, reader.line_num)
            for name, text in zip(names, row, strict=True)
            if _is_given(name, text, parameters)
        }
        if parameters is not None:
            _check_names(given, parameters, reader.line_num)
        yield reader.line_num, given


def _read(reader: Any) -> Iterator[list[str]]:
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InvalidArgument(f"line {reader.line_num} is no CSV: {error}") from None
        yield row


def _is_given(name: str, text: str, parameters: Parameters | None) -> bool:
    """An empty cell leaves an argument out that has a default."""
    return bool(text) or parameters is None or name in parameters.required or name not in parameters.names


def _cell(name: str, text: str, parameters: Parameters | None, line: int) -> Any:
    try:
        return parameters.read(name, text) if parameters is not None else untyped(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"line {line}: {error}") from None
