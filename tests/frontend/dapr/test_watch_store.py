"""Triggers of Dapr's scheduler service while the store is away, slow, or has ended their leases."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atf.errors import Unavailable
from atf.rpc import dapr_scheduler_pb2 as d
from atf.store import keys
from atf.store.values.claims import ClaimRenewal, Verdict
from atf.task import Status
from tests.virtual import virtual

from .world import TIMING, World, world


@virtual(world(2))
async def test_where_leases_cannot_be_kept_another_watcher_gets_it_and_a_late_success_changes_nothing(
    w: World,
) -> None:
    await w.schedule()
    cut_off = w.watch(concurrency_limits=[d.ConcurrencyLimit(max_concurrent=1)])
    trigger = await cut_off.next()
    beats, w.stores[0].heartbeat = w.stores[0].heartbeat, away  # type: ignore[assignment, method-assign]
    other = w.watch(1)
    again = await other.next()
    assert (await w.task()).losses == 0, "its run had not begun"
    w.stores[0].heartbeat = beats  # type: ignore[method-assign]
    cut_off.says(trigger)
    await asyncio.sleep(60)
    assert (await w.task()).status is Status.CLAIMED, "the other watcher still has it"
    other.says(again, d.FAILED)
    await asyncio.sleep(0.1)
    assert (await w.task()).status is Status.RETRIABLE_FAILURE
    assert not cut_off.stream.done()


async def away(_beats: list[ClaimRenewal]) -> list[Verdict]:
    raise Unavailable("the task store does not answer")


@virtual(world())
async def test_what_stood_still_for_a_lease_is_not_sent_any_more(w: World) -> None:
    await w.schedule()
    blocked = asyncio.Event()

    async def requests() -> Any:
        yield d.WatchJobsRequest(initial=d.WatchJobsRequestInitial(app_id="billing", namespace="prod"))
        await blocked.wait()

    w.stores[0].heartbeat = away  # type: ignore[assignment, method-assign]
    stream = w.scheduler.watch_jobs(requests())
    await w.schedule("second", due_time="1s")
    first = await anext(stream)
    assert first.name == "backup"
    await asyncio.sleep(5)  # the second is given to the stream, and nobody takes it from there
    await asyncio.sleep(TIMING.heartbeat_timeout)
    sent = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(1)
    assert sent.done()  # the store ended its lease, so it came anew
    assert sent.result().id > first.id + 1
    await stream.aclose()


@virtual(world(partitions=1))
async def test_a_store_that_is_away_for_a_while_loses_no_acknowledgement(w: World) -> None:
    await w.schedule()
    watcher = w.watch()
    trigger = await watcher.next()
    finish, failures = w.stores[0].set_results, 0

    async def flaky(results: Any) -> list[Verdict]:
        nonlocal failures
        failures += 1
        if failures < 3:
            raise Unavailable("the task store does not answer")
        if failures < 5:
            return [Verdict.UNKNOWN] * len(results)  # as for a partition that is away while another one answers
        return await finish(results)

    w.stores[0].set_results = flaky  # type: ignore[method-assign]
    watcher.says(trigger)
    await asyncio.sleep(10)
    assert ((await w.task()).status, failures) == (Status.SUCCESS, 5)


@virtual(world(partitions=2))
async def test_a_partition_that_does_not_answer_holds_up_no_other(w: World) -> None:
    where = {w.stores[0].job_partition(f"dapr-scheduler.prod/job:billing:job{n}"): f"job{n}" for n in range(9)}
    await w.schedule(where[0])
    await w.schedule(where[1], due_time="9s")
    watcher = w.watch()
    given = await watcher.next()
    call = w.stores[0].link.call

    async def half(verb: str, record: str, *args: Any, **more: Any) -> Any:
        if record == keys.record(0):
            await asyncio.sleep(5)
            raise Unavailable("the task store does not answer")
        return await call(verb, record, *args, **more)

    w.stores[0].link.call = half  # type: ignore[method-assign, assignment]
    watcher.says(given)
    watcher.says(await watcher.next())
    assert w.runtime.monotonic() == pytest.approx(9, abs=0.1)
    await asyncio.sleep(0.1)
    assert (await w.task(f"dapr-scheduler.prod/job:billing:{where[1]}")).status is Status.SUCCESS
    w.stores[0].link.call = call  # type: ignore[method-assign]
    await asyncio.sleep(10)
    assert (await w.task(f"dapr-scheduler.prod/job:billing:{where[0]}")).status is Status.SUCCESS


@virtual(world(partitions=1))
async def test_what_is_said_while_a_slow_store_records_is_recorded_too(w: World) -> None:
    finish = w.stores[0].set_results

    async def slow(*args: Any) -> list[Verdict]:
        await asyncio.sleep(1)
        return await finish(*args)

    w.stores[0].set_results = slow  # type: ignore[assignment, method-assign]
    for name in ("one", "two"):
        await w.schedule(name)
    watcher = w.watch()
    watcher.says(await watcher.next())
    await asyncio.sleep(0.5)
    watcher.says(await watcher.next())
    await asyncio.sleep(2)
    for name in ("one", "two"):
        assert (await w.task(f"dapr-scheduler.prod/job:billing:{name}")).status is Status.SUCCESS


@virtual(world(partitions=1))
async def test_a_frontend_that_closes_waits_until_all_is_handed_back(w: World) -> None:
    await w.schedule()
    watcher = w.watch()
    await watcher.next()
    hand_back = w.stores[0].hand_back

    async def slow(*args: Any) -> list[Verdict]:
        await asyncio.sleep(1)
        return await hand_back(*args)

    w.stores[0].hand_back = slow  # type: ignore[assignment, method-assign]
    await w.scheduler.close()
    assert (await w.task()).status is Status.ENQUEUED


@virtual(world(partitions=1))
async def test_a_claim_whose_answer_was_lost_is_asked_for_again_and_loses_nothing(w: World) -> None:
    take, lost = w.stores[0].next_claims, 0

    async def flaky(*args: Any, **more: Any) -> Any:
        nonlocal lost
        taken = await take(*args, **more)
        lost += bool(taken.taken() or lost)
        if 0 < lost < 3:
            raise Unavailable("no answer")
        return taken

    w.stores[0].next_claims = flaky  # type: ignore[method-assign]
    watcher = w.watch()
    await w.schedule()
    watcher.says(await watcher.next())
    await asyncio.sleep(0.1)
    task = await w.task()
    assert (task.status, task.runs, task.losses) == (Status.SUCCESS, 1, 0)


@virtual(world(partitions=1))
async def test_a_claim_that_took_half_its_lease_is_given_to_nobody(w: World) -> None:
    take, claims = w.stores[0].next_claims, 0

    async def late(*args: Any, **more: Any) -> Any:
        nonlocal claims
        taken = await take(*args, **more)
        claims += taken.taken()
        if claims == 1:
            await asyncio.sleep(0.6 * TIMING.heartbeat_timeout)
        return taken

    w.stores[0].next_claims = late  # type: ignore[method-assign]
    watcher = w.watch()
    await w.schedule()
    await watcher.next()
    task = await w.task()
    assert (claims, task.runs, task.losses) == (2, 1, 0)


@virtual(world(partitions=1))
async def test_calls_that_fail_are_made_again(w: World) -> None:
    take, failures = w.stores[0].next_claims, 0

    async def flaky(*args: Any, **more: Any) -> Any:
        nonlocal failures
        failures += 1
        if failures < 4:
            raise Unavailable("the task store does not answer")
        return await take(*args, **more)

    w.stores[0].next_claims = flaky  # type: ignore[method-assign]
    await w.schedule()
    assert (await w.watch().next()).name == "backup"
    assert w.runtime.monotonic() < 2, "it does not wait for the next look"
