"""Tasks whose payload does not fit the signature that an executor runs: they wait for another one, and count nothing for so long."""

from __future__ import annotations

from typing import Any, Final

import pytest

from atf.store import keys
from atf.store.library import MISFITS_KEPT
from atf.store.values.claims import ClaimedTask, HeldClaim, Outcome, Verdict
from atf.store.values.lambdas import LambdaRecord
from atf.task import US, Status
from tests import claiming
from tests.claiming import claim_ids, serve_queues

from .conftest import OpenStore
from .test_permits import limited
from .world import BACKOFF_US, LAMBDA, QUEUE, Clock, World, dump, held

GRACE_US: Final = 600 * US
OLD, NEW, THIRD = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"
WRONG: Final = "shop/mail: the payload does not fit: Object contains unknown field `colour`"


async def alive(world: World, *digests: str, pool: str = "", seconds: float = 3600) -> None:
    await world.store.serve(pool, seconds, "", None, [f"{LAMBDA} {each}" for each in digests])


async def pop(world: World, digest: str, *, want: int = 256, pool: str = "") -> list[str]:
    found = await serve_queues(world.store, 0, [[QUEUE]], want, pool, signatures={LAMBDA: digest})
    return [each for _, ids in found for each in ids]


async def leave_set(world: World) -> None:
    """Somebody empties the set beside the queue."""
    await world.store.link.client.delete(f"atf:{{0}}:m:{QUEUE} {OLD}", "atf:{0}:misfits")


async def take(world: World, digest: str, *ids: str) -> list[ClaimedTask]:
    """What an executor with a signature is given: of these ids, or of what there is."""
    await world.passes()
    nonce, signatures = claiming.fresh_nonce(), {LAMBDA: digest}
    if not ids:
        return await claiming.take(world.store, QUEUE, nonce=nonce, signatures=signatures)
    return (await claim_ids(world.store, "executor-1", nonce, ids, signatures=signatures)).claims


async def misfit(world: World, digest: str, *claims: HeldClaim, grace_us: int = GRACE_US) -> list[Verdict]:
    more: dict[str, Any] = {"error": WRONG, "retry_in_us": BACKOFF_US, "signature": digest, "grace_us": grace_us}
    return await world.finish(Outcome.MISFIT, *claims, **more)


async def unfit(world: World, *names: str, digest: str = OLD, **options: Any) -> list[str]:
    """Tasks that did not fit the executor that took them."""
    ids = await world.schedule(*names, **options)
    claims = held(await take(world, digest))
    assert sorted(each.task_id for each in claims) == sorted(ids)
    assert await misfit(world, digest, *claims) == [Verdict.OK] * len(ids)
    return ids


async def test_it_counts_nothing_and_is_given_to_an_executor_with_another_signature_at_once(world: World) -> None:
    await alive(world, OLD, NEW)
    (task_id,) = await unfit(world, "a", max_attempts=1, max_losses=1)
    record = await world.get(task_id)
    assert (record.status, record.attempts, record.losses, record.error) == (Status.NEW, 0, 0, "")
    assert record.next_at_us <= world.clock.us
    assert [each.why.partition(":")[0] for each in record.ended_runs] == ["misfit"]
    assert record.misfit is not None
    assert (record.misfit.digests, record.misfit.error) == ([OLD], WRONG)
    await world.check()
    await world.passes()
    await world.check()
    assert await pop(world, OLD) == []
    (claim,) = await take(world, NEW)
    assert (claim.task_id, claim.attempt, claim.run) == (task_id, 1, 2)
    await world.finish(Outcome.SUCCEEDED, *held([claim]))
    assert (await world.get(task_id)).status is Status.SUCCESS
    await world.check()


async def test_the_same_report_again_is_known(world: World) -> None:
    await alive(world, OLD, NEW)
    await world.schedule("a")
    claims = held(await take(world, OLD))
    await misfit(world, OLD, *claims)
    assert await misfit(world, OLD, *claims) == [Verdict.OK]
    assert len((await world.get("0-a")).ended_runs) == 1


async def test_no_executor_with_a_signature_that_it_does_not_fit_gets_it_whatever_way_it_was_popped(
    world: World,
) -> None:
    await alive(world, OLD, NEW)
    (task_id,) = await unfit(world, "a")
    await world.passes()
    await leave_set(world)
    assert await take(world, OLD, task_id) == []
    assert (await world.get(task_id)).status is Status.NEW
    await world.check()
    assert [each.task_id for each in await take(world, NEW)] == [task_id]


async def test_it_holds_up_nothing_of_its_lambda(world: World) -> None:
    """No executor of the old release takes it in vain, and what stands in the queue is taken as ever."""
    await alive(world, OLD, NEW)
    ids = await unfit(world, *(f"bad{number}" for number in range(40)))
    await world.schedule("good1", "good2")
    await world.passes()
    assert await world.queued() == ["0-good1", "0-good2"]
    assert await pop(world, OLD, want=1) == ["0-good1"]
    taken: list[str] = []
    while more := await pop(world, NEW, want=4):
        assert len(more) <= 5
        taken += more
    assert sorted(taken) == sorted([*ids, "0-good2"])


async def test_beside_a_long_queue_it_has_its_turn(world: World) -> None:
    await alive(world, OLD, NEW)
    (task_id,) = await unfit(world, "bad")
    await world.schedule(*(f"good{number}" for number in range(100)))
    await world.passes()
    assert task_id in await pop(world, NEW, want=4)


async def test_where_nobody_runs_another_signature_it_is_looked_at_after_a_wait_that_doubles(world: World) -> None:
    await alive(world, OLD)
    (task_id,) = await unfit(world, "a")
    waits = []
    for _ in range(8):
        next_at = (await world.get(task_id)).next_at_us
        waits.append((next_at - world.clock.us) / US)
        world.clock.us = next_at
        await world.passes()
        await world.check()
        assert await world.queued() == []
        assert await pop(world, NEW) == [], "it is offered when somebody says that it runs the other signature"
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]
    await alive(world, OLD, NEW)
    world.clock.advance(30)
    assert [each.task_id for each in await take(world, NEW)] == [task_id]


async def test_those_it_may_fit_have_gone_while_it_stood_there(world: World) -> None:
    await alive(world, OLD)
    await alive(world, NEW, seconds=5)
    (task_id,) = await unfit(world, "a")
    await world.passes()
    assert (await world.get(task_id)).status is Status.ENQUEUED
    world.clock.advance(10)
    await world.passes()
    record = await world.get(task_id)
    assert (record.status, record.next_at_us) == (Status.NEW, world.clock.us + US)
    assert not [key for key in (await dump(world.store)).data if ":m:" in key or key.endswith(":misfits")]
    await world.check()


async def test_after_the_time_of_grace_it_is_a_failed_attempt_that_says_why(world: World) -> None:
    await alive(world, OLD)
    (task_id,) = await unfit(world, "a", max_attempts=2)
    began = world.clock.us
    while (record := await world.get(task_id)).status is Status.NEW:
        assert world.clock.us <= began + GRACE_US
        assert record.attempts == 0
        world.clock.us = record.next_at_us
        await world.passes()
        await world.check()
    assert world.clock.us == began + GRACE_US
    assert (record.status, record.attempts) == (Status.RETRIABLE_FAILURE, 1)
    assert record.next_at_us == world.clock.us + BACKOFF_US
    assert record.error == (
        f"{WRONG}. The payload is 10 min old, and for 10 min no executor was there that it fits. It does not fit the signatures {OLD};"
        f" {OLD} runs now"
    )
    world.clock.advance(BACKOFF_US / US)
    await world.passes()
    record = await world.get(task_id)
    assert (record.status, record.attempts) == (Status.FATAL_FAILURE, 2)
    await world.check()
    await world.store.retry_tasks([task_id])
    assert (await world.get(task_id)).misfit is None
    assert [each.task_id for each in await take(world, OLD)] == [task_id], "all is tried anew"


async def test_it_does_not_fail_while_an_executor_runs_a_signature_that_it_has_not_met(world: World) -> None:
    await alive(world, OLD, NEW)
    (task_id,) = await unfit(world, "a", max_attempts=1)
    for _ in range(100):  # none of them has room
        await world.passes()
        world.clock.advance(10)
    assert (await world.get(task_id)).status is Status.ENQUEUED
    assert [each.task_id for each in await take(world, NEW)] == [task_id]


async def test_its_time_of_grace_begins_when_those_have_gone_that_it_might_fit(world: World) -> None:
    """However long it stood beside its queue for them, and again where that happens again."""
    await alive(world, OLD)
    (task_id,) = await unfit(world, "a", max_attempts=1)
    gone_us = 0
    for _ in range(2):
        for _ in range(70):
            await alive(world, NEW, seconds=15)  # and has no room
            await world.passes()
            world.clock.advance(10)
        record = await world.get(task_id)
        assert record.status is Status.ENQUEUED
        assert record.misfit is not None
        assert record.misfit.until_us == 0
        while (record := await world.get(task_id)).status is Status.ENQUEUED:
            world.clock.us = max(record.next_at_us, world.clock.us)
            await world.passes()
        assert record.misfit is not None
        gone_us = world.clock.us
        assert record.misfit.until_us == gone_us + GRACE_US
    while (record := await world.get(task_id)).status is Status.NEW:
        world.clock.us = record.next_at_us
        await world.passes()
    assert (record.status, world.clock.us) == (Status.FATAL_FAILURE, gone_us + GRACE_US)
    assert ", and for 10 min no executor was there that it fits." in record.error
    await world.check()


async def test_its_time_of_grace_begins_with_the_last_signature_that_it_met(world: World) -> None:
    await alive(world, OLD, NEW)
    (task_id,) = await unfit(world, "a", max_attempts=1)
    await world.passes()
    world.clock.advance(700)
    await misfit(world, NEW, *held(await take(world, NEW)))
    record = await world.get(task_id)
    assert record.misfit is not None
    assert (record.status, record.misfit.until_us) == (Status.NEW, world.clock.us + GRACE_US)


async def test_what_was_read_meanwhile_begins_anew(world: World) -> None:
    await alive(world, OLD, NEW)
    (task_id,) = await unfit(world, "a")
    await world.fail(*held(await take(world, NEW)))
    record = await world.get(task_id)
    assert record.misfit is not None
    assert (record.attempts, record.misfit.since_us) == (1, 0)
    world.clock.advance(GRACE_US / US * 2)
    await alive(world, OLD)
    await world.passes()
    assert await pop(world, OLD) == [], "it was pushed, or waits, for the new signature alone"
    record = await world.get(task_id)
    assert (record.attempts, record.status in {Status.ENQUEUED, Status.RETRIABLE_FAILURE}) == (1, True)
    await world.check()
    world.clock.advance(3600)
    await alive(world, OLD)
    for _ in range(2):
        await world.passes()
        world.clock.advance(GRACE_US / US)
    await world.passes()
    record = await world.get(task_id)
    assert (record.attempts > 1, record.error.startswith(f"{WRONG}. The payload is ")) == (True, True), (
        "the field is named"
    )


async def test_several_signatures_are_remembered_those_first_that_run(world: World) -> None:
    """So it is given to none of those that run again, however many there were since it was made."""
    digests = [f"{number:012x}" for number in range(MISFITS_KEPT + 2)]
    await world.schedule("a")
    for digest in digests[:-2]:
        await alive(world, digest, seconds=1)
        await misfit(world, digest, *held(await take(world, digest)))
        world.clock.advance(30)
    first, last = digests[-2:]
    await alive(world, first, last)
    for digest in (last, first):
        await misfit(world, digest, *held(await take(world, digest)))
    record = await world.get("0-a")
    assert record.misfit is not None
    assert len(record.misfit.digests) == MISFITS_KEPT
    assert {first, last} < set(record.misfit.digests)
    assert record.next_at_us > world.clock.us, "nobody is left to be offered it"


async def test_its_age_counts_from_when_it_was_accepted(world: World) -> None:
    await alive(world, OLD)
    (task_id,) = await world.schedule("a", max_attempts=1)
    for _ in range(2):
        await world.finish(Outcome.HANDED_BACK, *held(await take(world, OLD)), retry_in_us=3600 * US)
        world.clock.advance(3600)
    await alive(world, OLD)
    await misfit(world, OLD, *held(await take(world, OLD)), grace_us=0)
    world.clock.advance(1)
    await world.passes()
    record = await world.get(task_id)
    assert (record.status, "The payload is 2 h old" in record.error) == (Status.FATAL_FAILURE, True)


async def test_a_long_enqueue_timeout_does_not_hide_that_those_it_may_fit_have_gone(world: World) -> None:
    await world.store.register_lambdas([LambdaRecord(LAMBDA, b"", 100, 3600 * US, paused=False)])
    await alive(world, OLD)
    await alive(world, NEW, seconds=45)
    (task_id,) = await unfit(world, "a")
    for _ in range(2):  # it stands there, and stands there again
        await world.passes()
        assert (await world.get(task_id)).status is Status.ENQUEUED
        world.clock.advance(30)
    await world.passes()
    assert (await world.get(task_id)).status is Status.NEW


async def test_signatures_of_another_pool_are_none_of_its_own(world: World) -> None:
    await alive(world, OLD)
    await alive(world, NEW, pool="gpu")
    (task_id,) = await unfit(world, "a")
    assert (await world.get(task_id)).next_at_us == world.clock.us + US


async def test_it_keeps_no_permit_from_others_while_it_waits(open_store: OpenStore, clock: Clock) -> None:
    world = await limited(open_store, clock, "running=1")
    await alive(world, OLD)
    await unfit(world, "bad")
    await world.schedule("good")
    assert [each.task_id for each in await take(world, OLD)] == ["0-good"]
    await alive(world, OLD, NEW)
    clock.advance(1)
    assert await take(world, NEW) == [], "the permit is another one's now"
    await world.check()


@pytest.mark.parametrize("policy", [0, 1])
async def test_it_gives_its_slot_back_and_is_not_skipped_for_it(world: World, policy: int) -> None:
    await alive(world, OLD, NEW)
    (task_id,) = await unfit(world, "a", concurrency=keys.concurrency(LAMBDA, "key", 1, policy))
    await world.store.serve("", 1, "", None, [])
    await world.passes()
    await world.check()
    (claim,) = await take(world, NEW)
    assert claim.task_id == task_id


async def test_it_keeps_its_place_in_its_ordering_key(world: World) -> None:
    await alive(world, OLD)
    await world.schedule("a", "b", ordering_key=f"{LAMBDA}:key")
    (first,) = held(await take(world, OLD))
    await misfit(world, OLD, first)
    await world.passes()
    assert await world.statuses(["0-a", "0-b"]) == ["NEW", "NEW"]
    await alive(world, OLD, NEW)
    world.clock.advance(1)
    (claim,) = await take(world, NEW)
    assert claim.task_id == "0-a"
    await world.finish(Outcome.SUCCEEDED, *held([claim]))
    assert [each.task_id for each in await take(world, OLD)] == ["0-b"]
    await world.check()


async def test_a_flagged_task_is_cancelled_and_one_that_waits_is_too(world: World) -> None:
    await alive(world, OLD, NEW)
    await world.schedule("a")
    claims = held(await take(world, OLD))
    await world.store.cancel_tasks(["0-a"])
    await misfit(world, OLD, *claims)
    record = await world.get("0-a")
    assert (record.status, record.attempts) == (Status.CANCELLED, 0)
    (task_id,) = await unfit(world, "b")
    await world.passes()
    await world.store.cancel_tasks([task_id])
    assert await pop(world, NEW) == []
    await world.check()
    assert not [key for key in (await dump(world.store)).data if ":m:" in key]


async def test_a_run_that_is_lost_leaves_the_signatures_behind(world: World) -> None:
    await alive(world, OLD, NEW)
    (task_id,) = await unfit(world, "a")
    await world.store.report_loss(held(await take(world, NEW)), "killed")
    await world.passes()
    assert await pop(world, OLD) == []
    await leave_set(world)
    await world.passes()
    world.clock.advance(10)
    await world.passes()
    await world.check()
    assert await pop(world, NEW) == [task_id]


async def test_what_has_gone_from_its_set_comes_up_again(world: World) -> None:
    await alive(world, OLD, NEW)
    (task_id,) = await unfit(world, "a")
    await world.passes()
    await leave_set(world)
    world.clock.advance(10)
    await world.passes()
    assert await pop(world, NEW) == [task_id]


async def test_a_paused_lambda_gives_none(world: World) -> None:
    await alive(world, OLD, NEW)
    (task_id,) = await unfit(world, "a")
    await world.passes()
    await world.store.pause_lambda(LAMBDA)
    assert await pop(world, NEW) == []
    await world.store.resume_lambda(LAMBDA)
    assert await pop(world, NEW) == [task_id]


async def test_hosts_name_the_signatures_of_lambdas_that_have_several(world: World) -> None:
    await world.store.serve("", 30, "one", None, [f"{LAMBDA} {OLD}", "shop/other " + OLD])
    await world.store.serve("", 30, "two", None, [f"{LAMBDA} {OLD}", f"{LAMBDA} {NEW}", "shop/other " + OLD])
    _, hosts = await world.store.list_hosts()
    assert [each.signatures for each in hosts] == [{LAMBDA: [OLD]}, {LAMBDA: [OLD, NEW]}]
    world.clock.advance(30)
    await world.store.serve("", 30, "one", None, [f"{LAMBDA} {OLD}"])
    _, hosts = await world.store.list_hosts()
    assert [each.signatures for each in hosts] == [{}]
    assert (await dump(world.store)).hash("atf:{0}:signatures") == {f" {LAMBDA}": OLD}


async def test_the_explanation_has_the_signatures_that_run(world: World) -> None:
    await alive(world, OLD, THIRD)
    (task_id,) = await unfit(world, "a")
    found = await world.store.explain_task(task_id)
    assert found is not None
    assert sorted(found.signatures) == [OLD, THIRD]
    assert not found.not_run
    assert found.record.misfit is not None
    assert found.record.misfit.until_us == found.record.misfit.since_us + GRACE_US
