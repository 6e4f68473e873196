"""Which nonces an executor gives up: those of calls for work that brought no answer, and no others."""

from __future__ import annotations

import asyncio

from atf.errors import DeadlineExceeded, Unavailable
from tests.virtual import virtual

from .world import World, claim, inline

GONE = Unavailable("connection reset")


@virtual(inline)
async def test_each_call_has_a_nonce_of_its_own_that_nobody_guesses(w: World) -> None:
    for number in range(3):
        w.controller.give(claim(f"0-{number}"))
        await w.settle()
    nonces = [each.nonce for each in (*w.controller.requests, *w.controller.async_requests)]
    assert len(set(nonces)) == len(nonces) >= 4
    assert {len(each) for each in nonces} == {16}
    assert w.hsc.given_up == [], "they were answered, or are open"


@virtual(inline)
async def test_a_call_that_broke_has_its_nonce_given_up_and_the_next_one_does_not_wait_for_that(w: World) -> None:
    w.hsc.failing["hand_back"] = Unavailable("the HSC is away")
    w.controller.put(GONE)
    await asyncio.sleep(0.2)
    first, second = w.controller.requests[-2:]
    assert first.nonce != second.nonce
    assert w.hsc.given_up == []
    del w.hsc.failing["hand_back"]
    await asyncio.sleep(1.1)
    assert w.hsc.given_up == [first.nonce]


@virtual(inline)
async def test_what_can_not_be_told_before_the_leases_have_ended_is_told_no_more(w: World) -> None:
    w.hsc.failing["hand_back"] = DeadlineExceeded("no answer")
    w.controller.put(GONE)
    await asyncio.sleep(w.timing.heartbeat_timeout + 1)
    del w.hsc.failing["hand_back"]
    w.controller.put(GONE)
    await asyncio.sleep(0.1)
    assert w.hsc.given_up == [w.controller.requests[-2].nonce]


@virtual(inline)
async def test_a_drain_gives_up_the_calls_that_are_open_before_the_executor_ends(w: World) -> None:
    open_calls = {w.controller.requests[-1].nonce, w.controller.async_requests[-1].nonce}
    w.executor.drain()
    await w.run
    assert set(w.hsc.given_up) == open_calls
