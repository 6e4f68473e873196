from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from atf.batch import ItemStatus
from atf.cli import remote
from atf.cli.batch import _Going, _Submitting
from atf.cli.batch_rows import parameters_of
from atf.client import BatchProgress
from atf.rpc import batch_pb2 as b
from atf.rpc import frontend_pb2 as f
from atf.work_items import texts_of
from tests.cli.conftest import Atf
from tests.sdk.fake_batches import FakeBatches

SIGNATURE = "(path: str, size: int = 256, *, tag: str = 'x') -> dict[str, int]"


class Frontend(FakeBatches):
    """One that knows a lambda."""

    async def list_lambdas(self, request: f.ListLambdasRequest, *, timeout: float = 10) -> f.ListLambdasReply:
        return f.ListLambdasReply(lambdas=[f.LambdaInfo(spec=f.LambdaSpec(name="a/b", signature=SIGNATURE))])


def run(item: b.Item) -> None:
    """As executors do."""
    item.chunk, item.peer = f"c{item.number % 2}", f"e{item.number % 2}"
    if item.payload:
        text = texts_of(item.payload)[0]
        item.status, item.result = b.ITEM_DONE, text.encode()
        if text == '"bad"':
            item.status, item.error, item.result = b.ITEM_PERMANENTLY_FAILED, "ValueError: it is bad\nat line 3", b""
    elif item.arguments[0] == "false":
        item.status, item.error = b.ITEM_PERMANENTLY_FAILED, 'exit code 1: no\nstdout: "half"\nstderr:\nno'
    else:
        said = {"stdout": "hi\n", "exit_code": 0}
        words = list(item.arguments)
        record = {"result": said, "function_invocation": " ".join(words), "arguments": words}
        item.status, item.result = b.ITEM_DONE, json.dumps(record).encode()


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Frontend:
    fake = Frontend(run=run)

    @asynccontextmanager
    async def connect(address: str) -> AsyncIterator[Frontend]:
        yield fake

    monkeypatch.setattr(remote, "connect", connect)
    return fake


def submitted(frontend: Frontend, batch_id: str) -> list[bytes]:
    return [each.payload for each in frontend.batches[batch_id].items]


def test_lines_of_json_are_submitted_and_watched(atf: Atf, batches: Frontend) -> None:
    Path("i.jsonl").write_text('{"size": 3, "path": "p"}\n\n["q", 4]\n"r"\n')
    ran = atf("batch", "submit", "a/b", "i.jsonl", "--id", "x", "--watch", "--max-attempts", "3", "--on-success", "a/c")
    assert (ran.code, ran.out.splitlines()[-2:]) == (0, ["x", "done: 3 of 3 items"])
    assert submitted(batches, "x") == [b'{"path":"p","size":3}', b'{"path":"q","size":4}', b'{"path":"r"}']
    spec = batches.batches["x"].spec
    assert (spec.options.max_attempts, len(spec.callbacks)) == (3, 1)


def test_a_table_names_the_arguments_and_texts_stay_texts(atf: Atf, batches: Frontend) -> None:
    Path("i.csv").write_text('path,size,tag\n7,3,\n"a,b",,y\n')
    assert atf("batch", "submit", "a/b", "i.csv", "--id", "x", "--json").json["items"] == 2
    assert submitted(batches, "x") == [b'{"path":"7","size":3}', b'{"path":"a,b","tag":"y"}']


def test_command_lines_come_as_arrays_or_columns(atf: Atf, batches: Frontend) -> None:
    Path("i.jsonl").write_text('["echo", "a b"]\n["false"]\n')
    Path("i.csv").write_text('echo,"a b",\nfalse,,\n')
    for name in ("i.jsonl", "i.csv"):
        ran = atf("batch", "submit", "atf/command", name, "--id", name[2:], "--watch", "--target", "0", "--pause", "1s")
        assert (ran.code, ran.out.splitlines()[-1]) == (1, "done with failures: 2 of 2 items, 1 failed")
    assert [list(each.arguments) for each in batches.batches["csv"].items] == [["echo", "a b"], ["false"]]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("i.jsonl", '{"path": "p"}\n{"path": \n', "i.jsonl, line 2 is no JSON"),
        ("i.jsonl", '{"path": "p"}\n{"size": NaN}\n', "i.jsonl, line 2 is no JSON: JSON has no NaN"),
        ("i.jsonl", '{"size": 3}\n', "i.jsonl, line 1: argument 'path' is missing"),
        (
            "i.jsonl",
            '\n{"path": "p", "nose": 1}\n',
            "line 2: the lambda has no argument 'nose'; it takes path, size, tag",
        ),
        ("i.jsonl", '["p", 1, "t", 4]\n', "line 1: a/b takes 3 arguments"),
        ("i.csv", "path,path\np,q\n", "line 1: the first row names the arguments, each once"),
        ("i.csv", "path,size\np\n", "line 2: 1 columns, but the first row names 2"),
        ("i.csv", 'path\n"p\n', "is no CSV"),
    ],
)
def test_a_row_that_does_not_fit_is_named_and_nothing_is_submitted(
    atf: Atf, batches: Frontend, name: str, text: str, says: str
) -> None:
    Path(name).write_text(text)
    ran = atf("batch", "submit", "a/b", name)
    assert (ran.code, batches.headers) == (2, [])
    assert says in ran.err


def test_what_is_no_text_and_a_file_that_is_not_there(atf: Atf, batches: Frontend) -> None:
    Path("i.jsonl").write_bytes(b"\xff\n")
    assert "i.jsonl is no text in UTF-8" in atf("batch", "submit", "a/b", "i.jsonl").err
    assert "none.jsonl: No such file" in atf("batch", "submit", "a/b", "none.jsonl").err
    assert "give the number of a word" in atf("batch", "submit", "atf/command", "i.jsonl", "--target", "url").err


def test_stdin_is_submitted_as_it_comes(atf: Atf, batches: Frontend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('"p"\n{"nose": 1}\n"r"\n'))
    ran = atf("batch", "submit", "a/b", "-", "--id", "x")
    assert ran.code == 2
    assert "stdin, line 2: the lambda has no argument 'nose'" in ran.err
    assert "the same command with --id x goes on" in ran.err
    assert (len(batches.batches["x"].items), batches.batches["x"].sealed) == (1, False)
    monkeypatch.setattr("sys.stdin", io.StringIO('"p"\n"q"\n"r"\n'))
    assert atf("batch", "submit", "a/b", "-", "--id", "x").code == 0
    assert submitted(batches, "x") == [b'{"path":"p"}', b'{"path":"q"}', b'{"path":"r"}']
    assert batches.batches["x"].sealed


@pytest.fixture
def made(atf: Atf, batches: Frontend) -> Frontend:
    Path("i.jsonl").write_text('"p"\n"bad"\n["q", 3]\n')
    assert atf("batch", "submit", "a/b", "i.jsonl", "--id", "x").code == 0
    return batches


def test_batches_are_listed_shown_and_watched(atf: Atf, made: Frontend) -> None:
    assert atf("batch", "ls").out.startswith("x\ta/b\tdone_with_failures\t3\t2\t1\t0\t")
    assert [each["id"] for each in atf("batch", "ls", "--json").json] == ["x"]
    shown = atf("batch", "status", "x").out
    assert "done_with_failures" in shown
    assert "failed for good  1" in shown
    assert atf("batch", "status", "x", "--json").json["permanently_failed"] == 1
    assert atf("batch", "watch", "x").code == 1
    assert atf("batch", "watch", "x", "--json").json["done"] == 2
    ran = atf("batch", "status", "y")
    assert (ran.code, ran.err) == (3, "atf: there is no batch y\n")


def test_items_are_listed_by_status(atf: Atf, made: Frontend) -> None:
    (line,) = atf("batch", "items", "x", "--status", "failed").out.splitlines()
    assert line.startswith("1\tpermanently_failed\t")
    assert line.endswith('"bad"\tValueError: it is bad')
    found = atf("batch", "items", "x", "--json", "--limit", "2").json
    assert [(each["number"], each["arguments"]) for each in found] == [(0, {"path": "p"}), (1, {"path": "bad"})]
    assert "use created" in atf("batch", "items", "x", "--status", "what").err


def test_results_as_lines_and_as_a_table(atf: Atf, made: Frontend) -> None:
    lines = [json.loads(each) for each in atf("batch", "results", "x").out.splitlines()]
    assert [(each["number"], each["status"], each["result"]) for each in lines] == [
        (0, "done", "p"), (1, "permanently_failed", None), (2, "done", "q"),
    ]  # fmt: skip
    table = list(csv.DictReader(io.StringIO(atf("batch", "results", "x", "--format", "csv").out)))
    assert [(each["number"], each["arguments"], each["error"]) for each in table] == [
        ("0", '{"path": "p"}', ""), ("1", '{"path": "bad"}', "ValueError: it is bad\nat line 3"), ("2", '{"path": "q", "size": 3}', ""),
    ]  # fmt: skip


def test_results_by_chunk(atf: Atf, made: Frontend) -> None:
    assert atf("batch", "results", "x", "--format", "chunks", "--output", "out.json").out == ""
    document = json.loads(Path("out.json").read_text())
    assert (document["request_id"], document["code"], list(document["chunks"])) == ("x", -2, ["c0", "c1"])
    first, second, third = (each.work_item_id for each in made.batches["x"].items)
    assert document["chunks"]["c0"]["peer"] == "e0"
    assert document["chunks"]["c0"]["results"] == {
        first: {"result": {"stdout": '"p"', "exit_code": 0}, "function_invocation": 'a/b "p"', "arguments": ['"p"']},
        third: {
            "result": {"stdout": '"q"', "exit_code": 0},
            "function_invocation": 'a/b "q" 3',
            "arguments": ['"q"', "3"],
        },
    }
    failed = document["chunks"]["c1"]["results"][second]["result"]
    assert (failed["exit_code"], failed["error"]) == (1, "ValueError: it is bad\nat line 3")
    assert sorted(each.name for each in Path().iterdir()) == ["i.jsonl", "out.json"]


def test_results_of_programs_by_chunk_are_their_own_words(atf: Atf, batches: Frontend) -> None:
    Path("i.csv").write_text("echo,a b\nfalse\n")
    atf("batch", "submit", "atf/command", "i.csv", "--id", "x")
    chunks = atf("batch", "results", "x", "--format", "chunks").json["chunks"]
    (echo,), (false,) = (each["results"].values() for each in chunks.values())
    assert echo == {
        "result": {"stdout": "hi\n", "exit_code": 0},
        "function_invocation": "echo a b",
        "arguments": ["echo", "a b"],
    }
    assert (false["result"]["stdout"], false["result"]["exit_code"]) == ("half", 1)


def test_a_file_that_can_not_be_written(atf: Atf, made: Frontend) -> None:
    assert "--output no/x: No such file" in atf("batch", "results", "x", "--output", "no/x").err


def test_commands_to_a_batch(atf: Atf, made: Frontend) -> None:
    assert "created  1" in atf("batch", "retry", "x").out
    assert atf("batch", "cancel", "x", "--json").json["cancelled"] == 1
    assert atf("batch", "delete", "x", "y").out == "x: is being deleted\ny: there is none\n"
    assert atf("batch", "delete", "x", "--json").json == [{"id": "x", "existed": False}]


def test_a_signature_is_read_from_its_text() -> None:
    found = parameters_of(SIGNATURE)
    assert found is not None
    assert (found.names, found.required, found.texts) == (
        ("path", "size", "tag"),
        frozenset({"path"}),
        frozenset({"path", "tag"}),
    )
    assert parameters_of("(x=<object object at 0x7f>)") is None
    assert parameters_of("") is None
    kept = parameters_of("(a, b: 'str' = 1, *, c) -> <class 'x'>")
    assert kept is not None
    assert (kept.required, kept.texts) == (frozenset({"a", "c"}), frozenset({"b"}))


def test_the_line_of_a_batch_that_goes_on() -> None:
    batch = b.Batch(status=b.BATCH_IN_PROGRESS, items=10, done=4, permanently_failed=1, failed=2)
    going = _Going(BatchProgress.from_proto(batch, rate=2.0))
    assert going.line() == "in progress: 5 of 10 items, 1 failed, 2 to run again, 2/s, 2 s to go"
    assert _Submitting(3, 0).line() == "submitted 3"
    assert going.picture() is not None
    assert ItemStatus["DONE"].finished
