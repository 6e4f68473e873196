"""What user code says becomes one line per event, with its run's id."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import pytest

from atf import log
from atf.config.settings import LogSettings
from atf.executor.output import capture as output
from atf.executor.output.current_run import current
from atf.executor.output.kept_log import KeptLog
from atf.executor.output.lines import LineStream
from atf.executor.output.log_handlers import take_logging


class Run:
    lambda_name = "shop/hello"
    encrypts = False
    ended_at = 0.0

    def __init__(self, task_id: str, *, keeps_log: bool = True) -> None:
        self.task_id, self.keeps_log = task_id, keeps_log
        self.kept = KeptLog()

    def keep(self, line: bytes) -> None:
        self.kept.add(line)

    @staticmethod
    def redact(text: str) -> str:
        return text.replace("secret", "***")


@contextmanager
def run(task_id: str = "id-1") -> Iterator[None]:
    current.set(Run(task_id))
    try:
        yield
    finally:
        output.end_of_run()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    written = io.StringIO()
    monkeypatch.setattr(output, "captured", [])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(traceback.TracebackException, "print", traceback.TracebackException.print)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(logging, "lastResort", logging.lastResort)
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", ThreadPoolExecutor.submit)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = log.output.logger, log.output.debug
    log.setup(LogSettings(log_format="json"), "executor", stream=written)
    yield written
    log.output.logger, log.output.debug = before
    monkeypatch.undo()


@contextmanager
def executor() -> Iterator[None]:
    """User code runs as in an executor. Not in a fixture: pytest takes stdout once more before it calls the test."""
    streams, root = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    root.setLevel(logging.WARNING)
    output.capture()
    take_logging()
    try:
        yield
    finally:
        sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = streams  # type: ignore[misc]
        root.handlers[:] = handlers
        root.setLevel(level)


def events(said: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.getvalue().splitlines()]


def test_a_print_is_one_line_with_task_id_and_lambda(said: io.StringIO) -> None:
    with executor(), run():
        print("hello", 1)
        print("bad", file=sys.stderr)
        sys.stdout.write("half")
    with executor():
        print("no run")
    assert [(each["event"], each.get("task_id"), each["level"]) for each in events(said)] == [
        ("hello 1", "id-1", "info"),
        ("bad", "id-1", "info"),
        ("half", "id-1", "info"),
        ("no run", None, "info"),
    ]


def test_logging_shows_info_and_a_traceback_in_one_line(said: io.StringIO) -> None:
    with executor(), run():
        logging.info("from root")  # noqa: LOG015  what users write
        try:
            raise ValueError("no")
        except ValueError:
            logging.getLogger("mine").exception("it failed")
    first, second = events(said)
    assert (first["event"], first["logger"], first["task_id"]) == ("from root", "root", "id-1")
    assert "ValueError: no" in second["exception"]


def test_half_lines_of_threads_and_coroutines_do_not_mix(said: io.StringIO) -> None:
    async def one(name: str) -> None:
        with run(name):
            for part in (name, " ", name):
                print(part, end="")
                await asyncio.sleep(0)
            print()

    async def both() -> None:
        await asyncio.gather(one("a"), one("b"))

    with executor():
        asyncio.run(both())
    assert sorted((each["event"], each["task_id"]) for each in events(said)) == [("a a", "a"), ("b b", "b")]


def test_a_warning_is_one_line(said: io.StringIO) -> None:
    with executor(), run():
        warnings.showwarning("old", DeprecationWarning, "shop.py", 3)
    assert [(each["event"], each["level"], each["where"], each["task_id"]) for each in events(said)] == [
        ("old", "warning", "shop.py:3", "id-1")
    ]


def test_a_thread_that_fails_is_one_line(said: io.StringIO) -> None:
    with executor():
        thread = threading.Thread(target=lambda: 1 / 0, name="mine")
        thread.start()
        thread.join()
    (event,) = events(said)
    assert event["thread"] == "mine"
    assert "ZeroDivisionError" in event["exception"]


def test_the_handlers_of_the_app_write_as_they_are(said: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    with executor():
        logging.getLogger().handlers[:] = []
        logging.basicConfig(format="mine %(message)s", level=logging.INFO)
        take_logging()
        logging.info("hello")  # noqa: LOG015  what users write
        with run():
            logging.info("the secret")  # noqa: LOG015
    assert events(said) == []
    assert capsys.readouterr().err == "mine hello\nmine the ***\n"


@pytest.mark.parametrize("at_import", [True, False])
def test_what_a_handler_of_one_logger_has_written_is_not_said_again(
    said: io.StringIO, capsys: pytest.CaptureFixture[str], *, at_import: bool
) -> None:
    mine = logging.getLogger("mine.own")

    def configure() -> None:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("mine %(message)s"))
        mine.addHandler(handler)

    try:
        with executor():
            if at_import:
                configure()
                take_logging()
            with run():
                if not at_import:
                    configure()
                logging.getLogger("mine.own.module").warning("hello")
                logging.getLogger("mine").warning("another")
    finally:
        mine.handlers[:] = []
    told = ["another"] if at_import else ["mine hello", "another"]
    assert [each["event"] for each in events(said)] == told
    assert capsys.readouterr().err == "mine hello\n" * at_import


@pytest.mark.parametrize("level", [logging.WARNING, logging.DEBUG])
def test_logging_at_import_configures_nothing(said: io.StringIO, level: int) -> None:
    """`logging.warning(…)` does call basicConfig, which gives the root logger a handler."""
    with executor():
        logging.getLogger().handlers[:] = []
        logging.basicConfig(level=level)
        take_logging()
        with run():
            logging.info("hello")  # noqa: LOG015
            logging.debug("details")  # noqa: LOG015
    assert [(each["event"], each["task_id"]) for each in events(said)] == [("hello", "id-1")]


def test_a_warning_that_is_logged_at_import_is_one_line_of_its_level(said: io.StringIO) -> None:
    root = logging.getLogger()
    streams, handlers = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__), root.handlers[:]
    root.handlers[:] = []
    output.capture()
    try:
        logging.getLogger("mine").warning("old")
    finally:
        sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = streams  # type: ignore[misc]
        root.handlers[:] = handlers
    assert [(each["event"], each["level"], each["logger"]) for each in events(said)] == [("old", "warning", "mine")]


def test_what_threads_of_a_run_write_is_the_runs_while_it_lasts(said: io.StringIO) -> None:
    def work(said: threading.Event | None = None, late: threading.Event | None = None) -> None:
        print("a secret")
        if said and late:
            said.set()
            late.wait(10)
            print("late, secret")

    with executor(), ThreadPoolExecutor(1) as pool:
        for task_id in ("id-1", "id-2"):
            ends, first, late = Run(task_id), threading.Event(), threading.Event()
            current.set(ends)
            try:
                pool.submit(work).result()
                asyncio.run(asyncio.to_thread(work))
                thread = threading.Thread(target=work, args=(first, late))
                thread.start()
                first.wait(10)
                started = threading.Thread(target=print, args=("half",), kwargs={"end": ""})
                started.start()
                started.join()
            finally:
                output.end_of_run()
                ends.ended_at = 1.0
            late.set()
            thread.join()
            found = [(each["event"], each.get("task_id")) for each in events(said)]
            assert found == [*[("a ***", task_id)] * 3, ("half", task_id), ("late, ***", None)]
            said.truncate(0)
            said.seek(0)


def test_a_thread_of_a_run_that_fails_is_the_runs(said: io.StringIO) -> None:
    with executor(), run():
        thread = threading.Thread(target=lambda: int("secret"))
        thread.start()
        thread.join()
    (event,) = events(said)
    assert event["task_id"] == "id-1"
    assert "secret" not in said.getvalue()


def test_no_line_is_longer_than_what_passes_it_on_takes(said: io.StringIO) -> None:
    with executor(), run():
        print("💥" * 50_000)
        try:
            raise ValueError("💥" * 100_000)
        except ValueError:
            logging.getLogger("mine").exception("first", stack_info=True)
    assert max(map(len, said.getvalue().splitlines())) < 64 << 10
    *printed, logged = events(said)
    assert "".join(each["event"] for each in printed) == "💥" * 50_000
    assert {each["task_id"] for each in printed} == {"id-1"}
    assert logged["exception"].startswith("Traceback")
    assert "… cut …" in logged["exception"]


def test_the_first_streams_are_taken_too(said: io.StringIO) -> None:
    with executor(), run():
        sys.stdout = sys.__stdout__
        print("back")
    assert [(each["event"], each["task_id"]) for each in events(said)] == [("back", "id-1")]


def test_redacted_values_are_in_no_text(said: io.StringIO) -> None:
    with executor(), run():
        print("a secret")
        try:
            raise ValueError("secret")
        except ValueError:
            logging.getLogger("mine").exception("the secret")
    assert "secret" not in said.getvalue()
    assert said.getvalue().count("***") >= 3


def test_a_printed_traceback_is_one_line(said: io.StringIO) -> None:
    with executor(), run():
        try:
            raise ValueError("no")
        except ValueError:
            traceback.print_exc()
        print("after")
    first, second = events(said)
    assert (first["event"], first["stream"], second["event"]) == ("ValueError: no", "stderr", "after")
    assert first["exception"].startswith("Traceback")


def group_with_a_cause() -> None:
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("no\nmore of it") from error
    except ValueError as error:
        raise ExceptionGroup("both", [error, OSError("gone")]) from None


def chain() -> None:
    try:
        raise KeyError("first")
    except KeyError as error:
        raise ValueError("no") from error


@pytest.mark.parametrize(
    ("fails", "told", "parts"),
    [
        (chain, "ValueError: no", ["KeyError: 'first'", "direct cause", "ValueError: no"]),
        (group_with_a_cause, "ExceptionGroup: both (2 sub-exceptions)", ["more of it", "OSError: gone"]),
    ],
)
def test_a_traceback_with_all_its_causes_is_one_line(
    said: io.StringIO, fails: Callable[[], None], told: str, parts: list[str]
) -> None:
    with executor(), run():
        try:
            fails()
        except Exception:
            traceback.print_exc()
            print(traceback.format_exc())
            logging.getLogger("mine").exception("logged")
    events_ = events(said)
    assert [each["event"] for each in events_] == [told, told, "logged"]
    for part in parts:
        assert all(part in each["exception"] for each in events_)


def test_streams_answer_what_code_asks_them(said: io.StringIO) -> None:
    with executor(), run():
        assert (sys.stdout.isatty(), sys.stdout.fileno(), sys.stderr.fileno(), sys.stdout.encoding) == (
            False,
            1,
            2,
            "utf-8",
        )
        sys.stdout.buffer.write("bytes é\n".encode())
        cast("io.TextIOWrapper", sys.stdout).reconfigure(encoding="latin-1", line_buffering=True)
        print("text é", flush=True)
        print(".", end="", flush=True)
        print(".")
        sys.stdout.close()
        print("closed")
        with io.TextIOWrapper(sys.stderr.buffer, encoding="utf-8", write_through=True) as mine:
            print("through another", file=mine)
    assert [each["event"] for each in events(said)] == ["bytes é", "text é", "..", "closed", "through another"]


def test_a_run_that_writes_nothing_ends_without_a_look_at_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = LineStream("stdout", 1)
    monkeypatch.setattr(output, "captured", [stream])
    monkeypatch.setattr(stream, "end_of_run", None)
    with run():
        assert current.get() is not None
    assert current.get() is None


def test_a_record_that_can_not_be_formatted_is_one_line(said: io.StringIO) -> None:
    with executor(), run():
        logging.getLogger("mine").info("%d of secret", None)
    (event,) = events(said)
    assert (event["event"], event["message"], event["task_id"]) == (
        "what was logged can't be formatted",
        "%d of ***",
        "id-1",
    )
    assert "TypeError" in event["exception"]
    assert "test_output.py:" in event["where"]
