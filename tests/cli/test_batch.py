from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from atf.cli import main, remote
from atf.cli.arguments import parameters_of
from atf.cli.batch.submit import RowSource, submit_rows
from atf.cli.batch.view import BatchView, SubmitProgress
from atf.cli.progress import LineView
from atf.client import BatchProgress
from atf.errors import AtfError, InvalidArgument, Unavailable, UnknownLambda
from atf.rpc import api, batch_pb2 as b, frontend_pb2 as f
from atf.sdk.batch import ItemStatus
from atf.sdk.option_kinds import BatchOptions
from atf.sdk.work_items import texts_of
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
    async def connect(address: str, **_more: bool) -> AsyncIterator[Frontend]:
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


@pytest.mark.usefixtures("batches")
def test_for_programs_the_id_is_said_on_stderr_before_the_batch_has_ended(atf: Atf) -> None:
    """Whoever is killed can go on with it."""
    Path("i.jsonl").write_text('"p"\n')
    for watch in ((), ("--watch",)):
        ran = atf("batch", "submit", "a/b", "i.jsonl", "--json", *watch)
        said = ran.err.splitlines()
        batch_id = ran.json["id"]
        assert said.index(batch_id) < (said.index("done: 1 of 1 items") if watch else len(said))


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
        ("i.jsonl", '{"path": "p"}\n{"size": NaN}\n', "i.jsonl, line 2 is no JSON: NaN is no JSON number"),
        ("i.jsonl", '{"size": 3}\n', "i.jsonl, line 1: argument 'path' is missing"),
        (
            "i.jsonl",
            '\n{"path": "p", "nose": 1}\n',
            "line 2: the lambda has no argument 'nose'; it takes path, size, tag",
        ),
        ("i.jsonl", '["p", 1, "t"]\n', "line 1: 3 arguments by position, but the lambda takes so path, size"),
        ("i.jsonl", '"p"\n[]\n', "i.jsonl, line 2: argument 'path' is missing"),
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


@pytest.mark.usefixtures("batches")
def test_what_is_no_text_and_a_file_that_is_not_there(atf: Atf) -> None:
    Path("i.jsonl").write_bytes(b"\xff\n")
    assert "i.jsonl is no text in UTF-8" in atf("batch", "submit", "a/b", "i.jsonl").err
    assert "none.jsonl: No such file" in atf("batch", "submit", "a/b", "none.jsonl").err
    assert "give the number of a word" in atf("batch", "submit", "atf/command", "i.jsonl", "--target", "url").err


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Gives the command something to read."""
    with ExitStack() as files:

        def give(text: str) -> None:
            Path("stdin").write_text(text)
            monkeypatch.setattr("sys.stdin", files.enter_context(Path("stdin").open()))

        yield give


def test_stdin_is_read_to_a_bad_row_and_goes_on(atf: Atf, batches: Frontend, stdin: Callable[[str], None]) -> None:
    stdin('"p"\n{"nose": 1}\n"r"\n')
    ran = atf("batch", "submit", "a/b", "-", "--id", "x")
    assert ran.code == 2
    assert "stdin, line 2: the lambda has no argument 'nose'" in ran.err
    assert "the same command with --id x goes on" in ran.err
    assert (len(batches.batches["x"].items), batches.batches["x"].sealed) == (1, False)
    stdin('"p"\n"q"\n"r"\n')
    assert atf("batch", "submit", "a/b", "-", "--id", "x").code == 0
    assert submitted(batches, "x") == [b'{"path":"p"}', b'{"path":"q"}', b'{"path":"r"}']
    assert batches.batches["x"].sealed
    stdin('"p"\n"q"\n"r"\n"s"\n')
    assert "was made of 3 items, and more were given" in atf("batch", "submit", "a/b", "-", "--id", "x").err


@pytest.mark.processes
async def test_rows_of_stdin_are_stored_while_the_next_one_is_waited_for(
    batches: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, writes = os.pipe()
    with os.fdopen(reads) as stdin, os.fdopen(writes, "w", buffering=1) as typed:
        monkeypatch.setattr("sys.stdin", stdin)
        with RowSource("-", None, "a/b") as source:
            shown = Shown()
            options: BatchOptions = {"batch_id": "x"}
            work = asyncio.create_task(submit_rows(cast("api.Frontend", batches), source, options, shown, watch=False))
            for row in ('"p"\n', '"q"\n'):
                typed.write(row)
                shown.stored.clear()
                async with asyncio.timeout(20):
                    await shown.stored.wait()
            assert submitted(batches, "x") == [b'{"path":"p"}', b'{"path":"q"}']
            assert (shown.said, batches.batches["x"].sealed) == (["x"], False)
            work.cancel()  # as Ctrl-C does; nobody has pressed return
            with pytest.raises(asyncio.CancelledError):
                await work
        typed.close()
        for thread in threading.enumerate():
            if thread.name == "stdin":
                thread.join()


class Shown(LineView):
    """Remembers what was said."""

    def __init__(self) -> None:
        super().__init__(lambda _line: None)
        self.said: list[str] = []
        self.stored = asyncio.Event()

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def show(self, _now: object) -> None:
        self.stored.set()


def test_the_same_command_with_other_rows_is_refused(atf: Atf, batches: Frontend) -> None:
    Path("i.jsonl").write_text('"p"\n"q"\n')
    for _ in range(2):
        assert atf("batch", "submit", "a/b", "i.jsonl", "--id", "x").code == 0
    with Path("i.jsonl").open("a") as out:
        out.write('"r"\n"s"\n')
    ran = atf("batch", "submit", "a/b", "i.jsonl", "--id", "x")
    assert ran.code == 2
    assert "batch x was made of 2 items, and more were given" in ran.err
    assert "goes on" not in ran.err
    assert len(submitted(batches, "x")) == 2


def test_only_where_the_same_command_goes_on_it_says_so(
    atf: Atf, batches: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATF_TIMEOUT", "100ms")
    Path("i.jsonl").write_text('"p"\n')
    for error, goes_on in ((UnknownLambda("no lambda"), False), (InvalidArgument("spec: large"), False),
                           (InvalidArgument("item 0: large"), True), (Unavailable("it is away"), True)):  # fmt: skip

        async def fails(requests: object, *, timeout: float = 10, error: AtfError = error) -> b.ScheduleBatchReply:
            raise error

        batches.schedule_batch = fails  # type: ignore[method-assign]
        ran = atf("batch", "submit", "a/b", "i.jsonl", "--id", "x")
        assert ("the same command with --id x goes on" in ran.err) is goes_on, error
        assert "x" not in ran.out.splitlines()


def test_a_byte_order_mark_is_none_of_the_text(atf: Atf, batches: Frontend, stdin: Callable[[str], None]) -> None:
    Path("i.csv").write_text("\ufeffpath,size\np,3\n")
    Path("i.jsonl").write_text('\ufeff{"path": "p", "size": 3}\n')
    stdin('\ufeff["p", 3]\n')
    for name in ("i.csv", "i.jsonl", "-"):
        assert atf("batch", "submit", "a/b", name, "--id", f"x{name[2:]}").code == 0
    assert [submitted(batches, each) for each in ("xcsv", "xjsonl", "x")] == [[b'{"path":"p","size":3}']] * 3


@pytest.mark.usefixtures("batches")
def test_a_target_is_an_argument_that_every_row_gives(atf: Atf) -> None:
    Path("i.jsonl").write_text('{"path": "p", "tag": "t"}\n"q"\n')
    ran = atf("batch", "submit", "a/b", "i.jsonl", "--pause", "1s", "--target", "tag")
    assert "i.jsonl, line 2: target='tag': this argument is not given; give it" in ran.err
    ran = atf("batch", "submit", "a/b", "i.jsonl", "--pause", "1s", "--target", "nose")
    assert "target='nose': a/b has no such argument; it has path, size, tag" in ran.err


def test_how_items_are_tried_again(atf: Atf, batches: Frontend) -> None:
    Path("i.jsonl").write_text('"p"\n')
    flags = ("--max-losses", "4", "--affinity-key", "k", "--backoff")
    assert atf("batch", "submit", "a/b", "i.jsonl", "--id", "x", *flags, "500ms,3,1m").code == 0
    spec = batches.batches["x"].spec
    backoff = spec.options.backoff
    assert (spec.options.max_losses, spec.affinity_key) == (4, "k")
    assert (backoff.base_us, backoff.factor, backoff.max_us) == (500_000, 3, 60_000_000)
    assert atf("batch", "submit", "a/b", "i.jsonl", *flags, "2").code == 0
    for bad in ("", "1s,x", "1s,2,3,4", "1s,0.5", "5m,2,1m"):
        assert "backoff" in atf("batch", "submit", "a/b", "i.jsonl", *flags, bad).err


@pytest.fixture
def made(atf: Atf, batches: Frontend) -> Frontend:
    Path("i.jsonl").write_text('"p"\n"bad"\n["q", 3]\n')
    assert atf("batch", "submit", "a/b", "i.jsonl", "--id", "x").code == 0
    return batches


@pytest.mark.usefixtures("made")
def test_batches_are_listed_shown_and_watched(atf: Atf) -> None:
    assert atf("batch", "--no-header").out.startswith("x\ta/b\tdone_with_failures\t3\t2\t1\t0\t")
    assert [each["id"] for each in atf("batch", "ls", "--json").json] == ["x"]
    shown = atf("batch", "status", "x").out
    assert "done_with_failures" in shown
    assert "failed for good  1" in shown
    assert atf("batch", "status", "x", "--json").json["permanently_failed"] == 1
    assert atf("batch", "watch", "x").code == 1
    assert atf("batch", "watch", "x", "--json").json["done"] == 2
    ran = atf("batch", "status", "y")
    assert (ran.code, ran.err) == (3, "atf: there is no batch y\n")


@pytest.mark.usefixtures("made")
def test_items_are_listed_by_status(atf: Atf) -> None:
    (line,) = atf("batch", "items", "x", "--status", "failed", "--no-header").out.splitlines()
    assert line.startswith("1\tpermanently_failed\t")
    assert line.endswith('"bad"\tValueError: it is bad')
    found = atf("batch", "items", "x", "--json", "--limit", "2").json
    assert [(each["number"], each["arguments"]) for each in found] == [(0, {"path": "p"}), (1, {"path": "bad"})]
    assert "use created" in atf("batch", "items", "x", "--status", "what").err


@pytest.mark.usefixtures("made")
def test_results_as_lines_and_as_a_table(atf: Atf) -> None:
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


@pytest.mark.usefixtures("batches")
def test_results_of_programs_by_chunk_are_their_own_words(atf: Atf) -> None:
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


def test_a_done_item_has_no_error_of_an_earlier_attempt_and_a_chunk_the_peer_that_any_of_its_items_has(
    atf: Atf, made: Frontend
) -> None:
    first, failed, third = made.batches["x"].items
    first.status, first.error, first.peer = b.ITEM_CANCELLED, "", ""
    third.error = "ValueError: it rained at the first attempt"
    failed.status = b.ITEM_FAILED
    chunks = atf("batch", "results", "x", "--format", "chunks").json["chunks"]
    assert {name: chunk["peer"] for name, chunk in chunks.items()} == {"c0": "e0", "c1": "e1"}
    assert chunks["c0"]["results"][first.work_item_id]["result"] == {"stdout": "", "exit_code": 1}
    assert chunks["c0"]["results"][third.work_item_id]["result"] == {"stdout": '"q"', "exit_code": 0}
    assert chunks["c1"]["results"][failed.work_item_id]["result"] == {
        "stdout": "",
        "exit_code": None,
        "error": "ValueError: it is bad\nat line 3",
    }


@pytest.mark.usefixtures("made")
def test_a_file_that_is_there_is_replaced_only_when_asked(atf: Atf) -> None:
    Path("out.jsonl").write_text("mine")
    ran = atf("batch", "results", "x", "--output", "out.jsonl")
    assert (ran.code, ran.err) == (2, "atf: out.jsonl is there already: give another name, or --overwrite\n")
    assert Path("out.jsonl").read_text() == "mine"
    Path("link").symlink_to("out.jsonl")
    assert atf("batch", "results", "x", "--output", "link", "--overwrite").code == 0
    assert Path("link").is_symlink(), "what it names is replaced"
    assert len(Path("out.jsonl").read_text().splitlines()) == 3
    assert "--overwrite: of no use without --output" in atf("batch", "results", "x", "--overwrite").err
    assert sorted(each.name for each in Path().iterdir()) == ["i.jsonl", "link", "out.jsonl"]


@pytest.mark.usefixtures("made")
def test_a_device_is_written_to_as_it_is(atf: Atf) -> None:
    """A file was put in its place."""
    os.mkfifo("pipe")
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(Path("pipe").read_text)
        assert atf("batch", "results", "x", "--output", "pipe").code == 0
        assert len(read.result(10).splitlines()) == 3
    assert Path("pipe").is_fifo()


def test_results_say_which_exception_it_was(atf: Atf, made: Frontend) -> None:
    made.batches["x"].items[1].error_type = "ValueError"
    made.batches["x"].items[1].error_message = "it is bad"
    line = json.loads(atf("batch", "results", "x").out.splitlines()[1])
    assert (line["error_type"], line["error_message"]) == ("ValueError", "it is bad")
    table = list(csv.DictReader(io.StringIO(atf("batch", "results", "x", "--format", "csv").out)))
    assert [each["error_type"] for each in table] == ["", "ValueError", ""]


@pytest.mark.usefixtures("atf")
@pytest.mark.parametrize("form", ["jsonl", "csv", "chunks"])
def test_no_letter_is_lost_on_a_stdout_of_ascii(form: str, made: Frontend, monkeypatch: pytest.MonkeyPatch) -> None:
    made.batches["x"].items[0].result = '{"à": "🐘"}'.encode()
    with io.TextIOWrapper(io.BytesIO(), "ascii", "replace") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        assert main(["batch", "results", "x", "--format", form]) == 0
        stdout.seek(0)
        assert r"\ud83d\udc18" in stdout.read().replace("\\\\", "\\")


@pytest.mark.usefixtures("made")
def test_a_file_that_can_not_be_written(atf: Atf) -> None:
    assert "--output no/x: No such file" in atf("batch", "results", "x", "--output", "no/x").err


@pytest.mark.usefixtures("made")
def test_commands_to_a_batch(atf: Atf) -> None:
    assert "created  1" in atf("batch", "retry", "x").out
    assert [each["id"] for each in atf("batch", "cancel", "x", "x", "--yes", "--json").json] == ["x", "x"]
    assert atf("batch", "cancel", "x", "--json").json["cancelled"] == 1
    assert atf("batch", "delete", "x", "y", "--yes").out == "x: is being deleted\ny: there is none\n"
    assert atf("batch", "delete", "x", "--json").json == [{"id": "x", "existed": False}]


def test_a_signature_is_read_from_its_text() -> None:
    found = parameters_of(SIGNATURE)
    assert found is not None
    assert (found.names, found.required) == (("path", "size", "tag"), frozenset({"path"}))
    assert {name: each.kinds for name, each in found.takes.items() if each} == {
        "path": {"text"},
        "size": {"int"},
        "tag": {"text"},
    }
    assert parameters_of("(x=<object object at 0x7f>)") is None
    assert parameters_of("") is None
    kept = parameters_of("(a, b: 'str' = 1, *, c) -> <class 'x'>")
    assert kept is not None
    assert (kept.positional, kept.required) == (("a", "b"), frozenset({"a", "c"}))
    assert kept.takes["a"] is None


def test_the_line_of_a_batch_that_goes_on() -> None:
    batch = b.Batch(status=b.BATCH_IN_PROGRESS, items=10, done=4, permanently_failed=1, failed=2)
    going = BatchView(BatchProgress.from_proto(batch, rate=2.0))
    assert going.line() == "in progress: 5 of 10 items, 1 failed, 2 to run again, 2/s, 2 s to go"
    assert SubmitProgress(3, 0).line() == "submitted 3"
    assert going.picture() is not None
    assert ItemStatus["DONE"].finished
