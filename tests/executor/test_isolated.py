"""Isolated runs without processes: how outcomes cross, what an end means, and that the executor kills a run alone."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from atf.executor.held import HeldTask
from atf.executor.isolation.isolated_run import IsolatedRun, how_it_ended, judged
from atf.executor.isolation.packets import outcome_of, pack, pack_outcome, receive, unpack
from atf.executor.isolation.runs import IsolatedRuns
from atf.executor.isolation.written import Written
from atf.executor.outcome import DoesNotFit, GaveUp, HandedBack, Outcome, Returned, RunFailed, RunStopped, RunTimedOut
from atf.rpc import hsc_pb2 as h, task_pb2 as t
from tests.executor.world import HeldWorld, claim, held, job
from tests.virtual import virtual

OUTCOMES: list[Outcome] = [
    Returned(b"\x00bytes", 2),
    RunFailed("no"),
    RunFailed("later", 1.5),
    GaveUp("never"),
    RunTimedOut("long"),
    DoesNotFit("does not fit", "digest"),
    RunStopped("cancelled"),
    HandedBack("not mine", 3.0),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda each: type(each).__name__)
def test_every_outcome_crosses(outcome: Outcome) -> None:
    word, kind, *fields = unpack(pack_outcome(outcome))
    assert word == "outcome"
    crossed = outcome_of(kind, fields)
    assert (type(crossed), crossed) == (type(outcome), outcome)


def test_an_outcome_that_can_not_cross_is_a_failure_with_a_sentence() -> None:
    _, kind, *fields = unpack(pack_outcome(RunFailed("no", object())))  # type: ignore[arg-type]  # of a lambda's atf.Retry
    outcome = outcome_of(kind, fields)
    assert isinstance(outcome, RunFailed)
    assert "can't be told" in outcome.error


@contextmanager
def isolated(*, code: int | None = 0, killed: bool = False, unborn: str = "") -> Iterator[IsolatedRun]:
    with socket.socket() as channel, socket.socket() as control:
        run = IsolatedRun(1, channel, control)
        run.code, run.killed, run.unborn = code, killed, unborn
        yield run


def task_of(*, timed_out: bool = False, cancelled: bool = False) -> HeldTask:
    task = HeldTask(claim("0-a", "t/work", b"{}", timeout=2), 0, 0)
    task.timed_out, task.cancelled = timed_out, cancelled or timed_out
    return task


def test_what_the_end_of_a_process_means() -> None:
    def of(said: Outcome | None, task: HeldTask, **ended: object) -> Outcome:
        with isolated(**ended) as run:  # type: ignore[arg-type]
            return judged(task, run, said)

    ran = task_of()
    assert of(Returned(b"1", 0), ran) == Returned(b"1", 0)
    assert of(None, ran, code=3) == RunFailed("the run's process ended with exit code 3 before the lambda returned")
    assert of(None, ran, code=None) == RunFailed("the run's process ended with the fork server of its executor")
    assert of(None, ran, code=None, unborn="no memory") == HandedBack(
        "no process could be made for the run: no memory", 1.0
    )
    late = task_of(timed_out=True)
    assert of(Returned(b"1", 0), late) == RunTimedOut("timed out after 2 s"), "it did not return in time"
    killed = "its process was killed, since it did not end by itself"
    assert of(None, late, code=-9, killed=True) == RunTimedOut(f"timed out after 2 s; {killed}")
    cancelled = task_of(cancelled=True)
    assert of(Returned(b"1", 0), cancelled) == Returned(b"1", 0), "it is done all the same"
    assert of(RunFailed("KeyError: 1"), cancelled) == RunStopped("cancelled; KeyError: 1")
    assert of(RunStopped("cancelled; x"), cancelled) == RunStopped("cancelled; x")
    assert of(None, cancelled, code=-9, killed=True) == RunStopped(f"cancelled; {killed}")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (-signal.SIGSEGV, "was killed by SIGSEGV (signal 11)"),
        (-signal.SIGKILL, "was killed by SIGKILL (signal 9): by the kernel, where memory ran out, or by hand"),
        (-(signal.SIGRTMIN + 3), f"was killed by a signal without a name (signal {signal.SIGRTMIN + 3})"),
    ],
)
def test_an_exit_code_in_words(code: int, words: str) -> None:
    assert how_it_ended(code) == words


def test_what_was_said_last_is_read_although_the_other_end_left_packets_unread() -> None:
    """The kernel reports the reset first."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        ours.send(pack("drain"))
        theirs.send(pack("progress", "last"))
        theirs.close()
        assert unpack(receive(ours)) == ["progress", "last"]
        assert receive(ours) == b""


@pytest.mark.parametrize("alone", [True, False])
def test_the_end_of_a_process_is_awaited_only_where_it_leaves_something_behind(alone: bool) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    outcome = Returned(b"1", 0)
    with ours, theirs:
        theirs.send(pack_outcome(outcome))
        if alone:
            theirs.send(pack("alone"))
        else:
            theirs.shutdown(socket.SHUT_WR)
        run = IsolatedRun(1, ours, ours)
        with closing(Written()) as written:
            found = IsolatedRuns.hear_run(ours, HeldTask(claim("0-a"), 0, 0.0), run, None, written)
        assert found == (outcome, alone)


class FakeRun(IsolatedRun):
    """A run whose process does as the test says."""

    def __init__(self, *, dies: bool = True) -> None:
        self.said: list[tuple[object, ...]] = []
        self.kills = 0
        self._dies = dies

    def tell(self, word: str, *fields: object) -> None:
        self.said.append((word, *fields))

    def kill(self) -> bool:
        self.kills += 1
        return self._dies and self.kills == 1


@virtual(held)
async def test_a_run_past_its_timeout_is_killed_alone(world: HeldWorld) -> None:
    world.controller.give(job("0-a", timeout=10), job("0-b"))
    await world.settle()
    run = world.executor.ledger.tasks["0-a"].isolated = FakeRun()
    await asyncio.sleep(10.1)
    assert run.said == [("cancel", True)]
    assert run.kills == 0
    await asyncio.sleep(5)  # stop_grace
    assert run.kills == 1
    world.held.end("0-a")
    await world.settle()
    assert world.outcomes() == {"0-a": t.TIMED_OUT}
    world.controller.give(job("0-c"))
    await world.settle()
    assert set(world.held.running) == {"0-b", "0-c"}, "the executor goes on"


@virtual(held)
async def test_a_run_that_no_kill_ends_ends_the_executor(world: HeldWorld) -> None:
    world.controller.give(job("0-a", timeout=10))
    await world.settle()
    run = world.executor.ledger.tasks["0-a"].isolated = FakeRun()
    await asyncio.sleep(20.2)
    assert run.kills == 2
    assert await world.run == 76


@virtual(held)
async def test_a_lost_run_is_killed_alone_and_at_once(world: HeldWorld) -> None:
    world.controller.give(job("0-a"), job("0-b"))
    await world.settle()
    run = world.executor.ledger.tasks["0-a"].isolated = FakeRun()
    world.hsc.verdicts["0-a"] = h.LOST
    await asyncio.sleep(5)
    assert run.kills == 1
    world.held.end("0-a")
    await world.settle()
    assert world.outcomes() == {}
    assert not world.run.done()
