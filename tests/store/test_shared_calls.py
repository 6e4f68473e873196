"""Concurrent callers share calls of the store: who waits for whom, and who is told what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from atf.errors import Unavailable
from atf.runtime import Runtime, SystemRuntime
from atf.store.calls import CALL_BYTES, LIMITS, SHARED, SharedCalls
from atf.testing.runtime import VirtualRuntime
from tests.virtual import virtual


class Calls:
    """Calls that take until they are let go, and answer each item with itself, doubled."""

    def __init__(self, runtime: Runtime | None = None) -> None:
        self.made: list[tuple[int, list[str]]] = []
        self.open = asyncio.Event()
        self.fails: list[str] = []
        self.calls = SharedCalls(
            self._call, size=len, kind=lambda each: each[0], runtime=runtime or SystemRuntime(), name="test"
        )

    def ask(self, *items: str, partition: int = 0) -> asyncio.Task[Sequence[str]]:
        return asyncio.create_task(self.calls.ask(partition, list(items)))

    async def _call(self, partition: int, items: list[str]) -> list[str]:
        self.made.append((partition, items))
        await self.open.wait()
        if set(items) & set(self.fails):
            raise Unavailable("the server is away")
        return [each * 2 for each in items]


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_comes_while_a_call_is_under_way_leaves_together() -> None:
    calls = Calls()
    first = calls.ask("a1")
    await settle()
    assert calls.made == [(0, ["a1"])], "at once: nothing was under way"
    others = [calls.ask("a2", "a3"), calls.ask("a4")]
    await settle()
    assert len(calls.made) == 1
    calls.open.set()
    assert [await each for each in (first, *others)] == [["a1a1"], ["a2a2", "a3a3"], ["a4a4"]]
    assert calls.made[1:] == [(0, ["a2", "a3", "a4"])]


async def test_partitions_and_kinds_do_not_wait_for_each_other() -> None:
    calls = Calls()
    asked = [calls.ask("a1"), calls.ask("a2", partition=1), calls.ask("b1")]
    await settle()
    assert calls.made == [(0, ["a1"]), (1, ["a2"]), (0, ["b1"])]
    calls.open.set()
    await asyncio.gather(*asked)


async def test_many_items_are_worth_a_call_of_their_own() -> None:
    calls = Calls()
    first = calls.ask("a")
    await settle()
    many = calls.ask(*["a"] * SHARED)
    few = calls.ask(*["a"] * (SHARED - 1))
    await settle()
    assert [len(items) for _, items in calls.made] == [1, SHARED]
    calls.open.set()
    assert [len(await each) for each in (first, many, few)] == [1, SHARED, SHARED - 1]


async def test_answers_of_several_calls_come_in_the_order_of_their_items() -> None:
    calls = Calls()
    calls.open.set()
    items = ["a1" + "x" * (CALL_BYTES // 2), "a2" + "x" * (CALL_BYTES // 2), "a3"]
    assert [each[:2] for each in await calls.ask(*items)] == ["a1", "a2", "a3"]
    assert [len(items) for _, items in calls.made] == [1, 2], "none waits for more than the store takes in one call"


async def test_a_failure_goes_to_every_caller_of_the_call_and_to_no_other() -> None:
    calls = Calls()
    first = calls.ask("a1")
    await settle()
    calls.fails = ["a2"]
    failing = [calls.ask("a2"), calls.ask("a3")]
    calls.open.set()
    assert await first
    errors = await asyncio.gather(*failing, return_exceptions=True)
    assert [str(each) for each in errors] == ["the server is away"] * 2
    assert errors[0] is not errors[1], "one raised in two tasks would gather the tracebacks of both"
    assert await calls.ask("a4") == ["a4a4"]


async def test_what_a_caller_asked_that_has_given_up_is_not_sent() -> None:
    calls = Calls()
    first = calls.ask("a1")
    await settle()
    gone, stays = calls.ask("a2"), calls.ask("a3")
    await settle()
    gone.cancel()
    await settle()
    calls.open.set()
    assert await stays == ["a3a3"]
    assert calls.made[1:] == [(0, ["a3"])]
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert await first


@asynccontextmanager
async def clocked(runtime: VirtualRuntime) -> AsyncIterator[Calls]:
    yield Calls(runtime)


@virtual(clocked)
async def test_nobody_waits_for_a_call_that_is_late(calls: Calls) -> None:
    """Its connection may be dead: whoever asked in it learns so in time, and nobody else has to."""
    asked = [calls.ask("a1")]
    await settle()
    asked += [calls.ask("a2"), calls.ask("a3")]
    await asyncio.sleep(LIMITS.late_s * 0.9)
    assert [items for _, items in calls.made] == [["a1"]]
    await asyncio.sleep(LIMITS.late_s * 0.2)
    asked.append(calls.ask("a4"))
    await settle()
    assert [items for _, items in calls.made] == [["a1"], ["a2", "a3"]], "one for all, and the next one waits for that"
    await asyncio.sleep(LIMITS.late_s)
    assert [items for _, items in calls.made] == [["a1"], ["a2", "a3"], ["a4"]]
    calls.open.set()
    assert [await each for each in asked] == [["a1a1"], ["a2a2"], ["a3a3"], ["a4a4"]]
    assert await calls.ask("a5") == ["a5a5"]


async def test_an_answer_that_has_not_one_value_for_each_item_fails_its_callers() -> None:
    async def call(_partition: int, items: list[str]) -> list[str]:
        return items[1:]

    calls = SharedCalls(call, size=len, runtime=SystemRuntime(), name="test")
    with pytest.raises(ValueError, match="shorter"):
        await calls.ask(0, ["a"])
