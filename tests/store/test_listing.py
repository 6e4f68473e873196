"""Reading: pages over partitions, counts that agree with them, whole records, and where a task stands."""

from __future__ import annotations

import random

import pytest

from atf.errors import InvalidArgument
from atf.store import keys
from atf.store.values.claims import Outcome
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.lists import ListedTask, TaskQuery
from atf.task import US, Status
from tests.known import know
from tests.store_calls import note_calls

from .world import ENQUEUE_TIMEOUT_US, LAMBDA, World, dump, held, labelled


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


async def pages(world: World, query: TaskQuery, size: int) -> list[str]:
    """The ids of all pages, in their order."""
    found: list[ListedTask] = []
    behind = None
    while True:
        page = await world.store.list_tasks(query, size, behind)
        assert len(page.tasks) <= size
        found += page.tasks
        behind = page.next
        if behind is None:
            assert found == sorted(found, reverse=not query.oldest_first)
            return [each.id for each in found]


async def test_pages_hold_every_task_once_and_agree_with_the_counts(world: World) -> None:
    where = await mixed(world)
    counts = await world.store.counts(LAMBDA)
    for status in Status:
        for size in (1, 5, 100) if status is Status.NEW else (5,):
            found = await pages(world, TaskQuery(LAMBDA, statuses=[status]), size)
            assert len(found) == len(set(found)) == counts[status] == 12
            assert set(found) == where[status]
    everything = await pages(world, TaskQuery(LAMBDA), 7)
    assert len(everything) == len(set(everything)) == sum(counts.values())
    assert set(everything) == set().union(*where.values())
    for every_status in (TaskQuery(LAMBDA, statuses=list(Status)), TaskQuery(LAMBDA, oldest_first=True)):
        assert sorted(await pages(world, every_status, 7)) == sorted(everything)
    assert set(await pages(world, TaskQuery(), 7)) == {*everything, "0-foreign"}
    await world.check()


async def test_a_filter_finds_what_it_says_and_nothing_else(world: World) -> None:
    await mixed(world)
    labels = labelled(tier="gold", city="Köln")
    await world.store.schedule(
        [
            world.task("labelled", labels=labels, priority=3),
            world.task("keyed", ordering_key="card 7", lambda_name="post/mailer"),
            world.task("held", concurrency=keys.concurrency(LAMBDA, "card 7", 1, 0), partition=1),
        ]
    )
    failed = await world.run("fails", partition=1)
    await world.finish(
        Outcome.FAILED_FATAL, *failed, error="ZeroDivisionError: by 0\nTraceback (most recent call last):"
    )
    for query, expected in {
        TaskQuery(labels=labelled(city="Köln")): {"0-labelled"},
        TaskQuery(labels=labelled(city="Kö")): set(),
        TaskQuery(labels=labelled(tier="gold"), priorities=(3, 4)): {"0-labelled"},
        TaskQuery(labels=labelled(tier="gold"), priorities=(4,)): set(),
        TaskQuery(key=keys.stored_key("card 7")): {"0-keyed", "1-held"},
        TaskQuery(key=keys.stored_key("card 7"), namespace="post/"): {"0-keyed"},
        TaskQuery(namespace="post/"): {"0-keyed"},
        TaskQuery(namespace="pos/"): set(),
        TaskQuery(error_type="ZeroDivisionError"): {"1-fails"},
        TaskQuery(error_type="ZeroDivision"): set(),
        TaskQuery(statuses=(Status.NEW, Status.FATAL_FAILURE), error_type="ZeroDivisionError", oldest_first=True): {
            "1-fails"
        },
    }.items():
        assert set(await pages(world, query, 2)) == expected, query
    by_queue = await pages(world, TaskQuery(statuses=(Status.ENQUEUED,), priorities=(9,)), 3)
    assert len(by_queue) == 4
    assert all("-9-" in each for each in by_queue)


async def test_the_newest_of_all_lambdas_come_first(world: World) -> None:
    names = [f"l{number % 7}/x" for number in range(70)]
    for number, name in enumerate(names):
        await world.store.schedule(
            [world.task(f"t{number}", lambda_name=name, partition=number % 2, delay_us=3600 * US)]
        )
        world.clock.advance(1)
    newest = [f"{number % 2}-t{number}" for number in reversed(range(70))]
    assert await pages(world, TaskQuery(), 9) == newest
    assert await pages(world, TaskQuery(oldest_first=True), 9) == newest[::-1]
    await world.store.cancel_tasks([f"{number % 2}-t{number}" for number in (3, 68, 5)])
    assert await pages(world, TaskQuery(), 9) == newest  # it is as old as it was
    world.clock.advance(1)
    await world.store.cancel_tasks(["0-t68", "0-t4"])
    assert await pages(world, TaskQuery(statuses=[Status.CANCELLED]), 2) == ["0-t4", "1-t5", "1-t3", "0-t68"]


async def test_a_span_is_from_an_instant_until_before_another(world: World) -> None:
    begun = world.clock.us
    for number in range(10):
        await world.schedule(f"t{number}", delay_us=1)
        world.clock.advance(1)
    span = TaskQuery(since_us=begun + 2 * US, until_us=begun + 5 * US)
    assert await pages(world, span, 2) == ["0-t4", "0-t3", "0-t2"]
    assert await pages(world, span._replace(lambda_name=LAMBDA, oldest_first=True), 2) == ["0-t2", "0-t3", "0-t4"]
    page = await world.store.list_tasks(span, 2, count=True)
    assert (page.of, page.looked_at) == (3, 2)
    assert (await world.store.list_tasks(TaskQuery(), 1, count=True)).of == 10


async def test_the_index_finds_tasks_by_what_they_were_given(world: World) -> None:
    await know(world.store, "post/mailer")
    await world.store.schedule(
        [
            world.task("a", entries="order=7 user=ada"),
            world.task("b", entries="order=7 user=bob", partition=1),
            world.task("c", entries="order=8", lambda_name="post/mailer"),
            world.task("d", entries="order=7", lambda_name="post/mailer"),
        ]
    )
    await world.store.cancel_tasks(["1-b"])
    both = ("post/mailer", LAMBDA)
    for query, expected in {
        TaskQuery(LAMBDA, entries=("order=7",)): {"0-a", "1-b"},
        TaskQuery(LAMBDA, entries=("order=7", "user=bob")): {"1-b"},
        TaskQuery(entries=("order=7",), lambdas=both): {"0-a", "1-b", "0-d"},
        TaskQuery(entries=("order=7",), lambdas=both, statuses=(Status.CANCELLED,)): {"1-b"},
        TaskQuery(LAMBDA, entries=("order=9",)): set(),
    }.items():
        assert set(await pages(world, query, 1)) == expected, query
    await world.check()


async def test_a_task_that_is_put_off_is_found_by_what_the_last_call_gave_it(world: World) -> None:
    debounce = keys.unique(LAMBDA, "k", US, 1)
    for name, entries in (("a", "order=1"), ("b", "order=2"), ("c", ""), ("d", "order=3")):
        await world.store.schedule([world.task(name, unique=debounce, entries=entries)])
        await world.check()
    assert await pages(world, TaskQuery(LAMBDA, entries=("order=3",)), 1) == ["0-a"]
    assert await pages(world, TaskQuery(LAMBDA, entries=("order=1",)), 1) == []


async def test_tasks_of_one_instant_are_paged_by_their_ids(world: World) -> None:
    """Many are made in one call, or due at midnight, or wait for what has no instant: their set has one score."""
    for lambda_name in ("a/a", "b/b"):
        await world.store.schedule(
            [
                world.task(f"{lambda_name[0]}{chance.getrandbits(64):x}", lambda_name=lambda_name, ordering_key="k")
                for chance in [random.Random(lambda_name)]
                for _ in range(60)
            ]
        )
    for oldest_first in (False, True):
        for statuses in ((), (Status.NEW,)):
            found = await pages(world, TaskQuery(statuses=statuses, oldest_first=oldest_first), 7)
            assert len(set(found)) == len(found) == 120


@pytest.mark.parametrize("forgotten", [False, True])
async def test_what_waits_for_no_instant_is_found_too(forgotten: bool, world: World) -> None:
    """Its queue is not in the due index while a pause keeps it, or others of its ordering key stand before it."""
    await world.schedule("first", ordering_key="k")
    await world.schedule("behind", ordering_key="k", priority=9)
    await world.store.pause_lambda(LAMBDA)
    await world.passes()
    found = await dump(world.store)
    assert found.zset("atf:{0}:due") == {}
    assert set(found.zset("atf:{0}:unvisited")) == {f"{LAMBDA}:1", f"{LAMBDA}:9"}
    for query in (TaskQuery(statuses=(Status.NEW,)), TaskQuery(LAMBDA, statuses=(Status.NEW,))):
        page = await world.store.list_tasks(query, 9, count=True)
        assert ([each.id for each in page.tasks], page.of) == (["0-behind", "0-first"], 2)
    assert (await world.store.counts(LAMBDA))[Status.NEW] == 2
    if forgotten:
        await world.store.cancel_tasks(["0-first"])
        await world.store.delete_lambda(LAMBDA)
        found = await dump(world.store)
        assert set(found.zset("atf:{0}:unvisited")) == {f"{LAMBDA}:9"}, "one may have come a moment ago"
        return
    await world.store.resume_lambda(LAMBDA)
    await world.store.cancel_tasks(["0-first", "0-behind"])
    await world.passes()
    assert (await dump(world.store)).zset("atf:{0}:unvisited") == {}


@pytest.mark.parametrize("at_once", [1, 3, 32])
async def test_lambdas_whose_names_begin_alike_are_counted_each(
    at_once: int, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atf.store.status._AT_ONCE", at_once)
    names = ("a/b", "a/b-c", "a/b.c", "a/bc", "a/b0", "a/bz-")
    for number, name in enumerate(names):
        ids = [f"t{number}-{each}" for each in range(number + 1)]
        await world.store.cancel_tasks(await world.schedule(*ids, lambda_name=name, partition=number % 2))
    found = (await world.store.get_status([*names, "a/none"], US)).lambdas
    assert {name: each.counts[Status.CANCELLED] for name, each in found.items()} == {
        name: number + 1 for number, name in enumerate(names)
    }
    assert not any(each.unfinished or each.waiting or each.dead for each in found.values())


async def test_a_page_takes_one_call_of_each_partition(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    called = note_calls(monkeypatch)
    page = await world.store.list_tasks(TaskQuery(), 100)
    assert (page.tasks, page.next, page.of) == ([], None, -1)
    assert called == ["list_tasks"] * world.store.partitions


async def test_a_page_looks_at_a_bounded_number_of_records(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atf.store.listing.MOST_LOOKED_AT", 40)
    for number in range(50):
        await world.schedule(f"t{number}", partition=number % 2, labels=labelled(n=str(number)))
        world.clock.advance(1)
    query = TaskQuery(labels=labelled(n="2"))
    first = await world.store.list_tasks(query, 10, count=True)
    assert (first.tasks, first.of) == ([], 50)
    assert 20 <= first.looked_at <= 40
    second = await world.store.list_tasks(query, 10, first.next)
    assert [each.id for each in second.tasks] == ["0-t2"]
    assert second.next is None
    assert first.looked_at + second.looked_at >= 50


async def test_a_call_looks_at_few_records(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atf.store.listing.LOOKED_AT_IN_A_CALL", 4)
    for number in range(18):
        await world.schedule(f"t{number}", partition=number % 2, labels=labelled(odd=str(number % 2)))
        world.clock.advance(1)
    called = note_calls(monkeypatch)
    page = await world.store.list_tasks(TaskQuery(labels=labelled(odd="1"), oldest_first=True), 50)
    assert [each.id for each in page.tasks] == [f"1-t{number}" for number in range(1, 18, 2)]
    assert page.next is None
    assert called.count("list_tasks") == 3 * world.store.partitions


async def test_a_page_begins_behind_the_last_one_although_tasks_leave(world: World) -> None:
    await world.schedule("a", "b", delay_us=1)
    await world.schedule("c", "d", "e", delay_us=2)
    query = TaskQuery(LAMBDA, statuses=[Status.NEW], oldest_first=True)
    first = await world.store.list_tasks(query, 3)
    assert [each.id for each in first.tasks] == ["0-a", "0-b", "0-c"]
    await world.store.cancel_tasks(["0-a", "0-c"])
    rest = await world.store.list_tasks(query, 3, first.next)
    assert [each.id for each in rest.tasks] == ["0-d", "0-e"]
    assert rest.next is None


async def test_tasks_behind_an_ordering_key_are_paged_too(world: World) -> None:
    ids = await world.schedule(*(f"t{number}" for number in range(7)), ordering_key="k")
    assert sorted(await pages(world, TaskQuery(LAMBDA, statuses=[Status.NEW]), 2)) == sorted(ids)


@pytest.mark.parametrize("task_id", ["a", "", "2-a", "0-", "0-a b", "x-a", "-1-a"])
async def test_an_id_that_names_no_partition_is_refused(world: World, task_id: str) -> None:
    for call in (world.store.get_tasks, world.store.cancel_tasks, world.store.retry_tasks, world.store.watch_tasks):
        with pytest.raises(InvalidArgument, match="task id"):
            await call([task_id])


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
