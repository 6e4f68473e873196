"""Calls that many share: when they go out, what they hold, and who learns what. What the store and threads add has tests of its own."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from atf.calls.coalescing import CallLimits, Coalescer, KeyedCoalescer, Pending
from atf.errors import DeadlineExceeded, TooManyPending, Unavailable
from atf.testing.runtime import VirtualRuntime
from tests.virtual import virtual

LIMITS = CallLimits(size=10, items=4, calls=2)


class World:
    """Calls that take until they are let go, and answer each item with itself in capitals."""

    def __init__(self, runtime: VirtualRuntime) -> None:
        self.runtime = runtime
        self.made: list[str] = []
        self.until: list[float] = []
        self.open = asyncio.Event()
        self.error: BaseException | None = None
        self.coalescer: Coalescer[str, Any] = Coalescer(
            self.call, size=len, limits=LIMITS, runtime=runtime, name="Test"
        )

    async def call(self, items: list[str], until: float) -> list[str]:
        self.made.append(" ".join(items))
        self.until.append(until)
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return [each.upper() for each in items]

    def ask(self, *items: str, until: float = math.inf) -> asyncio.Task[list[str]]:
        return asyncio.create_task(self.coalescer.ask(items, until))


@asynccontextmanager
async def world(runtime: VirtualRuntime) -> AsyncIterator[World]:
    made = World(runtime)
    yield made
    await made.coalescer.close()


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@virtual(world)
async def test_a_second_call_leaves_beside_the_first_only_when_a_whole_one_waits(w: World) -> None:
    asked = [w.ask("a")]
    await turns()
    asked += [w.ask("b"), w.ask("c"), w.ask("d")]
    await turns()
    assert w.made == ["a"]
    asked.append(w.ask("e"))
    await turns()
    assert w.made == ["a", "b c d e"]
    asked += [w.ask("f", "g"), w.ask("h", "i", "j")]
    await turns()
    assert w.made == ["a", "b c d e"], "two are as many as may be under way"
    w.open.set()
    assert [await each for each in asked][-2:] == [["F", "G"], ["H", "I", "J"]]
    assert w.made == ["a", "b c d e", "f g h i", "j"]


@virtual(world)
async def test_a_call_holds_so_many_bytes_or_one_item(w: World) -> None:
    w.open.set()
    asked = [w.ask(each) for each in ("aaaaaa", "bbbb", "c", "d" * 20, "e")]
    assert [await each for each in asked] == [["AAAAAA"], ["BBBB"], ["C"], ["D" * 20], ["E"]]
    assert w.made == ["aaaaaa bbbb", "c", "d" * 20, "e"]


@virtual(world)
async def test_a_call_ends_by_the_time_of_those_in_it_and_whoever_has_less_hears_in_time(w: World) -> None:
    now = w.runtime.monotonic()
    hasty, patient = w.ask("a", until=now + 1), w.ask("b", until=now + 10)
    await turns()
    assert w.until == [now + 10]
    await asyncio.sleep(1.5)
    assert isinstance(hasty.exception(), DeadlineExceeded)
    w.open.set()
    assert await patient == ["B"]


@virtual(world)
async def test_the_answer_to_one_item_is_raised_where_it_is_an_error(w: World) -> None:
    async def call(items: list[str], _until: float) -> list[Any]:
        return [Unavailable("away") if each == "b" else each for each in items]

    coalescer: Coalescer[str, Any] = Coalescer(call, size=len, limits=LIMITS, runtime=w.runtime, name="Test")
    good, bad = coalescer.ask_one("a"), coalescer.ask_one("b")
    assert await good == "a"
    with pytest.raises(Unavailable, match="away"):
        await bad
    assert [str(each) for each in await coalescer.ask(["a", "b"])] == ["a", "away"]
    assert await coalescer.ask([]) == []


@virtual(world)
async def test_each_caller_gets_an_error_of_its_own_that_says_all_the_first_one_did(w: World) -> None:
    w.error = TooManyPending("later")
    w.error.retry_after_s = 0.25
    w.open.set()
    errors = await asyncio.gather(w.ask("a"), w.ask("b"), return_exceptions=True)
    assert errors[0] is not errors[1]
    assert [(str(each), getattr(each, "retry_after_s", None)) for each in errors] == [("later", 0.25)] * 2


@virtual(world)
async def test_items_that_nobody_waits_for_are_sent_in_order(w: World) -> None:
    w.coalescer.add(["a", "b"])
    await turns()
    w.coalescer.add(["c"])
    assert w.coalescer.oldest() == "a"
    w.open.set()
    await w.coalescer.idle()
    assert w.made == ["a b", "c"]
    assert w.coalescer.oldest() is None


@virtual(world)
async def test_closing_cancels_who_waits_and_sends_nothing_more(w: World) -> None:
    sent, waiting = w.ask("a"), None
    await turns()
    waiting = w.ask("b")
    await turns()
    await w.coalescer.close()
    await asyncio.wait([sent, waiting])
    assert sent.cancelled()
    assert waiting.cancelled()
    assert w.made == ["a"]


@pytest.mark.parametrize("give_up", [0, 1])
def test_a_caller_that_gives_up_stops_no_other(give_up: int) -> None:
    @virtual(world)
    async def run(w: World) -> None:
        asked = [w.ask("a"), w.ask("b")]
        await turns()
        asked[give_up].cancel()
        await turns()
        w.open.set()
        assert await asked[1 - give_up] == [["B"], ["A"]][give_up]
        assert await w.ask("c") == ["C"]

    checked: Callable[[], None] = run
    checked()


@virtual(world)
async def test_keys_share_no_calls_but_the_bound_on_them(w: World) -> None:
    made: list[tuple[str, str]] = []

    async def call(key: str, items: list[str], _until: float) -> list[str]:
        made.append((key, " ".join(items)))
        await w.open.wait()
        return items

    keyed: KeyedCoalescer[str, str, str] = KeyedCoalescer(
        call, size=len, limits=LIMITS, runtime=w.runtime, name="Test", calls=2
    )
    asked = [asyncio.create_task(keyed.of(key).ask([key])) for key in "xyz"]
    await turns()
    assert made == [("x", "x"), ("y", "y")]
    w.open.set()
    assert [await each for each in asked] == [["x"], ["y"], ["z"]]
    assert keyed.of("x") is keyed.all()[0]


def test_what_is_taken_out_counts_no_more() -> None:
    pending: Pending[str] = Pending(LIMITS)
    for each in ("aaaaa", "bbbbb", "c"):
        pending.add(each, len(each))
    before = pending.full
    pending.remove("bbbbb")
    pending.remove("of others")
    assert [before, pending.full] == [True, False]
    assert pending.first == "aaaaa"
    assert pending.take() == ["aaaaa", "c"]
    assert len(pending) == 0
    assert pending.first is None
