"""What is kept of what a run says: from capture to the message that carries it."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from contextlib import closing
from typing import Any

import pytest

import atf
from atf.executor.held import HeldTask
from atf.executor.isolation.isolated_run import IsolatedRun
from atf.executor.isolation.packets import pack, pack_outcome
from atf.executor.isolation.process import Talk, _IsolatedTask
from atf.executor.isolation.runs import IsolatedRuns
from atf.executor.isolation.written import Written
from atf.executor.outcome import GaveUp, HandedBack, Outcome, Returned, RunFailed, RunStopped, RunTimedOut
from atf.executor.output.current_run import current
from atf.executor.output.events import say
from atf.executor.output.kept_log import Kept, KeptLog, line_of
from atf.executor.report import keeps_log
from atf.rpc import hsc_pb2 as h, task_pb2 as t
from atf.task import MAX_LOG_BYTES
from tests.executor.world import HeldWorld, World, claim, held, inline, job
from tests.virtual import virtual

NOON_US = 1_700_000_000_000_000 // 86_400_000_000 * 86_400_000_000 + 43_200_000_000


def task_of(logs: t.KeptLogs = t.LOGS_OF_FAILED) -> HeldTask:
    made = claim("0-a", "t/note", b"{}", attempt=2, losses=1)
    made.logs = logs
    return HeldTask(made, 0, 0.0)


def lines(task: HeldTask) -> list[str]:
    """What the task keeps, without the times of day."""
    assert task.log is not None
    return [line[len("12:00:00.000 ") :] for line in task.log.read().text.splitlines()]


def test_the_newest_lines_are_kept_and_what_stood_before_them_is_counted() -> None:
    log, line = KeptLog(), b"x" * 99 + b"\n"
    for _ in range(1_000):
        log.add(line)
    text, cut_bytes = log.read()
    assert MAX_LOG_BYTES - len(line) < len(text) <= MAX_LOG_BYTES
    assert text.startswith("x" * 99 + "\n"), "whole lines"
    assert len(text) + cut_bytes == 100_000


def test_a_line_that_is_longer_than_all_that_is_kept_is_cut_at_a_character() -> None:
    log = KeptLog()
    log.add("é".encode() * MAX_LOG_BYTES + b"\n", cut=7)
    text, cut_bytes = log.read()
    assert set(text) == {"é", "\n"}
    assert cut_bytes + len(text.encode()) == 2 * MAX_LOG_BYTES + 1 + 7


@pytest.mark.parametrize(
    ("level", "text", "fields", "kept"),
    [
        (logging.INFO, "hello", {"stream": "stdout"}, "hello"),
        (logging.INFO, "KeyError: 1", {"stream": "stderr", "exception": "Traceback …\nKeyError: 1"}, "Traceback …\nKeyError: 1"),
        (logging.WARNING, "low", {"logger": "shop"}, "WARNING shop: low"),
        (logging.ERROR, "no", {"logger": "root", "exception": "Traceback …", "stack": "Stack …"}, "ERROR root: no\nTraceback …\nStack …"),
        (logging.WARNING, "old", {"category": "DeprecationWarning"}, "WARNING old"),
        (logging.INFO, "half \udcff", {"stream": "stdout"}, "half \\udcff"),
    ],
)  # fmt: skip
def test_an_event_is_kept_behind_its_time_of_day(level: int, text: str, fields: dict[str, str], kept: str) -> None:
    assert line_of(level, text, fields, lambda: NOON_US + 1_002_999) == f"12:00:01.002 {kept}\n".encode()


def test_a_run_keeps_what_is_said_as_its_own_and_without_redacted_values() -> None:
    app = atf.App("t")

    @app.task(redact=["pin"])
    def pay(pin: str) -> None: ...

    task = task_of()
    task.redact = pay.redactor(b'{"pin":"98765"}', 0)
    current.set(task)
    try:
        say(logging.INFO, "pin 98765", {"stream": "stdout"})
        say(logging.ERROR, "no", {"logger": "shop"}, error=ValueError("of 98765"))
    finally:
        current.set(None)
    say(logging.INFO, "of no run", {"stream": "stdout"})
    assert lines(task)[:2] == ["pin [redacted]", "ERROR shop: no"]
    assert "98765" not in "".join(lines(task))
    assert "of no run" not in "".join(lines(task))


def test_a_run_whose_log_is_never_kept_keeps_nothing_and_one_that_says_nothing_has_none() -> None:
    task = task_of(t.LOGS_OF_NONE)
    say(logging.INFO, "hello", {"stream": "stdout"}, run=task)
    assert task.log is None
    assert task_of().log is None


def test_lines_of_several_threads_are_all_there() -> None:
    task = task_of()

    def write() -> None:
        for _ in range(100):
            task.keep(b"x\n")

    threads = [threading.Thread(target=write) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert task.log is not None
    assert task.log.read() == Kept("x\n" * 800, 0)


@pytest.mark.parametrize(
    "outcome",
    [RunFailed("no"), GaveUp("no"), RunTimedOut("late"), RunStopped("stop"), Returned(b"", 0), HandedBack("later")],
)
@pytest.mark.parametrize("logs", [t.LOGS_OF_FAILED, t.LOGS_OF_ALL])
def test_of_which_runs_the_log_is_kept(outcome: Outcome, logs: t.KeptLogs) -> None:
    task = task_of(logs)
    task.outcome, log = outcome, task.kept_log()
    failed = not isinstance(outcome, Returned | HandedBack)
    assert keeps_log(task, log) is (failed or logs == t.LOGS_OF_ALL)
    log.watched = True
    assert keeps_log(task, log), "somebody has looked at it"


@virtual(held)
async def test_the_log_goes_with_the_result_where_it_is_kept(world: HeldWorld) -> None:
    for name, outcome in (("0-a", Returned(b"1", 0)), ("0-b", RunFailed("no")), ("0-c", RunFailed("no"))):
        world.controller.give(job(name))
        await world.settle()
        if name != "0-c":
            world.executor.ledger.tasks[name].keep(b"hello\n")
        world.held.end(name, outcome)
        await world.settle()
    found = {each.claim.task_id: each.log for each in world.hsc.results if each.HasField("log")}
    assert found == {"0-b": t.RunLog(run=1, attempt=1, text="hello\n")}


@virtual(inline)
async def test_while_somebody_watches_heartbeats_say_what_is_new(world: World) -> None:
    world.controller.give(*(claim(f"0-{name}", "t/nap", b'{"seconds":30}') for name in "ab"))
    await world.settle()
    tasks = world.executor.ledger.tasks
    for each in tasks.values():
        each.keep(b"one\n")
    await asyncio.sleep(4)
    assert not any(each.HasField("log") for beat in world.hsc.beats for each in beat.claims), "nobody watches"
    world.hsc.verdicts["0-a"] = h.WATCHED
    await asyncio.sleep(3)
    said = _logs(world)
    assert said == [("0-a", "one\n")]
    tasks["0-a"].keep(b"two\n")
    await asyncio.sleep(0.6)
    assert _logs(world)[1:] == [("0-a", "one\ntwo\n")], "within half a second, and once"
    del world.hsc.verdicts["0-a"]
    await asyncio.sleep(2)
    tasks["0-a"].keep(b"three\n")
    await asyncio.sleep(4)
    assert len(_logs(world)) == 2, "nobody watches any more"


@virtual(inline)
async def test_a_log_is_said_again_until_a_heartbeat_is_answered(world: World) -> None:
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":30}'))
    await world.settle()
    world.executor.ledger.tasks["0-a"].keep(b"one\n")
    world.hsc.verdicts["0-a"] = h.WATCHED
    await world.heartbeats.once()
    world.hsc.failing["heartbeat"] = atf.Unavailable("gone")
    await world.heartbeats.once()
    del world.hsc.failing["heartbeat"]
    await world.heartbeats.once()
    await world.heartbeats.once()
    assert _logs(world) == [("0-a", "one\n")] * 2


@virtual(held)
async def test_the_log_of_a_run_that_was_told_to_end_is_said_before_its_process_may_end_for_it(
    world: HeldWorld,
) -> None:
    world.controller.give(job("0-a", timeout=1))
    await world.settle()
    world.executor.ledger.tasks["0-a"].keep(b"hangs\n")
    await asyncio.sleep(3.5)
    assert _logs(world) == [("0-a", "hangs\n")]


def _logs(world: World) -> list[tuple[str, str]]:
    return [
        (each.claim.task_id, each.log.text) for beat in world.hsc.beats for each in beat.claims if each.HasField("log")
    ]


def test_what_an_isolated_run_says_is_kept_by_its_worker_as_it_comes() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    task = task_of()
    with ours, theirs:
        inside: Any = _IsolatedTask(claim("0-a", "t/note", b"{}"), Talk(theirs), 0.0)
        inside.keep(b"one\n")
        inside.keep(b"x" * (MAX_LOG_BYTES + 4) + b"\n")
        theirs.send(pack_outcome(RunFailed("no")))
        theirs.send(pack("alone"))
        with closing(Written()) as written:
            IsolatedRuns.hear_run(ours, task, IsolatedRun(1, ours, ours), None, written)
    assert task.log is not None
    text, cut_bytes = task.log.read()
    assert (len(text), cut_bytes) == (MAX_LOG_BYTES, len(b"one\n") + 5)
