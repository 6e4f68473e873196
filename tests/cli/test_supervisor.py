"""Restarts: which ends are answered by one, how long it waits, and what it says."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest

from atf.cli.local.role_process import EndedEarly, how_it_ended
from atf.cli.local.supervisor import STEADY_AFTER, Supervisor
from atf.errors import Unavailable


class FakeMember:
    """A member whose process the test ends; its next starts fail as often as `failures` says."""

    name = "hsc"

    def __init__(self) -> None:
        self.pid = 0
        self.starts = 0
        self.failures = 0
        self.refusal: EndedEarly | None = None
        self.stopped: list[float] = []
        self.started = asyncio.Event()
        self._end: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        self.starts += 1
        if self.refusal is not None:
            raise self.refusal
        if self.failures:
            self.failures -= 1
            raise Unavailable("hsc ended with exit code 2 before it was ready")
        self.pid = 100 + self.starts
        self._end = asyncio.get_running_loop().create_future()
        self.started.set()

    async def wait(self) -> int:
        return await self._end

    def end(self, code: int) -> None:
        """Its process ends."""
        self._end.set_result(code)

    async def die(self, code: int) -> None:
        self.started.clear()
        self._end.set_result(code)
        await self.started.wait()

    async def stop(self, grace: float) -> None:
        self.stopped.append(grace)

    def kill(self) -> None:
        self._end.set_result(-9)


class Watched:
    """A supervisor on a clock that the test moves; what it says, and the waits before its restarts."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.said: list[tuple[str, str]] = []
        self.member = FakeMember()
        self.supervisor = Supervisor(
            lambda name, line: self.said.append((name, line)), clock=lambda: self.now, sleep=self._sleep
        )

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    watched = Watched()
    yield watched
    await watched.supervisor.stop("hsc", 3)


async def test_a_member_that_dies_is_started_again_and_that_is_said(watched: Watched) -> None:
    await watched.supervisor.start(watched.member)

    await watched.member.die(-signal.SIGKILL)

    assert watched.supervisor.pid("hsc") == 102
    assert watched.supervisor.restarts == {"hsc": 1}
    assert watched.said == [
        ("hsc", "was killed by SIGKILL; starting it again in 0.1 s"),
        ("hsc", "runs again, pid 102"),
    ]


async def test_each_end_soon_after_a_start_doubles_the_wait(watched: Watched) -> None:
    await watched.supervisor.start(watched.member)

    for _ in range(9):
        await watched.member.die(1)

    assert watched.waits[:4] == [0.1, 0.2, 0.4, 0.8]
    assert watched.waits[-1] == 10.0


async def test_a_member_that_lived_long_is_started_again_at_once(watched: Watched) -> None:
    await watched.supervisor.start(watched.member)
    await watched.member.die(1)
    await watched.member.die(1)

    watched.now += STEADY_AFTER + 1
    await watched.member.die(1)

    assert watched.waits == [0.1, 0.2, 0.1]


async def test_a_member_that_ends_with_a_final_code_is_not_started_again(watched: Watched) -> None:
    await watched.supervisor.start(watched.member, final={4})
    await watched.member.die(1)
    assert not watched.supervisor.gave_up.is_set()

    watched.member.end(4)
    await asyncio.wait_for(watched.supervisor.gave_up.wait(), 5)

    assert watched.supervisor.final_end == ("hsc", 4)
    assert watched.member.starts == 2
    assert "it is not started again" in watched.said[-1][1]


async def test_a_restart_that_ends_with_a_final_code_is_the_last(watched: Watched) -> None:
    await watched.supervisor.start(watched.member, final={4})
    watched.member.refusal = EndedEarly("hsc", 4, "no executor can start")

    watched.member.end(-9)
    await asyncio.wait_for(watched.supervisor.gave_up.wait(), 5)

    assert watched.supervisor.final_end == ("hsc", 4)
    assert watched.member.starts == 2


async def test_a_restart_that_fails_is_tried_again(watched: Watched) -> None:
    await watched.supervisor.start(watched.member)

    watched.member.failures = 2
    await watched.member.die(1)

    assert watched.member.starts == 4
    assert watched.waits == [0.1, 0.2, 0.4]
    assert sum("before it was ready; starting it again" in line for _, line in watched.said) == 2


async def test_a_first_start_that_fails_is_not_tried_again(watched: Watched) -> None:
    watched.member.failures = 1

    with pytest.raises(Unavailable):
        await watched.supervisor.start(watched.member)

    assert watched.member.starts == 1


async def test_a_member_that_is_stopped_is_not_started_again(watched: Watched) -> None:
    await watched.supervisor.start(watched.member)

    await watched.supervisor.stop("hsc", 3)
    watched.member.kill()
    await asyncio.sleep(0)

    assert watched.member.stopped == [3]
    assert watched.member.starts == 1


async def test_all_are_killed_at_once_and_none_comes_back(watched: Watched) -> None:
    await watched.supervisor.start(watched.member)

    watched.supervisor.kill_all()
    for _ in range(5):
        await asyncio.sleep(0)

    assert watched.member.starts == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (2, "ended with exit code 2"),
        (-9, "was killed by SIGKILL"),
        (-99, "was killed by signal 99"),
    ],
)
def test_an_end_in_words(code: int, words: str) -> None:
    assert how_it_ended(code) == words
