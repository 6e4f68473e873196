"""Exports that were edited, cut off or are none: imported line by line by every rule, or refused with the line's number."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import fakeredis
import hypothesis.strategies as st
import pytest
from hypothesis import given

from atf.config.settings import StoreSettings, Timing
from atf.errors import AtfError, InvalidArgument
from atf.runtime import SystemRuntime
from atf.store.backup.export_files import MAX_LINE_BYTES
from atf.store.backup.export_lines import MAX_SPEC_BYTES, decode, encode
from atf.store.backup.export_records import ExportedLambda, ExportedPage, ExportedTask, ExportEnd
from atf.store.backup.exporting import export_tasks
from atf.store.backup.importing import import_tasks
from atf.store.store import Store
from atf.store.values.lists import TaskQuery

from .examples import JSON_VALUES, NUMBERS, TEXTS, fuzz, understood_or
from .texts import BOMBS

HEADER = {"type": "header", "format": 1, "partitions": 1, "begun_us": 1}
LAMBDA = {"type": "lambda", "name": "shop/mail", "spec": "", "queue_limit": 9, "enqueue_timeout_us": 9}
TASK = {
    "type": "task",
    "id": "0-a",
    "lambda_name": "shop/mail",
    "priority": 1,
    "spec": "",
    "digest": "",
    "scheduled_at_us": 1,
    "next_at_us": 1,
}
END = {"type": "end", "tasks": 1}


def written(path: Path, *lines: object) -> Path:
    path.write_bytes(b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in lines))
    return path


async def imported(path: Path) -> tuple[int, int]:
    """Imports into an empty store, and sees to it that all that arrived can be read and worked on."""
    store = await Store.open(StoreSettings(partitions=1), Timing(), SystemRuntime(), fake=fakeredis.FakeServer())
    try:
        done = await import_tasks(store, path)
        return done.stored, done.present
    finally:
        while True:
            made = await store.enqueue(0, 0)
            if not (made.enqueued or made.outbox):
                break
        page = await store.list_tasks(TaskQuery("shop/mail"), 100)
        await store.cancel_tasks([task.id for task in page.tasks])
        await store.close()


def refusal(path: Path) -> str:
    with pytest.raises(InvalidArgument) as caught:
        asyncio.run(imported(path))
    return str(caught.value)


def test_the_lines_that_are_spoiled_are_good_ones(tmp_path: Path) -> None:
    assert asyncio.run(imported(written(tmp_path / "x", HEADER, LAMBDA, TASK, END))) == (1, 0)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an id without a partition": ({"id": "a"}, "not <partition>-<id>"),
    "an id of another alphabet": ({"id": "0-a/b"}, "task id 'a/b'"),
    "an id of two lines": ({"id": "0-a\nb"}, "task id"),
    "a huge id": ({"id": "0-" + "a" * 100_000}, "task id"),
    "a key of the store as an id": ({"id": "0-{1}:t:0-b"}, "task id"),
    "a lambda that is none": ({"lambda_name": "mail"}, "write namespace/name"),
    "a lambda of a queue": ({"lambda_name": "shop/mail:1"}, "write namespace/name"),
    "a priority of no queue": ({"priority": 10}, "priority 10"),
    "a priority below all": ({"priority": -1}, "priority -1"),
    "an instant that is not exact": ({"next_at_us": 1 << 60}, "next_at_us"),
    "an instant before all": ({"scheduled_at_us": -1}, "scheduled_at_us"),
    "a fence that is not exact": ({"fence": 1 << 60}, "fence"),
    "a fence of no machine": ({"fence": 10**30}, "fence|Integer"),
    "attempts below none": ({"attempts": -1}, "attempts"),
    "losses beyond all": ({"losses": 1 << 40}, "losses"),
    "runs beyond all": ({"runs": 1 << 40}, "runs"),
    "limits that are none": ({"limits": "many"}, "limits"),
    "lapses beyond what counts nothing": ({"lapses": "4 0"}, "lapses"),
    "lapses that are none": ({"lapses": "many"}, "lapses"),
    "limits of two": ({"limits": "1 2"}, "limits"),
    "limits of an unreadable number": ({"limits": "1 2 " + "9" * 40}, "limits"),
    "an ordering key that is none": ({"ordering_key": "a\nb"}, "ordering_key"),
    "a concurrency key that is none": ({"concurrency": "k 1 0"}, "concurrency"),
    "a limit that is none": ({"concurrency": "shop/mail:k -1 0"}, "concurrency"),
    "a place before the first": ({"ordering_key": "a", "place": -1}, "place"),
    "an error that is too long": ({"error": "é" * 4_000}, "bytes of error"),
    "a spec that is too long": ({"spec": base64.b64encode(bytes(MAX_SPEC_BYTES + 1)).decode()}, "bytes of spec"),
    "a spec that is no base64": ({"spec": "???"}, "(?i)base64"),
    "a digest that is too long": ({"digest": "A" * 400}, "bytes of digest"),
    "half a character": ({"error": "\ud800"}, "line 3: .{10}"),
    "a number as a name": ({"lambda_name": 7}, "Expected `str`"),
    "nothing as a number": ({"attempts": None}, "Expected `int`"),
    "a kind that is none": ({"type": "batch"}, "Invalid value"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_task_that_no_frontend_would_take_is_refused_with_its_line(what: str, tmp_path: Path) -> None:
    fields, says = BAD[what]
    path = written(tmp_path / "tasks", HEADER, LAMBDA, {**TASK, **fields}, END)
    sentence = refusal(path)
    assert sentence.startswith(f"{path} line 3: ")
    assert len(sentence) < 1_000
    assert re.search(says, sentence), sentence


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "mail"},
        {"name": "a/b\n"},
        {"queue_limit": -1},
        {"queue_limit": 1 << 40},
        {"enqueue_timeout_us": -1},
        {"spec": base64.b64encode(bytes(MAX_SPEC_BYTES + 1)).decode()},
        {"overrides": 3},
    ],
)
def test_a_lambda_that_no_frontend_would_take_is_refused_with_its_line(fields: dict[str, Any], tmp_path: Path) -> None:
    path = written(tmp_path / "tasks", HEADER, {**LAMBDA, **fields}, END)
    assert refusal(path).startswith(f"{path} line 2: ")


CORES = {"type": "cores", "pool": "gpu", "settings": {"cores": 4, "reserved": {"shop/mail": 1}}}
STOP = {"type": "stop", "since_us": 1_700_000_000_000_000, "task": {**TASK, "ordering_key": "k"}}
WINDOW = {"type": "window", "key": "shop/mail:k", "task_id": "0-a", "until_us": 1_700_000_000_000_000}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({**CORES, "pool": "a b"}, "pool"),
        ({**CORES, "settings": {"cores": 0}}, "cores 0"),
        ({**CORES, "settings": {"cores": 10**30}}, "cores|Integer"),
        ({**CORES, "settings": {"cores": 4, "reserved": {"m" * 100_000: 1}}}, "write namespace/name"),
        ({**CORES, "settings": {"cores": 1, "reserved": {"shop/mail": 1}}}, "leave at least one"),
        ({**STOP, "since_us": 1}, "since_us: 1 is no instant"),
        ({**STOP, "since_us": 1 << 60}, "since_us"),
        ({**STOP, "task": TASK}, "ordering_key"),
        ({**STOP, "task": {**TASK, "ordering_key": "k", "id": "a"}}, "not <partition>-<id>"),
        ({**WINDOW, "key": "k"}, "key of a window"),
        ({**WINDOW, "task_id": "a"}, "not <partition>-<id>"),
        ({**WINDOW, "until_us": -1}, "until_us"),
    ],
)
def test_what_no_store_holds_is_refused_with_its_line(line: dict[str, Any], says: str, tmp_path: Path) -> None:
    sentence = refusal(written(tmp_path / "tasks", HEADER, LAMBDA, line, END))
    assert " line 3: " in sentence
    assert len(sentence) < 1_000
    assert re.search(says, sentence), sentence


@pytest.mark.parametrize(
    "body",
    [b"", b"\n", b"\0", b"{}\n", b"x" * 100, b"\xff\xfe{\n", *BOMBS.values()],
    ids=["empty", "a line end", "NUL", "an object", "text", "UTF-16", *BOMBS],
)
@pytest.mark.parametrize("after_header", [False, True], ids=["alone", "below a header"])
def test_what_is_no_export_is_refused(body: bytes, after_header: bool, tmp_path: Path) -> None:
    path = written(tmp_path / "tasks", *([HEADER] if after_header else []), body)
    assert str(path) in refusal(path)


def test_a_line_without_an_end_is_not_read_to_it(tmp_path: Path) -> None:
    path = written(tmp_path / "tasks", HEADER)
    with path.open("ab") as file:
        file.truncate(1 << 40)  # a hole of a terabyte
    assert f"{path} line 2: " in refusal(path)
    assert f"{Path('/dev/zero')} line 1: " in refusal(Path("/dev/zero"))
    assert MAX_LINE_BYTES < 1 << 23


@pytest.mark.parametrize("cursor", [-1, 7, 10**30])
async def test_an_export_goes_on_behind_no_page_of_another_kind(cursor: int, tmp_path: Path) -> None:
    path = written(tmp_path / "tasks", HEADER, {"type": "page", "cursor": cursor, "tasks": 5})
    store = await Store.open(StoreSettings(partitions=1), Timing(), SystemRuntime(), fake=fakeredis.FakeServer())
    try:
        assert await export_tasks(store, path) == 0  # as for a line that was cut off
    finally:
        await store.close()


def spoiled(line: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The line with some of its values replaced."""
    values = st.one_of(NUMBERS.filter(lambda number: abs(number) < 10**300), TEXTS, JSON_VALUES)
    return st.dictionaries(st.sampled_from(sorted(line)), values, max_size=3).map(lambda some: {**line, **some})


FULL_TASK = {
    **TASK,
    "limits": "1 2 3",
    "ordering_key": "k",
    "concurrency": "shop/mail:k 1 0",
    "place": 0,
    "attempts": 1,
    "losses": 1,
    "lapses": "1 2",
    "alone": True,
    "runs": 2,
    "fence": 7,
    "error": "e",
}
LINES = st.one_of(
    spoiled(FULL_TASK),
    spoiled(LAMBDA),
    spoiled(CORES),
    spoiled(STOP),
    spoiled(WINDOW),
    spoiled({"type": "page", "cursor": "1", "tasks": 1}),
    spoiled(END),
    JSON_VALUES,
)


@fuzz
@given(line=st.one_of(LINES.map(lambda line: json.dumps(line).encode()), st.binary(max_size=50)))
def test_any_line_is_read_or_refused(line: bytes) -> None:
    with understood_or(InvalidArgument):
        read = decode(line)
        assert isinstance(read, ExportedLambda | ExportedTask | ExportedPage | ExportEnd) or read
        assert decode(encode(read)) == read


@fuzz
@given(lines=st.lists(LINES, max_size=3))
def test_any_file_is_imported_or_refused_and_what_arrived_can_be_worked_on(
    lines: list[Any], tmp_path_factory: Any
) -> None:
    path = written(tmp_path_factory.getbasetemp() / "fuzz", HEADER, *lines, END)
    with understood_or(AtfError):
        asyncio.run(imported(path))
