"""Reading: pages over partitions, counts that agree with them, whole records, and where a task stands."""

from __future__ import annotations

import pytest

from atf.errors import InvalidArgument
from atf.store.values.claims import Outcome
from atf.store.values.lambdas import LambdaRecord
from atf.task import US, Status
from tests.store_calls import note_calls

from .world import ENQUEUE_TIMEOUT_US, LAMBDA, World, held


async def mixed(world: World) -> dict[Status, set[str]]:
    """Tasks of one lambda in every status, over two partitions and three priorities."""
    where: dict[Status, set[str]] = {}
    for status in Status:
        ids: list[str] = []
        for partition in (0, 1):
            for priority in (0, 1, 9):
                names = [f"{status.name.lower()}-{priority}-{number}" for number in range(2)]
                ids += await bring(world, status, names, partition=partition, priority=priority)
        where[status] = set(ids)
    await world.schedule("foreign", lambda_name="shop/mailer")
    return where


async def bring(world: World, status: Status, names: list[str], **options: int) -> list[str]:
    if status is Status.NEW:
        return await world.schedule(*names, delay_us=3600 * US, **options)
    if status is Status.CANCELLED:
        ids = await world.schedule(*names, delay_us=3600 * US, **options)
        await world.store.cancel_tasks(ids)
        return ids
    ids = await world.schedule(*names, **options)
    await world.passes(options["partition"])
    if status is Status.ENQUEUED:
        return ids
    claims = held(await world.claim(*ids))
    match status:
        case Status.PROCESSING:
            await world.beat(*claims)
        case Status.SUCCESS:
            await world.finish(Outcome.SUCCEEDED, *claims)
        case Status.RETRIABLE_FAILURE:
            await world.fail(*claims)
        case Status.FATAL_FAILURE:
            await world.finish(Outcome.FAILED_FATAL, *claims)
    return ids


async def pages(world: World, status: Status | None, size: int) -> list[str]:
    found: list[str] = []
    token = ""
    while True:
        records, token = await world.store.list_tasks(LAMBDA, status, size, token)
        assert len(records) <= size
        found += [record.id for record in records]
        if not token:
            return found
        assert len(records) == size


async def test_pages_hold_every_task_once_and_agree_with_the_counts(world: World) -> None:
    where = await mixed(world)
    counts = await world.store.counts(LAMBDA)
    for status in Status:
        for size in (1, 5, 100) if status is Status.NEW else (5,):
            found = await pages(world, status, size)
            assert len(found) == len(set(found)) == counts[status] == 12
            assert set(found) == where[status]
    everything = await pages(world, None, 7)
    assert len(everything) == len(set(everything)) == sum(counts.values())
    assert set(everything) == set().union(*where.values())
    await world.check()


async def test_a_page_takes_one_call_of_each_partition(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    called = note_calls(monkeypatch)
    assert await world.store.list_tasks(LAMBDA, None, 100, "") == ([], "")
    assert called == ["list_tasks"] * world.store.partitions


async def test_a_page_begins_behind_the_last_one_although_tasks_leave(world: World) -> None:
    await world.schedule("a", "b", delay_us=1)
    await world.schedule("c", "d", "e", delay_us=2)
    first, token = await world.store.list_tasks(LAMBDA, Status.NEW, 3, "")
    assert [record.id for record in first] == ["0-a", "0-b", "0-c"]
    await world.store.cancel_tasks(["0-a", "0-c"])
    rest, token = await world.store.list_tasks(LAMBDA, Status.NEW, 3, token)
    assert [record.id for record in rest] == ["0-d", "0-e"]
    assert token == ""


async def test_a_page_that_ends_with_the_last_task_may_be_followed_by_an_empty_one(world: World) -> None:
    await world.schedule("a", "b")
    _, token = await world.store.list_tasks(LAMBDA, Status.NEW, 2, "")
    assert await world.store.list_tasks(LAMBDA, Status.NEW, 2, token) == ([], "")


async def test_tasks_behind_an_ordering_key_are_paged_too(world: World) -> None:
    ids = await world.schedule(*(f"t{number}" for number in range(7)), ordering_key="k")
    assert sorted(await pages(world, Status.NEW, 2)) == sorted(ids)


@pytest.mark.parametrize("token", ["x", "99999..", "-1..", "0.0-a.soon", "...", "1e3.."])
async def test_a_token_of_somebody_elses_is_refused(world: World, token: str) -> None:
    with pytest.raises(InvalidArgument, match="page_token"):
        await world.store.list_tasks(LAMBDA, None, 5, token)


@pytest.mark.parametrize("task_id", ["a", "", "2-a", "0-", "0-a b", "x-a", "-1-a"])
async def test_an_id_that_names_no_partition_is_refused(world: World, task_id: str) -> None:
    for call in (world.store.get_tasks, world.store.cancel_tasks, world.store.retry_tasks, world.store.watch_tasks):
        with pytest.raises(InvalidArgument, match="task id"):
            await call([task_id])
    with pytest.raises(InvalidArgument, match="task id"):
        await world.store.claim("executor-1", "n", [task_id], 100)


async def test_a_record_holds_what_was_given_and_what_happened(world: World) -> None:
    await world.store.schedule(
        [world.task("a", priority=3, spec=b"\x00\xff", digest=b"\x01", at_us=world.clock.us + US, ordering_key="k")]
    )
    scheduled_at = world.clock.us + US
    world.clock.advance(2)
    await world.passes()
    (claim,) = held(await world.claim("0-a", owner="executor-9"))
    record = await world.get("0-a")
    assert (record.lambda_name, record.priority, record.spec, record.digest) == (LAMBDA, 3, b"\x00\xff", b"\x01")
    assert (record.scheduled_at_us, record.ordering_key, record.owner) == (scheduled_at, "k", "executor-9")
    assert (record.attempts, record.losses, record.runs, record.fence) == (0, 0, 1, claim.counter)
    await world.finish(Outcome.FAILED_FATAL, claim, error="käputt")
    record = await world.get("0-a")
    assert (record.error, record.owner, record.attempts) == ("käputt", "", 1)
    assert [(run.owner, run.why, run.attempt) for run in record.ended_runs] == [
        ("executor-9", "failed_fatal: käputt", 1)
    ]


async def test_get_answers_in_order_with_none_for_the_unknown(world: World) -> None:
    await world.schedule("a")
    await world.schedule("b", partition=1)
    answers = await world.store.get_tasks(["1-b", "0-nobody", "0-a", "1-a"])
    assert [each.id if each else None for each in answers] == ["1-b", None, "0-a", None]


async def test_explain_says_where_a_task_stands(world: World) -> None:
    await world.store.register_lambdas([LambdaRecord(LAMBDA, b"", 3, ENQUEUE_TIMEOUT_US, paused=False)])
    await world.schedule("a", "b", "c", "d")
    await world.passes()
    third = await world.store.explain_task("0-c")
    assert third is not None
    assert (third.in_queue, third.position, third.queue_depth, third.queue_limit) == (True, 2, 3, 3)
    waiting = await world.store.explain_task("0-d")
    assert waiting is not None
    assert (waiting.in_queue, waiting.position, waiting.paused, waiting.behind) == (False, -1, False, "")
    assert (waiting.record.status, waiting.now_us) == (Status.NEW, world.clock.us)
    await world.store.pause_lambda(LAMBDA)
    paused = await world.store.explain_task("0-d")
    assert paused is not None
    assert paused.paused
    assert await world.store.explain_task("0-nobody") is None


async def test_a_scan_finds_every_live_task(world: World) -> None:
    where = await mixed(world)
    found: set[str] = set()
    cursor = ""
    while True:
        cursor, records = await world.store.scan(cursor)
        found |= {record.id for record in records}
        if not cursor:
            break
    finished = where[Status.SUCCESS] | where[Status.FATAL_FAILURE] | where[Status.CANCELLED]
    assert found == set().union(*where.values()) - finished | {"0-foreign"}
