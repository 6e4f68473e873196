"""What callers are shown: tasks, pages, lambdas; and what cancel, retry and pause answer."""

from __future__ import annotations

from typing import Any

import pytest

from atf.errors import InvalidArgument, TaskNotFound, UnknownLambda
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.store.values.claims import ClaimRenewal, HeldClaim, Outcome
from atf.store.values.lists import TaskQuery
from atf.task import MAX_BATCH_BYTES, US, Status

from .conftest import START_US, Bench


async def test_a_task_is_shown_through_its_whole_life(bench: Bench) -> None:
    stored = await bench.schedule("a", payload=b'{"x":1}', delay_us=US)
    bench.clock.advance(2)
    (claim,) = await bench.claim(stored)
    bench.clock.advance(1)
    await bench.store.heartbeat([ClaimRenewal(HeldClaim(stored, claim.counter, claim.nonce), True, "50 %")])
    task = await bench.frontend.get_task(f.GetTaskRequest(id=stored))
    assert not task.HasField("spec")
    assert (Status(task.status), task.owner, task.progress, task.runs) == (Status.PROCESSING, "executor-1", "50 %", 1)
    bench.clock.advance(1)
    await bench.end(claim, result=b"42", ran_us=US)
    task = await bench.stored(stored)
    assert Status(task.status) is Status.SUCCESS
    assert (task.result, t.Encoding.Name(task.result_encoding), task.spec.payload) == (b"42", "JSON", b'{"x":1}')
    assert getattr(task, "lambda") == "photos/thumbnail"
    seconds = [
        (getattr(task, field) - START_US) / US
        for field in ("created_at_us", "scheduled_at_us", "enqueued_at_us", "claimed_at_us", "started_at_us")
    ]
    assert seconds == [0, 1, 2, 2, 3]
    assert task.finished_at_us == START_US + 4 * US
    assert (task.failed_at_us, task.next_at_us, task.attempts) == (0, 0, 1)
    (run,) = task.ended_runs
    assert (run.owner, run.why, run.attempt, run.ended_at_us) == ("executor-1", "succeeded", 1, START_US + 4 * US)


async def test_a_run_shorter_than_a_heartbeat_shows_when_it_started(bench: Bench) -> None:
    """And so does the one before it, once that has failed."""
    stored = await bench.schedule("a")
    (claim,) = await bench.claim(stored)
    bench.clock.advance(1)
    assert (await bench.stored(stored)).started_at_us == 0
    await bench.end(claim, Outcome.FAILED, error="no", ran_us=US // 5, retry_in_us=US)
    assert (await bench.stored(stored)).started_at_us == START_US + 4 * US // 5
    bench.clock.advance(1)
    (again,) = await bench.claim(stored)
    bench.clock.advance(1)
    await bench.end(again, result=b"42", ran_us=US // 10)
    assert (await bench.stored(stored)).started_at_us == START_US + 3 * US - US // 10


async def test_a_late_word_of_a_start_gives_way_to_the_true_time(bench: Bench) -> None:
    stored = await bench.schedule("a")
    (claim,) = await bench.claim(stored)
    bench.clock.advance(2)
    await bench.store.heartbeat([ClaimRenewal(HeldClaim(stored, claim.counter, claim.nonce), True, "")])
    bench.clock.advance(1)
    await bench.end(claim, result=b"42", ran_us=3 * US - US // 4)
    assert (await bench.stored(stored)).started_at_us == START_US + US // 4


async def test_no_such_task(bench: Bench) -> None:
    with pytest.raises(TaskNotFound, match="no task '0-nobody'"):
        await bench.frontend.get_task(f.GetTaskRequest(id="0-nobody"))
    with pytest.raises(TaskNotFound, match="no task '0-nobody'"):
        await bench.frontend.explain_task(f.ExplainTaskRequest(id="0-nobody"))


async def pages(bench: Bench, size: int = 0, token: str = "", **fields: object) -> list[f.ListTasksReply]:
    found = []
    asked_for = f.TaskFilter(**{"lambda": "photos/thumbnail", **fields})  # type: ignore[arg-type]
    while True:
        asked = f.ListTasksRequest(filter=asked_for, page_size=size, page_token=token)
        found.append(await bench.frontend.list_tasks(asked))
        token = found[-1].next_page_token
        if not token:
            return found


async def test_pages_hold_every_task_once(bench: Bench) -> None:
    ids = {await bench.schedule(f"t{n}", delay_us=n) for n in range(95)}
    found = await pages(bench, 40)
    assert [len(page.tasks) for page in found] == [40, 40, 15]
    assert {task.id for page in found for task in page.tasks} == ids
    assert sum(len(page.tasks) for page in found) == len(ids)
    assert {page.of for page in found} == {95}
    assert sum(page.looked_at for page in found) == 95


async def test_a_page_may_be_of_one_status(bench: Bench) -> None:
    done = await bench.schedule("done")
    await bench.finish(done)
    await bench.schedule("later", delay_us=US)
    (page,) = await pages(bench, statuses=[t.SUCCESS])
    assert [task.id for task in page.tasks] == [done]


async def test_a_page_of_large_results_stays_below_a_messages_bound(bench: Bench) -> None:
    ids = [await bench.schedule(f"t{n}") for n in range(100)]
    for claim in await bench.claim(*ids):
        await bench.end(claim, result=b"x" * 65_536)
    found = await pages(bench, 256)
    assert len(found) > 1
    assert max(page.ByteSize() for page in found) < MAX_BATCH_BYTES
    assert {task.id for page in found for task in page.tasks} == set(ids)


async def test_pages_of_nonsense_are_refused(bench: Bench) -> None:
    digest = TaskQuery("photos/thumbnail").digest
    bad: list[tuple[dict[str, Any], str]] = [
        ({"size": -1}, "page_size -1"),
        ({"size": 257}, "page_size 257"),
        ({"token": "nonsense"}, "page_token 'nonsense'"),
        ({"token": f"{digest}.1.1.0-a", "priorities": [1]}, "with another filter"),
        ({"statuses": [99]}, r"statuses \[99\]"),
        ({"statuses": [1] * 65}, "65 statuses"),
        ({"priorities": [10]}, "priority 10"),
        ({"priorities": [-1]}, "priority -1"),
        ({"labels": {"": "x"}}, "label ''"),
        ({"key": "a\nb"}, "key 'a"),
        ({"error_type": "a b"}, "error_type 'a b'"),
        ({"since_at_us": -1}, "since_at_us -1: at least 0"),
        ({"since_at_us": 2, "until_at_us": 2}, "give first the earlier instant"),
        ({"lambda": "photos"}, "write namespace/name"),
        ({"lambda": "a b/*"}, "write namespace/name"),
        ({"lambda": "*/*"}, "write namespace/name"),
    ]
    for fields, message in bad:
        with pytest.raises(InvalidArgument, match=message):
            await pages(bench, **fields)
    with pytest.raises(UnknownLambda, match="Did you mean photos/thumbnail"):
        await pages(bench, 0, **{"lambda": "photos/thumbnai"})


async def test_cancel_answers_for_each_id(bench: Bench) -> None:
    waiting, running, done = [await bench.schedule(name) for name in ("waiting", "running", "done")]
    await bench.finish(done)
    (claim,) = await bench.claim(running)
    ids = [waiting, running, done, "0-nobody"]
    reply = await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=ids))
    answers = [(each.id, each.status, each.cancelled, each.cancel_requested) for each in reply.results]
    assert answers == [
        (waiting, Status.CANCELLED, True, False),
        (running, Status.CLAIMED, False, True),
        (done, Status.SUCCESS, False, False),
        ("0-nobody", t.STATUS_UNSPECIFIED, False, False),
    ]
    assert (await bench.stored(running)).cancel_requested
    await bench.end(claim, Outcome.STOPPED)
    assert Status((await bench.stored(running)).status) is Status.CANCELLED


async def test_retry_starts_dead_letters_afresh(bench: Bench) -> None:
    dead, live = await bench.schedule("dead"), await bench.schedule("live", delay_us=US)
    await bench.finish(dead, Outcome.FAILED_FATAL, error="no such file")
    reply = await bench.frontend.retry_tasks(f.RetryTasksRequest(ids=[dead, live, "1-nobody"]))
    assert [(each.status, each.retried) for each in reply.results] == [
        (Status.NEW, True),
        (Status.NEW, False),
        (t.STATUS_UNSPECIFIED, False),
    ]


async def test_lambdas_are_listed_with_their_counts_and_queues(bench: Bench) -> None:
    await bench.register("mail/send", signature="(to: str)", queue_limit=5)
    await bench.schedule("a", name="mail/send", options=t.TaskOptions(priority=3))
    await bench.schedule("b", name="mail/send", delay_us=US)
    await bench.enqueue()
    reply = await bench.frontend.list_lambdas(f.ListLambdasRequest())
    assert [each.spec.name for each in reply.lambdas] == ["mail/send", "photos/thumbnail"]
    (mail,) = (await bench.frontend.list_lambdas(f.ListLambdasRequest(page_size=1, **{"lambda": "mail/send"}))).lambdas
    assert mail.spec.signature == "(to: str)"
    assert {name: count for name, count in mail.counts.items() if count} == {"NEW": 1, "ENQUEUED": 1}
    (queue,) = [each for each in mail.queues if each.depth]
    assert (queue.priority, queue.depth, queue.limit) == (3, 1, 5)
    assert queue.name == f"{{{queue.partition}}}mail/send:3"
    assert list(reply.lambdas[1].queues) == []


async def test_a_paused_lambda_stays_paused_when_it_is_registered_again(bench: Bench) -> None:
    await bench.frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": "photos/thumbnail"}, who="ada"))
    await bench.register(signature="(new)")
    (info,) = (await bench.frontend.list_lambdas(f.ListLambdasRequest())).lambdas
    assert (info.paused, info.spec.signature) == (True, "(new)")
    await bench.frontend.resume_lambda(f.ResumeLambdaRequest(**{"lambda": "photos/thumbnail"}, who="ada"))
    (info,) = (await bench.frontend.list_lambdas(f.ListLambdasRequest())).lambdas
    assert not info.paused


async def test_pausing_what_is_not_there_names_what_is(bench: Bench) -> None:
    with pytest.raises(UnknownLambda, match="Did you mean photos/thumbnail"):
        await bench.frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": "photos/thumbnal"}, who="ada"))
    with pytest.raises(UnknownLambda):
        await bench.frontend.resume_lambda(f.ResumeLambdaRequest(**{"lambda": "x/y"}, who="ada"))
