"""Logs that are kept with tasks: by results and heartbeats, of the newest runs, within 16 KiB."""

from __future__ import annotations

from atf.store.run_logs import TaskLog
from atf.store.values.claims import ClaimRenewal, HeldClaim, KeptRunLog, Outcome, RunResult, Verdict
from atf.store.values.lambdas import LambdaRecord
from atf.task import MAX_LOG_BYTES, US, Status
from tests.store.world import BACKOFF_US, LAMBDA, World, held

LINE = "x" * 99 + "\n"


async def fails(world: World, claim: HeldClaim, log: KeptRunLog | None, *, last: bool = False) -> None:
    outcome = Outcome.FAILED_FATAL if last else Outcome.FAILED
    result = RunResult(claim, outcome, error="no", retry_in_us=BACKOFF_US, log=log)
    assert await world.store.set_results([result]) == [Verdict.OK]


async def again(world: World) -> HeldClaim:
    """The next run of the only task."""
    world.clock.advance(BACKOFF_US / US)
    await world.passes()
    (claim,) = held(await world.claim(*await world.pop()))
    return claim


async def kept(world: World, task_id: str = "0-a") -> TaskLog:
    found = await world.store.get_log(task_id)
    assert found is not None
    return found


async def test_a_result_brings_its_log_and_the_record_says_that_there_is_one(world: World) -> None:
    first, second = await world.run("a", "b")
    log = KeptRunLog(1, 1, "12:00:00.000 häß\n\0", 7)
    await fails(world, first, log, last=True)
    await fails(world, second, None, last=True)
    assert await kept(world, "0-a") == TaskLog(Status.FATAL_FAILURE, LAMBDA, [log])
    assert await kept(world, "0-b") == TaskLog(Status.FATAL_FAILURE, LAMBDA, [])
    assert [each.has_log for each in await world.store.get_tasks(["0-a", "0-b"]) if each] == [True, False]
    assert await world.store.get_log("0-nobody") is None


async def test_of_several_runs_the_newest_lines_are_kept(world: World) -> None:
    (claim,) = await world.run("a", max_attempts=9)
    for run, lines in enumerate((100, 60, 0, 20), 1):
        await fails(world, claim, KeptRunLog(run, run, LINE * lines, 5 * run) if lines else None)
        claim = await again(world)
    runs = (await kept(world)).runs
    assert [(each.run, each.attempt) for each in runs] == [(1, 1), (2, 2), (4, 4)]
    assert [len(each.text) // 100 for each in runs] == [83, 60, 20]
    assert [each.cut_bytes for each in runs] == [5 + 1_700, 10, 20]
    await fails(world, claim, KeptRunLog(5, 5, LINE * (MAX_LOG_BYTES // 100), 0))
    assert [(each.run, len(each.text) // 100) for each in (await kept(world)).runs] == [(5, 163)]


async def test_at_most_ten_runs_are_kept(world: World) -> None:
    (claim,) = await world.run("a", max_attempts=99)
    for run in range(1, 14):
        await fails(world, claim, KeptRunLog(run, run, "x\n", 0))
        claim = await again(world)
    assert [each.run for each in (await kept(world)).runs] == list(range(4, 14))


async def test_what_a_run_says_while_it_goes_on_is_replaced_by_what_it_has_said_in_the_end(world: World) -> None:
    (claim,) = await world.run("a")
    await world.store.heartbeat([ClaimRenewal(claim, True, log=KeptRunLog(1, 1, "one\n", 0))])
    assert [each.text for each in (await kept(world)).runs] == ["one\n"]
    await world.beat(claim)
    assert [each.text for each in (await kept(world)).runs] == ["one\n"], "unchanged"
    await fails(world, claim, KeptRunLog(1, 1, "one\ntwo\n", 0))
    assert [each.text for each in (await kept(world)).runs] == ["one\ntwo\n"]


async def test_a_heartbeat_is_told_of_who_watches_for_as_long_as_that_was_said(world: World) -> None:
    first, second = await world.run("a", "b")
    assert await world.beat(first, second) == [Verdict.OK, Verdict.OK]
    found = await world.store.watch_log("0-a", 10)
    assert found == TaskLog(Status.PROCESSING, LAMBDA, [])
    assert await world.beat(first, second) == [Verdict.WATCHED, Verdict.OK]
    world.clock.advance(9)
    assert await world.beat(first, second) == [Verdict.WATCHED, Verdict.OK]
    world.clock.advance(2)
    assert await world.beat(first, second) == [Verdict.OK, Verdict.OK]
    await world.store.watch_log("0-a", 10)
    await world.store.cancel_tasks(["0-a"])
    assert await world.beat(first) == [Verdict.CANCEL], "that is more urgent; the log comes with the result"


async def test_who_watches_is_told_of_the_end_and_leaves_nothing_of_a_live_task(world: World) -> None:
    (claim,) = await world.run("a")
    await world.store.watch_log("0-a", 10)
    await world.finish(Outcome.SUCCEEDED, claim)
    found = await world.store.watch_log("0-a", 10)
    assert found is not None
    assert found.status is Status.SUCCESS
    assert await world.store.watch_log("0-nobody", 10) is None


async def test_a_claim_says_of_which_runs_the_log_is_kept_as_the_lambda_says_now(world: World) -> None:
    async def claimed(name: str) -> str:
        await world.schedule(name)
        await world.passes()
        (claim,) = await world.claim(*await world.pop())
        return claim.logs

    async def said(settings: str) -> None:
        await world.store.register_lambdas([LambdaRecord(LAMBDA, b"", 6, US, paused=False, settings=settings)])

    assert await claimed("a") == ""
    await said("logs=all")
    assert await claimed("b") == "all"
    await said("logs=none")
    assert await claimed("c") == "none"
    await said("")
    assert await claimed("d") == ""
