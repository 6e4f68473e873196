"""Names of lambdas go to the controller once: a call of NextWork costs the same whatever their number."""

from __future__ import annotations

import asyncio
import contextlib

from atf.controller.lambda_sets import FORGET_S, LambdaSets
from atf.controller.service import ControllerService
from atf.rpc import controller_pb2 as c
from tests.virtual import virtual

from .world import World, ids_of, world


def request(
    number: int = 1, *lambdas: str, executor: str = "e1", stream: str = "def", call: int = 0, ack: int = 0
) -> c.NextWorkRequest:
    return c.NextWorkRequest(
        executor_id=executor,
        stream=stream,
        set=number,
        lambdas=lambdas,
        signatures=["aaa"] * len(lambdas),
        max_tasks=10,
        wait_us=100_000,
        heartbeat_timeout_us=16_000_000,
        boot_id="virtual",
        call=call,
        ack=ack,
    )


@virtual(world())
async def test_a_call_that_gives_the_number_of_its_lambdas_gets_their_tasks(w: World) -> None:
    first = await w.controller.next_work(request(1, "shop/mail", call=1))
    assert (ids_of(first), first.set) == ([], 1)
    tasks = await w.enqueue(2)
    second = await w.controller.next_work(request(1, call=2))
    assert (ids_of(second), second.set) == (tasks, 1)


@virtual(world())
async def test_a_controller_that_does_not_know_the_number_asks_for_the_names_and_does_nothing_else(w: World) -> None:
    (task,) = await w.enqueue(1)
    await w.controller.next_work(request(1, "shop/mail", call=1))
    restarted: ControllerService = w.another_controller()
    running = asyncio.create_task(restarted.run())
    for asked in (request(1, call=2), request(2, call=2)):
        assert (await restarted.next_work(asked)) == c.NextWorkReply()
    (again,) = await w.enqueue(1)
    assert ids_of(await restarted.next_work(request(1, "shop/mail", call=3, ack=1))) == [again]
    assert task != again
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def test_a_number_is_one_of_its_call_stream_and_the_newest_counts() -> None:
    named = LambdaSets()
    first = named.asked(request(1, "shop/mail", "shop/bill"), 0.0)
    assert first is not None
    assert first.lambdas == {"shop/mail", "shop/bill"}
    assert first.signed == {"shop/mail aaa", "shop/bill aaa"}
    assert named.asked(request(1), 1.0) is first
    assert named.asked(request(1, stream="async"), 1.0) is None
    assert named.asked(request(1, executor="e2"), 1.0) is None
    second = named.asked(request(2, "shop/mail"), 2.0)
    assert second is not None
    assert named.asked(request(1), 3.0) is None
    assert named.asked(request(2), 3.0) is second


def test_call_streams_that_name_the_same_share_it() -> None:
    named = LambdaSets()
    first = named.asked(request(1, "shop/mail", "shop/bill"), 0.0)
    assert named.asked(request(4, "shop/bill", "shop/mail", executor="e2"), 0.0) is first
    assert named.asked(request(1, "shop/mail", executor="e3"), 0.0) is not first


def test_what_executors_named_is_forgotten_with_them() -> None:
    named = LambdaSets()
    named.asked(request(1, "shop/mail"), 0.0)
    named.left("e1")
    assert named.asked(request(1), 1.0) is None
    named.asked(request(1, "shop/mail"), 2.0)
    named.asked(request(1, "shop/mail", executor="e2"), 2.0 + FORGET_S)
    assert named.asked(request(1), 2.0 + FORGET_S) is None
