"""A task's way through the executor when all goes well, and when a call on the way fails."""

from __future__ import annotations

import asyncio

from atf.errors import InvalidArgument, Unavailable
from atf.executor.held import HeldTask
from atf.executor.prefetch import HOT
from atf.executor.table import SlotState
from atf.rpc import controller_pb2 as c, task_pb2 as t
from tests.executor.world import World, app, claim, inline, ran
from tests.virtual import virtual


@virtual(inline)
async def test_a_claim_is_run_and_its_result_recorded(world: World) -> None:
    world.controller.give(claim("0-a", payload=b'{"word":"hello"}'))
    await world.settle()
    assert ran == ["hello"]
    [result] = world.hsc.results
    assert (result.claim.task_id, result.claim.token.counter, result.claim.token.nonce) == ("0-a", 1, "nonce")
    assert (result.outcome, result.result, result.encoding) == (t.SUCCEEDED, b'"hello"', t.JSON)
    assert world.entries() == []
    assert world.table.oldest_lease_us == 0


@virtual(inline)
async def test_lambdas_are_named_once_and_again_where_the_controller_may_not_know_them(world: World) -> None:
    def named() -> list[tuple[int, int]]:
        return [(each.set, len(each.lambdas)) for each in world.controller.requests]

    for name in "ab":
        world.controller.give(claim(f"0-{name}"))
        await world.settle()
    assert named() == [(1, 4), (1, 0), (1, 0)]
    world.controller.keeps_names = False  # it was restarted
    world.controller.put(c.NextWorkReply())
    await world.settle()
    assert named()[3:] == [(1, 4)]
    world.controller.keeps_names = True
    world.controller.give(claim("0-c"))
    await world.settle()
    assert named()[4:] == [(1, 0)]
    world.controller.put(Unavailable("it was restarted"))
    await asyncio.sleep(2)
    assert named()[5:] == [(1, 4)]


@virtual(inline)
async def test_every_call_acknowledges_the_answer_before_it_and_has_a_higher_number(world: World) -> None:
    world.controller.give(claim("0-a"))
    await world.settle()
    world.controller.give(claim("0-b"))
    await world.settle()
    assert [each.ack for each in world.controller.requests] == [0, 1, 2]
    calls = [each.call for each in world.controller.requests]
    assert calls == sorted(set(calls))
    assert calls[0] >= 1
    request = world.controller.requests[-1]
    assert (request.executor_id, request.boot_id, request.heartbeat_timeout_us) == ("e1", "virtual", 16_000_000)
    first = world.controller.requests[0]
    assert (request.stream, list(first.lambdas)) == ("def", ["t/give_back", "t/note", "t/whose", "t/work"])
    assert 1 <= request.max_tasks <= 256
    assert list(first.signatures) == [app.lambdas[each].digest for each in first.lambdas]
    (other,) = world.controller.async_requests
    assert (other.stream, list(other.lambdas), other.call, other.ack) == (
        "async",
        ["t/give_back_async", "t/lingering", "t/nap", "t/stubborn"],
        1,
        0,
    )


@virtual(inline)
async def test_a_lambda_sees_which_batch_made_its_task_and_its_place_in_it(world: World) -> None:
    item, md5 = t.BatchInfo(id="b-1", number=7), "268a4145a50ade48aed2b1147d3518c6"
    world.controller.give(
        claim(f"3-b-1.{md5}-7", "t/whose", b"{}", batch=item),
        claim("3-after", "t/whose", b"{}", batch=t.BatchInfo(id="b-1")),
        claim("3-plain", "t/whose", b"{}"),
    )
    await world.settle()
    assert ran == [f"b-1 7 {md5}-7", "b-1 None ", "none"]


@virtual(inline)
async def test_each_kind_of_lambda_is_asked_for_by_its_own_room(world: World) -> None:
    assert (world.controller.requests[0].max_tasks, world.controller.async_requests[0].max_tasks) == (1, 256)
    world.controller.give(*(claim(f"0-{number}", "t/nap", b'{"seconds":20}') for number in range(256)))
    world.controller.give(claim("0-b"))
    await world.settle()
    assert ran == ["x"]
    assert len(world.controller.async_requests) == 1, "no room there"
    assert len(world.controller.requests) == 2


@virtual(inline)
async def test_the_call_streams_share_the_slots_of_the_table(world: World) -> None:
    taken = world.table.slots - 100
    world.executor.ledger.take([HeldTask(claim(f"0-taken{number}"), 0, 0.0) for number in range(taken)])
    world.controller.put(c.NextWorkReply(), "async")
    await asyncio.sleep(1)
    assert world.controller.async_requests[-1].max_tasks == 100 - world.controller.requests[-1].max_tasks


@virtual(inline)
async def test_empty_answers_that_come_at_once_are_no_reason_to_spin(world: World) -> None:
    for _ in range(100):
        world.controller.put(c.NextWorkReply())
    await asyncio.sleep(3)
    assert 3 <= len(world.controller.requests) <= 20


@virtual(inline)
async def test_a_copy_of_an_answer_changes_nothing(world: World) -> None:
    world.controller.give(claim("0-a"))
    await world.settle()
    world.controller.give(claim("0-a"), number=1)
    await asyncio.sleep(1)
    assert ran == ["x"]
    assert world.hsc.returned == []


@virtual(inline)
async def test_an_answer_to_a_call_that_failed_is_not_acknowledged(world: World) -> None:
    world.controller.put(Unavailable("gone"))
    await asyncio.sleep(1)
    assert [each.ack for each in world.controller.requests] == [0, 0]


@virtual(inline)
async def test_what_is_held_goes_on_while_the_controller_is_away_and_work_is_fetched_when_it_is_back(
    world: World,
) -> None:
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":20}'))
    await world.settle()
    for _ in range(20):
        world.controller.put(Unavailable("gone"))
    await asyncio.sleep(30)
    assert world.outcomes() == {"0-a": t.SUCCEEDED}
    asked = len(world.controller.requests)
    assert 10 < asked < 40, "backs off, and goes on asking"
    world.controller.give(claim("0-b"))
    await asyncio.sleep(2)
    assert "0-b" in world.outcomes()
    assert not world.run.done()


@virtual(inline)
async def test_results_are_sent_again_until_they_are_answered_and_gather_meanwhile(world: World) -> None:
    world.hsc.failing["set_results"] = Unavailable("gone")
    world.controller.give(claim("0-a"))
    await asyncio.sleep(1)
    world.controller.give(*(claim(f"0-b{n}") for n in range(40)))
    await asyncio.sleep(1)
    assert len(world.slots(SlotState.STARTED)) == 41, "a slot is kept until its result is recorded"
    del world.hsc.failing["set_results"]
    await asyncio.sleep(2)
    assert world.hsc.batches == [1, 40]
    assert len(world.outcomes()) == 41
    assert world.hsc.results[0].ended_ago_us > 1_000_000
    assert world.entries() == []


@virtual(inline)
async def test_a_result_is_dropped_once_its_lease_is_over(world: World) -> None:
    world.hsc.failing["set_results"] = Unavailable("gone")
    world.hsc.failing["heartbeat"] = Unavailable("gone")
    world.heartbeats.stop()  # else three failures would end the process before
    world.controller.give(claim("0-a"))
    await asyncio.sleep(18)
    assert world.entries() == []
    del world.hsc.failing["set_results"]
    await asyncio.sleep(5)
    assert world.hsc.results == []


@virtual(inline)
async def test_a_result_that_is_not_ours_any_more_is_dropped(world: World) -> None:
    world.hsc.lost = {"0-a"}
    world.controller.give(claim("0-a"), claim("0-b"))
    await asyncio.sleep(5)
    assert len(world.hsc.results) == 2
    assert world.entries() == []


@virtual(inline)
async def test_one_result_that_is_refused_fails_alone(world: World) -> None:
    world.hsc.refuse = lambda result: InvalidArgument("no") if result.result == b'"bad"' else None
    words = ["a", "bad", "c", "d"]
    world.controller.give(*(claim(f"0-{word}", payload=f'{{"word":"{word}"}}'.encode()) for word in words))
    await asyncio.sleep(1)
    assert world.outcomes() == {
        "0-a": t.SUCCEEDED,
        "0-bad": t.FAILED,
        "0-c": t.SUCCEEDED,
        "0-d": t.SUCCEEDED,
    }
    assert world.entries() == []


@virtual(inline)
async def test_a_result_refused_in_any_form_is_left_to_its_lease(world: World) -> None:
    world.hsc.refuse = lambda _result: InvalidArgument("no")
    world.controller.give(claim("0-a"))
    await asyncio.sleep(1)
    assert world.entries() == []
    assert world.hsc.results == []


@virtual(inline)
async def test_results_are_split_by_size(world: World) -> None:
    big = b'{"word":"' + b"x" * 60_000 + b'"}'
    world.hsc.failing["set_results"] = Unavailable("gone")
    world.controller.give(*(claim(f"0-{n}", payload=big) for n in range(100)))
    await asyncio.sleep(1)
    del world.hsc.failing["set_results"]
    await asyncio.sleep(2)
    assert sum(world.hsc.batches) == 100
    assert max(world.hsc.batches) * 60_000 < 3_500_000


@virtual(inline)
async def test_a_task_for_a_lambda_that_is_not_here_may_be_tried_elsewhere(world: World) -> None:
    world.controller.give(claim("0-a", "t/other"))
    await world.settle()
    [result] = world.hsc.results
    assert "t/other" in result.error


@virtual(inline)
async def test_a_payload_that_does_not_fit_goes_back_with_the_signature_that_it_does_not_fit(world: World) -> None:
    world.controller.give(claim("0-a", payload=b'{"colour":1}'))
    await world.settle()
    [result] = world.hsc.results
    assert result.outcome == t.MISFIT
    assert result.signature == app.lambdas["t/note"].digest
    assert "colour" in result.error


@virtual(inline)
async def test_claims_that_arrive_when_their_lease_is_half_over_are_handed_back(world: World) -> None:
    world.controller.give(claim("0-a"), age=9)
    await world.settle()
    assert world.hsc.returned == ["0-a"]
    assert ran == []
    assert world.entries() == []


@virtual(inline)
async def test_a_claim_that_can_not_be_read_takes_no_other_along(world: World) -> None:
    broken = claim("0-a")
    broken.spec = b"\xff\xff\xff"
    world.controller.give(broken, claim("0-b"))
    await world.settle()
    assert world.outcomes() == {"0-a": t.FAILED_FATAL, "0-b": t.SUCCEEDED}
    assert not world.run.done()


@virtual(inline)
async def test_lambdas_that_do_not_come_in_great_numbers_are_asked_for_separately(world: World) -> None:
    word = claim("0-a")
    name = _lambda_name(word)
    world.controller.give(*(claim(f"0-{n}") for n in range(HOT - 1)))
    await asyncio.sleep(1)
    assert world.controller.low_volume_requests == []  # one call does for all
    world.controller.give(*(claim(f"1-{n}") for n in range(HOT)))
    await asyncio.sleep(0.5)
    (request,) = world.controller.low_volume_requests
    everything = set(world.controller.requests[0].lambdas)
    assert set(request.lambdas) == everything - {name}
    assert (request.stream, 1 <= request.max_tasks <= HOT) == ("deflowvolume", True)


def _lambda_name(of: t.Claim) -> str:
    return str(getattr(t.TaskSpec.FromString(of.spec), "lambda"))
