"""A connection to one of several servers of a role: it keeps to one until that one is away."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

import atf
from atf import errors
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.rpc.channel import AioChannel, open_blocking_channel, open_channel
from atf.rpc.connection import Connection, addresses_of
from atf.rpc.several import OneOfSeveral

from .test_calls import running
from .test_dead_connections import PATH, SHORT, swallowing


async def ask(channel: Any, timeout: float = 10, name: str = "a") -> str:
    reply = await channel.call(PATH, f.GetTaskRequest(id=name), t.Task, timeout)
    return str(reply.id)


@contextlib.asynccontextmanager
async def named(*names: str) -> AsyncIterator[list[Any]]:
    """Servers that answer their names."""
    async with contextlib.AsyncExitStack() as stack:
        servers = []
        for name in names:

            async def answer(_request: object, name: str = name) -> t.Task:
                return t.Task(id=name)

            servers.append(await stack.enter_async_context(running(answer)))
        yield servers


class InOrder(random.Random):
    """No chance."""

    def shuffle(self, x: Any) -> None:
        """As they are."""


def several(addresses: Sequence[str]) -> OneOfSeveral:
    """A connection that begins with the first of them."""
    return OneOfSeveral([AioChannel(each) for each in addresses], InOrder())


async def test_it_keeps_to_one_server_and_goes_to_the_next_where_that_one_is_gone() -> None:
    async with named("a", "b") as (one, two):
        channel = several([one.address, two.address])
        assert [await ask(channel) for _ in range(3)] == ["a", "a", "a"]
        await one.stop(0)
        with pytest.raises(errors.Unavailable):
            await ask(channel)
        assert channel.address == two.address
        assert [await ask(channel) for _ in range(3)] == ["b", "b", "b"]
        await channel.close()


async def test_a_name_that_stands_for_several_servers_is_asked_at_each_in_turn() -> None:
    """A channel that kept to one would pin a pod. What lists addresses stands for a name here, which tests can't make."""
    async with named("a", "b") as (one, two):
        channel = AioChannel(f"ipv4:{one.address},{two.address}")
        answers = [await ask(channel) for _ in range(40)]
        assert min(answers.count("a"), answers.count("b")) > 10
        await one.stop(0)
        assert {await ask(channel) for _ in range(10)} == {"b"}
        await channel.close()


@pytest.mark.parametrize(
    ("address", "several"),
    [
        *((each, True) for each in ("frontend:7401", "atf.example.com:443", "dns:///frontend:7401")),
        *((each, False) for each in ("127.0.0.1:7401", "[::1]:7401", "10.0.0.1:1", "localhost:7401", "unix:/run/atf")),
    ],
)
def test_which_addresses_may_stand_for_several_servers(address: str, several: bool) -> None:
    made: list[dict[str, Any]] = []

    class Known(Connection):
        def make(self) -> None:
            self._made(0)

    Known(address, lambda options, _credentials: made.append(dict(options))).make()
    assert ("round_robin" in made[0].get("grpc.service_config", "")) == several


async def test_calls_that_break_together_move_it_once() -> None:
    async with named("a", "b", "c") as (one, two, three):
        channel = several([one.address, two.address, three.address])
        await one.stop(0)
        broken = await asyncio.gather(*[ask(channel) for _ in range(5)], return_exceptions=True)
        assert all(isinstance(each, errors.Unavailable) for each in broken)
        assert await ask(channel) == "b"
        await channel.close()


async def test_a_server_that_ends_is_left_and_one_that_refuses_is_not() -> None:
    said: list[errors.AtfError] = [errors.InvalidArgument("no such field"), errors.Unavailable("this HSC ends")]

    async def refuse(_request: object) -> t.Task:
        raise said[0]

    async with running(refuse) as one, named("b") as (two,):
        channel = several([one.address, two.address])
        for _ in range(2):
            with pytest.raises(errors.InvalidArgument):
                await ask(channel)
        del said[0]
        with pytest.raises(errors.Unavailable, match="this HSC ends"):
            await ask(channel)
        assert await ask(channel) == "b"
        await channel.close()


async def test_a_server_that_does_not_answer_in_time_is_left() -> None:
    async with named("a", "b") as (one, two), swallowing(one.address) as proxy:
        channel = several([proxy.address, two.address])
        assert await ask(channel) == "a"
        proxy.swallow(new=True)
        with pytest.raises(errors.DeadlineExceeded):
            await ask(channel, SHORT)
        assert await ask(channel) == "b"
        await channel.close()


@pytest.mark.processes
@pytest.mark.parametrize("frozen", ["during the call", "before it"])
async def test_a_call_to_a_frozen_server_ends_within_two_seconds(frozen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "SystemRandom", InOrder)
    never = asyncio.Event()

    async def wait(request: Any) -> t.Task:
        if request.id != "now":
            await never.wait()
        return t.Task(id="a")

    async with running(wait) as one, named("b") as (two,), swallowing(one.address) as proxy:
        channel = open_channel(f"{proxy.address},{two.address}")
        assert await ask(channel, name="now") == "a"
        if frozen == "before it":
            proxy.swallow(new=True)
        asking = asyncio.ensure_future(ask(channel, 60))
        await asyncio.sleep(0.1)
        proxy.swallow(new=True)
        began = time.monotonic()
        with pytest.raises(errors.Unavailable):
            await asking
        assert time.monotonic() - began < 2.1
        assert await ask(channel) == "b"
        await channel.close()


@pytest.mark.parametrize("blocks", [False, True])
async def test_a_client_goes_on_to_the_next_frontend_where_one_is_away(
    blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "SystemRandom", InOrder)
    asked: list[str] = []

    def frontend(name: str) -> Any:
        async def schedule(request: Any) -> object:
            asked.append(name)
            if isinstance(request, f.ScheduleRequest):
                return f.ScheduleReply(id=request.id)
            return f.ScheduleManyReply(results=[{"reply": {"id": each.id}} for each in request.requests])

        return schedule

    async with running(frontend("a")) as one, running(frontend("b")) as two:
        address = f"{one.address},{two.address}"
        with atf.Client(address) as client:
            async with atf.AsyncClient(address) as awaited:

                async def call() -> None:
                    if blocks:
                        await asyncio.to_thread(client.schedule, "shop/mail", b"{}")
                    else:
                        await awaited.schedule("shop/mail", b"{}")

                await call()
                await call()
                await one.stop(0)
                await call()
                await call()
    assert asked == ["a", "a", "b", "b"]


async def test_callers_spread_over_the_servers() -> None:
    first = {
        OneOfSeveral([AioChannel(f"host-{each}:1") for each in "abc"], random.Random(seed)).address
        for seed in range(20)
    }
    assert first == {"host-a:1", "host-b:1", "host-c:1"}


async def test_addresses_stand_with_commas_between_and_each_must_be_one() -> None:
    assert addresses_of(" a:1, b:2,a:1 ") == ["a:1", "b:2"]
    assert isinstance(open_channel("a:1"), AioChannel)
    assert isinstance(open_channel("a:1,b:2"), OneOfSeveral)
    assert isinstance(open_blocking_channel("a:1,b:2"), OneOfSeveral)
    with pytest.raises(errors.InvalidArgument, match="'b' is no address of a server"):
        open_channel("a:1,b")
