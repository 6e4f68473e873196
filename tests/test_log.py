"""What a process says: level, format, and what is never said."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from atf import log
from atf.config.settings import LogSettings


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = log.output.logger, log.output.debug
    yield
    log.output.logger, log.output.debug = before


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def said(level: str = "info", format_: str = "json") -> io.StringIO:
    stream = io.StringIO()
    log.setup(LogSettings(log_level=level, log_format=format_), "frontend", stream=stream)
    return stream


def test_every_line_has_role_process_level_and_time() -> None:
    logger = log.get_logger(duty="pop")  # made before the set-up, as modules do
    stream = said()
    logger.bind(partition=3).info("popped", ids=17)
    (line,) = lines(stream)
    assert line.pop("timestamp")
    assert line == {
        "role": "frontend",
        "pid": os.getpid(),
        "level": "info",
        "event": "popped",
        "duty": "pop",
        "partition": 3,
        "ids": 17,
    }


def test_a_stream_that_is_closed_ends_nothing() -> None:
    said().close()
    log.get_logger().error("went nowhere")


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_a_level_hides_what_is_below_it(level: str, heard: list[str]) -> None:
    stream, logger = said(level), log.get_logger()
    for name in ("debug", "info", "warning", "error"):
        getattr(logger, name)("it happened")
    assert [line["level"] for line in lines(stream)] == heard


def test_payloads_and_tokens_are_never_said() -> None:
    stream = said("debug")
    log.get_logger().debug(
        "claimed", task="0-a", data=b"secret", nonce="secret", token={"counter": 1, "nonce": "secret"}
    )
    (line,) = lines(stream)
    assert "secret" not in stream.getvalue()
    assert (line["task"], line["data"], line["nonce"]) == ("0-a", "<6 bytes>", "<hidden>")


@pytest.mark.parametrize("format_", ["json", "console"])
def test_an_exception_comes_with_its_traceback(format_: str) -> None:
    stream = said(format_=format_)
    try:
        raise ZeroDivisionError("oops")
    except ZeroDivisionError:
        log.get_logger().exception("duty failed")
    assert "ZeroDivisionError: oops" in stream.getvalue()
    assert "test_log.py" in stream.getvalue()


def test_people_get_lines_without_braces_and_machines_json() -> None:
    stream = said(format_="console")
    log.get_logger().info("ready", address="127.0.0.1:7401")
    assert "ready" in stream.getvalue()
    assert "address=127.0.0.1:7401" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()  # no colours where it is not a terminal
    stream = said(format_="auto")
    log.get_logger().info("ready")
    assert lines(stream)


def test_before_the_set_up_only_warnings_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    log.output.logger = log.LogOutput().logger
    log.get_logger().info("quiet")
    log.get_logger().warning("loud")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "loud" in captured.err
    assert "quiet" not in captured.err


@pytest.mark.parametrize(("level", "expected"), [("debug", True), ("info", False), ("error", False)])
def test_who_would_have_to_count_for_a_debug_line_can_ask_first(level: str, expected: bool) -> None:
    stream = said(level)
    log.get_logger().debug("counted")
    assert log.get_logger().debug_enabled() is bool(lines(stream)) is expected


def test_a_line_that_nobody_reads_ends_no_duty() -> None:
    """As in an executor whose `atf up` was killed: it must go on counting failed heartbeats."""
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "w", encoding="utf-8")
    log.setup(LogSettings(), "executor", stream=stream)
    os.close(reader)

    log.get_logger().warning("heartbeat failed", strikes=1)
    log.get_logger().warning("heartbeat failed", strikes=2)

    with pytest.raises(BrokenPipeError):
        stream.close()


@pytest.mark.processes
def test_our_structlog_does_without_rich_and_users_load_their_own() -> None:
    program = (
        "import sys, atf.log\n"
        "print('rich' in sys.modules, atf.log.structlog.dev.rich)\n"
        "atf.log.leave_structlog()\n"
        "import structlog\n"
        "print(structlog is atf.log.structlog, structlog.dev.rich is not None)\n"
        "atf.log.get_logger().warning('both go on')\n"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout.split() == ["False", "None", "False", "True"]
    assert "both go on" in ran.stderr
