"""Taken and claimed in one step: who is given what, what stays in its queue, and what an ask that is repeated or given up gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from atf.errors import ClaimsPaused, Unavailable
from atf.store import library
from atf.store.values.claims import ClaimedTask, Outcome, Taken, Taker, Verdict
from atf.store.values.lambdas import LambdaRecord
from atf.task import US, Status

from .conftest import OpenStore
from .world import ENQUEUE_TIMEOUT_US, LAMBDA, LEASE_US, QUEUE, World, dump, held, labelled

OTHER = "shop/other"
_ASK = Taker("executor-1", "ask-1", 256)


async def know(world: World, *names: str, settings: str = "", limit: int = 1000) -> None:
    made = [LambdaRecord(name, b"", limit, ENQUEUE_TIMEOUT_US, paused=False, settings=settings) for name in names]
    await world.store.register_lambdas(made)


async def queued(world: World, *names: str, **options: Any) -> list[str]:
    """Schedules tasks and brings them into their queue."""
    ids = await world.schedule(*names, **options)
    await world.passes(options.get("partition", 0))
    return ids


async def take(
    world: World,
    *groups: Sequence[str],
    takers: Sequence[Taker] = (_ASK,),
    want: int = 256,
    partition: int = 0,
    **more: Any,
) -> Taken:
    return await world.store.next_claims(partition, groups or [[QUEUE]], takers, want=want, **more)


def ids_of(claims: Sequence[ClaimedTask]) -> list[str]:
    return [each.task_id for each in claims]


def by_taker(taken: Taken) -> Mapping[str, list[str]]:
    return {nonce: ids_of(claims) for nonce, claims in taken.claims.items()}


# --- taken and claimed ------------------------------------------------------------------------------------------------


async def test_what_is_queued_is_claimed_with_a_token_and_a_lease(world: World) -> None:
    (task_id,) = await queued(world, "a", spec=b"what it is")
    taken = await take(world)
    (claim,) = taken.claims["ask-1"]
    assert (claim.task_id, claim.nonce, claim.spec) == (task_id, "ask-1", b"what it is")
    assert (claim.attempt, claim.run, claim.losses, claim.alone, claim.scheduled_at_us) == (
        1,
        1,
        0,
        False,
        world.clock(),
    )
    assert (taken.served, taken.filled, taken.left, taken.taken()) == ({QUEUE: 1}, [], False, 1)
    assert (await dump(world.store)).zset(f"atf:{{0}}:s:{QUEUE}:CLAIMED") == {task_id: world.clock() + LEASE_US}
    assert await world.queued() == []
    await world.check()
    await world.finish(Outcome.SUCCEEDED, *held([claim]))
    assert await world.statuses([task_id]) == ["SUCCESS"]


async def test_a_later_run_says_what_went_before(world: World) -> None:
    await know(world, LAMBDA, settings="logs=all")
    await queued(world, "a")
    (first,) = (await take(world)).claims["ask-1"]
    await world.store.report_loss(held([first]), "it died")
    await world.passes()
    (second,) = (await take(world, takers=[Taker("executor-1", "ask-2", 1)])).claims["ask-2"]
    await world.fail(*held([second]))
    world.clock.advance(60)
    await world.passes()
    (third,) = (await take(world, takers=[Taker("executor-1", "ask-3", 1)])).claims["ask-3"]
    assert (first.run, second.run, third.run) == (1, 2, 3)
    assert (third.attempt, third.losses, third.alone) == (2, 1, False)
    assert first.counter < second.counter < third.counter
    assert {first.logs, second.logs, third.logs} == {"all"}


async def test_tasks_are_dealt_one_by_one_as_far_as_there_is_room(world: World) -> None:
    await queued(world, *"abcdefg")
    takers = [Taker("executor-1", "n1", 1), Taker("executor-2", "n2", 4), Taker("executor-3", "n3", 2)]
    taken = await take(world, takers=takers)
    assert by_taker(taken) == {"n1": ["0-a"], "n2": ["0-b", "0-d", "0-f", "0-g"], "n3": ["0-c", "0-e"]}
    assert {(await world.get(each)).owner for each in ("0-b", "0-g")} == {"executor-2"}


async def test_no_more_is_taken_than_is_wanted_or_there_is_room_for(world: World) -> None:
    await queued(world, *"abcdef")
    taken = await take(world, takers=[Taker("executor-1", "n1", 9), Taker("executor-2", "n2", 9)], want=3)
    assert by_taker(taken) == {"n1": ["0-a", "0-c"], "n2": ["0-b"]}
    assert (taken.filled, await world.queued()) == ([QUEUE], ["0-d", "0-e", "0-f"])
    taken = await take(world, takers=[Taker("executor-1", "n3", 2)])
    assert (taken.taken(), taken.filled) == (2, [QUEUE])
    assert (await take(world, takers=[Taker("executor-1", "n4", 2)])).filled == []


async def test_the_first_group_comes_first_and_the_others_stand_back(world: World) -> None:
    await know(world, OTHER)
    await queued(world, "a", "b")
    await queued(world, "c", lambda_name=OTHER)
    urgent, other = f"{LAMBDA}:1", f"{OTHER}:1"
    taken = await take(world, [urgent], [other, "shop/none:1"], want=1)
    assert (taken.served, sorted(taken.filled)) == ({urgent: 1}, sorted([urgent, other]))
    taken = await take(world, [urgent], [other, "shop/none:1"], takers=[Taker("executor-1", "n2", 9)])
    assert (taken.served, taken.filled) == ({urgent: 1, other: 1}, [])


async def test_queues_of_a_group_share_evenly(world: World) -> None:
    await know(world, OTHER)
    await queued(world, *(f"a{number}" for number in range(10)))
    await queued(world, *(f"b{number}" for number in range(3)), lambda_name=OTHER)
    taken = await take(world, [QUEUE, f"{OTHER}:1"], want=8)
    assert taken.served == {QUEUE: 5, f"{OTHER}:1": 3}
    assert taken.filled == [QUEUE]


@pytest.mark.parametrize("why", ["paused", "another pool's"])
async def test_what_is_paused_or_another_pools_stays_and_is_not_named(world: World, why: str) -> None:
    await queued(world, "a")
    if why == "paused":
        await world.gate("pause")
    else:
        await know(world, LAMBDA, settings="pool=gpu")
    taken = await take(world)
    assert (taken.taken(), taken.filled, await world.queued()) == (0, [], ["0-a"])
    if why != "paused":
        assert (await take(world, pool="gpu")).taken() == 1


# --- what is not given stays where it was -----------------------------------------------------------------------------


async def test_what_does_not_fit_the_bytes_stays_in_its_place(world: World) -> None:
    ids = await queued(world, *(f"t{number}" for number in range(6)), spec=b"x" * 1000)
    taken = await take(world, max_bytes=3000)
    assert ids_of(taken.claims["ask-1"]) == ids[:2]
    assert (taken.filled, await world.queued()) == ([QUEUE], ids[2:])
    world.clock.advance(ENQUEUE_TIMEOUT_US / US)
    assert await world.passes() == (0, 0, 0)  # each of them still stands in the queue, and is known to
    assert await world.queued() == ids[2:]
    await world.check()


async def test_a_first_task_larger_than_the_bytes_is_claimed_alone(world: World) -> None:
    ids = await queued(world, "a", "b", spec=b"x" * 5000)
    taken = await take(world, max_bytes=100)
    assert (ids_of(taken.claims["ask-1"]), await world.queued()) == (ids[:1], ids[1:])


async def test_small_shares_have_their_turn_where_bytes_bind(world: World) -> None:
    await know(world, LAMBDA, settings="shares=1:0.75,2:0.25")
    for priority in (1, 2):
        await queued(world, *(f"p{priority}-{n:02}" for n in range(20)), priority=priority, spec=b"x" * 1000)
    served = []
    for number in range(17):
        taken = await take(
            world, [f"{LAMBDA}:1"], [f"{LAMBDA}:2"], takers=[Taker("executor-1", f"n{number}", 9)], max_bytes=10
        )
        served += [queue[-1] for queue in taken.served]
    assert len(served) == 17
    assert served.count("2") == 4
    assert served[:3] == ["1", "1", "1"]


@pytest.mark.parametrize("placement", ["sticky", "spread"])
async def test_what_is_placed_and_does_not_fit_the_bytes_stays_too(world: World, placement: str) -> None:
    await know(world, OTHER, settings=f"placement={placement}")
    for host in ("host-1", "host-2"):
        await world.store.serve("", 60, host, lambdas=[OTHER])
    queue = f"{OTHER}:1"
    names = [f"t{number}" for number in range(6)]
    ids = await queued(world, *names, lambda_name=OTHER, spec=b"x" * 1000, affinity="a")
    taken = await take(world, [queue], host="host-1", max_bytes=1500)
    assert ids_of(taken.claims["ask-1"]) == ids[:1]
    assert sorted(await world.queued(queue)) == ids[1:]
    world.clock.advance(ENQUEUE_TIMEOUT_US / US)
    assert await world.passes() == (0, 0, 0)
    assert sorted(await world.queued(queue)) == ids[1:]
    await world.check()


async def test_ids_that_are_not_claimable_are_replaced(world: World) -> None:
    ids = await queued(world, *(f"t{number}" for number in range(8)))
    await world.store.cancel_tasks([ids[0], ids[2], ids[3]])
    taken = await take(world, want=4)
    assert ids_of(taken.claims["ask-1"]) == [ids[1], *ids[4:7]]
    assert taken.filled == [QUEUE]
    assert await world.queued() == ids[7:]


async def test_what_is_in_vain_is_bounded(world: World) -> None:
    ids = await queued(world, *(f"t{number}" for number in range(20)))
    await world.store.cancel_tasks(ids[:19])
    taken = await take(world, want=1)
    assert (taken.taken(), taken.filled) == (0, [QUEUE])
    assert 0 < len(await world.queued()) < 19  # others are served in between


async def test_what_a_gate_keeps_leaves_the_queue_for_the_next_one(world: World) -> None:
    await queued(world, "kept", labels=labelled(team="web"))
    await queued(world, "free")
    await world.gate("pause", team="web")
    assert by_taker(await take(world, want=1)) == {"ask-1": ["0-free"]}
    assert await world.statuses(["0-kept"]) == ["NEW"]
    await world.check()


# --- the full queue, misfits, placement -------------------------------------------------------------------------------


async def test_a_queue_that_was_full_is_visited_again_once_a_tenth_is_free(world: World) -> None:
    await know(world, LAMBDA, limit=20)
    await queued(world, *(f"t{number:02}" for number in range(30)))
    await take(world, want=1)
    assert (await world.store.enqueue(0, 0)).enqueued == 0
    await take(world, want=1, takers=[Taker("executor-1", "n2", 1)])
    assert (await world.store.enqueue(0, 0)).enqueued == 2


async def _misfits(world: World, *names: str) -> list[str]:
    """Tasks that do not fit the signature `aaa`, and stand beside their queue for those that run `bbb`."""
    await world.store.serve("", 60, "", None, [f"{LAMBDA} {digest}" for digest in ("aaa", "bbb")])
    claims = await world.run(*names)
    await world.finish(Outcome.MISFIT, *claims, error="no", signature="aaa", grace_us=60 * US)
    await world.passes()
    return [each.task_id for each in claims]


async def test_misfits_are_given_to_those_whom_they_fit_alone(world: World) -> None:
    ids = await _misfits(world, "a", "b")
    assert await world.store.filled_queues(0) == [QUEUE]
    assert (await take(world, signatures={LAMBDA: "aaa"})).taken() == 0
    assert (await take(world)).taken() == 0
    taken = await take(world, signatures={LAMBDA: "bbb"}, want=1)
    assert (by_taker(taken), taken.filled) == ({"ask-1": ids[:1]}, [QUEUE])
    taken = await take(world, signatures={LAMBDA: "bbb"}, takers=[Taker("executor-1", "n2", 9)])
    assert (by_taker(taken), taken.filled, await world.store.filled_queues(0)) == ({"n2": ids[1:]}, [], [])
    await world.check()


async def test_misfits_have_a_fourth_beside_a_long_queue(world: World) -> None:
    misfits = await _misfits(world, *(f"m{number}" for number in range(8)))
    await queued(world, *(f"t{number}" for number in range(20)))
    taken = await take(world, signatures={LAMBDA: "bbb"}, want=8)
    assert len(set(ids_of(taken.claims["ask-1"])) & set(misfits)) == 2
    for number in range(8):  # also where one is wanted at a time
        world.clock.us += 1
        await take(world, signatures={LAMBDA: "bbb"}, want=1, takers=[Taker("executor-1", f"n{number}", 1)])
    assert (await world.statuses(misfits)).count("CLAIMED") == 4


async def test_misfits_that_do_not_fit_the_bytes_stay_in_their_set(world: World) -> None:
    ids = await _misfits(world, "a", "b")
    taken = await take(world, signatures={LAMBDA: "bbb"}, max_bytes=10)
    assert (by_taker(taken), taken.filled) == ({"ask-1": ids[:1]}, [QUEUE])
    assert list((await dump(world.store)).zset(f"atf:{{0}}:m:{QUEUE} aaa")) == ids[1:]


async def test_one_that_does_not_fit_and_stood_in_the_queue_is_left_to_others(world: World) -> None:
    ids = await _misfits(world, "a")
    await world.store.link.client.zrem(f"atf:{{0}}:m:{QUEUE} aaa", *ids)
    await world.store.link.client.srem("atf:{0}:misfits", f"{QUEUE} aaa")
    await world.store.link.client.rpush("rq:queue:{0}" + QUEUE, *ids)
    taken = await take(world, signatures={LAMBDA: "aaa"})
    assert (taken.taken(), await world.statuses(ids)) == (0, ["NEW"])


async def test_what_is_left_to_other_hosts_is_said_with_their_names(world: World) -> None:
    await know(world, OTHER, settings="placement=spread")
    for host in ("host-1", "host-2"):
        await world.store.serve("", 60, host, lambdas=[OTHER])
    await queued(world, *"abcd", lambda_name=OTHER)
    taken = await take(world, [f"{OTHER}:1"], host="host-1")
    assert (taken.taken(), taken.left, taken.left_to) == (2, True, frozenset({"host-2"}))
    world.clock.advance(library.PLACE_PATIENCE_US / US)
    taken = await take(world, [f"{OTHER}:1"], host="host-1", takers=[Taker("executor-1", "n2", 9)])
    assert (taken.taken(), taken.left) == (2, False)


# --- repeated, and given up -------------------------------------------------------------------------------------------


async def test_an_ask_that_is_repeated_is_answered_the_same_with_new_leases(world: World) -> None:
    ids = await queued(world, "a", "b", "c", spec=b"x" * 100)
    first = await take(world, want=2)
    world.clock.advance(3)
    assert await world.store.claims_of("executor-1", "ask-1") == first.claims["ask-1"]
    again = await take(world, takers=[_ASK, Taker("executor-2", "n2", 9)])
    assert again.claims["ask-1"] == first.claims["ask-1"]
    assert ids_of(again.claims["n2"]) == ids[2:]
    leases = (await dump(world.store)).zset(f"atf:{{0}}:s:{QUEUE}:CLAIMED")
    assert leases == dict.fromkeys(ids, world.clock() + LEASE_US)
    assert (await take(world)).claims == first.claims  # nothing is queued now
    await world.check()


async def test_what_has_started_or_is_over_is_not_answered_again(world: World) -> None:
    await queued(world, *"abc")
    claims = held((await take(world)).claims["ask-1"])
    await world.beat(claims[0])
    await world.finish(Outcome.SUCCEEDED, claims[1])
    assert ids_of(await world.store.claims_of("executor-1", "ask-1")) == ["0-c"]
    assert await world.store.claims_of("executor-2", "ask-1") == []
    assert await world.store.claims_of("executor-1", "never") == []


async def test_what_was_claimed_anew_is_not_answered_to_the_ask_before(world: World) -> None:
    await queued(world, "a")
    claims = held((await take(world)).claims["ask-1"])
    await world.store.hand_back(claims)
    await world.passes()
    (newer,) = (await take(world, takers=[Taker("executor-1", "n2", 1)])).claims["n2"]
    assert await world.store.claims_of("executor-1", "ask-1") == []
    again = await take(world)
    assert again.claims == {"ask-1": []}
    assert again.over == {"ask-1"}
    await world.store.give_up_asks(["ask-1"])
    assert await world.beat(*held([newer])) == [Verdict.OK]


async def test_an_ask_that_is_given_up_is_handed_back_and_claims_nothing_later(world: World) -> None:
    ids = await queued(world, *"abc")
    claims = held((await take(world)).claims["ask-1"])
    await world.beat(claims[0])
    await world.store.cancel_tasks([ids[1]])
    for _ in range(2):  # as often as it is said
        await world.store.give_up_asks(["ask-1", "never-asked"])
    assert await world.statuses(ids) == ["PROCESSING", "CANCELLED", "ENQUEUED"]
    await world.passes()
    record = await world.get(ids[2])
    assert (record.attempts, record.losses, record.runs) == (0, 0, 0)
    assert await world.store.claims_of("executor-1", "ask-1") == []
    takers = [_ASK, Taker("executor-1", "never-asked", 3), Taker("executor-2", "n2", 3)]
    taken = await take(world, takers=takers)
    assert (by_taker(taken), taken.over) == (
        {"ask-1": [], "never-asked": [], "n2": ids[2:]},
        frozenset({"ask-1", "never-asked"}),
    )
    assert taken.claims["n2"][0].run == 1
    await world.check()


async def test_an_ask_is_given_up_in_every_partition(world: World) -> None:
    await queued(world, "a")
    await queued(world, "b", partition=1)
    for partition in range(2):
        await take(world, partition=partition)
    assert ids_of(await world.store.claims_of("executor-1", "ask-1")) == ["0-a", "1-b"]
    await world.store.give_up_asks(["ask-1"])
    assert await world.statuses(["0-a", "1-b"]) == ["ENQUEUED"] * 2


async def test_what_an_ask_claimed_is_remembered_for_two_heartbeat_timeouts(world: World) -> None:
    await queued(world, "a")
    await take(world)
    await world.store.give_up_asks(["n2"])
    client = world.store.link.client
    for nonce in ("ask-1", "n2"):
        left_ms = await client.pttl(f"atf:{{0}}:ask:{nonce}")
        assert LEASE_US * 2 // 1000 - 5000 < left_ms <= LEASE_US * 2 // 1000


# --- pauses, and what is refused --------------------------------------------------------------------------------------


async def test_while_claims_are_paused_nothing_is_taken_or_answered_again(world: World) -> None:
    ids = await queued(world, "a", "b")
    await take(world, want=1)
    await world.store.pause_claims()
    for ask in (_ASK, Taker("executor-1", "n2", 1)):
        with pytest.raises(ClaimsPaused):
            await take(world, takers=[ask])
    with pytest.raises(ClaimsPaused):
        await world.store.claims_of("executor-1", "ask-1")
    assert (await world.queued(), await world.statuses(ids)) == (ids[1:], ["CLAIMED", "ENQUEUED"])
    await world.store.give_up_asks(["ask-1"])
    assert await world.statuses(ids) == ["ENQUEUED"] * 2
    assert (await take(world, ["shop/none:1"])).taken() == 0  # where nothing stands, nobody asks


async def test_a_process_that_finds_nothing_is_on_no_roster(open_store: OpenStore) -> None:
    store = await open_store()
    assert (await store.next_claims(0, [[QUEUE]], [_ASK], want=1)).taken() == 0


@pytest.mark.parametrize(("want", "room"), [(-1, 1), (257, 1), (1, 0)])
async def test_a_wrong_count_is_refused(world: World, want: int, room: int) -> None:
    with pytest.raises(ValueError, match="use 0 to 256 tasks, and takers with room for one at least"):
        await take(world, takers=[Taker("executor-1", "n", room)], want=want)


async def test_filled_queues_are_named(world: World) -> None:
    await know(world, OTHER)
    await queued(world, "a")
    await queued(world, "b", lambda_name=OTHER, priority=2)
    assert sorted(await world.store.filled_queues(0)) == [f"{LAMBDA}:1", f"{OTHER}:2"]
    assert await world.store.filled_queues(1) == []
    await world.gate("pause")
    assert sorted(await world.store.filled_queues(0)) == [f"{LAMBDA}:1", f"{OTHER}:2"]


async def test_a_claim_that_is_not_as_durable_as_set_is_answered_by_its_nonce(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queued(world, "a")
    plain = world.store.link.call

    async def unsure(verb: str, *args: Any, **more: Any) -> Any:
        reply = await plain(verb, *args, **more)
        if verb == "next_claims":
            raise Unavailable("the write is not on a disk yet")
        return reply

    with monkeypatch.context() as patched:
        patched.setattr(world.store.link, "call", unsure)
        with pytest.raises(Unavailable):
            await take(world)
    (claim,) = await world.store.claims_of("executor-1", "ask-1")
    assert await world.beat(*held([claim])) == [Verdict.OK]
    assert (await world.get("0-a")).status is Status.PROCESSING
