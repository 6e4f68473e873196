"""Timeouts, bodies that do not end, suspects, and draining."""

from __future__ import annotations

import asyncio
from functools import partial

from atf.config.settings import ExecutorSettings
from atf.errors import FailedPrecondition, Unauthenticated, Unavailable
from atf.executor.outcome import RunFailed
from atf.executor.table import SlotState, Stage
from atf.exits import EXIT_NO_HEARTBEAT, EXIT_OVERRUN
from atf.rpc import hsc_pb2 as h, task_pb2 as t
from tests.executor.world import HeldWorld, World, claim, held, inline, job, ran
from tests.virtual import virtual

# --- timeouts -----------------------------------------------------------------------------------------------------------


@virtual(inline)
async def test_a_coroutine_is_cancelled_at_its_timeout(world: World) -> None:
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":60}', timeout=3, attempt=2))
    await asyncio.sleep(2.9)
    assert ran == []
    await asyncio.sleep(0.11)
    assert ran == ["cancelled"]
    [result] = world.hsc.results
    assert (result.outcome, result.retry_in_us) == (t.TIMED_OUT, 2_000_000)
    assert "3 s" in result.error
    assert 3_000_000 <= result.ran_us < 3_100_000


@virtual(inline)
async def test_a_coroutine_that_swallows_its_cancellation_has_timed_out_all_the_same(world: World) -> None:
    world.controller.give(claim("0-a", "t/stubborn", b'{"seconds":6}', timeout=3))
    await asyncio.sleep(5.9)
    assert ran == ["ignored"]
    assert world.hsc.results == []
    await asyncio.sleep(0.2)
    assert world.outcomes() == {"0-a": t.TIMED_OUT}
    assert not world.run.done()


@virtual(held)
async def test_a_timeout_of_a_def_is_reported_only_when_its_body_has_ended(world: HeldWorld) -> None:
    world.controller.give(job("0-a", timeout=3))
    await asyncio.sleep(7)
    assert world.executor.ledger.tasks["0-a"].is_set()
    assert world.hsc.results == []
    assert len(world.hsc.beats) == 4, "it keeps its lease until then; the first says that it has started"
    world.held.end("0-a")
    await world.settle()
    assert world.outcomes() == {"0-a": t.TIMED_OUT}


@virtual(held)
async def test_the_time_that_a_task_waits_for_a_worker_is_not_counted(world: HeldWorld) -> None:
    world.controller.give(*(job(f"0-{n}", timeout=0.8) for n in range(3)))
    await asyncio.sleep(0.7)
    world.held.end("0-0")
    await asyncio.sleep(0.7)
    assert not world.executor.ledger.tasks["0-2"].is_set()
    await asyncio.sleep(0.2)
    assert world.executor.ledger.tasks["0-2"].is_set()


@virtual(held)
async def test_a_def_that_ignores_its_timeout_ends_the_process_and_the_table_says_so(world: HeldWorld) -> None:
    world.controller.give(job("0-a", timeout=3), job("0-b"), job("0-c"))
    await asyncio.sleep(7.9)
    asked = len(world.controller.requests)
    await asyncio.sleep(0.2)
    assert world.slots(SlotState.TIMED_OUT) == ["0-a"]
    [entry] = [each for each in world.entries() if each.state is SlotState.TIMED_OUT]
    assert (entry.counter, entry.nonce, entry.retry_in_us) == (1, "nonce", 1_000_000)
    assert "timed out after 3 s" in entry.error
    assert not world.run.done(), "another lambda has a while to end"
    world.held.end("0-b")
    assert await world.run == EXIT_OVERRUN
    assert world.outcomes() == {"0-b": t.SUCCEEDED}
    assert world.slots(SlotState.TIMED_OUT) == ["0-a"]
    assert len(world.controller.requests) == asked, "nothing more is taken"


@virtual(held)
async def test_others_have_the_whole_drain_timeout_when_a_lambda_does_not_end(world: HeldWorld) -> None:
    began = world.runtime.monotonic()
    world.controller.give(job("0-a", timeout=3), job("0-b"))
    await asyncio.sleep(8.1)
    stages = [world.table.stage]
    assert await world.run == EXIT_OVERRUN
    assert 38 <= world.runtime.monotonic() - began < 38.1, "timeout 3, grace 5, drain_timeout 30"
    assert (world.slots(SlotState.TIMED_OUT), world.slots(SlotState.STARTED)) == (["0-a"], ["0-b"])
    stages.append(world.table.stage)
    assert stages == [Stage.DRAINS, Stage.CUTS], "its successor starts at once, and what is cut with it counts nothing"


@virtual(held)
async def test_a_process_in_which_only_a_body_that_does_not_end_is_left_ends_at_once(world: HeldWorld) -> None:
    began = world.runtime.monotonic()
    world.controller.give(job("0-a", timeout=3))
    assert await world.run == EXIT_OVERRUN
    assert 8 <= world.runtime.monotonic() - began < 8.1
    assert (world.slots(SlotState.TIMED_OUT), world.slots(SlotState.STARTED)) == (["0-a"], [])


@virtual(held)
async def test_a_body_that_ends_after_all_is_reported_in_the_ordinary_way(world: HeldWorld) -> None:
    world.controller.give(job("0-a", timeout=3), job("0-b"))
    await asyncio.sleep(9)
    world.held.end("0-a")
    world.held.end("0-b")
    assert await world.run == EXIT_OVERRUN
    assert world.outcomes() == {"0-a": t.TIMED_OUT, "0-b": t.SUCCEEDED}
    assert world.entries() == []


@virtual(held)
async def test_a_def_that_ignores_its_cancellation_ends_the_process(world: HeldWorld) -> None:
    world.controller.give(job("0-a"))
    await world.settle()
    world.hsc.verdicts["0-a"] = h.CANCEL
    assert await world.run == EXIT_OVERRUN
    assert world.slots(SlotState.STOPPED) == ["0-a"]


# --- suspects -----------------------------------------------------------------------------------------------------------


@virtual(held)
async def test_suspects_start_one_by_one(world: HeldWorld) -> None:
    world.controller.give(job("0-a", losses=1), job("0-b", losses=1), job("0-c"))
    await world.settle()
    assert sorted(world.held.running) == ["0-a", "0-c"]
    world.held.end("0-c")
    await asyncio.sleep(0.04)
    assert sorted(world.held.running) == ["0-a"]
    await asyncio.sleep(0.02)
    assert sorted(world.held.running) == ["0-a", "0-b"]


@virtual(held)
async def test_the_next_suspect_starts_when_the_one_before_has_ended(world: HeldWorld) -> None:
    world.controller.give(job("0-a", losses=1), job("0-b", losses=1))
    await world.settle()
    world.held.end("0-a")
    await world.settle()
    assert sorted(world.held.running) == ["0-b"]


@virtual(held)
async def test_a_task_with_one_loss_left_runs_alone(world: HeldWorld) -> None:
    world.controller.give(job("0-a"), job("0-poison", losses=2), job("0-b"), job("0-c"))
    await world.settle()
    assert sorted(world.held.running) == ["0-a", "0-b"], "the rest ends first"
    asked = len(world.controller.requests)
    for each in ("0-a", "0-b", "0-c"):
        world.held.end(each)
        await world.settle()
    assert sorted(world.held.running) == ["0-poison"]
    assert sorted(world.outcomes()) == ["0-a", "0-b", "0-c"], "their results are recorded before"
    assert len(world.controller.requests) == asked, "nothing is fetched meanwhile"
    world.held.end("0-poison")
    await world.settle()
    assert len(world.controller.requests) == asked + 1
    world.controller.give(job("0-d"))
    await world.settle()
    assert sorted(world.held.running) == ["0-d"]


@virtual(held)
async def test_a_task_that_was_lost_beside_other_suspects_runs_alone(world: HeldWorld) -> None:
    world.controller.give(job("0-a"), job("0-suspect", losses=1, alone=True))
    await world.settle()
    assert sorted(world.held.running) == ["0-a"]
    world.held.end("0-a")
    await world.settle()
    assert sorted(world.held.running) == ["0-suspect"]


@virtual(held)
async def test_the_table_tells_suspects_apart(world: HeldWorld) -> None:
    world.controller.give(job("0-a"), job("0-suspect", losses=1))
    await world.settle()
    assert {each.task_id: each.suspect for each in world.entries()} == {"0-a": False, "0-suspect": True}


@virtual(held)
async def test_what_arrives_while_a_task_runs_alone_waits(world: HeldWorld) -> None:
    world.controller.give(job("0-poison", losses=2))
    world.controller.give(job("0-a"))
    await world.settle()
    assert sorted(world.held.running) == ["0-poison"]
    world.held.end("0-poison")
    await world.settle()
    assert sorted(world.held.running) == ["0-a"]


@virtual(held)
async def test_what_waits_long_behind_a_task_that_runs_alone_is_handed_back(world: HeldWorld) -> None:
    world.controller.give(job("0-poison", losses=2), job("0-other-poison", losses=2), job("0-suspect", losses=1))
    await asyncio.sleep(0.9)
    assert sorted(world.held.running) == ["0-poison"]
    assert world.hsc.returned == []
    await asyncio.sleep(0.2)
    assert sorted(world.hsc.returned) == ["0-other-poison", "0-suspect"]
    assert sorted(world.held.running) == ["0-poison"]
    world.controller.give(job("0-a"))
    world.held.end("0-poison")
    await world.settle()
    assert sorted(world.held.running) == ["0-a"]


# --- draining, and work that waits too long -----------------------------------------------------------------------------


@virtual(held)
async def test_drain_hands_back_what_has_not_started_and_waits_for_the_rest(world: HeldWorld) -> None:
    suspects = [job("0-s", losses=1), job("0-t", losses=1)]
    world.controller.give(job("0-a"), *suspects, job("0-b"), job("0-c"))
    await world.settle()
    assert sorted(world.held.running) == ["0-a", "0-b"]
    world.executor.drain()
    world.executor.drain()
    await world.settle()
    assert sorted(world.hsc.returned) == ["0-c", "0-s", "0-t"]
    asked = len(world.controller.requests)
    world.held.end("0-a")
    world.held.end("0-b", RunFailed("no"))
    assert await world.run == 0
    assert world.outcomes() == {"0-a": t.SUCCEEDED, "0-b": t.FAILED}
    assert world.entries() == []
    assert len(world.controller.requests) == asked


@virtual(held)
async def test_a_draining_controller_drains_its_executors(world: HeldWorld) -> None:
    world.controller.give(job("0-a"), draining=True)
    await asyncio.sleep(1)
    assert world.slots(SlotState.STARTED) == [] or not world.run.done()
    if "0-a" in world.held.running:
        world.held.end("0-a")
    assert await world.run == 0
    assert len(world.controller.requests) == 1
    assert len(world.hsc.returned) + len(world.hsc.results) == 1


@virtual(held)
async def test_hand_back_is_repeated_until_it_is_answered(world: HeldWorld) -> None:
    world.controller.give(*(job(f"0-{n}") for n in range(3)))
    await world.settle()
    world.hsc.failing["hand_back"] = Unavailable("gone")
    world.executor.drain()
    await asyncio.sleep(5)
    assert world.slots(SlotState.HELD) == ["0-2"]
    del world.hsc.failing["hand_back"]
    await asyncio.sleep(2)
    assert world.hsc.returned == ["0-2"]
    assert world.slots(SlotState.HELD) == []


@virtual(held)
async def test_a_drain_ends_at_its_timeout_whatever_goes_on(world: HeldWorld) -> None:
    world.controller.give(job("0-a"))
    await world.settle()
    began = world.runtime.monotonic()
    world.executor.drain()
    assert await world.run == EXIT_OVERRUN
    assert 30 <= world.runtime.monotonic() - began < 30.1
    assert world.slots(SlotState.STARTED) == ["0-a"]
    assert world.table.stage is Stage.CUTS


@virtual(held)
async def test_a_drain_is_told_to_the_heartbeats_the_guard_and_the_controller_at_once(world: HeldWorld) -> None:
    world.controller.give(job("0-a"))
    await world.settle()
    told: list[Stage] = []
    world.executor.drains = lambda: told.append(world.table.stage)
    assert not any(each.draining for each in world.hsc.beats)
    world.executor.drain()
    await world.settle()
    assert told == [Stage.DRAINS], "the guard is told, and finds it in the table"
    assert [(each.draining, len(each.claims)) for each in world.hsc.beats[-1:]] == [(True, 1)]
    [last] = world.controller.last_requests
    assert (last.ack, last.max_tasks, last.wait_us) == (1, 1, 0), (
        "what has arrived is acknowledged, so the rest goes back"
    )
    await asyncio.sleep(5)
    assert all(each.draining for each in world.hsc.beats[-2:])
    world.held.end("0-a")
    assert await world.run == 0


@virtual(inline)
async def test_a_coroutine_is_cancelled_stop_grace_before_the_cut_and_handed_back(world: World) -> None:
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":600}'), claim("0-b", "t/nap", b'{"seconds":24}'))
    await world.settle()
    began = world.runtime.monotonic()
    world.executor.drain()
    assert await world.run == 0
    assert 25 <= world.runtime.monotonic() - began < 25.1, "drain_timeout 30, stop_grace 5"
    assert ran == ["cancelled"]
    assert world.outcomes() == {"0-a": t.HANDED_BACK, "0-b": t.SUCCEEDED}
    [back] = [each for each in world.hsc.results if each.claim.task_id == "0-a"]
    assert back.retry_in_us == 0
    assert "drain_timeout" in back.error


@virtual(partial(inline, settings=ExecutorSettings(drain_timeout=4, stop_grace=5)))
async def test_a_coroutine_has_half_of_a_short_drain_before_it_is_cancelled(world: World) -> None:
    world.controller.give(claim("0-a", "t/nap", b'{"seconds":600}'), claim("0-b", "t/nap", b'{"seconds":1.9}'))
    await world.settle()
    began = world.runtime.monotonic()
    world.executor.drain()
    assert await world.run == 0
    assert 2 <= world.runtime.monotonic() - began < 2.1
    assert world.outcomes() == {"0-a": t.HANDED_BACK, "0-b": t.SUCCEEDED}


@virtual(inline)
async def test_a_coroutine_that_is_cut_is_handed_back_however_it_ends(world: World) -> None:
    world.controller.give(claim("0-a", "t/stubborn", b'{"seconds":28}'))
    await world.settle()
    world.executor.drain()
    assert await world.run == 0
    assert ran == ["ignored"]
    assert world.outcomes() == {"0-a": t.HANDED_BACK}, "it has returned, but what it was cancelled for it has not done"


@virtual(inline)
async def test_a_coroutine_that_ignores_the_cut_is_left_to_the_guard(world: World) -> None:
    world.controller.give(claim("0-a", "t/stubborn", b'{"seconds":60}'))
    await world.settle()
    world.executor.drain()
    assert await world.run == EXIT_OVERRUN
    assert world.slots(SlotState.STARTED) == ["0-a"]
    assert world.table.stage is Stage.CUTS
    assert world.outcomes() == {}


@virtual(inline)
async def test_a_timeout_that_comes_after_the_cut_counts_nothing(world: World) -> None:
    world.controller.give(claim("0-a", "t/stubborn", b'{"seconds":28}', timeout=26))
    await world.settle()
    world.executor.drain()
    assert await world.run == 0
    assert world.outcomes() == {"0-a": t.HANDED_BACK}


@virtual(inline)
async def test_a_coroutine_that_was_cancelled_before_the_cut_has_stopped(world: World) -> None:
    world.controller.give(claim("0-a", "t/lingering", b'{"seconds":4}'))
    await world.settle()
    world.executor.drain()
    await asyncio.sleep(23)
    world.hsc.verdicts["0-a"] = h.CANCEL
    assert await world.run == 0
    assert ran == ["cancelled"]
    assert world.outcomes() == {"0-a": t.STOPPED}


@virtual(inline)
async def test_a_lambda_gives_its_task_back(world: World) -> None:
    """It must not come again at once while the executor goes on, or it would keep it busy; in a drain it must."""
    world.controller.give(claim("0-a", "t/give_back", b"{}"), claim("0-b", "t/give_back", b'{"after":0}'))
    world.controller.give(claim("0-c", "t/give_back_async", b"{}"))
    await world.settle()
    waits = {each.claim.task_id: each.retry_in_us for each in world.hsc.results}
    assert waits == {"0-a": 1_000_000, "0-b": 100_000}
    assert {each.error for each in world.hsc.results} == {"not now"}
    world.executor.drain()
    assert await world.run == 0
    assert world.outcomes() == dict.fromkeys(("0-a", "0-b", "0-c"), t.HANDED_BACK)
    assert world.hsc.results[-1].retry_in_us == 0
    assert ran == ["stopping False"] * 2


@virtual(held)
async def test_what_ends_with_a_lost_def_counts_nothing(world: HeldWorld) -> None:
    """Its process must end at once, since the lost one may run elsewhere; the other has done nothing wrong."""
    world.controller.give(job("0-a"), job("0-b"))
    await world.settle()
    world.hsc.verdicts["0-a"] = h.LOST
    assert await world.run == EXIT_NO_HEARTBEAT
    assert sorted(world.slots(SlotState.STARTED)) == ["0-a", "0-b"]
    assert world.table.stage is Stage.CUTS


@virtual(held)
async def test_an_executor_that_can_t_keep_its_leases_has_lost_what_it_ran(world: HeldWorld) -> None:
    world.controller.give(job("0-a"))
    await world.settle()
    world.hsc.failing["heartbeat"] = Unavailable("gone")
    assert await world.run == EXIT_NO_HEARTBEAT
    assert world.table.stage is not Stage.CUTS


@virtual(held)
async def test_work_that_waits_for_a_second_is_handed_back(world: HeldWorld) -> None:
    world.controller.give(*(job(f"0-{n}") for n in range(5)))
    await asyncio.sleep(0.9)
    assert world.hsc.returned == []
    await asyncio.sleep(0.2)
    assert sorted(world.hsc.returned) == ["0-2", "0-3", "0-4"]
    assert sorted(world.held.running) == ["0-0", "0-1"]


@virtual(held)
async def test_nothing_is_asked_for_while_every_worker_is_taken_by_long_work(world: HeldWorld) -> None:
    assert world.controller.requests[0].max_tasks == 2
    world.controller.give(job("0-a"))
    await world.settle()
    assert world.controller.requests[-1].max_tasks == 1
    world.controller.give(job("0-b"))
    await asyncio.sleep(60)
    assert len(world.controller.requests) == 2
    world.held.end("0-a")
    await world.settle()
    assert world.controller.requests[-1].max_tasks == 1


@virtual(held)
async def test_nothing_is_asked_for_while_results_go_unanswered(world: HeldWorld) -> None:
    """Else an executor that is cut off from the HSC runs task after task in vain, and each is a suspect afterwards."""
    world.controller.give(job("0-a"))
    await world.settle()
    world.hsc.failing["set_results"] = Unavailable("gone")
    world.held.end("0-a")
    await asyncio.sleep(0.15)
    world.controller.give(job("0-b"))
    await world.settle()
    asked = len(world.controller.requests)
    assert asked == 3, "a short silence means nothing"
    await asyncio.sleep(0.1)
    world.controller.give(job("0-c"))
    await world.settle()
    world.held.end("0-b")
    await asyncio.sleep(5)
    assert len(world.controller.requests) == asked
    del world.hsc.failing["set_results"]
    await asyncio.sleep(1.1)
    assert sorted(world.outcomes()) == ["0-a", "0-b"]
    assert world.held.running.keys() == {"0-c"}
    assert len(world.controller.requests) == asked + 1


@virtual(held)
async def test_a_controller_on_another_host_ends_the_executor(world: HeldWorld) -> None:
    world.controller.put(FailedPrecondition("another host"))
    await asyncio.sleep(0.1)
    assert isinstance(world.run.exception(), FailedPrecondition)


@virtual(held)
async def test_a_controller_that_does_not_know_the_executor_ends_it(world: HeldWorld) -> None:
    world.controller.put(Unauthenticated("a stranger"))
    await asyncio.sleep(0.1)
    assert isinstance(world.run.exception(), Unauthenticated)


@virtual(held)
async def test_a_suspect_starts_only_when_the_result_of_the_one_before_is_recorded(world: HeldWorld) -> None:
    """Else it could kill the process before that, and the one before would be charged with a second loss."""
    world.controller.give(job("0-a", losses=1), job("0-poison", losses=1))
    await world.settle()
    world.hsc.failing["set_results"] = Unavailable("gone")
    world.held.end("0-a")
    await asyncio.sleep(0.3)
    assert sorted(world.held.running) == []
    del world.hsc.failing["set_results"]
    await asyncio.sleep(0.6)
    assert sorted(world.held.running) == ["0-poison"]


@virtual(held)
async def test_ordinary_tasks_go_on_while_many_suspects_wait(world: HeldWorld) -> None:
    world.controller.give(*(job(f"0-s{n}", losses=1) for n in range(100)))
    await world.settle()
    assert sorted(world.held.running) == ["0-s0"]
    for n in range(3):
        world.controller.give(job(f"0-{n}"))
        await world.settle()
        assert sorted(world.held.running) == [f"0-{n}", "0-s0"], "a free thread is filled at once"
        world.held.end(f"0-{n}")
        await world.settle()
    assert sorted(world.outcomes()) == ["0-0", "0-1", "0-2"]


@virtual(held)
async def test_suspects_that_find_no_worker_for_a_second_are_handed_back(world: HeldWorld) -> None:
    world.controller.give(*(job(f"0-s{n}", losses=1) for n in range(10)))
    await asyncio.sleep(1.2)
    assert sorted(world.held.running) == ["0-s0", "0-s1"]
    assert sorted(world.hsc.returned) == [f"0-s{n}" for n in range(2, 10)]


@virtual(held)
async def test_a_task_runs_alone_only_when_every_other_result_is_recorded(world: HeldWorld) -> None:
    world.controller.give(job("0-a"), job("0-poison", losses=2), job("0-other-poison", losses=2))
    await world.settle()
    world.hsc.failing["set_results"] = Unavailable("gone")
    for ended, following in (("0-a", "0-poison"), ("0-poison", "0-other-poison")):
        world.held.end(ended)
        await asyncio.sleep(2)
        assert sorted(world.held.running) == []
        del world.hsc.failing["set_results"]
        await asyncio.sleep(1)
        assert sorted(world.held.running) == [following]
        world.hsc.failing["set_results"] = Unavailable("gone")
