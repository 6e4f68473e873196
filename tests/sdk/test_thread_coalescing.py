"""The short way for threads: a lone one calls at once, others share the next call, and nobody is left behind."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from atf.calls.coalescing import Pending
from atf.client import fork, thread_coalescing, transport
from atf.client.thread_coalescing import ThreadCoalescer, ThreadScheduling
from atf.errors import AlreadyExists, AtfError, DeadlineExceeded, Unavailable
from atf.rpc import frontend_pb2 as f
from atf.runtime import SystemRuntime

WAIT = 20.0
"""Seconds after which a test has hung."""


def request(name: str, payload: bytes = b"") -> f.ScheduleRequest:
    made = f.ScheduleRequest(id=name)
    made.spec.payload = payload
    return made


class Clock(SystemRuntime):
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        super().__init__()
        self.random = random.Random(1)
        self.now, self.slept = 0.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Line:
    """Calls that end when the test says so."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.timeouts: list[float] = []
        self.under_way = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.fail: list[BaseException] = []
        self.refused = ""
        self._ended = 0

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way."""
        return len(self.timeouts) > self._ended

    def __call__(
        self, requests: Sequence[f.ScheduleRequest], timeout: float, /
    ) -> Sequence[f.ScheduleReply | AtfError]:
        self.calls.append([each.id for each in requests])
        self.timeouts.append(timeout)
        self.under_way.release()
        assert self.may_end.acquire(timeout=WAIT)
        self._ended += 1
        if self.fail:
            raise self.fail.pop()
        return [
            AlreadyExists("taken") if each.id == self.refused else f.ScheduleReply(id=f"0-{each.id}")
            for each in requests
        ]


class Interrupted:
    """A lock in whose block Ctrl-C strikes once, behind everything that was done in it."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock, self._strikes = lock, True

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self._strikes:
            self._strikes = False
            raise KeyboardInterrupt


class World:
    """A coalescer, threads, and a line behind it.

    Attributes:
        now: what its clock says.
        added: is released by each request that begins to wait.
    at_each_look: runs at each look at that clock, on the thread that looks.
    """

    def __init__(self, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
        self.line, self.now = Line(), 0.0
        self.at_each_look: Callable[[], object] = int
        self.added = added = threading.Semaphore(0)

        class Noted(Pending[Any]):
            def add(self, entry: Any, size: int) -> None:
                super().add(entry, size)
                added.release()

        monkeypatch.setattr(thread_coalescing, "Pending", Noted)
        self.calls = ThreadCoalescer(self.line, self._monotonic)
        self._pool = pool

    def _monotonic(self) -> float:
        self.at_each_look()
        return self.now

    def go(
        self, name: str, timeout: float = 10.0, payload: bytes = b"", *, at_once: bool = False
    ) -> Future[f.ScheduleReply]:
        """Schedules from a thread of its own; returns when it calls, or waits while another call is under way. `at_once`: it calls."""
        calls = at_once or not self.line.is_busy
        going = self._pool.submit(self.calls.schedule, request(name, payload), timeout)
        assert self.added.acquire(timeout=WAIT)
        if calls:
            assert self.line.under_way.acquire(timeout=WAIT)
        return going

    def is_free(self) -> bool:
        """Whether a thread that comes now calls at once."""
        going = self.go("to see", at_once=True)
        self.end_call()
        return self.line.calls.pop() == ["to see"] and going.result(WAIT).id == "0-to see"

    def end_call(self) -> None:
        self.line.may_end.release()


def reached(holds: Callable[[], bool]) -> None:
    """Spins until another thread has come so far."""
    tick = threading.Event()
    for _ in range(round(WAIT / 0.001)):
        if holds():
            return
        tick.wait(0.001)
    raise AssertionError("a thread has not come so far")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with ThreadPoolExecutor(300) as pool:
        yield World(pool, monkeypatch)


def test_a_lone_thread_calls_at_once(world: World) -> None:
    one = world.go("a")
    world.end_call()
    assert one.result(WAIT).id == "0-a"
    two = world.go("b")
    world.end_call()
    assert two.result(WAIT).id == "0-b"
    assert world.line.calls == [["a"], ["b"]]


def test_threads_that_come_while_one_calls_share_the_next_call(world: World) -> None:
    first = world.go("a")
    others = [world.go(name) for name in "bcd"]
    world.end_call()
    assert first.result(WAIT).id == "0-a"
    assert world.line.under_way.acquire(timeout=WAIT)
    late = world.go("e")
    world.end_call()
    assert [each.result(WAIT).id for each in others] == ["0-b", "0-c", "0-d"]
    assert world.line.under_way.acquire(timeout=WAIT)
    world.end_call()
    assert late.result(WAIT).id == "0-e"
    assert world.line.calls == [["a"], ["b", "c", "d"], ["e"]]
    assert world.is_free()


def test_a_call_holds_no_more_than_a_message_does(world: World) -> None:
    first = world.go("a")
    large = [world.go(name, payload=b"x" * (2 << 20)) for name in "bc"]
    many = [world.go(f"n{number}") for number in range(260)]
    world.end_call()
    for _ in range(3):
        assert world.line.under_way.acquire(timeout=WAIT)
        world.end_call()
    for each in (first, *large, *many):
        assert each.result(WAIT).id
    assert [len(each) for each in world.line.calls] == [1, 1, 256, 5]


def test_each_gets_its_own_refusal(world: World) -> None:
    world.line.refused = "b"
    first = world.go("a")
    refused, stored = world.go("b"), world.go("c")
    world.end_call()
    world.end_call()
    assert stored.result(WAIT).id == "0-c"
    assert first.result(WAIT).id == "0-a"
    with pytest.raises(AlreadyExists, match="taken"):
        refused.result(WAIT)


def test_all_of_a_call_that_failed_are_told_and_the_next_call_is_made(world: World) -> None:
    first = world.go("a")
    others = [world.go(name) for name in "bc"]
    world.end_call()
    assert first.result(WAIT).id == "0-a"
    assert world.line.under_way.acquire(timeout=WAIT)
    after = world.go("d")
    world.line.fail.append(Unavailable("away"))
    world.end_call()
    errors = [each.exception(WAIT) for each in others]
    assert [str(each) for each in errors] == ["away", "away"]
    assert errors[0] is not errors[1]
    world.end_call()
    assert after.result(WAIT).id == "0-d"


def test_a_thread_that_is_interrupted_while_it_calls_leaves_nobody_waiting(world: World) -> None:
    first = world.go("a")
    second, third = world.go("b"), world.go("c")
    world.end_call()
    assert first.result(WAIT).id == "0-a"
    assert world.line.under_way.acquire(timeout=WAIT)
    fourth = world.go("d")
    world.line.fail.append(KeyboardInterrupt())
    world.end_call()
    assert isinstance(second.exception(WAIT), KeyboardInterrupt)
    assert isinstance(third.exception(WAIT), Unavailable)
    world.end_call()
    assert fourth.result(WAIT).id == "0-d"
    assert world.is_free()


def test_a_thread_that_gives_up_its_turn_passes_it_on(world: World) -> None:
    """Its time is over while its turn comes, by the thread whose call has just ended."""
    gives_up = threading.Event()

    class Noted(float):
        """The seconds that it may wait; the error that says so is made when it gives up."""

        def __format__(self, spec: str) -> str:
            gives_up.set()
            return super().__format__(spec)

    first = world.go("a")
    quitter = world.go("q", Noted(0.01))
    second = world.go("b")
    world.at_each_look = lambda: reached(gives_up.is_set)
    world.end_call()
    assert first.result(WAIT).id == "0-a"
    assert isinstance(quitter.exception(WAIT), DeadlineExceeded)
    world.end_call()
    assert second.result(WAIT).id == "0-b"
    assert world.line.calls == [["a"], ["b"]]


def test_a_call_takes_as_long_as_whoever_makes_it_has(world: World) -> None:
    first = world.go("a", timeout=10)
    others = [world.go("b", timeout=30), world.go("c", timeout=70)]
    world.now = 1.0
    world.end_call()
    world.end_call()
    for each in (first, *others):
        each.result(WAIT)
    assert world.line.timeouts == [10.0, 29.0]


def test_a_thread_waits_no_longer_than_it_may_and_others_do_not_suffer(world: World) -> None:
    first = world.go("a")
    with pytest.raises(DeadlineExceeded):  # on this very thread: another could have given up before anybody saw it wait
        world.calls.schedule(request("hasty, at the head"), 0.01)
    world.added.acquire()
    patient = world.go("b")
    with pytest.raises(DeadlineExceeded):
        world.calls.schedule(request("hasty, in the middle"), 0.01)
    world.added.acquire()
    last = world.go("c")
    world.end_call()
    world.end_call()
    assert [each.result(WAIT).id for each in (first, patient, last)] == ["0-a", "0-b", "0-c"]
    assert world.line.calls == [["a"], ["b", "c"]]
    assert world.line.timeouts == [10.0, 10.0]


def test_a_thread_that_vanished_at_its_turn_blocks_the_others_for_a_while_only(world: World) -> None:
    """As after a signal handler that raised at a bad moment: nobody ends its call."""
    gone = world.go("gone")
    with pytest.raises(DeadlineExceeded):
        world.calls.schedule(request("a"), 0.01)
    world.now = 60.0
    with pytest.raises(DeadlineExceeded):
        world.calls.schedule(request("b"), 0.01)
    after = world.go("c", at_once=True)
    world.end_call()
    world.end_call()
    assert {each.result(WAIT).id for each in (gone, after)} == {"0-gone", "0-c"}


def test_a_signal_in_the_middle_keeps_nobody_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = Interrupted(threading.Lock())
    with monkeypatch.context() as made:
        made.setattr(threading, "Lock", lambda: lock)
        calls = ThreadCoalescer(world.line, lambda: 0.0)
    with pytest.raises(KeyboardInterrupt):
        calls.schedule(request("a"), 10.0)
    world.end_call()
    assert calls.schedule(request("b"), 10.0).id == "0-b"
    assert world.line.calls == [["b"]]


def test_a_child_process_starts_afresh(world: World) -> None:
    """Also where a thread that the child does not have was in the middle of a call."""
    world.go("a")
    looked, goes_on = threading.Event(), threading.Event()

    def halt() -> None:
        world.at_each_look = int
        looked.set()
        assert goes_on.wait(WAIT)

    world.at_each_look = halt
    world.end_call()  # its thread passes the turn on, and has the lock
    assert looked.wait(WAIT)
    assert world.calls.forked() == []
    assert world.is_free()
    goes_on.set()


def test_a_frontend_that_is_away_is_asked_again_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Clock()
    tries: list[float] = []

    class Away(transport.ForkSafeBlockingChannel):
        def call(self, _path: str, _request: Any, _reply: Any, timeout: float) -> Any:
            tries.append(timeout)
            raise Unavailable("away")

    monkeypatch.setattr(transport, "ForkSafeBlockingChannel", Away)
    direct = ThreadScheduling("nowhere:1", 10.0, runtime, runtime.sleep)
    with pytest.raises(Unavailable, match="away"):
        direct.schedule(request("a"))
    assert len(tries) > 5
    assert 8 < runtime.now < 10
    assert runtime.slept[:4] == sorted(runtime.slept[:4])
    assert tries[0] == 5 > tries[-1]


def test_a_closed_client_says_so() -> None:
    direct = ThreadScheduling("nowhere:1", 10.0, Clock())
    direct.close()
    with pytest.raises(AtfError, match="the client is closed"):
        direct.schedule(request("a"))


def test_a_fork_cuts_off_a_call_that_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork, "GRACE", 0)
    at_fork: dict[str, Callable[[], None]] = {}
    with monkeypatch.context() as made:
        made.setattr(os, "register_at_fork", at_fork.update)
        guard = fork.ForkGuard()
    calls, cut, ended = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        with guard.blocking(lambda: None, cut.set):
            calls.set()
            assert cut.wait(WAIT)
            ended.set()

    caller = threading.Thread(target=call)
    caller.start()
    assert calls.wait(WAIT)
    at_fork["before"]()
    try:
        assert cut.is_set()
        assert ended.is_set()
    finally:
        at_fork["after_in_parent"]()
    caller.join(WAIT)
