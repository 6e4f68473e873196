"""Which calls are repeated, when and until when; and what is said meanwhile: one line, and a traceback for nothing but a bug."""

from __future__ import annotations

import random
from typing import Any

import pytest

from atf.calls.retry import Pauses, RetryPolicy, Trouble, retry, retry_blocking
from atf.errors import DeadlineExceeded, InvalidArgument, Unavailable

POLICY = RetryPolicy(first=1.0, most=4.0)
PLAIN = RetryPolicy(first=1.0, most=4.0, jitter=0.0)


class Surroundings:
    """A clock that only sleeping moves, and calls that fail as they are told."""

    def __init__(self, *errors: Exception) -> None:
        self.random = random.Random(1)
        self.now = 0.0
        self.tries: list[float] = []
        self._errors = list(errors)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)

    def call(self) -> str:
        self.tries.append(self.now)
        if self._errors:
            raise self._errors.pop(0)
        return "answer"

    async def call_async(self) -> str:
        return self.call()

    async def retry(self, policy: RetryPolicy = PLAIN, **more: Any) -> str:
        return await retry(self.call_async, policy, self, sleep=self.sleep_async, **more)


async def test_a_call_is_repeated_after_longer_and_longer_waits() -> None:
    world = Surroundings(*[Unavailable("away")] * 3, *[DeadlineExceeded("late")] * 2)
    assert await world.retry() == "answer"
    assert world.tries == [0, 1, 3, 7, 11, 15]


async def test_chance_shortens_waits_by_half_at_most() -> None:
    pauses = Pauses(POLICY, Surroundings())
    waits = [pauses.next() for _ in range(100)]
    assert 0.5 <= waits[0] <= 1 <= waits[1] <= 2
    assert all(2 <= each <= 4 for each in waits[2:])
    assert len(set(waits)) == 100
    pauses.reset()
    assert pauses.next() <= 1


async def test_what_no_repetition_mends_is_raised_at_once() -> None:
    world = Surroundings(InvalidArgument("bad"))
    with pytest.raises(InvalidArgument, match="bad"):
        await world.retry()
    world = Surroundings(InvalidArgument("bad"))
    with pytest.raises(InvalidArgument, match="bad"):
        await world.retry(RetryPolicy(1, 4, errors=(Exception,), never=(InvalidArgument,)))
    assert world.tries == [0]


async def test_no_wait_begins_that_would_end_too_late() -> None:
    world = Surroundings(*[Unavailable("away")] * 9)
    with pytest.raises(Unavailable):
        await world.retry(until=7.0)
    assert (world.tries, world.now) == ([0, 1, 3], 3)


async def test_where_it_is_asked_for_the_last_try_is_at_the_end() -> None:
    world = Surroundings(*[Unavailable("away")] * 9)
    with pytest.raises(Unavailable):
        await world.retry(until=5.0, to_the_end=True)
    assert world.tries == [0, 1, 3, 5]


async def test_the_caller_may_end_it() -> None:
    def failed(error: Exception) -> None:
        if len(world.tries) == 2:
            raise error

    world = Surroundings(*[Unavailable("away")] * 9)
    with pytest.raises(Unavailable):
        await world.retry(failed=failed)
    assert world.tries == [0, 1]


@pytest.mark.parametrize("gives_up", [False, True])
async def test_trouble_is_told_of_the_first_failure_and_of_the_end(gives_up: bool) -> None:
    log: Any = Log()
    trouble = Trouble(log, "hsc")
    world = Surroundings(*[Unavailable("away")] * (9 if gives_up else 2))
    try:
        await world.retry(until=5.0, trouble=(trouble, "call"))
    except Unavailable:
        assert gives_up
    assert [event for _, event, _ in log.said] == ["hsc unavailable", "hsc available again"]
    assert not trouble


def test_a_thread_waits_likewise() -> None:
    world = Surroundings(*[Unavailable("away")] * 2)
    assert retry_blocking(world.call, PLAIN, world, sleep=world.sleep) == "answer"
    assert world.tries == [0, 1, 3]
    world = Surroundings(*[Unavailable("away")] * 9)
    with pytest.raises(Unavailable):
        retry_blocking(world.call, PLAIN, world, sleep=world.sleep, until=7.0)
    assert world.tries == [0, 1, 3]


class Log:
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []

    def __getattr__(self, level: str) -> Any:
        return lambda event, **more: self.said.append((level, event, str(more.get("error", ""))))


def test_calls_that_run_out_of_time_are_one_line_and_no_bug() -> None:
    log: Any = Log()
    trouble = Trouble(log, "controller")
    for kind in ("threads", "loop"):  # of a process that stood still, all of them at once
        trouble.failed(kind, TimeoutError())
    assert log.said == [("warning", "controller unavailable", "no answer in time")]
    trouble.failed("threads", Unavailable("away"))
    trouble.ended("threads")
    trouble.ended("loop")
    assert [event for _, event, _ in log.said] == ["controller unavailable", "controller available again"]


def test_what_nobody_thought_of_has_its_traceback() -> None:
    log: Any = Log()
    Trouble(log, "store").failed(0, KeyError("t"))
    assert [(level, event) for level, event, _ in log.said] == [("exception", "duty failed")]
