"""What a task has waited for, by reason: while it waits, and as long as its record is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import fakeredis
import pytest

from atf.config.settings import StoreSettings, Timing
from atf.frontend.waits import waits
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.store.library import RECORD_INLINE_BYTES
from atf.store.store import Store
from atf.store.values.claims import Outcome
from atf.task import US

from .conftest import Bench, Clock

NAME = "photos/thumbnail"


@pytest.fixture
async def bench(clock: Clock) -> AsyncIterator[Bench]:
    """Of one partition, so that all tasks meet."""
    settings = StoreSettings(partitions=1, push_when_scheduled=False)
    store = await Store.open(settings, Timing(), clock, fake=fakeredis.FakeServer(version=(7, 4)))
    store.now = clock.wall_us
    bench = Bench(store, clock)
    await bench.register()
    await bench.store.serve("", 3600)
    yield bench
    bench.frontend.drain()
    await store.close()


async def waited(bench: Bench, task_id: str) -> list[tuple[str, int]]:
    """The parts of at least a second."""
    reply = await bench.frontend.explain_task(f.ExplainTaskRequest(id=task_id))
    return [(each.reason, round(each.us / US)) for each in reply.waits if each.us >= US]


async def run(bench: Bench, task_id: str, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> None:
    """Claims a task that is due, and ends its run, which takes half a second."""
    (claim,) = await bench.claim(task_id)
    bench.clock.advance(0.5)
    await bench.end(claim, outcome, ran_us=500_000, **fields)


async def noted(bench: Bench, task_id: str) -> dict[bytes, bytes]:
    """The fields of its record that say what it has waited for."""
    record = await bench.store.link.client.hgetall(f"atf:{{0}}:t:{task_id}")
    return {name: value for name, value in record.items() if name in {b"wr", b"wp"}}


def gate(**labels: str) -> f.SetGateRequest:
    made = f.SetGateRequest(action=f.Gate.PAUSE, who="ada", labels=labels)
    setattr(made, "lambda", NAME)
    return made


def lift(**labels: str) -> f.LiftGateRequest:
    return f.LiftGateRequest(**{"lambda": NAME}, labels=labels, who="ada")


async def test_a_task_that_nothing_keeps_has_nothing_noted(bench: Bench) -> None:
    task = await bench.schedule("a", delay_us=5 * US)
    bench.clock.advance(5)
    await bench.enqueue()
    bench.clock.advance(2)
    await run(bench, task)
    assert await waited(bench, task) == [("not due", 5), ("queued", 2)]
    assert await noted(bench, task) == {}


async def test_a_gate_is_told_while_it_keeps_and_afterwards(bench: Bench) -> None:
    await bench.frontend.set_gate(gate(team="web"))
    task = await bench.schedule("a", labels={"team": "web"}, delay_us=5 * US)
    bench.clock.advance(5)
    await bench.enqueue()
    bench.clock.advance(10)
    assert await waited(bench, task) == [("not due", 5), ("gated", 10)]
    await bench.frontend.lift_gate(lift(team="web"))
    await bench.enqueue()
    bench.clock.advance(2)
    await run(bench, task)
    bench.clock.advance(99)
    assert await waited(bench, task) == [("not due", 5), ("gated", 10), ("queued", 2)]


async def test_a_gate_that_takes_a_task_out_of_its_queue(bench: Bench) -> None:
    task = await bench.schedule("a", labels={"team": "web"})
    await bench.enqueue()
    bench.clock.advance(3)
    await bench.frontend.set_gate(gate(team="web"))
    assert not await bench.claim(task)
    bench.clock.advance(10)
    assert await waited(bench, task) == [("queued", 3), ("gated", 10)]
    await bench.frontend.lift_gate(lift(team="web"))
    await bench.enqueue()
    bench.clock.advance(4)
    await run(bench, task)
    assert await waited(bench, task) == [("queued", 3), ("gated", 10), ("queued", 4)]


async def test_a_pause_keeps_what_is_due_and_what_is_queued(bench: Bench) -> None:
    queued = await bench.schedule("a")
    await bench.enqueue()
    bench.clock.advance(3)
    await bench.frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": NAME}, who="ada"))
    due = await bench.schedule("b")
    bench.clock.advance(10)
    assert (await waited(bench, queued), await waited(bench, due)) == ([("queued", 3), ("gated", 10)], [("gated", 10)])
    await bench.frontend.resume_lambda(f.ResumeLambdaRequest(**{"lambda": NAME}, who="ada"))
    await bench.enqueue()
    bench.clock.advance(2)
    assert await waited(bench, queued) == [("queued", 3), ("gated", 10), ("queued", 2)]
    await run(bench, queued)
    await run(bench, due)
    assert (await waited(bench, queued))[:3] == [("queued", 3), ("gated", 10), ("queued", 2)]
    assert await waited(bench, due) == [("gated", 10), ("queued", 2)]


async def test_of_many_pauses_the_last_are_remembered(bench: Bench) -> None:
    for _ in range(9):
        await bench.frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": NAME}, who="ada"))
        bench.clock.advance(1)
        await bench.frontend.resume_lambda(f.ResumeLambdaRequest(**{"lambda": NAME}, who="ada"))
        bench.clock.advance(1)
    found = await bench.store.explain_task(await bench.schedule("a"))
    assert found is not None
    now = bench.clock.now_us
    assert list(found.pauses) == [(now - each * US, now - (each - 1) * US) for each in (8, 6, 4, 2)]


async def test_a_limit(bench: Bench) -> None:
    await bench.register(max_running=1)
    first, second = await bench.schedule("a"), await bench.schedule("b")
    (claim,) = await bench.claim(first)
    bench.clock.advance(10)
    assert await waited(bench, second) == [("over a limit", 10)]
    await bench.end(claim, ran_us=US)
    await bench.enqueue()
    bench.clock.advance(2)
    await run(bench, second)
    assert await waited(bench, second) == [("over a limit", 10), ("queued", 2)]
    third = await bench.schedule("c")
    await run(bench, third)
    assert await noted(bench, third) == {}


async def test_a_full_queue(bench: Bench) -> None:
    await bench.register(queue_limit=1)
    first, second = await bench.schedule("a"), await bench.schedule("b")
    await bench.enqueue()
    bench.clock.advance(10)
    assert await waited(bench, second) == [("over a limit", 10)]
    await run(bench, first)
    await run(bench, second)
    assert await waited(bench, second) == [("over a limit", 10)]
    third = await bench.schedule("c")
    await run(bench, third)
    assert await noted(bench, third) == {}


async def test_a_retry_that_a_limit_keeps(bench: Bench) -> None:
    await bench.register(max_running=1)
    first = await bench.schedule("a")
    await run(bench, first, Outcome.FAILED, retry_in_us=5 * US)
    second = await bench.schedule("b")
    (claim,) = await bench.claim(second)
    bench.clock.advance(5)
    await bench.enqueue()
    bench.clock.advance(10)
    await bench.end(claim, ran_us=US)
    await run(bench, first)
    assert await waited(bench, first) == [("between runs", 5), ("over a limit", 10)]


async def test_keys(bench: Bench) -> None:
    slot = t.Concurrency(key="k", limit=1)
    ordered = [await bench.schedule(name, ordering_key="k") for name in "ab"]
    slotted = [await bench.schedule(name, concurrency=slot) for name in "cd"]
    await bench.enqueue()
    claims = await bench.claim(ordered[0], slotted[0])
    bench.clock.advance(10)
    for each in (ordered[1], slotted[1]):
        assert await waited(bench, each) == [("behind a key", 10)]
    for claim in claims:
        await bench.end(claim, ran_us=US)
    await bench.enqueue()
    bench.clock.advance(2)
    await bench.claim(ordered[1], slotted[1])
    for each in (ordered[1], slotted[1]):
        assert (await waited(bench, each)) == [("behind a key", 10), ("queued", 2)]
    for each in (ordered[0], slotted[0]):
        assert await noted(bench, each) == {}


async def test_what_is_noted_stays_short_and_goes_with_a_fresh_start(bench: Bench) -> None:
    task = await bench.schedule("a", labels={"team": "web"})
    for _ in range(9):
        await bench.enqueue()
        await bench.frontend.set_gate(gate(team="web"))
        assert not await bench.claim(task)
        bench.clock.advance(1)
        await bench.frontend.lift_gate(lift(team="web"))
    assert len((await noted(bench, task))[b"wr"]) <= RECORD_INLINE_BYTES
    assert (await waited(bench, task))[-1][0] == "gated"
    await run(bench, task, Outcome.FAILED_FATAL)
    await bench.frontend.retry_tasks(f.RetryTasksRequest(ids=[task]))
    assert await noted(bench, task) == {}
    bench.clock.advance(3)
    assert await waited(bench, task) == [("due", 3)]


# --- records that were written before, or by a run that failed --------------------------------------------------------

S = US


def parts(task: t.Task, reason: str, now_us: int, record: str = "", late: str = "") -> list[tuple[str, int]]:
    return [(each.reason, each.us // S) for each in waits(task, reason, now_us, record, late, ())]


def test_a_wait_is_split_by_the_instants_of_the_record() -> None:
    times: dict[str, Any] = {"created_at_us": 10 * S, "scheduled_at_us": 20 * S, "enqueued_at_us": 25 * S}
    due = t.Task(status=t.NEW, created_at_us=10 * S, scheduled_at_us=20 * S)
    assert parts(due, "not_due", 15 * S) == [("not due", 5)]
    queued = t.Task(status=t.ENQUEUED, **times)
    assert parts(queued, "queued", 40 * S) == [("not due", 10), ("due", 5), ("queued", 15)]
    assert parts(queued, "not_served", 40 * S)[-1] == ("no worker", 15)
    running = t.Task(status=t.PROCESSING, **times, claimed_at_us=30 * S, started_at_us=31 * S)
    ran = [("not due", 10), ("due", 5), ("queued", 5), ("claimed", 1)]
    assert parts(running, "running", 99 * S) == ran
    running.status, running.finished_at_us = t.SUCCESS, 50 * S
    running.ended_runs.append(t.EndedRun(started_at_us=31 * S, ended_at_us=50 * S))
    assert parts(running, "finished", 99 * S) == ran
    assert parts(running, "finished", 99 * S, f"x1 g{23 * S} k") == [
        ("not due", 10), ("gated", 3), ("due", 2), ("queued", 5), ("claimed", 1),
    ]  # fmt: skip
    gone = t.Task(status=t.CANCELLED, created_at_us=10 * S, finished_at_us=12 * S)
    assert parts(gone, "finished", 99 * S) == [("due", 2)]


def test_a_later_run_has_waited_since_the_one_before() -> None:
    first = t.EndedRun(started_at_us=20 * S, ended_at_us=30 * S, why="failed: ValueError: x", attempt=1)
    times: dict[str, Any] = {"created_at_us": 10 * S, "scheduled_at_us": 10 * S}
    again = t.Task(
        status=t.RETRIABLE_FAILURE, **times, enqueued_at_us=15 * S, claimed_at_us=16 * S, ended_runs=[first], runs=1
    )
    of_the_first = {"record": f"g{14 * S}", "late": "l"}
    assert parts(again, "backing_off", 34 * S, **of_the_first) == [("between runs", 4)]
    again.status, again.enqueued_at_us, again.claimed_at_us, again.started_at_us = t.PROCESSING, 40 * S, 41 * S, 42 * S
    assert parts(again, "running", 60 * S, **of_the_first) == [("between runs", 10), ("queued", 1), ("claimed", 1)]
