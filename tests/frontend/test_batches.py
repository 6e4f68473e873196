"""Batches at the frontend: how they are made, gone on with and extended, what is refused, and how they are looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from atf.auth.caller import Caller, CallerKind, acting_for
from atf.auth.grants import TokenGrant, Verb
from atf.client import AsyncClient
from atf.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    TooManyPending,
    Unavailable,
    UnknownLambda,
)
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.sdk.work_items import EXTRA_FIRST, digest_of
from atf.store.library import BATCH_CHECK_US
from atf.store.values.batches import ItemTerms, NewItem
from atf.store.values.claims import ClaimedTask, HeldClaim, Outcome
from atf.task import US

from .conftest import Bench

NAME = "photos/thumbnail"
ID = "nightly"


def header(batch_id: str = ID, *, described: bool = True, spec: dict[str, Any] | None = None, **fields: Any) -> Any:
    made = b.BatchHeader(id=batch_id, **fields)
    if described:
        made.spec.CopyFrom(b.BatchSpec(**{"lambda": NAME, **(spec or {})}))
    return b.ScheduleBatchRequest(header=made)


def items(*numbers: int, **fields: Any) -> b.ScheduleBatchRequest:
    made = [b.BatchItem(payload=b'{"n":%d}' % each, **fields) for each in numbers]
    return b.ScheduleBatchRequest(items=b.BatchItems(items=made))


def ended(count: int) -> b.ScheduleBatchRequest:
    return b.ScheduleBatchRequest(end=b.BatchEnd(items=count))


async def stream(*requests: b.ScheduleBatchRequest) -> AsyncIterator[b.ScheduleBatchRequest]:
    for each in requests:
        yield each


async def send(bench: Bench, *requests: b.ScheduleBatchRequest) -> b.ScheduleBatchReply:
    """Sends messages, and the end that belongs to them."""
    count = sum(len(each.items.items) for each in requests)
    return await bench.frontend.schedule_batch(stream(*requests, ended(count)))


async def make(bench: Bench, count: int = 3, batch_id: str = ID, **more: Any) -> b.ScheduleBatchReply:
    return await send(bench, header(batch_id, **more), items(*range(count)))


async def get(bench: Bench, batch_id: str = ID, **more: Any) -> b.Batch:
    return await bench.frontend.get_batch(b.GetBatchRequest(id=batch_id, **more))


async def listed(bench: Bench, batch_id: str = ID, **asked: Any) -> list[b.Item]:
    found: list[b.Item] = []
    while True:
        page = await bench.frontend.list_batch_items(b.ListBatchItemsRequest(id=batch_id, **asked))
        found += page.items
        if not page.next_page_token:
            return found
        asked["page_token"] = page.next_page_token


async def deliver(bench: Bench) -> None:
    """What partitions owe each other arrives, and what that makes them owe."""
    for _ in range(6):
        await bench.enqueue()
        bench.clock.advance(0.1)


async def claims(bench: Bench, batch_id: str = ID) -> list[ClaimedTask]:
    return await bench.claim(*(each.task_id for each in await listed(bench, batch_id, statuses=[b.ITEM_CREATED])))


async def run_all(bench: Bench, outcomes: Sequence[Outcome] = (), **fields: Any) -> None:
    """All items end: the first ones in these ways, the others well."""
    found = await claims(bench)
    for place, claim in enumerate(found):
        outcome = outcomes[place] if place < len(outcomes) else Outcome.SUCCEEDED
        await bench.end(claim, outcome, **fields)
    await deliver(bench)


# --- made, gone on with, extended -------------------------------------------------------------------------------------


async def test_a_batch_is_stored_with_everything_filled_in(bench: Bench) -> None:
    reply = await make(bench, 5, spec={"labels": {"team": "web"}})
    assert (reply.id, reply.stored, reply.items) == (ID, 5, 5)
    batch = await get(bench, with_spec=True)
    assert (batch.status, batch.items, batch.created, batch.sealed, batch.round) == (b.BATCH_CREATED, 5, 5, True, 1)
    assert batch.spec.options.max_attempts == 10
    assert not (await get(bench)).HasField("spec")
    task = await bench.stored((await listed(bench))[3].task_id)
    (record,) = await bench.store.get_tasks([task.id])
    assert record is not None
    assert record.labels == "team=web"
    assert task.spec.payload == b'{"n":3}'
    assert (task.spec.labels["team"], task.spec.batch.id, task.spec.batch.number) == ("web", ID, 3)
    assert task.spec.options == batch.spec.options


async def test_the_operator_bounds_the_attempts_of_items(bench: Bench) -> None:
    bench.frontend = bench.another_frontend(batch_max_attempts=2)
    await make(bench, spec={"options": t.TaskOptions(max_attempts=7)})
    (claim, *_) = await claims(bench)
    assert (await bench.stored(claim.task_id)).spec.options.max_attempts == 2


async def test_the_same_call_again_stores_nothing_twice(bench: Bench) -> None:
    await make(bench, 5)
    reply = await make(bench, 5)
    assert (reply.stored, reply.items, (await get(bench)).items) == (0, 5, 5)


async def test_who_goes_on_begins_at_the_prefix(bench: Bench) -> None:
    await send(bench, header(keep_open=True), items(0, 1, 2))
    batch = await get(bench)
    assert (batch.prefix, batch.sealed) == (3, False)
    reply = await send(bench, header(described=False, first=batch.prefix), items(3, 4))
    assert (reply.stored, reply.items, (await get(bench)).sealed) == (2, 5, True)


async def test_a_gap_is_refused_since_the_batch_would_never_end(bench: Bench) -> None:
    await send(bench, header(keep_open=True), items(0, 1, 2))
    with pytest.raises(FailedPrecondition, match=r"first 4: .* before number 3 are stored"):
        await send(bench, header(first=4), items(4))


async def test_a_stream_that_breaks_off_is_not_the_whole_batch(bench: Bench) -> None:
    with pytest.raises(Unavailable, match="broke off behind 3 items"):
        await bench.frontend.schedule_batch(stream(header(), items(0, 1, 2)))
    batch = await get(bench)
    assert (batch.items, batch.prefix, batch.sealed) == (3, 3, False)
    reply = await send(bench, header(first=3), items(3))
    assert (reply.stored, (await get(bench)).sealed) == (1, True)


async def test_what_the_end_says_must_be_so(bench: Bench) -> None:
    with pytest.raises(InvalidArgument, match="end speaks of 4 items, and 3 came"):
        await bench.frontend.schedule_batch(stream(header(), items(0, 1, 2), ended(4)))
    assert not (await get(bench)).sealed


async def test_a_bad_item_stores_nothing_of_its_message_and_all_before_it(bench: Bench) -> None:
    bad = b.ScheduleBatchRequest(items=b.BatchItems(items=[b.BatchItem(payload=b"{}"), b.BatchItem(payload=b"[]")]))
    with pytest.raises(InvalidArgument, match="item 4: payload: give the arguments by name"):
        await send(bench, header(), items(0, 1, 2), bad)
    batch = await get(bench)
    assert (batch.items, batch.prefix, batch.sealed) == (3, 3, False)


async def test_more_items_than_a_batch_was_made_of_are_refused(bench: Bench) -> None:
    await make(bench, 3)
    with pytest.raises(FailedPrecondition, match="made of 3 items, and item 3 is none of them; extend = true"):
        await make(bench, 4)
    assert (await get(bench)).items == 3


async def test_another_description_of_the_same_id_is_refused(bench: Bench) -> None:
    await make(bench)
    with pytest.raises(AlreadyExists, match="'nightly' is taken by a batch with another description"):
        await make(bench, spec={"labels": {"a": "b"}})


async def test_an_extension_adds_items_behind_those_there_are(bench: Bench) -> None:
    await make(bench, 3)
    more = header(described=False, extend=True, request_id="r1")
    reply = await send(bench, more, items(7), items(8))
    assert (reply.stored, reply.items) == (2, 5)
    assert [each.number for each in await listed(bench)] == [0, 1, 2, 3, 4]
    again = await send(bench, more, items(7), items(8))
    assert (again.stored, again.items, (await get(bench)).items) == (0, 5, 5)
    with pytest.raises(AlreadyExists, match="'r1' of batch nightly asked for other items"):
        await send(bench, more, items(7, 8))


async def test_who_extends_a_batch_may_schedule_its_callbacks(bench: Bench) -> None:
    """They are made once more, from what the items bring."""
    await bench.register("mail/done")
    mail_done: dict[str, Any] = {"lambda": "mail/done"}
    done = b.Callback(when=b.Callback.COMPLETION, task=t.TaskSpec(**mail_done))
    await send(bench, header(spec={"callbacks": [done]}), items(1))
    grant = TokenGrant(frozenset({Verb.SCHEDULE}), frozenset({NAME.partition("/")[0]}))
    with (
        acting_for(Caller(CallerKind.TOKEN, "token x", grant)),
        pytest.raises(PermissionDenied, match="no schedule for mail/done"),
    ):
        await send(bench, header(described=False, extend=True), items(2))
    assert len(await listed(bench)) == 1
    await send(bench, header(described=False, extend=True), items(2))
    assert len(await listed(bench)) == 2


async def test_a_batch_that_has_ended_goes_on_when_it_is_extended(bench: Bench) -> None:
    await make(bench, 2)
    await run_all(bench)
    assert (await get(bench)).status == b.BATCH_DONE
    await send(bench, header(described=False, extend=True), items(2))
    batch = await get(bench)
    assert (batch.status, batch.round, batch.ended_at_us) == (b.BATCH_IN_PROGRESS, 2, 0)


async def test_further_items_lie_where_those_of_their_batch_do(bench: Bench) -> None:
    """A link of a chain lies in its batch partition, which its description does not say."""
    spec = header().header.spec.SerializeToString()
    await bench.store.open_batch(ID, b"d", spec, NAME, 3600 * US, single_partition=True)
    await bench.store.close_batch(ID, 0)
    await send(bench, header(described=False, extend=True), items(*range(9)))
    batch_partition = f"{bench.store.batch_partition(ID)}-"
    assert [each.task_id.startswith(batch_partition) for each in await listed(bench)] == [True] * 9


async def test_of_an_extension_nothing_is_announced_that_is_refused(bench: Bench) -> None:
    """The batch would wait for it."""
    await make(bench, 2)
    bad = b.ScheduleBatchRequest(items=b.BatchItems(items=[b.BatchItem(payload=b"{}"), b.BatchItem(payload=b"[]")]))
    with pytest.raises(InvalidArgument, match="item 2: payload: give the arguments by name"):
        await send(bench, header(described=False, extend=True), items(7), bad)
    await run_all(bench)
    batch = await get(bench)
    assert (batch.status, batch.items, batch.round) == (b.BATCH_DONE, 3, 1)


async def test_results_pass_over_what_was_announced_and_never_stored(bench: Bench) -> None:
    await make(bench, 2)
    await bench.store.reserve_items(ID, "died", 0, 2)
    await send(bench, header(described=False, extend=True), items(7))
    await run_all(bench)
    assert (await get(bench)).status == b.BATCH_IN_PROGRESS, "they may be on their way"
    for _ in range(7):
        bench.clock.advance(BATCH_CHECK_US / US)
        for partition in range(bench.store.partitions):
            await bench.store.sweep(partition, 1)
        await deliver(bench)
    assert (await get(bench)).status == b.BATCH_DONE
    client = AsyncClient("here", frontend=bench.frontend)
    seen = [item.number async for page in client.finished_items(ID, 10) for item in page]
    assert seen == [0, 1, 4]
    await client.close()


@pytest.mark.parametrize("more", [{"described": False}, {"extend": True}])
async def test_a_batch_that_is_not_there_can_t_be_gone_on_with(bench: Bench, more: dict[str, Any]) -> None:
    with pytest.raises(NotFound, match="no batch 'nightly'"):
        await send(bench, header(**more), items(0))


async def test_an_extension_of_a_batch_that_is_still_made_comes_behind_its_items(bench: Bench) -> None:
    """In what is stored, and in what the SDK tells of it, however the two arrive."""
    await send(bench, header(keep_open=True), items(0, 1))
    extension = header(described=False, extend=True, request_id="r")
    await send(bench, extension, items(7, 8))
    await send(bench, header(first=2), items(2))
    assert [each.number for each in await listed(bench)] == [0, 1, 2, EXTRA_FIRST, EXTRA_FIRST + 1]
    await run_all(bench)
    assert (await get(bench)).status == b.BATCH_DONE
    client = AsyncClient("here", frontend=bench.frontend)
    seen = [item.number async for page in client.finished_items(ID, 10) for item in page]
    assert seen == [0, 1, 2, EXTRA_FIRST, EXTRA_FIRST + 1]
    await client.close()


async def test_an_empty_batch_is_a_batch_and_ends_at_once(bench: Bench) -> None:
    assert (await send(bench, header())).items == 0
    await deliver(bench)
    assert (await get(bench)).status == b.BATCH_DONE


async def test_each_of_a_thousand_identical_items_has_its_own_id(bench: Bench) -> None:
    await send(bench, header(), items(*[7] * 1_000))
    found = await listed(bench, page_size=1_000)
    md5 = digest_of(NAME, ["7"])
    assert [each.work_item_id for each in found] == [md5, *(f"{md5}-{number}" for number in range(1, 1_000))]
    assert (await get(bench)).items == 1_000


async def test_items_that_share_a_key_lie_in_one_partition(bench: Bench) -> None:
    await make(bench, 20, "spread")
    await make(bench, 20, "together", spec={"max_in_flight": 2})
    assert len({each.task_id[0] for each in await listed(bench, "spread")}) == 2
    assert len({each.task_id[0] for each in await listed(bench, "together")}) == 1


@pytest.mark.parametrize(
    ("requests", "says"),
    [
        ([], "the first message of the stream is its header"),
        ([items(0)], "the first message of the stream is its header"),
        ([header(), header()], "this message is neither"),
        ([header(), b.ScheduleBatchRequest()], "this message is neither"),
        ([header("a.b")], "batch id 'a.b'"),
        ([header(first=-1)], "first -1"),
        ([header(request_id="a b", extend=True, described=False)], "task id 'a b'"),
        ([header(durability=9)], "durability 9"),
        ([header(spec={"workers": -1})], "workers -1"),
        ([header(), items(*range(1_001))], "1001 items: at most 1000 in one message"),
    ],
)
async def test_a_stream_that_is_none_is_refused(
    bench: Bench, requests: list[b.ScheduleBatchRequest], says: str
) -> None:
    with pytest.raises(InvalidArgument, match=says):
        await send(bench, *requests)


async def test_an_unknown_lambda_is_refused_with_nothing_stored(bench: Bench) -> None:
    with pytest.raises(UnknownLambda):
        await make(bench, spec={"lambda": "photos/none"})
    with pytest.raises(NotFound):
        await get(bench)


async def test_a_lambda_s_bound_holds_for_items_and_whoever_goes_on_later_begins_where_it_ended(bench: Bench) -> None:
    await bench.register(max_pending=4)
    with pytest.raises(TooManyPending, match="as many unfinished tasks as it may have, 4"):
        await make(bench, 6)
    batch = await get(bench)
    assert (batch.items, batch.prefix, batch.sealed) == (4, 4, False)
    await run_all(bench)
    bench.clock.advance(2)
    reply = await send(bench, header(first=4), items(4, 5))
    assert (reply.stored, reply.items) == (2, 6)


async def test_identical_items_count_each_by_itself_and_those_that_are_stored_are_let_in_again(bench: Bench) -> None:
    await bench.register(max_pending=4)
    with pytest.raises(TooManyPending):
        await send(bench, header(), items(7, 7, 7, 7, 7, 7))
    assert (await get(bench)).items == 4
    bench.clock.advance(2)
    reply = await send(bench, header(keep_open=True), items(7, 7, 7, 7))
    assert (reply.stored, reply.items) == (0, 4)


async def test_where_the_store_fails_nothing_is_sealed_and_the_prefix_is_noted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = bench.store.schedule_items

    async def fails(partition: int, batch_id: str, terms: ItemTerms, some: Sequence[NewItem], *more: Any) -> list[bool]:
        if some[-1].number >= 3:
            raise Unavailable("it is away")
        return await right(partition, batch_id, terms, some, *more)

    monkeypatch.setattr(bench.store, "schedule_items", fails)
    with pytest.raises(Unavailable, match="it is away"):
        await send(bench, header(), items(0), items(1), items(2), items(3, 4), items(5))
    batch = await get(bench)
    assert {each.number for each in await listed(bench)} >= set(range(batch.prefix))
    assert 0 < batch.prefix <= 3
    assert not batch.sealed


async def test_a_frontend_that_ends_sends_its_callers_to_another_one(bench: Bench) -> None:
    async def drained() -> AsyncIterator[b.ScheduleBatchRequest]:
        yield header()
        yield items(0, 1)
        bench.frontend.drain()
        yield items(2)

    with pytest.raises(Unavailable, match="go on with batch nightly at another one"):
        await bench.frontend.schedule_batch(drained())
    assert (await get(bench)).prefix == 2


# --- looked at --------------------------------------------------------------------------------------------------------


async def test_counts_follow_the_items(bench: Bench) -> None:
    await make(bench, 6)
    (first, second, third, *_) = await claims(bench)
    await bench.end(first)
    await bench.end(second, Outcome.FAILED, error="it rained")
    await bench.end(third, Outcome.FAILED_FATAL)
    batch = await get(bench)
    assert (batch.status, batch.items, batch.ended_at_us) == (b.BATCH_IN_PROGRESS, 6, 0)
    assert (batch.done, batch.failed, batch.permanently_failed, batch.in_progress, batch.created) == (1, 1, 1, 3, 0)


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [([], b.BATCH_DONE), ([Outcome.FAILED_FATAL], b.BATCH_DONE_WITH_FAILURES)],
)
async def test_a_batch_ends_with_its_last_item(bench: Bench, outcomes: list[Outcome], status: int) -> None:
    await make(bench, 6)
    await run_all(bench, outcomes)
    batch = await get(bench)
    assert batch.status == status
    assert batch.ended_at_us > 0


async def test_items_come_in_their_order_page_by_page(bench: Bench) -> None:
    await make(bench, 50)
    assert [each.number for each in await listed(bench, page_size=7)] == list(range(50))
    assert [each.number for each in await listed(bench, page_size=1_000, first=40)] == list(range(40, 50))


async def test_items_are_found_by_status_and_by_what_they_were_given(bench: Bench) -> None:
    await make(bench, 12)
    done, failed, *_ = await claims(bench)
    await bench.end(done, result=b"42")
    await bench.end(
        failed, Outcome.FAILED_FATAL, error="ValueError: it rained\nTraceback (most recent call last):\n  File x"
    )
    (item,) = await listed(bench, statuses=[b.ITEM_DONE])
    assert (item.task_id, item.result, item.attempts, item.peer) == (done.task_id, b"42", 1, "executor-1")
    assert item.chunk
    assert done.nonce not in str(item), "whoever has it can end the claims of others"
    assert item.finished_at_us > 0
    (item,) = await listed(bench, statuses=[b.ITEM_PERMANENTLY_FAILED])
    assert (item.task_id, item.error) == (
        failed.task_id,
        "ValueError: it rained\nTraceback (most recent call last):\n  File x",
    )
    assert (item.error_type, item.error_message) == ("ValueError", "it rained")
    assert len(await listed(bench, statuses=[b.ITEM_IN_PROGRESS, b.ITEM_DONE])) == 11
    assert await listed(bench, statuses=[b.ITEM_CANCELLED]) == []
    (item,) = await listed(bench, work_item_id=digest_of(NAME, ["5"]), with_arguments=True)
    assert (item.number, item.payload, list(item.arguments)) == (5, b'{"n":5}', ["5"])
    assert await listed(bench, work_item_id=digest_of(NAME, ["99"])) == []


async def test_what_was_handed_back_before_it_ran_is_in_no_chunk(bench: Bench) -> None:
    await make(bench, 3)
    ran, *back = await claims(bench)
    await bench.end(ran, Outcome.FAILED, error="it rained")
    held = [HeldClaim(each.task_id, each.counter, each.nonce) for each in back]
    assert [(each.chunk != "", each.peer) for each in await listed(bench)] == [(True, "executor-1")] * 3
    assert len(await bench.store.hand_back(held)) == 2
    await bench.store.cancel_tasks([back[0].task_id])
    shown = {each.task_id: (each.status, each.chunk != "", each.peer) for each in await listed(bench)}
    assert shown == {
        ran.task_id: (b.ITEM_FAILED, True, "executor-1"),
        back[0].task_id: (b.ITEM_CANCELLED, False, ""),
        back[1].task_id: (b.ITEM_CREATED, False, ""),
    }


async def test_a_command_line_is_shown_as_such(bench: Bench) -> None:
    await bench.register("atf/command")
    line = b.ScheduleBatchRequest(items=b.BatchItems(items=[b.BatchItem(arguments=["echo", "a b"])]))
    await send(bench, header(spec={"lambda": "atf/command"}), line)
    (item,) = await listed(bench, with_arguments=True)
    assert list(item.arguments) == ["echo", "a b"]


async def test_a_chunk_of_workers_has_its_number(bench: Bench) -> None:
    await make(bench, 4, spec={"workers": 3})
    assert [each.chunk for each in await listed(bench)] == ["0", "1", "2", "0"]


async def test_a_page_of_large_results_is_shorter_and_nothing_is_left_out(bench: Bench) -> None:
    await make(bench, 60)
    await run_all(bench, result=b"r" * (64 << 10))
    page = await bench.frontend.list_batch_items(b.ListBatchItemsRequest(id=ID, page_size=60))
    assert len(page.items) < 60
    assert page.ByteSize() < 4 << 20
    assert [each.number for each in await listed(bench, page_size=60)] == list(range(60))


async def test_a_page_of_large_arguments_is_shorter_and_nothing_is_left_out(bench: Bench) -> None:
    large = b.ScheduleBatchRequest(items=b.BatchItems(items=[b.BatchItem(payload=b'{"a":"%s"}' % (b"a" * 1_000_000))]))
    await send(bench, header(), *[large] * 5)
    asked = b.ListBatchItemsRequest(id=ID, page_size=60, with_arguments=True)
    page = await bench.frontend.list_batch_items(asked)
    assert page.ByteSize() < 4 << 20
    assert [each.number for each in await listed(bench, page_size=60, with_arguments=True)] == [0, 1, 2, 3, 4]


async def test_batches_are_listed_by_lambda(bench: Bench) -> None:
    await bench.register("photos/other")
    for number in range(12):
        await make(bench, 1, f"b{number}", spec={"lambda": NAME if number % 3 else "photos/other"})
        bench.clock.advance(1)
    everything = [f"b{number}" for number in range(12)]
    for size, name in ((0, ""), (5, ""), (2, "photos/other"), (1, "photos/other")):
        found, token = [], ""
        while True:
            asked = b.ListBatchesRequest(**{"lambda": name}, page_size=size, page_token=token)
            page = await bench.frontend.list_batches(asked)
            found += [each.id for each in page.batches]
            token = page.next_page_token
            if not token:
                break
        assert found == (everything[::3] if name else everything)[::-1], "newest first"


async def test_a_page_token_of_somebody_else_s_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidArgument, match="page_token 'x'"):
        await bench.frontend.list_batches(b.ListBatchesRequest(page_token="x"))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"page_size": 1_001}, "page_size 1001: use 1 to 1000"),
        ({"first": -1}, "first -1"),
        ({"page_token": "x"}, "page_token 'x'"),
        ({"statuses": [7]}, "statuses: 7 is none"),
        ({"work_item_id": "x"}, "work-item id 'x'"),
        ({"id": "a.b"}, "batch id 'a.b'"),
    ],
)
async def test_a_page_that_can_t_be_is_refused(bench: Bench, asked: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        await bench.frontend.list_batch_items(b.ListBatchItemsRequest(**{"id": ID, **asked}))


@pytest.mark.parametrize("asked", [{}, {"work_item_id": digest_of(NAME, [])}])
async def test_items_of_a_batch_that_is_not_there_are_not_found(bench: Bench, asked: dict[str, Any]) -> None:
    with pytest.raises(NotFound, match="no batch 'nightly'"):
        await listed(bench, **asked)


# --- watched ----------------------------------------------------------------------------------------------------------


def watch(bench: Bench, **asked: Any) -> Any:
    return bench.frontend.watch_batch(b.WatchBatchRequest(**{"id": ID, "at_most_every_us": US // 20, **asked}))


async def test_a_watcher_hears_of_each_change_and_of_the_end_and_then_no_more(bench: Bench) -> None:
    await make(bench, 2)
    async with aclosing(watch(bench)) as seen:
        assert (await anext(seen)).created == 2
        following = asyncio.ensure_future(anext(seen))
        await asyncio.wait({following}, timeout=0.2)
        assert not following.done(), "nothing has changed"
        await run_all(bench)
        batch = await following
        while not batch.ended_at_us:
            batch = await anext(seen)
        assert batch.status == b.BATCH_DONE
        assert [each async for each in seen] == []


async def test_the_end_is_heard_of_by_a_notification_and_not_by_looking(bench: Bench) -> None:
    await make(bench, 2)
    async with aclosing(watch(bench, at_most_every_us=60 * US)) as seen:
        assert (await anext(seen)).created == 2
        following = asyncio.ensure_future(anext(seen))
        await asyncio.sleep(0.05)  # it listens
        await run_all(bench)
        assert (await asyncio.wait_for(following, 10)).status == b.BATCH_DONE


async def test_a_watcher_of_a_batch_that_has_ended_hears_so_at_once(bench: Bench) -> None:
    await make(bench, 1)
    await run_all(bench)
    assert [each.status async for each in watch(bench)] == [b.BATCH_DONE]


async def test_a_frontend_that_ends_ends_its_streams(bench: Bench) -> None:
    await make(bench, 1)
    seen = watch(bench, at_most_every_us=60 * US)
    await anext(seen)
    following = asyncio.ensure_future(anext(seen, None))
    await asyncio.sleep(0)
    bench.frontend.drain()
    assert await asyncio.wait_for(following, 10) is None


@pytest.mark.parametrize("every_us", [-1, 1, US // 20 - 1, 60 * US + 1])
async def test_a_watcher_asks_neither_too_often_nor_too_seldom(bench: Bench, every_us: int) -> None:
    await make(bench, 1)
    with pytest.raises(InvalidArgument, match=f"at_most_every_us {every_us}: 50000 "):
        await anext(watch(bench, at_most_every_us=every_us))


async def test_what_is_not_there_can_t_be_watched(bench: Bench) -> None:
    with pytest.raises(NotFound):
        await anext(watch(bench))


# --- commands ---------------------------------------------------------------------------------------------------------


async def test_a_cancelled_batch_ends_and_takes_no_more_items(bench: Bench) -> None:
    await send(bench, header(keep_open=True), items(0, 1, 2))
    batch = await bench.frontend.cancel_batch(b.CancelBatchRequest(id=ID))
    assert batch.cancel_requested
    assert batch.sealed
    await deliver(bench)
    batch = await get(bench)
    assert (batch.status, batch.cancelled) == (b.BATCH_CANCELLED, 3)
    with pytest.raises(FailedPrecondition, match="was cancelled: it takes no more items"):
        await send(bench, header(first=3), items(3))
    with pytest.raises(FailedPrecondition, match="batch nightly was cancelled"):
        await bench.frontend.retry_batch(b.RetryBatchRequest(id=ID))


async def test_a_retry_starts_what_failed_for_good_and_nothing_else(bench: Bench) -> None:
    await make(bench, 4)
    await run_all(bench, [Outcome.FAILED_FATAL, Outcome.FAILED_FATAL])
    assert (await get(bench)).status == b.BATCH_DONE_WITH_FAILURES
    await bench.frontend.retry_batch(b.RetryBatchRequest(id=ID))
    await deliver(bench)
    batch = await get(bench)
    assert (batch.created, batch.done, batch.round, batch.status) == (2, 2, 2, b.BATCH_IN_PROGRESS)
    await run_all(bench)
    assert (await get(bench)).status == b.BATCH_DONE


async def test_a_batch_is_deleted_with_its_items_once_it_has_ended(bench: Bench) -> None:
    await make(bench, 4)
    with pytest.raises(FailedPrecondition, match="has not ended: cancel it first"):
        await bench.frontend.delete_batch(b.DeleteBatchRequest(id=ID))
    await run_all(bench)
    assert (await bench.frontend.delete_batch(b.DeleteBatchRequest(id=ID))).existed
    await deliver(bench)
    with pytest.raises(NotFound):
        await get(bench)
    assert await bench.counts() == {}
    assert not (await bench.frontend.delete_batch(b.DeleteBatchRequest(id="other"))).existed


@pytest.mark.parametrize("command", ["cancel_batch", "retry_batch"])
async def test_what_is_not_there_can_t_be_commanded(bench: Bench, command: str) -> None:
    with pytest.raises(NotFound, match="no batch 'nightly'"):
        await getattr(bench.frontend, command)(b.CancelBatchRequest(id=ID))


# --- items as tasks ---------------------------------------------------------------------------------------------------


async def test_an_item_is_a_task_like_any_other(bench: Bench) -> None:
    await make(bench, 3)
    item, other, _ = await listed(bench)
    assert (await bench.frontend.explain_task(f.ExplainTaskRequest(id=item.task_id))).task.id == item.task_id
    asked: dict[str, Any] = {"lambda": NAME}
    page = await bench.frontend.list_tasks(f.ListTasksRequest(filter=asked))
    assert {each.id for each in page.tasks} == {each.task_id for each in await listed(bench)}
    (cancelled,) = (await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=[item.task_id]))).results
    assert cancelled.cancelled
    assert (await get(bench)).cancelled == 1
    (retried,) = (await bench.frontend.retry_tasks(f.RetryTasksRequest(ids=[item.task_id]))).results
    assert retried.retried
    assert (await get(bench)).created == 3
    done = await bench.frontend.wait_tasks(f.WaitTasksRequest(ids=[other.task_id], timeout_us=0))
    assert len(done.tasks) == 0


async def test_items_are_found_by_the_arguments_that_their_lambda_declares(bench: Bench) -> None:
    await bench.register(NAME, search=["n"])
    await make(bench, 3)
    asked = f.TaskFilter(search={"n": "2"})
    page = await bench.frontend.list_tasks(f.ListTasksRequest(filter=asked))
    assert [each.id for each in page.tasks] == [(await listed(bench))[2].task_id]
