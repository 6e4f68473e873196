"""What is done to all tasks that match a filter: which ones are cancelled or run again, what is refused, what is counted and noted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from atf.errors import InvalidArgument, UnknownLambda
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.store.values.claims import Outcome
from atf.task import US, Status
from tests.claiming import claim_ids, pop_ids
from tests.store_calls import note_calls

from .conftest import START_US, Bench

NAME = "photos/thumbnail"
EVERY: Mapping[str, Any] = {"lambda": NAME}


async def cancel(bench: Bench, asked: Mapping[str, Any] = EVERY, **fields: Any) -> f.CancelMatchingReply:
    request = f.CancelMatchingRequest(**{"filter": asked, "who": "ada", "why": "rain", "dry_run": False, **fields})
    return await bench.frontend.cancel_matching(request)


async def redrive(bench: Bench, asked: Mapping[str, Any] = EVERY, **fields: Any) -> f.RedriveReply:
    request = f.RedriveRequest(**{"filter": asked, "who": "ada", "dry_run": False, **fields})
    return await bench.frontend.redrive(request)


async def test_a_dry_run_counts_and_cancels_nothing(bench: Bench) -> None:
    ids = [await bench.schedule(str(each)) for each in range(7)]
    reply = await cancel(bench, dry_run=True)
    assert (reply.matched, reply.cancelled, reply.requested, reply.of, reply.next_page_token) == (7, 0, 0, 7, "")
    assert len(reply.ids) == 5
    assert {*reply.ids} <= {*ids}
    assert await bench.counts() == {"NEW": 7}
    assert not await bench.audit()


async def test_what_waits_is_cancelled_and_what_runs_is_asked_to_stop(bench: Bench) -> None:
    waits, runs, done, fails = [await bench.schedule(each) for each in ("waits", "runs", "done", "fails")]
    await bench.finish(done)
    await bench.finish(fails, Outcome.FAILED, error="rain")
    await bench.claim(runs)
    reply = await cancel(bench)
    assert (reply.matched, reply.cancelled, reply.requested) == (3, 2, 1)
    assert await bench.counts() == {"CANCELLED": 2, "SUCCESS": 1, "CLAIMED": 1}
    assert (await bench.stored(runs)).cancel_requested
    (entry,) = await bench.audit()
    assert (entry.what, getattr(entry, "lambda"), entry.who, entry.why) == ("cancel_matching", NAME, "ada", "rain")
    assert {*entry.tasks} == {waits, runs, fails}
    assert (await cancel(bench)).cancelled == 0, "again does nothing more"


async def test_pages_go_on_until_all_are_cancelled(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atf.frontend.cancel_matching.MAX_BATCH", 4)
    ids = [await bench.schedule(str(each), delay_us=each) for each in range(9)]
    cancelled, token, pages = list[str](), "", 0
    while pages == 0 or token:
        reply = await cancel(bench, page_token=token)
        assert (reply.cancelled <= 4, reply.of) == (True, 9 if reply.cancelled else 0)
        cancelled += reply.ids
        token, pages = reply.next_page_token, pages + 1
    assert sorted(cancelled) == sorted(ids)
    assert await bench.counts() == {"CANCELLED": 9}


async def test_a_span_without_a_status_is_that_of_a_list(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of when tasks were made; with a status of when they are due."""
    monkeypatch.setattr("atf.frontend.cancel_matching.MAX_BATCH", 2)
    old = [await bench.schedule(f"old{each}", delay_us=3_600 * US) for each in range(2)]
    bench.clock.advance(60)
    await bench.finish(await bench.schedule("done"))
    new = [await bench.schedule(f"new{each}", delay_us=US) for each in range(3)]
    span: dict[str, Any] = {"lambda": NAME, "since_at_us": START_US + 30 * US}
    listed = await bench.frontend.list_tasks(f.ListTasksRequest(filter=f.TaskFilter(**span)))
    found, token = list[str](), ""
    while True:
        reply = await cancel(bench, span, dry_run=True, page_token=token)
        found, token = [*found, *reply.ids], reply.next_page_token
        if not token:
            break
    assert sorted(found) == sorted(new)
    assert {*found} < {each.id for each in listed.tasks}
    due = await cancel(bench, {**span, "statuses": [t.NEW], "since_at_us": START_US + 600 * US}, dry_run=True)
    assert sorted(due.ids) == sorted(old)
    assert (await cancel(bench, span)).cancelled == 2
    assert (await cancel(bench, span)).cancelled == 1
    assert await bench.counts() == {"NEW": 2, "SUCCESS": 1, "CANCELLED": 3}


@pytest.mark.parametrize("key", ["ordering_key", "concurrency"])
async def test_what_stood_behind_a_cancelled_task_is_not_left(
    bench: Bench, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atf.frontend.cancel_matching.MAX_BATCH", 4)
    given: Any = "anna" if key == "ordering_key" else t.Concurrency(key="anna", limit=1)
    ids = [await bench.schedule(str(each), **{key: given}) for each in range(9)]
    await bench.enqueue()
    token, cancelled, requested = "", 0, 0
    while True:
        reply = await cancel(bench, page_token=token)
        cancelled, requested, token = cancelled + reply.cancelled, requested + reply.requested, reply.next_page_token
        await bench.enqueue()
        if not token:
            break
    assert (cancelled, requested) == (9, 0)
    assert {(await bench.stored(each)).status for each in ids} == {t.CANCELLED}


async def test_running_tasks_are_asked_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atf.frontend.cancel_matching.MAX_BATCH", 2)
    ids = [await bench.schedule(str(each)) for each in range(3)]
    await bench.claim(*ids[:2])
    token, requested = "", 0
    while True:
        reply = await cancel(bench, page_token=token)
        requested, token = requested + reply.requested, reply.next_page_token
        if not token:
            break
    assert requested == 2


@pytest.mark.parametrize(
    ("asked", "ends"),
    [
        ({"labels": {"team": "web"}}, "a"),
        ({"priorities": [0]}, "b"),
        ({"key": "anna"}, "c"),
        ({"statuses": [t.RETRIABLE_FAILURE]}, "d"),
        ({"error_type": "OSError"}, "d"),
        ({"search": {"order": "7"}}, "e"),
        ({"lambda": "shop/*"}, "f"),
        ({"statuses": [t.NEW, t.SUCCESS], "lambda": "shop/mail"}, "f"),
        ({"search": {"order": "7"}, "statuses": [t.CLAIMED]}, ""),
        ({"failure_group": "0b9a55d3c2f1"}, ""),
    ],
)
async def test_the_whole_filter_counts(bench: Bench, asked: Mapping[str, Any], ends: str) -> None:
    await bench.register(search=["order"])
    await bench.register("shop/mail")
    await bench.schedule("a", labels={"team": "web"})
    await bench.schedule("b", options=t.TaskOptions(priority=0))
    await bench.schedule("c", ordering_key="anna")
    await bench.finish(await bench.schedule("d"), Outcome.FAILED, error="OSError: rain")
    await bench.schedule("e", payload=b'{"order": 7}')
    await bench.schedule("f", **{"lambda": "shop/mail"})
    assert [each[-1:] for each in (await cancel(bench, asked, dry_run=True)).ids] == [*ends]
    assert (await cancel(bench, asked)).cancelled == len(ends)
    counts = await bench.store.counts_of([NAME, "shop/mail"])
    assert sum(each[Status.CANCELLED] for each in counts.values()) == len(ends)


@pytest.mark.parametrize(
    ("asked", "fields", "says"),
    [
        ({}, {}, "filter: it has no condition, so it would mean every task"),
        (EVERY, {"dry_run": None}, "dry_run is not said: true only says what would be cancelled"),
        (EVERY, {"who": " "}, "who: say who"),
        ({"statuses": [t.SUCCESS]}, {}, "statuses: nothing of such a status can be cancelled; .* name failed, running"),
        (EVERY, {"page_token": "x"}, "page_token"),
        ({"since_at_us": -1}, {}, "since_at_us"),
    ],
)
async def test_what_makes_no_sense_is_not_cancelled(
    bench: Bench, asked: Mapping[str, Any], fields: Mapping[str, Any], says: str
) -> None:
    await bench.schedule("a")
    with pytest.raises(InvalidArgument, match=says):
        await cancel(bench, asked, **fields)
    with pytest.raises(UnknownLambda):
        await cancel(bench, {"lambda": "photos/none"})
    assert await bench.counts() == {"NEW": 1}


async def test_cancelled_tasks_run_again_where_their_status_is_named(bench: Bench) -> None:
    await bench.finish(await bench.schedule("b"), Outcome.FAILED_FATAL, error="rain")
    await bench.schedule("a")
    await cancel(bench, {"statuses": [t.NEW]})
    assert (await redrive(bench, dry_run=True)).matched == 1, "without a status only the dead letter"
    assert (await redrive(bench, {"statuses": [t.CANCELLED, t.NEW]})).redriven == 1
    assert await bench.counts() == {"NEW": 1, "FATAL_FAILURE": 1}
    assert (await redrive(bench, {"statuses": [t.CANCELLED, t.FATAL_FAILURE]})).redriven == 1
    assert await bench.counts() == {"NEW": 2}


async def test_dead_letters_of_all_lambdas_run_again(bench: Bench) -> None:
    await bench.register("photos/album")
    for number, of in enumerate((NAME, "photos/album")):
        stored = await bench.schedule(str(number), **{"lambda": of})
        await bench.enqueue()
        await pop_ids(bench.store, int(stored[0]), [[f"{of}:1"]], 9)
        (claim,) = (await claim_ids(bench.store, "one", "", [stored])).claims
        await bench.end(claim, Outcome.FAILED_FATAL, error="TimeoutError: late")
    assert (await redrive(bench, {"error_type": "OSError"}, dry_run=True)).matched == 0
    done = await redrive(bench, {"error_type": "TimeoutError"})
    assert (done.matched, done.redriven, done.of, dict(done.errors)) == (2, 2, 2, {"TimeoutError: late": 2})
    (entry,) = await bench.audit()
    assert (entry.detail, len(entry.tasks)) == ("error type TimeoutError", 2)
    assert {*getattr(entry, "lambda").split(", ")} == {NAME, "photos/album"}


async def test_a_redrive_of_anything_is_refused(bench: Bench) -> None:
    for asked, says in (({}, "it has no condition"), ({"statuses": [t.NEW]}, "nothing of such a status runs again")):
        with pytest.raises(InvalidArgument, match=says):
            await redrive(bench, asked)
    assert (await redrive(bench, {}, error="rain")).matched == 0, "a text of the error is a condition"


async def test_counts_are_exact_and_read_once_a_second(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    called = note_calls(monkeypatch)

    async def count(name: str) -> dict[str, int]:
        reply = await bench.frontend.count_tasks(f.CountTasksRequest(**{"lambda": name}))
        return {getattr(each, "lambda"): each.counts["NEW"] for each in reply.lambdas}

    await bench.register("shop/mail")
    await bench.schedule("a")
    assert await asyncio.gather(*map(count, ("", NAME, "shop/*", "post/*"))) == [
        {NAME: 1, "shop/mail": 0},
        {NAME: 1},
        {"shop/mail": 0},
        {},
    ]
    await bench.schedule("b")
    assert await count(NAME) == {NAME: 1}
    assert called.count("get_status") == bench.store.partitions
    bench.clock.advance(1)
    assert await count(NAME) == {NAME: 2}
    assert called.count("get_status") == 2 * bench.store.partitions
    with pytest.raises(UnknownLambda):
        await count("photos/none")
