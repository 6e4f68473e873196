"""A shared reading: one for many, never one that had begun before it was asked for, and none that failed."""

from __future__ import annotations

import asyncio

import pytest

from atf.calls.single_flight import SingleFlight


async def test_those_who_come_while_it_reads_share_the_next_reading() -> None:
    let_go = asyncio.Event()
    readings = 0

    async def read() -> int:
        nonlocal readings
        readings += 1
        number = readings
        await let_go.wait()
        return number

    shared = SingleFlight(read)
    first = asyncio.ensure_future(shared())
    await asyncio.sleep(0)
    others = [asyncio.ensure_future(shared()) for _ in range(5)]
    await asyncio.sleep(0)
    let_go.set()
    assert await first == 1
    assert [await each for each in others] == [2] * 5
    assert await shared() == 3, "nobody waited: it reads again"


async def test_what_failed_is_read_again() -> None:
    answers: list[OSError | int] = [OSError("away"), 7]

    async def read() -> int:
        answer = answers.pop(0)
        await asyncio.sleep(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    shared = SingleFlight(read)
    first, second = asyncio.ensure_future(shared()), asyncio.ensure_future(shared())
    with pytest.raises(OSError, match="away"):
        await first
    assert await second == 7


async def test_whoever_gives_up_takes_nobody_along() -> None:
    let_go = asyncio.Event()

    async def read() -> int:
        await let_go.wait()
        return 1

    shared = SingleFlight(read)
    first, second = asyncio.ensure_future(shared()), asyncio.ensure_future(shared())
    await asyncio.sleep(0)
    first.cancel()
    let_go.set()
    assert await second == 1
