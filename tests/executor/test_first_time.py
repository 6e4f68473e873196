"""ctx.first_time from every kind of handler: what is asked, and what comes of an HSC that is away."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import atf
from atf.config.settings import Timing
from atf.errors import DeadlineExceeded, InvalidArgument, Unavailable
from atf.executor.first_time import PATIENCE_S, ExecutorLoop, FirstTimes
from atf.executor.held import HeldTask, Ledger
from atf.executor.outcome import Outcome, Returned, RunFailed
from atf.executor.perform import Performer, StartCheck
from atf.executor.table import Table
from atf.executor.workers import ThreadAndLoopWorkers
from atf.rpc import hsc_pb2 as h
from atf.runtime import SystemRuntime
from atf.sdk.context import local_context
from atf.testing.loop import VirtualLoop
from atf.testing.runtime import VirtualRuntime
from tests.executor.world import FakeHsc, claim

app = atf.App("l")


@app.task
def plain(ctx: atf.Context, key: str = "k") -> bool:
    return ctx.first_time(key)


@app.task
async def awaited(ctx: atf.Context, key: str = "k") -> bool:
    return await ctx.first_time_async(key)


@app.task
async def blocking(ctx: atf.Context) -> bool:
    return ctx.first_time("k")


async def outcomes(hsc: FakeHsc, *names: str) -> list[Outcome | None]:
    """Runs one task of each lambda, one after the other, on real threads."""
    runtime, workers, ended = SystemRuntime(), ThreadAndLoopWorkers(1, 1), asyncio.Queue[list[HeldTask]]()
    ledger = Ledger(Table.in_memory(64))
    first_times = FirstTimes(executor_id="e", hsc=hsc, bridge=workers.bridge, runtime=runtime)
    workers.open(
        Performer(app.lambdas, runtime, first_times.of), StartCheck(ledger, Timing(), runtime), ended.put_nowait
    )
    found = []
    try:
        for number, name in enumerate(names):
            task = HeldTask(claim(f"0-{number}", f"l/{name}", b"{}"), runtime.boottime_us(), 0)
            ledger.take([task])
            workers.put([task])
            async with asyncio.timeout(30):
                await ended.get()
            found.append(task.outcome)
    finally:
        workers.close()
    return found


async def test_both_kinds_of_handlers_ask_and_the_first_task_has_the_key() -> None:
    hsc = FakeHsc()
    first, second = Returned(b"true", 0), Returned(b"false", 0)
    assert await outcomes(hsc, "plain", "awaited", "plain") == [first, second, second]
    assert hsc.firsts == {("l", "k"): "0-0"}


async def test_an_async_handler_that_would_block_its_loop_is_told_of_the_other_call() -> None:
    (outcome,) = await outcomes(FakeHsc(), "blocking")
    assert isinstance(outcome, RunFailed)
    assert "_async" in outcome.error


def played(story: Any) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(story(VirtualRuntime(loop)))
    finally:
        loop.close()


class Away(FakeHsc):
    """Fails so often, and then answers."""

    def __init__(self, fails: int, error: atf.AtfError) -> None:
        super().__init__()
        self.fails, self.error = fails, error
        self.asked = 0

    async def first_time(self, request: h.FirstTimeRequest, *, timeout: float = 10) -> h.FirstTimeReply:
        self.asked += 1
        if self.asked <= self.fails:
            raise self.error
        return await super().first_time(request)


@pytest.mark.parametrize("error", [Unavailable("gone"), DeadlineExceeded("no answer")])
def test_a_call_that_fails_is_repeated_for_a_while(error: atf.AtfError) -> None:
    async def story(runtime: VirtualRuntime) -> None:
        hsc = Away(3, error)
        calls = FirstTimes(executor_id="e", hsc=hsc, bridge=ExecutorLoop(), runtime=runtime)
        assert await calls.ask("0-a", "l", "k", 1)
        hsc = Away(1_000, error)
        calls = FirstTimes(executor_id="e", hsc=hsc, bridge=ExecutorLoop(), runtime=runtime)
        began = runtime.monotonic()
        with pytest.raises(Unavailable, match="first_time of l/k"):
            await calls.ask("0-a", "l", "k", 1)
        assert PATIENCE_S / 2 < runtime.monotonic() - began <= PATIENCE_S
        assert 5 < hsc.asked < 20

    played(story)


def test_a_refusal_is_not_repeated() -> None:
    async def story(runtime: VirtualRuntime) -> None:
        hsc = Away(1, atf.ResourceExhausted("full"))
        calls = FirstTimes(executor_id="e", hsc=hsc, bridge=ExecutorLoop(), runtime=runtime)
        with pytest.raises(atf.ResourceExhausted):
            await calls.ask("0-a", "l", "k", 1)

    played(story)


def test_a_plain_call_is_the_first_of_every_key() -> None:
    assert [plain("k"), plain("k")] == [True, True]
    assert asyncio.run(awaited("k"))


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "a\0", "\u202e", "\ud800", 3])
def test_a_key_that_breaks_its_rule_is_refused_before_anybody_is_asked(key: Any) -> None:
    with pytest.raises(InvalidArgument, match="key of first_time"):
        plain(key)
    with pytest.raises(InvalidArgument, match="key of first_time"):
        asyncio.run(awaited(key))


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), timedelta(days=367), timedelta(0)])
def test_a_ttl_that_is_none_is_refused(ttl: Any) -> None:
    with pytest.raises(InvalidArgument, match="ttl"):
        local_context("l/plain").first_time("k", ttl=ttl)
