"""The results of a batch as a file: `jsonl`, `csv` or `chunks`. Any number of items in the memory of a page (`chunks`: and 16 bytes an item)."""

from __future__ import annotations

import csv
import json
import shlex
import tempfile
from array import array
from collections.abc import AsyncIterator, Sequence
from typing import IO, Any, Final

from atf.builtin.command_result import read_failure
from atf.cli.json_values import bytes_json, json_for, message_json
from atf.rpc import batch_pb2 as b, task_pb2 as t
from atf.sdk.batch import BatchStatus, ItemStatus
from atf.sdk.sealed import is_sealed, without_sealed, words
from atf.sdk.work_items import COMMAND
from atf.visible import visible

_CODES: Final[dict[int, int]] = {
    BatchStatus.CREATED: 0,
    BatchStatus.IN_PROGRESS: 1,
    BatchStatus.DONE: 100,
    BatchStatus.DONE_WITH_FAILURES: -2,
    BatchStatus.CANCELLED: -3,
    BatchStatus.DELETED: -4,
}
"""What `code` says in the format of chunks: the numbers of items where they stand likewise."""
_COLUMNS: Final = ("number", "work_item_id", "status", "arguments", "result", "error", "error_type", "peer", "chunk")

Pages = AsyncIterator[Sequence[b.Item]]


def item_json(item: b.Item) -> dict[str, Any]:
    """An item for programs."""
    return {
        **message_json(item, "number work_item_id"),
        "task": item.task_id,
        "status": item_word(item.status),
        "arguments": _arguments(item),
        **bytes_json("result", item.result, item.result_encoding),
        **message_json(item, "error error_type error_message attempts chunk peer finished_at_us"),
    }


def item_word(status: int) -> str:
    """An item's status as people write it."""
    try:
        return ItemStatus(status).name.lower()
    except ValueError:  # of a newer frontend
        return str(status)


def texts_shown(item: b.Item) -> list[str]:
    """The texts of its arguments; of those that are encrypted that they are."""
    return [str(_arguments(item))] if is_sealed(item.payload) else list(item.arguments)


def _arguments(item: b.Item) -> Any:
    """By name, as JSON; of a program its command line."""
    if not item.payload:
        return list(item.arguments)
    return bytes_json("payload", item.payload, t.JSON).get("payload")


async def write_jsonl(pages: Pages, out: IO[str]) -> None:
    """A line for each item, in their order."""
    async for page in pages:
        for item in page:
            out.write(json_for(out, item_json(item)) + "\n")


async def write_csv(pages: Pages, out: IO[str]) -> None:
    """A heading, and a row for each item; what is not text is JSON."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    async for page in pages:
        for item in page:
            shown = item_json(item)
            writer.writerow([_cell(shown.get(name), out) for name in _COLUMNS])


def _cell(value: Any, out: IO[str]) -> str:
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) else json_for(out, value)


async def write_chunks(batch: b.Batch, pages: Pages, out: IO[str]) -> None:
    """One document: the items by the chunk in which they ran last; those that have not run are in the chunk "", or with workers in theirs.

    Items come in their order, not by chunk: they are written to a temporary file first, of which memory holds the places.
    """
    places: dict[str, array[int]] = {}
    peers: dict[str, str] = {}
    with tempfile.TemporaryFile() as spool:
        async for page in pages:
            for item in page:
                text = f"{json.dumps(item.work_item_id)}: {json_for(out, _result(batch, item))}".encode()
                places.setdefault(item.chunk, array("q")).extend((spool.tell(), len(text)))
                peers[item.chunk] = peers.get(item.chunk) or item.peer
                spool.write(text)
        code = _CODES.get(batch.status, 0)
        out.write(f'{{"request_id": {json.dumps(batch.id)}, "code": {code}, "chunks": {{')
        for count, (chunk, where) in enumerate(places.items()):
            out.write(
                f'{", " if count else ""}{json.dumps(chunk)}: {{"peer": {json.dumps(peers[chunk])}, "results": {{'
            )
            for place in range(0, len(where), 2):
                spool.seek(where[place])
                out.write((", " if place else "") + spool.read(where[place + 1]).decode())
            out.write("}}")
        out.write("}}\n")


def _result(batch: b.Batch, item: b.Item) -> dict[str, Any]:
    """What an item says of its run. A program's own words; of a lambda its result as JSON for stdout."""
    lambda_name = getattr(batch, "lambda")
    arguments = texts_shown(item)
    said = bytes_json("result", item.result, item.result_encoding)
    if lambda_name == COMMAND and isinstance(said.get("result"), dict):
        return dict(said["result"])
    error = words(item.error)
    failure = read_failure(error) if lambda_name == COMMAND else None
    if item.status == b.ITEM_DONE:  # whatever error an earlier attempt has left
        result: dict[str, Any] = {"stdout": without_sealed(item.result).decode("utf-8", "replace"), "exit_code": 0}
    elif failure is not None:
        result = {"stdout": failure.stdout, "exit_code": failure.exit_code, "error": error}
    else:
        result = {"stdout": "", "exit_code": None if item.status in _OPEN else 1}
        if item.error:
            result["error"] = error
    invocation = shlex.join(arguments) if lambda_name == COMMAND else " ".join((lambda_name, *arguments))
    return {"result": result, "function_invocation": invocation, "arguments": arguments}


_OPEN: Final = (b.ITEM_CREATED, b.ITEM_IN_PROGRESS, b.ITEM_FAILED)
