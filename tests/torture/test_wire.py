"""Malformed messages at every RPC, over a real connection: an answer that says what is wrong, and nothing stored."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc

import grpc
import grpc.aio
import pytest

from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.rpc.failure import MAX_MESSAGE_BYTES

from . import wire
from .world import (
    INVALID,
    LATE,
    METHODS,
    NOT_FOUND,
    OK,
    PATIENCE_S,
    PRECONDITION,
    TAKEN,
    TOO_LARGE,
    World,
    opened,
    schedule,
    world_for,
)

ANSWERS = {OK, INVALID, NOT_FOUND, TAKEN, PRECONDITION}
LONG_POLLS = {"Frontend.WaitTasks", "Controller.NextWork"}
"""A damaged number may ask them to wait."""


async def torture(world: World, method: str, spoiled: wire.Spoiled, *, may_wait: bool = True) -> grpc.StatusCode:
    before = world.known or world.stored()  # a look costs more than a call
    waits = may_wait and method in LONG_POLLS
    answer = await world.send(method, spoiled.data, timeout=0.02 if waits else PATIENCE_S)
    assert answer.code in ANSWERS or (waits and answer.code is LATE), (spoiled.kind, answer)
    if answer.code is not OK:
        assert world.stored() == before, spoiled.kind
        assert len(answer.sentence) > 20 or answer.code is LATE, (spoiled.kind, answer)
    world.known = before if answer.code is not OK else {}
    return answer.code


@pytest.mark.sweep(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_no_message_is_refused(method: str, untouched: World) -> None:
    for spoiled in wire.broken(METHODS[method].input_type):
        assert await torture(untouched, method, spoiled, may_wait=False) is INVALID, spoiled.kind


@pytest.mark.sweep(4)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_no_sensible_message_does_no_harm(method: str, untouched: World) -> None:
    chance, count = random.Random(f"{wire.SEED} {method}"), wire.MORE or 12
    async with world_for(method, untouched) as world:
        good = world.valid(method).SerializeToString()
        for some in (
            wire.odd(METHODS[method].input_type, good),
            wire.random_bytes(chance, count),
            wire.damaged(good, chance, count),
        ):
            for spoiled in some:
                await torture(world, method, spoiled)
        assert (await world.ask(method, world.valid(method))).code in {OK, PRECONDITION, TAKEN}


@pytest.mark.parametrize("method", ["Frontend.Schedule", "HSC.SetResults", "Controller.NextWork"])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_message_may_be_so_large_and_no_larger(method: str) -> None:
    async with opened() as world:
        good = world.valid(method).SerializeToString()
        room = MAX_MESSAGE_BYTES - len(good) - len(wire.tag(1_000, wire.BYTES)) - 4
        full = good + wire.tag(1_000, wire.BYTES) + wire.varint(room) + b"a" * room
        assert len(full) == MAX_MESSAGE_BYTES
        before = world.stored()
        answer = await world.send(method, full + b"a")
        assert (answer.code, answer.sentence[:40]) == (TOO_LARGE, "SERVER: Received message larger than max"[:40])
        assert world.stored() == before
        assert (await world.send(method, full)).code is OK


@pytest.mark.asyncio(loop_scope="module")
async def test_fields_that_no_rule_knows_are_not_kept() -> None:
    """Else a task could be larger than any answer that has to carry it, and be claimed and lost for ever."""
    unknown = wire.tag(1_000, wire.BYTES) + wire.varint(1 << 20) + b"a" * (1 << 20)
    async with opened() as world:
        spec = t.TaskSpec.FromString(schedule("a").spec.SerializeToString() + unknown)
        options = t.TaskOptions.FromString(unknown)
        spec.options.CopyFrom(options)
        reply = await world.answer("Frontend.Schedule", f.ScheduleRequest(id="a", spec=spec))
        (record,) = await world.store.get_tasks([reply.id])
        assert record is not None
        assert len(record.spec) < 200
        known = f.LambdaSpec.FromString(f.LambdaSpec(name="a/b").SerializeToString() + unknown)
        known.options.CopyFrom(options)
        await world.answer("Frontend.RegisterLambdas", f.RegisterLambdasRequest(lambdas=[known]))
        assert len((await world.store.list_lambdas())["a/b"].spec) < 200


@pytest.mark.asyncio(loop_scope="module")
async def test_a_message_that_is_unpacked_to_too_much_is_refused_while_it_is_unpacked() -> None:
    bomb = wire.tag(1_000, wire.BYTES) + wire.varint(64 << 20) + bytes(64 << 20)
    async with opened() as world:
        channel = world.channel
        call = channel.unary_unary("/atf.v1.Frontend/Schedule")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(bomb, timeout=PATIENCE_S, compression=grpc.Compression.Gzip)
        assert caught.value.code() is TOO_LARGE, caught.value


@pytest.mark.parametrize("path", ["/atf.v1.Frontend/", "/atf.v1.Frontend/Nothing", "/atf.v1.Nobody/GetTask", "/", "/x"])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_method_that_is_none_is_unimplemented(path: str, untouched: World) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await untouched.channel.unary_unary(path)(b"", timeout=PATIENCE_S)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.asyncio(loop_scope="module")
async def test_bad_calls_leave_no_memory_behind() -> None:
    async with opened() as world:
        spoiled = [each for method in METHODS for each in wire.broken(METHODS[method].input_type)][:100]
        large = schedule("x" * 500_000, payload=b"a" * 500_000).SerializeToString()

        async def round_() -> None:
            await asyncio.gather(*(world.send("Frontend.Schedule", each.data) for each in spoiled))
            for _ in range(4):
                assert (await world.send("Frontend.Schedule", large)).code is INVALID

        await round_()
        tracemalloc.start()
        try:
            await round_()
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(3):
                await round_()
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert after - before < 500_000, "three rounds keep what one call has sent"
