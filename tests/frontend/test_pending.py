"""max_pending: how many unfinished tasks a lambda may have."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from grpc_status import rpc_status

import atf
from atf.errors import AtfError, TooManyPending, Unavailable
from atf.frontend.pending import KEPT_S, PARTS
from atf.frontend.service import FrontendService
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.rpc.channel import open_channel
from atf.rpc.server import Service, serve
from atf.rpc.stubs import FrontendStub
from atf.store import keys
from atf.store.values.claims import Outcome
from atf.store.values.tasks import NewTask, Scheduled
from atf.task import US

from .conftest import Bench, request

NAME = "photos/thumbnail"


async def bounded(bench: Bench, **fields: Any) -> None:
    await bench.register(max_pending=3, **fields)


async def test_a_task_beyond_the_bound_is_refused_with_when_to_try_again(bench: Bench) -> None:
    await bounded(bench)
    for each in range(3):
        await bench.schedule(f"a{each}")
    with pytest.raises(TooManyPending, match=f"{NAME} has as many unfinished tasks as it may have, 3") as refused:
        await bench.schedule("a3")
    assert refused.value.retry_after_s == 1.0
    await bench.register("photos/other")
    await bench.schedule("b", name="photos/other")
    assert await bench.counts() == {"NEW": 3}


async def test_over_a_connection_the_refusal_says_when_to_try_again(bench: Bench) -> None:
    await bounded(bench, rate=4)
    for each in range(3):
        await bench.schedule(f"a{each}")
    server = await serve("127.0.0.1:0", [Service(f.DESCRIPTOR.services_by_name["Frontend"], bench.frontend)])
    try:
        async with grpc.aio.insecure_channel(server.address) as plain:  # as any gRPC client sees it
            call = plain.unary_unary("/atf.v1.Frontend/Schedule")(request("a3").SerializeToString())
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            _, detail = (await rpc_status.aio.from_call(call)).details
            when = RetryInfo()
            assert detail.Unpack(when)
            assert when.retry_delay.ToMilliseconds() == 250
        stub = FrontendStub(open_channel(server.address))
        with pytest.raises(TooManyPending) as refused:
            await stub.schedule(request("a3"))
        await stub.channel.close()
        assert refused.value.retry_after_s == 0.25
        async with atf.AsyncClient(server.address) as client:
            with pytest.raises(TooManyPending, match="as many unfinished tasks as it may have, 3") as refused:
                await client.schedule(NAME, b"")
            assert refused.value.retry_after_s == 0.25
            with pytest.raises(TooManyPending) as refused:
                await client.schedule_many([client.prepared(NAME, b"", {})])
            assert refused.value.retry_after_s == 0.25
    finally:
        await server.stop(0)


async def test_one_that_is_stored_already_is_found_however_many_there_are(bench: Bench) -> None:
    await bounded(bench)
    for each in range(3):
        await bench.schedule(f"a{each}")
    assert (await bench.frontend.schedule(request("a1"))).existed


async def test_room_is_seen_at_once(bench: Bench) -> None:
    await bounded(bench, rate=5)
    ids = [await bench.schedule(f"a{each}") for each in range(3)]
    with pytest.raises(TooManyPending) as refused:
        await bench.schedule("a3")
    assert refused.value.retry_after_s == 0.2
    await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=ids[:1]))
    await bench.schedule("a3")


async def test_of_many_the_first_ones_get_the_room_that_there_is(bench: Bench) -> None:
    await bounded(bench)
    await bench.schedule("a0")
    await bench.register("photos/other")
    many = [request(f"a{each}") for each in range(4)] + [request("b", name="photos/other")]
    results = (await bench.frontend.schedule_many(f.ScheduleManyRequest(requests=many))).results
    assert [each.error.reason for each in results] == ["", "", "", "TooManyPending", ""]
    assert [each.reply.existed for each in results] == [True, False, False, False, False]
    assert results[3].error.code == "RESOURCE_EXHAUSTED"
    assert results[3].error.retry_after_us == 1_000_000


async def test_a_call_that_fails_at_its_second_lambda_leaves_nothing_under_way_of_the_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bounded(bench)
    await bench.register("photos/other", max_pending=1)
    await bench.schedule("b", name="photos/other")
    many = [*(request(f"a{each}") for each in range(3)), request("c", name="photos/other")]

    async def away(_ids: Sequence[str]) -> Any:
        raise Unavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "get_tasks", away)
        for _ in range(2):
            with pytest.raises(Unavailable):
                await bench.frontend.schedule_many(f.ScheduleManyRequest(requests=many))
    for each in range(3):
        await bench.schedule(f"a{each}")


async def test_tasks_of_which_nobody_knows_whether_they_are_stored_count(bench: Bench) -> None:
    """Else those that give up after each call, or lose each answer, would store as many as they like within a second."""
    await bench.register(max_pending=10 * PARTS)
    schedule_each = bench.store.schedule_each

    async def stored_and_lost(items: Sequence[NewTask]) -> list[Scheduled | AtfError]:
        await schedule_each(items)
        raise Unavailable("no answer")

    bench.store.schedule_each = stored_and_lost  # type: ignore[method-assign]
    for each in range(12 * PARTS):
        with contextlib.suppress(Unavailable, TooManyPending):
            await bench.schedule(f"a{each}") if each % 2 else await bench.frontend.schedule_many(
                f.ScheduleManyRequest(requests=[request(f"a{each}")])
            )
    assert await bench.counts() == {"NEW": 10 * PARTS}


async def test_calls_at_once_and_two_frontends_exceed_it_by_what_is_in_flight_alone(bench: Bench) -> None:
    await bounded(bench)
    answers = await asyncio.gather(*(bench.schedule(f"a{each}") for each in range(10)), return_exceptions=True)
    assert sum(isinstance(each, TooManyPending) for each in answers) >= 7
    assert (await bench.counts())["NEW"] <= 3
    while (await bench.counts())["NEW"] < 3:
        await bench.schedule()
    another = bench.another_frontend()
    with pytest.raises(TooManyPending):
        await another.schedule(request("c"))


@pytest.mark.parametrize("frontends", [3, 10])
async def test_calls_one_after_the_other_to_several_frontends_fill_the_bound_and_no_more(
    bench: Bench, frontends: int
) -> None:
    await bench.register(max_pending=1000)
    stored = await fill([bench.another_frontend() for _ in range(frontends)])
    assert stored == sum((await bench.counts()).values()) == 1000


async def test_frontends_that_counted_before_others_took_the_room_exceed_it_by_their_parts_alone(bench: Bench) -> None:
    await bench.register(max_pending=1000)
    late = [bench.another_frontend() for _ in range(9)]
    for each in late:
        await each.schedule(request())
    stored = await fill([bench.frontend])
    for each in late:
        stored += await fill([each])
    assert 1000 < 9 + stored <= 1000 + 9 * (1000 // PARTS)


async def test_far_from_the_bound_the_store_is_counted_once_for_many_calls(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.register(max_pending=32_000)
    counted = 0
    direct = bench.store.pending

    async def pending(name: str) -> Any:
        nonlocal counted
        counted += 1
        return await direct(name)

    monkeypatch.setattr(bench.store, "pending", pending)
    for _ in range(500):
        await bench.schedule()
    assert counted == 1


async def fill(frontends: list[FrontendService]) -> int:
    """Calls frontends in turns, one call after the other at one instant, until none lets anything in; how much they let in."""
    stored, refused = 0, 0
    while refused < len(frontends):
        for each in frontends:
            try:
                await each.schedule(request())
            except TooManyPending:
                refused += 1
            else:
                stored, refused = stored + 1, 0
    return stored


async def test_a_bound_that_is_lifted_or_lowered_holds_at_once(bench: Bench) -> None:
    await bounded(bench)
    for each in range(3):
        await bench.schedule(f"a{each}")
    lifted = f.SetLambdaRequest(**{"lambda": NAME}, set={"max_pending": "none"})
    await bench.frontend.set_lambda(lifted)
    await bench.schedule("a3")
    await bench.frontend.set_lambda(f.SetLambdaRequest(**{"lambda": NAME}, set={"max_pending": "2"}))
    with pytest.raises(TooManyPending):
        await bench.schedule("a4")
    assert await bench.counts() == {"NEW": 4}


async def test_what_had_been_let_in_before_is_not_asked_again_and_counts(bench: Bench) -> None:
    await bounded(bench)
    dead = [await bench.schedule(f"a{each}") for each in range(3)]
    for each in dead:
        await bench.finish(each, Outcome.FAILED_FATAL, error="it rained")
    for name in ("b0", "b1", "b2"):
        await bench.schedule(name)
    (retried,) = (await bench.frontend.retry_tasks(f.RetryTasksRequest(ids=dead[:1]))).results
    assert retried.retried
    again: dict[str, Any] = {"filter": {"lambda": NAME}, "who": "ada", "dry_run": False}
    assert (await bench.frontend.redrive(f.RedriveRequest(**again))).redriven == 2
    assert await bench.counts() == {"NEW": 6}
    with pytest.raises(TooManyPending):
        await bench.schedule("c")


async def test_while_a_partition_is_away_the_others_go_on_with_what_it_said_last(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bounded(bench)
    names = [f"a{each}" for each in range(20)]
    here, there = ([each for each in names if bench.store.partition_for(each) == partition] for partition in range(2))
    await bench.schedule(here[0])
    await bench.schedule(there[0])
    bench.clock.advance(1.5)
    await bench.schedule(here[0])  # counts anew
    direct = bench.store.link.call

    async def call(verb: str, record: str, *args: Any, **more: Any) -> Any:
        if record == keys.record(1):
            raise Unavailable("partition 1 is away")
        return await direct(verb, record, *args, **more)

    monkeypatch.setattr(bench.store.link, "call", call)
    bench.clock.advance(KEPT_S - 1)
    await bench.schedule(here[1])
    with pytest.raises(TooManyPending):  # the one that is away has one
        await bench.schedule(here[2])
    bench.clock.advance(2)
    with pytest.raises(Unavailable, match="partition 1 is away"):
        await bench.schedule(here[2])
    with pytest.raises(Unavailable):  # nobody knows what was there
        await bench.another_frontend().schedule(request(here[2]))


def unique(task_id: str, key: str = "anna") -> f.ScheduleRequest:
    return request(task_id, unique=t.Unique(key=key, window_us=60 * US))


async def test_what_stands_for_a_unique_call_is_found_however_many_there_are(bench: Bench) -> None:
    await bounded(bench)
    first = (await bench.frontend.schedule(unique("a0"))).id
    for each in range(2):
        await bench.schedule(f"b{each}")
    assert (again := await bench.frontend.schedule(unique("a1"))).existed
    assert again.id == first
    with pytest.raises(TooManyPending, match="as many unfinished tasks as it may have, 3"):
        await bench.frontend.schedule(unique("c0", "bob"))
    requests = [unique("a2"), unique("c1", "bob"), request("d"), unique("a3")]
    results = (await bench.frontend.schedule_many(f.ScheduleManyRequest(requests=requests))).results
    assert [each.reply.id for each in results] == [first, "", "", first]
    assert [each.error.code for each in results] == ["", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", ""]
    assert await bench.counts() == {"NEW": 3}
    await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=[first]))
    assert not (await bench.frontend.schedule(unique("c2", "bob"))).existed, (
        "there is room again, and it has been counted right"
    )
