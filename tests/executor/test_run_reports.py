"""What an executor tells its controller of how runs went."""

from __future__ import annotations

import asyncio

from atf.errors import FailedPrecondition, Unavailable
from atf.executor.run_reports import NUMBERS
from atf.metrics.buckets import RUN_SECONDS, SECONDS
from atf.rpc import controller_pb2 as c, task_pb2 as t
from tests.executor.world import HeldWorld, held, job
from tests.virtual import virtual


def outcomes(runs: c.LambdaRuns) -> dict[int, int]:
    return {number: count for number, count in enumerate(runs.outcomes) if count}


def test_every_outcome_has_its_number() -> None:
    assert set(NUMBERS.values()) == {number for number in t.Outcome.values() if number}


@virtual(held)
async def test_runs_are_reported_together_a_second_later(world: HeldWorld) -> None:
    world.controller.give(job("0-a"), job("0-b", losses=1))
    await asyncio.sleep(0.2)
    world.held.end("0-a")
    await asyncio.sleep(0.3)
    world.held.end("0-b")
    await asyncio.sleep(0.6)
    assert world.controller.reports == []
    await asyncio.sleep(0.2)

    (report,) = world.controller.reports
    (runs,) = report.runs
    assert (report.executor_id, report.number, getattr(runs, "lambda")) == ("e1", 1, "t/work")
    assert outcomes(runs) == {t.SUCCEEDED: 2}
    assert sum(runs.start_delays) == 1, "of the first run alone: the other was lost before"
    assert len(runs.start_delays) == len(SECONDS) + 1
    assert sum(runs.run_times) == 2
    assert len(runs.run_times) == len(RUN_SECONDS) + 1
    assert 700_000 <= runs.run_times_us < 720_000
    await asyncio.sleep(30)
    assert len(world.controller.reports) == 1, "nothing has ended since"


@virtual(held)
async def test_the_delay_counts_from_the_instant_at_which_a_task_was_due(world: HeldWorld) -> None:
    due = 1_700_000_000_000_000
    waits = [job(f"0-{number}", counter=due + 3_000_000) for number in range(3)]  # claimed 3 s after that
    world.controller.give(*waits)
    await asyncio.sleep(0.9)
    for each in waits:  # of two threads, which are taken: the third starts now
        world.held.end(each.task_id)
        await world.settle()
    await asyncio.sleep(1.1)

    (runs,) = world.controller.reports[0].runs
    assert 9_900_000 <= runs.start_delays_us < 9_920_000  # 3 + 3 + 3.9


@virtual(held)
async def test_a_report_without_an_answer_is_sent_again_as_it_was(world: HeldWorld) -> None:
    world.controller.report_errors += [Unavailable("away"), Unavailable("away")]
    world.controller.give(job("0-a"), job("0-b"))
    await world.settle()
    world.held.end("0-a")
    await asyncio.sleep(1.5)
    world.held.end("0-b")
    await asyncio.sleep(5)

    first, *again, last = world.controller.reports
    assert again == [first, first]
    assert (first.number, last.number) == (1, 2)
    assert [outcomes(each.runs[0]) for each in (first, last)] == [{t.SUCCEEDED: 1}] * 2


@virtual(held)
async def test_a_controller_that_knows_no_reports_is_told_of_none(world: HeldWorld) -> None:
    world.controller.report_errors += [FailedPrecondition("it does not know ReportRuns")]
    world.controller.give(job("0-a"))
    await world.settle()
    world.held.end("0-a")
    await asyncio.sleep(10)
    assert len(world.controller.reports) == 1


@virtual(held)
async def test_the_last_report_comes_with_the_drain(world: HeldWorld) -> None:
    world.controller.give(job("0-a"))
    await world.settle()
    world.executor.drain()
    world.held.end("0-a")
    assert await world.run == 0
    assert [outcomes(each.runs[0]) for each in world.controller.reports] == [{t.SUCCEEDED: 1}]


@virtual(held)
async def test_a_run_that_does_not_end_counts_once(world: HeldWorld) -> None:
    world.controller.give(job("0-a", timeout=3), job("0-b"))
    await asyncio.sleep(9)  # its grace is over
    world.held.end("0-a")
    await asyncio.sleep(2)
    assert [outcomes(each.runs[0]) for each in world.controller.reports] == [{t.TIMED_OUT: 1}]
