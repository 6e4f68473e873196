"""Names of lambdas go to the controller once: a call of NextWork costs the same whatever their number."""

from __future__ import annotations

from atf.controller.lambda_sets import FORGET_S, LambdaSets
from atf.rpc import controller_pb2 as c
from atf.rpc.lambda_sets import digest_of
from tests.virtual import virtual

from .fakes import Script, claims, scripted


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
        nonce=f"{executor}-{stream}-{call}",
    )


@virtual(scripted())
async def test_a_call_that_gives_the_number_of_its_lambdas_gets_their_tasks(s: Script) -> None:
    s.hsc.put(claims("a"), claims("b"))
    first = await s.controller.next_work(request(1, "shop/mail", call=1))
    second = await s.controller.next_work(request(1, call=2, ack=1))
    assert [(len(each.claims), each.set) for each in (first, second)] == [(1, 1), (1, 1)]
    assert [each.lambda_set for each in s.hsc.asked] == [digest_of({"shop/mail": "aaa"})] * 2


@virtual(scripted())
async def test_a_controller_that_does_not_know_the_number_asks_for_the_names_and_does_nothing_else(s: Script) -> None:
    await s.controller.next_work(request(1, "shop/mail", call=1))
    restarted = s.another_controller()
    before = len(s.hsc.asked)
    for asked in (request(1, call=2), request(2, call=2)):
        assert (await restarted.next_work(asked)) == c.NextWorkReply()
    assert len(s.hsc.asked) == before
    s.hsc.put(claims("again"))
    reply = await restarted.next_work(request(1, "shop/mail", call=3, ack=1))
    assert [each.task_id for each in reply.claims] == ["again"]


def test_a_number_is_one_of_its_call_stream_and_the_newest_counts() -> None:
    named = LambdaSets()
    first = named.asked(request(1, "shop/mail", "shop/bill"), 0.0)
    assert first is not None
    assert first.lambdas == {"shop/mail", "shop/bill"}
    assert first.signatures == {"shop/mail": "aaa", "shop/bill": "aaa"}
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
