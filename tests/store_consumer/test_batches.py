"""Batches under store consumers, on a real task store (on fakeredis) and virtual time: commands, ends and callbacks, whoever dies meanwhile."""

from __future__ import annotations

import asyncio
import random
from hashlib import md5
from typing import Any

import msgspec

from atf.errors import Unavailable
from atf.rpc import batch_pb2 as b, task_pb2 as t
from atf.sdk.batch import link_id
from atf.store import keys
from atf.store.values.batches import BatchAnswer, BatchCommandAnswer, BatchRecord, ItemTerms, NewItem
from atf.store.values.claims import Outcome, RunResult
from atf.store.values.lists import TaskQuery
from atf.store.values.tasks import NewTask, TaskRecord
from atf.task import MAX_PAYLOAD_BYTES, US, Status
from tests.store_calls import list_outbox
from tests.virtual import virtual

from .test_consumer import World, world

B = b.Callback
NAME = "crawl"


def callback(
    when: B.When = B.COMPLETION,
    gives: B.Gives = B.SUMMARY,
    *,
    to: str = "shop/done",
    payload: bytes = b"{}",
    **fields: Any,
) -> B:
    task = t.TaskSpec(payload=payload, options=t.TaskOptions(priority=1, max_attempts=4, max_losses=3, retention_us=US))
    task.labels["to"] = to
    setattr(task, "lambda", to)
    return B(when=when, gives=gives, task=task, **fields)


async def make(w: World, count: int, *callbacks: B, name: str = NAME, spec: bytes | None = None) -> None:
    described = b.BatchSpec(callbacks=callbacks).SerializeToString() if spec is None else spec
    assert (await w.store.open_batch(name, b"d", described, "shop/mail", 3600 * US)).found is BatchAnswer.NEW
    for number in range(count):
        key = md5(str(number).encode(), usedforsecurity=False).hexdigest()
        partition = w.store.partition_for(f"{name}.{key}")
        await w.store.schedule_items(partition, name, ItemTerms("shop/mail", 1), [NewItem(number, key, b"")])
    await w.store.close_batch(name, count)


async def work(w: World, *ends: Outcome, result: bytes = b"", encoding: int = 0) -> int:
    """Ends what is due, the first ones as told, all others with success."""
    await asyncio.sleep(0.1)
    ended = 0
    for partition in range(w.store.partitions):
        while ids := await w.pop(partition):
            claims = await w.claim(ids)
            outcomes = [
                ends[ended + place] if ended + place < len(ends) else Outcome.SUCCEEDED for place in range(len(claims))
            ]
            runs = [
                RunResult(each, outcome, result or each.task_id[-3:].join('""').encode(), encoding, "no")
                for each, outcome in zip(claims, outcomes, strict=True)
            ]
            await w.store.set_results(runs)
            ended += len(claims)
            await asyncio.sleep(0.1)
    await asyncio.sleep(0.1)
    return ended


async def record(w: World, name: str = NAME) -> BatchRecord:
    found = await w.store.get_batch(name)
    assert found is not None
    return found


async def made(w: World, *names: str) -> list[TaskRecord]:
    found = []
    for name in names or ("shop/done",):
        page = await w.store.list_tasks(TaskQuery(name, oldest_first=True), 100)
        tasks = [each for each in await w.store.get_tasks([task.id for task in page.tasks]) if each is not None]
        assert {each.labels for each in tasks} <= {keys.labels({"to": name}), ""}  # "": items of `make`
        found += tasks
    return found


async def told(w: World, *names: str) -> list[Any]:
    """The arguments of the callbacks that were made."""
    return [msgspec.json.decode(t.TaskSpec.FromString(each.spec).payload) for each in await made(w, *names)]


@virtual(world(partitions=2))
async def test_callbacks_are_told_the_summary_once_per_round(w: World) -> None:
    for _ in range(2):
        w.start()
    created_us = w.runtime.wall_us()
    fails, succeeds = callback(B.ANY_FAILURE, to="shop/fails"), callback(B.SUCCESS_OF_ALL, to="shop/succeeds")
    await make(w, 20, callback(payload=b'{"who":"ada"}'), fails, succeeds)
    assert await work(w, Outcome.FAILED_FATAL) == 20
    await asyncio.sleep(5.5)
    ended = await record(w)
    assert ended.ended
    (arguments,) = await told(w)
    summary = arguments.pop("batch")
    assert arguments == {"who": "ada"}
    created, end = summary.pop("created_at"), summary.pop("ended_at")
    assert created < end
    assert created.endswith("+00:00")
    assert summary == {
        "id": NAME,
        "lambda": "shop/mail",
        "status": "done_with_failures",
        "items": 20,
        "done": 19,
        "failed": 1,
        "cancelled": 0,
        "round": 1,
    }
    assert len(await made(w, "shop/fails")) == 1
    assert await made(w, "shop/succeeds") == []
    (task,) = await made(w)
    assert t.TaskSpec.FromString(task.spec).batch == t.BatchInfo(id=NAME)
    assert ended.created_at_us >= created_us

    assert await w.store.retry_batch(NAME) is BatchCommandAnswer.DONE
    assert await work(w) == 1
    await asyncio.sleep(5.5)
    assert [each["batch"]["round"] for each in await told(w)] == [1, 2]
    assert [each["batch"]["status"] for each in await told(w, "shop/succeeds")] == ["done"]
    assert len(await made(w, "shop/fails")) == 1


@virtual(world(partitions=4))
async def test_the_end_is_known_one_delivery_after_the_last_item(w: World) -> None:
    w.start()
    await make(w, 8, callback())
    await asyncio.sleep(0.1)
    ids = [each for partition in range(4) for each in await w.pop(partition)]
    claims = await w.claim(ids)
    await asyncio.sleep(1)
    await w.store.set_results([RunResult(each, Outcome.SUCCEEDED) for each in claims])
    await asyncio.sleep(0.001)
    assert (await record(w)).ended
    assert len(await made(w)) == 1


@virtual(world(partitions=2))
async def test_results_are_given_in_the_order_of_the_items(w: World) -> None:
    w.start()
    results = callback(B.COMPLETION, B.RESULTS, parameter="found")
    only = callback(B.COMPLETION, B.RESULTS, to="shop/only", unwrap=True)
    await make(w, 5, results, only, callback(B.COMPLETION, B.NOTHING, to="shop/nothing"))
    assert await work(w, Outcome.FAILED_FATAL) == 5
    page = await w.store.list_batch_items(NAME, 0, 10)
    expected = [f"{each.task.id[-3:]}" if each.task.status is Status.SUCCESS else None for each in page.items]
    assert expected.count(None) == 1
    assert await told(w) == [{"found": expected}]
    assert await told(w, "shop/only") == [{"batch": expected[0]}]
    assert await told(w, "shop/nothing") == [{}]


@virtual(world())
async def test_a_callback_that_can_not_be_made_holds_up_no_other(w: World) -> None:
    w.start()
    raw = callback(to="shop/raw")
    raw.task.encoding = t.RAW
    large = callback(B.COMPLETION, B.RESULTS, to="shop/large")
    nameless = callback(to="")
    await make(w, 40, raw, nameless, callback(payload=b"[1]", to="shop/odd"), large, callback())
    assert await work(w, result=b'"' + b"x" * (MAX_PAYLOAD_BYTES // 32) + b'"') == 40
    assert len(await made(w)) == 1
    assert await made(w, "shop/raw", "shop/odd", "shop/large") == []
    assert (await w.store.counts(""))[Status.NEW] == 0
    assert "callback 3, shop/large: the results take more than" in (await record(w)).error
    await asyncio.sleep(20)
    assert await list_outbox(w.store, 0) == []


@virtual(world())
async def test_a_batch_whose_description_nobody_can_read_ends_all_the_same(w: World) -> None:
    w.start()
    await make(w, 1, spec=b"\xff")
    assert await work(w) == 1
    assert (await record(w)).ended
    assert (await record(w)).error
    assert await list_outbox(w.store, 0) == []


@virtual(world(partitions=2))
async def test_a_chain_is_made_of_batches_of_one_item(w: World) -> None:
    w.start()
    last = callback(B.SUCCESS_OF_ALL, B.RESULTS, to="shop/last", unwrap=True, as_batch=True)
    middle = callback(B.SUCCESS_OF_ALL, B.RESULTS, to="shop/mail", parameter="of", then=[last])
    await make(w, 2, middle)
    assert await work(w) == 3, "and that of the middle link"
    link = link_id(NAME, 0, 1)
    assert ((await record(w, link)).ended, (await record(w, link)).lambda_name) == (True, "shop/mail")
    assert (await record(w, link)).single_partition
    (item,) = (await w.store.list_batch_items(link, 0, 10)).items
    assert item.task.id.startswith(f"{w.store.batch_partition(link)}-")
    spec = t.TaskSpec.FromString(item.task.spec)
    assert spec.batch == t.BatchInfo(id=link, number=0)
    assert len(msgspec.json.decode(spec.payload)["of"]) == 2
    following = await record(w, link_id(link, 0, 1))
    assert (following.items, following.total, following.ended) == (1, 1, False)
    assert await told(w, "shop/last") == [{"batch": item.task.id[-3:]}]


@virtual(world(partitions=2))
async def test_a_link_that_can_not_be_made_is_found_failed_and_why(w: World) -> None:
    w.start()
    await make(w, 1, callback(payload=b"[]", as_batch=True))
    assert await work(w) == 1
    broken = await record(w, link_id(NAME, 0, 1))
    assert (broken.unmade, broken.cancel_requested, broken.ended, broken.items) == (True, False, True, 0)
    assert broken.error.startswith("shop/done: its payload is no JSON object")


@virtual(world(partitions=2))
async def test_a_callback_whose_id_somebody_else_has_taken_is_said_to_be_unmade(w: World) -> None:
    """Who knows a batch's id knows the ids of its callbacks, too."""
    w.start()
    await make(w, 1, callback())
    name = f"b{link_id(NAME, 0, 1)}"
    for partition in range(2):
        theirs = NewTask(name, partition, "shop/mail", 50, b"", b"another", None, 3600 * US, 1, 1, US)
        await w.store.schedule([theirs])
    await work(w)
    assert "somebody else has scheduled a task of its id" in (await record(w)).error


@virtual(world(partitions=2))
async def test_a_link_whose_id_somebody_else_has_taken_is_said_to_be_unmade_and_theirs_goes_on(w: World) -> None:
    w.start()
    link = link_id(NAME, 0, 1)
    await make(w, 1, name=link)
    await make(w, 1, callback(as_batch=True))
    await work(w)
    assert "somebody else has made a batch of its id" in (await record(w)).error
    theirs = await record(w, link)
    assert (theirs.unmade, theirs.cancel_requested) == (False, False)


@virtual(world(partitions=2))
async def test_nobody_sees_an_unmade_link_end_before_it_says_why(w: World) -> None:
    """A client polls meanwhile: an end without a reason would look like somebody's cancel."""
    w.start()
    plain, seen = w.store.link.call, []

    async def look(verb: str, *args: Any, **more: Any) -> Any:
        answer = await plain(verb, *args, **more)
        if verb in {"open_batch", "note_error", "command_batch"} and (
            found := await w.store.get_batch(link_id(NAME, 0, 1))
        ):
            seen.append((found.ended, found.cancel_requested, bool(found.error)))
        return answer

    w.store.link.call = look  # type: ignore[method-assign]
    await make(w, 1, callback(payload=b"[]", as_batch=True))
    assert await work(w) == 1
    assert (True, False, True) in seen
    assert not [each for each in seen if (each[0] and not each[2]) or each[1]], seen


@virtual(world(partitions=2))
async def test_consumers_that_are_killed_finish_what_was_asked_for(w: World) -> None:
    """Commands go on where they were, and each end makes its callbacks once."""
    chance = random.Random(5)
    await make(w, 600, callback())
    assert await w.store.cancel_batch(NAME) is BatchCommandAnswer.DONE
    plain, steps = w.store.sync_batch, 0

    async def slow(owed: Any) -> bool:
        nonlocal steps
        steps += 1
        await asyncio.sleep(0.02)
        return await plain(owed)

    w.store.sync_batch = slow  # type: ignore[method-assign, assignment]
    for _ in range(6):
        w.start()
        await asyncio.sleep(chance.uniform(0.01, 0.1))
        await w.stop()
        await asyncio.sleep(chance.uniform(0, 2))
    w.start()
    await asyncio.sleep(10)
    ended = await record(w)
    assert (ended.cancelled, ended.ended) == (600, True)
    assert steps >= 4
    assert len(await told(w)) == 1


@virtual(world(partitions=2))
async def test_a_store_that_fails_in_the_middle_makes_no_callback_lost_and_none_twice(w: World) -> None:
    w.start()
    await make(w, 3, callback(), callback(to="shop/other"))
    plain, failed = w.store.schedule, 0

    async def flaky(tasks: Any) -> Any:
        nonlocal failed
        failed += 1
        answer = await plain(tasks)
        if failed in {1, 3, 4}:
            raise Unavailable("the answer is lost")
        return answer

    w.store.schedule = flaky  # type: ignore[method-assign, assignment]
    assert await work(w) == 3
    await asyncio.sleep(30)
    assert failed > 4
    assert [len(await made(w, name)) for name in ("shop/done", "shop/other")] == [1, 1]
    assert (await record(w)).error == ""
