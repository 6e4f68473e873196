"""GetStatus: what it counts, and of which jobs it says that nobody runs them."""

from __future__ import annotations

import asyncio

import pytest

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.sdk.job import job_spec
from atf.store.status import LiveRole
from atf.store.values.claims import Outcome
from atf.task import US
from tests.store_calls import note_calls

from .conftest import START_US, Bench

NAME = "photos/thumbnail"


async def of(bench: Bench, name: str = NAME) -> f.LambdaStatus:
    reply = await bench.frontend.get_status(f.GetStatusRequest())
    (found,) = (each for each in reply.lambdas if getattr(each, "lambda") == name)
    return found


async def test_tasks_are_counted_by_what_becomes_of_them(bench: Bench) -> None:
    for number in range(4):
        await bench.schedule(f"due-{number}")
    await bench.schedule("later", delay_us=60 * US)
    bench.clock.advance(5)
    await bench.enqueue()
    await bench.schedule("new")
    bench.clock.advance(5)
    found = await of(bench)
    assert (found.waiting, found.later, found.running, found.dead) == (5, 1, 0, 0)
    assert found.due_since_us == START_US + 5 * US, "a queued one counts from when it was pushed"
    assert not found.served


async def test_a_task_that_stands_in_its_queue_waits_since_it_was_pushed(bench: Bench) -> None:
    """However often the store consumers look at it again meanwhile, and in which order."""
    first = await bench.schedule("0-first")
    await bench.enqueue()
    bench.clock.advance(4)
    await bench.schedule("0-second")
    await bench.enqueue()
    for _ in range(5):
        bench.clock.advance(6.5)
        await bench.enqueue()
        assert (await of(bench)).due_since_us == START_US
    await bench.store.cancel_tasks([first])
    bench.clock.advance(1)
    assert (await of(bench)).due_since_us == START_US + 4 * US


async def test_who_keeps_due_tasks_and_what_is_to_be_retried_is_told(bench: Bench) -> None:
    task = await bench.schedule("a")
    await bench.finish(task, Outcome.FAILED, retry_in_us=US, error="it rained")
    await bench.frontend.pause_lambda(f.PauseLambdaRequest(who="dana", why="accounts move", **{"lambda": NAME}))
    assert ((await of(bench)).retrying, (await of(bench)).kept_by) == (1, ""), "nothing is due"
    bench.clock.advance(30)
    found = await of(bench)
    assert (found.waiting, found.retrying, found.kept_by) == (1, 1, "dana: accounts move")


async def test_failures_are_recent_for_a_while(bench: Bench) -> None:
    for number in range(3):
        task = await bench.schedule(f"old-{number}")
        await bench.finish(task, Outcome.FAILED_FATAL, error="it rained")
    bench.clock.advance(7_000)
    last = await bench.schedule("new")
    await bench.finish(last, Outcome.FAILED_FATAL, error="it rained")
    found = await of(bench)
    assert (found.dead, found.failed_recently, found.failed_id) == (4, 1, last)
    reply = await bench.frontend.get_status(f.GetStatusRequest(recent_us=8_000 * US))
    assert reply.lambdas[0].failed_recently == 4
    bench.clock.advance(1)
    reply = await bench.frontend.get_status(f.GetStatusRequest(recent_us=0))
    assert (reply.lambdas[0].dead, reply.lambdas[0].failed_recently) == (4, 0), "0 was an hour"
    with pytest.raises(InvalidArgument, match="recent_us -1"):
        await bench.frontend.get_status(f.GetStatusRequest(recent_us=-1))


@pytest.mark.parametrize("partition", ["0", "1"])
async def test_the_newest_failure_is_that_of_all_partitions(partition: str, bench: Bench) -> None:
    ids = [await bench.schedule(f"t{number}") for number in range(20)]
    ids = sorted(ids, key=lambda each: each.startswith(f"{partition}-"))
    most = 4  # of the other partition
    for task in (*ids[:most], *ids[-2:]):
        bench.clock.advance(1)
        await bench.finish(task, Outcome.FAILED_FATAL, error="it rained")
        assert (await of(bench)).failed_id == task
    assert not ids[most - 1].startswith(f"{partition}-")
    bench.clock.advance(7_000)
    assert (await of(bench)).failed_id == ids[-1], "also where none failed recently"


async def test_a_pause_of_claims_is_said_with_the_status_and_with_the_queues(bench: Bench) -> None:
    reply = await bench.frontend.get_status(f.GetStatusRequest())
    listed = await bench.frontend.list_lambdas(f.ListLambdasRequest())
    assert (reply.claims_in_us, reply.claims_paused, listed.claims_paused) == (0, "", "")
    await bench.store.pause_claims()
    reply = await bench.frontend.get_status(f.GetStatusRequest())
    listed = await bench.frontend.list_lambdas(f.ListLambdasRequest())
    assert reply.claims_in_us == 16 * US
    assert reply.claims_paused.startswith(
        "no task starts for at least another 16 s: claims are paused, since tasks were"
    )
    assert listed.claims_paused == reply.claims_paused


async def test_who_lives_and_who_runs_what(bench: Bench) -> None:
    await bench.schedule("a")
    await bench.store.announce([LiveRole("hsc", "1.0", "one:1")], 30)
    await bench.store.announce([LiveRole("hsc", "1.1", "two:1")], 30)
    await bench.store.announce([LiveRole("hsc", "1.1", "two:2")], 30)
    await bench.store.serve("", 30, "host-1", {}, [f"{NAME} abc"])
    reply = await bench.frontend.get_status(f.GetStatusRequest())
    assert [(each.role, each.version, each.processes) for each in reply.roles] == [("hsc", "1.0", 1), ("hsc", "1.1", 2)]
    assert [each.name for each in reply.hosts] == ["host-1"]
    assert (reply.partitions, reply.partitions_away, reply.lambdas_known) == (2, 0, 1)
    assert (await of(bench)).served
    bench.clock.advance(31)
    assert not (await of(bench)).served


async def test_a_pause_stands_there_though_nothing_waits(bench: Bench) -> None:
    await bench.register("photos/quiet")
    await bench.frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": "photos/quiet"}, who="ada"))
    assert (await of(bench, "photos/quiet")).paused
    reply = await bench.frontend.get_status(f.GetStatusRequest())
    assert len(reply.lambdas) == 1, "what has nothing to say is left out"


async def test_jobs_without_code(bench: Bench) -> None:
    await bench.store.serve("", 3600, "host-1", {}, [NAME, "photos/nightly"])
    await bench.register("photos/nightly", schedule="@daily")
    await bench.register("photos/gone")
    for job, name, code in (
        ("photos/nightly", "photos/nightly", "abc"),
        ("photos/hand", NAME, ""),
        ("photos/idle", "photos/gone", ""),
    ):
        task = t.TaskSpec()
        setattr(task, "lambda", name)
        spec = job_spec(job, task, "@daily", {})
        spec.code = code
        await bench.frontend.schedule_job(f.ScheduleJobRequest(job=spec))
    reply = await bench.frontend.get_status(f.GetStatusRequest())
    assert [(each.name, each.why) for each in reply.jobs] == [("photos/idle", "no live worker runs its lambda")]
    await bench.register("photos/nightly")  # the code has lost its schedule
    reply = await bench.frontend.get_status(f.GetStatusRequest())
    assert {each.name: each.why for each in reply.jobs}["photos/nightly"] == "its code declares no schedule any more"


async def test_however_many_ask_the_tasks_are_counted_once_a_second(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.schedule("a", delay_us=60 * US)
    called = note_calls(monkeypatch)

    async def counted() -> list[int]:
        """By whom nobody has named a lambda: all tasks, and those of one."""
        statuses = asyncio.gather(*(bench.frontend.get_status(f.GetStatusRequest()) for _ in range(5)))
        lists = asyncio.gather(*(bench.frontend.list_lambdas(f.ListLambdasRequest()) for _ in range(5)))
        found = [dict(each.counts) for each in await statuses]
        found += [dict(each.counts) for reply in await lists for each in reply.lambdas if each.spec.name == NAME]
        assert len(found) == 10
        assert all(each == found[0] for each in found)
        return [found[0]["NEW"], found[0]["SUCCESS"]]

    assert await counted() == [1, 0]
    await bench.schedule("b")
    assert await counted() == [1, 0]
    assert called.count("get_status") == bench.store.partitions
    assert called.count("count") == 0
    assert (await of_one(bench)).counts["NEW"] == 2, "and one lambda as it is"
    bench.clock.advance(1)
    assert await counted() == [2, 0]
    assert called.count("get_status") == 2 * bench.store.partitions


async def of_one(bench: Bench) -> f.LambdaInfo:
    request = f.ListLambdasRequest()
    setattr(request, "lambda", NAME)
    return (await bench.frontend.list_lambdas(request)).lambdas[0]


async def test_it_looks_through_so_many_pages_of_jobs_at_most(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the caller may see few of very many, each is empty."""
    looked = []

    async def none_of_these(request: f.ListJobsRequest, *, timeout: float = 10) -> f.ListJobsReply:  # noqa: ARG001
        looked.append(request.page_token)
        return f.ListJobsReply(next_page_token="more")

    monkeypatch.setattr(bench.frontend, "list_jobs", none_of_these)
    assert (await bench.frontend.get_status(f.GetStatusRequest())).more_jobs
    assert 1 < len(looked) < 100
