"""What the HSC could not record now is sent again, and nothing else waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from atf.config.settings import Timing
from atf.errors import InvalidArgument, Unavailable
from atf.executor.report import ClaimSender
from atf.rpc import hsc_pb2 as h
from atf.runtime import end
from atf.testing.runtime import VirtualRuntime
from tests.virtual import virtual


class Sending:
    """A sender of results, and an HSC that answers what it is told."""

    duty: asyncio.Task[None]

    def __init__(self, runtime: VirtualRuntime) -> None:
        self.sent: list[list[str]] = []
        self.released: list[str] = []
        self.away: set[str] = set()
        self.refused: list[str] = []
        """Whose items are invalid."""
        self.mute = False
        """Whether no call gets through."""
        self.tasks: dict[str, Any] = {}
        self.moved = asyncio.Event()
        ledger: Any = SimpleNamespace(
            release=lambda tasks: self.released.extend(each.task_id for each in tasks), moved=self.moved
        )
        self.sender = ClaimSender(
            "set_results",
            call=self._call,
            refused=lambda _task, _error: None,
            ledger=ledger,
            timing=Timing(),
            runtime=runtime,
        )

    def add(self, *ids: str) -> None:
        tasks: list[Any] = [
            SimpleNamespace(task_id=each, lost=False, lease_us=1 << 60, outcome=None, log=None) for each in ids
        ]
        self.tasks |= {each.task_id: each for each in tasks}
        self.sender.add(tasks)

    async def _call(self, batch: list[Any]) -> Sequence[h.Verdict]:
        ids = [task.task_id for task in batch]
        if self.mute:
            raise Unavailable("gone")
        if set(ids) & set(self.refused):
            raise InvalidArgument("too bad")
        self.sent.append(ids)
        return [h.UNKNOWN if each in self.away else h.OK for each in ids]


@asynccontextmanager
async def sending(runtime: VirtualRuntime) -> AsyncIterator[Sending]:
    world = Sending(runtime)
    world.duty = runtime.spawn(world.sender.run(), name="sender")
    yield world
    await end([world.duty])


@virtual(sending)
async def test_what_could_not_be_recorded_is_kept_and_sent_again(world: Sending) -> None:
    world.away = {"1-b"}
    world.add("0-a", "1-b")
    await asyncio.sleep(0.5)
    assert (world.sent, world.released) == ([["0-a", "1-b"]], ["0-a"])
    world.add("0-c")
    await asyncio.sleep(0)
    await asyncio.sleep(0.1)
    assert world.released == ["0-a", "0-c"], "it waited for the partition that is away"
    await asyncio.sleep(2)
    world.away = set()
    await asyncio.sleep(2)
    assert world.released == ["0-a", "0-c", "1-b"]


@virtual(sending)
async def test_it_knows_for_how_long_nothing_was_answered(world: Sending) -> None:
    now = asyncio.get_running_loop().time
    assert world.sender.unanswered(now()) == 0
    world.mute = True
    world.add("0-a")
    await asyncio.sleep(0.5)
    world.add("0-b")
    await asyncio.sleep(3)
    assert 3.4 < world.sender.unanswered(now()) <= 3.5, "each repeated call counts on"
    world.mute = False
    await asyncio.sleep(1.1)
    assert world.released == ["0-a", "0-b"]
    assert world.sender.unanswered(now()) == 0


@virtual(sending)
async def test_a_refusal_is_an_answer(world: Sending) -> None:
    world.refused.append("0-a")
    world.add("0-a")
    await asyncio.sleep(0.5)
    assert world.sender.unanswered(asyncio.get_running_loop().time()) == 0
    assert world.moved.is_set(), "there may be room now, or nothing be left"


@virtual(sending)
async def test_what_is_given_up_is_not_asked_for_any_more(world: Sending) -> None:
    world.mute = True
    world.add("0-a")
    await asyncio.sleep(0.5)
    world.tasks["0-a"].lost = True
    await asyncio.sleep(2)
    assert world.released == ["0-a"]
    assert world.sender.unanswered(asyncio.get_running_loop().time()) == 0


@virtual(sending)
async def test_nothing_is_sent_any_more_once_it_has_ended(world: Sending) -> None:
    """What a crash cancels must not be reported as failed: the process is gone."""
    await asyncio.sleep(0)
    await end([world.duty])
    world.add("0-a")
    await asyncio.sleep(1)
    assert world.sent == []
