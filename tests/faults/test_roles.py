"""Roles that die, stand still or drain at the worst moment, and tasks that kill their executors."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from atf.rpc import batch_pb2 as b, hsc_pb2 as h
from atf.runtime import end
from atf.task import US, Status
from atf.testing.runtime import VirtualRuntime

from .batches import batch_ended, items_of, make_batch, messages_of
from .line import LATE_S, Fault, Wire
from .world import H, Run, World, of, play, poison, runs, step

HSC_CALLS = {"next_claims", "report_host", "heartbeat", "set_results", "hand_back", "report_loss", "first_time"}


def _now() -> float:
    return asyncio.get_running_loop().time()


def _runs(handles: list[Any]) -> list[Run]:
    return [run for handle in handles for run in of(handle)]


def test_a_controller_is_killed_before_it_passes_claims_on() -> None:
    """The executor's calls break. It gives them up, and the tasks run at once."""

    async def story(world: World) -> None:
        await asyncio.sleep(0.5)  # by then the HSC knows what the executors run
        world.line.slow_s, world.line.slow_only = 1.5, {"next_claims"}
        handles = await world.schedule(4, 0.1)
        await asyncio.sleep(0.5)
        astray = [each for each in handles if (await world.record(each)).status is Status.CLAIMED and not of(each)]
        assert astray
        await world.hosts[0].restart_controller()
        killed_at, world.line.slow_s = _now(), 0.0
        await world.succeed(handles)
        assert all(run.start < killed_at + 2 for run in _runs(astray))
        assert all(len(of(handle)) == 1 for handle in handles)
        assert [(await world.record(handle)).losses for handle in handles] == [0] * 4

    play(story, hosts=1)


def test_two_of_everything_share_the_work_and_give_nothing_twice() -> None:
    """Two store consumers, two controllers, two executors, none of which knows of the other."""

    async def story(world: World) -> None:
        handles = await world.schedule(40, 0.5) + await world.schedule(20, 0.5, delay=1)
        await world.succeed(handles)
        owners = {run.owner for handle in handles for run in (await world.record(handle)).ended_runs}
        assert owners == {"e0-1", "e1-1"}
        assert all(len(of(handle)) == 1 for handle in handles)

    play(story)


def test_an_executor_dies_before_its_lambdas_start() -> None:
    """What waits there has not started: it goes back, and counts nothing."""

    async def story(world: World) -> None:
        handles = await world.schedule(4, 3.0)
        await world.until(lambda: len(_runs(handles)) == 4)
        world.hosts[0].crash()  # those four are suspects now, and start one by one
        await world.until(lambda: len(_runs(handles)) == 5, look=0.01)
        world.hosts[0].crash()
        await world.succeed(handles)
        assert [(await world.record(handle)).losses for handle in handles].count(2) == 1

    play(story, hosts=1)


def test_an_executor_dies_in_the_middle_of_its_lambdas() -> None:
    async def story(world: World) -> None:
        handles = await world.schedule(3, 2.0)
        await world.until(lambda: len(_runs(handles)) == 3)
        world.hosts[0].crash()
        crashed_at = _now()
        await world.until(lambda: len(_runs(handles)) > 3)
        assert _now() < crashed_at + 2
        records = await world.succeed(handles)
        assert [(record.losses, record.attempts) for record in records] == [(1, 1)] * 3

    play(story, hosts=1)


def test_a_host_is_gone_in_the_middle_of_a_batch_s_chunks() -> None:
    """The others finish its chunks, one item of a chunk at a time; of what had ended nothing runs again."""

    async def story(world: World) -> None:
        messages = messages_of(30)
        messages[0].header.spec.workers = 5
        await make_batch(world, messages)

        def running(number: int) -> set[str]:
            held = world.hosts[number].executor.ledger.tasks
            return {run.task_id for run in runs if run.end is None and run.task_id in held}

        await world.until(lambda: len(runs) > 10 and any(running(number) for number in range(3)), look=0.01)
        lost = max(range(3), key=lambda number: len(running(number)))
        begun = running(lost)
        await end([world.duties[lost - 3]])  # its executor, and nobody starts another
        await world.hosts[lost].kill_controller()
        await batch_ended(world, b.BATCH_DONE)
        await world.check()
        items = {item.task_id: item for item in await items_of(world)}
        assert [(item.status, item.attempts) for item in items.values()] == [(b.ITEM_DONE, 1)] * 30
        again = {task_id for task_id, count in Counter(run.task_id for run in runs).items() if count > 1}
        assert again == begun
        assert f"e{lost}-1" not in {items[each].peer for each in again}
        for chunk in {item.chunk for item in items.values()}:
            spans = sorted((run.start, run.end or 0.0) for run in runs if items[run.task_id].chunk == chunk)
            assert all(ended <= start for (_, ended), (start, _) in pairwise(spans))

    play(story, hosts=3)


def test_an_executor_dies_after_its_lambda_and_before_the_report() -> None:
    """Nobody knows that it was done: it runs again. At least once, not at most once."""

    async def story(world: World) -> None:
        world.line.down.add("set_results")
        handles = await world.schedule(2, 0.5)
        await world.until(lambda: all(run.ok for run in _runs(handles)) and len(_runs(handles)) == 2)
        world.hosts[0].crash()
        await asyncio.sleep(0.1)
        world.line.down.clear()
        await world.succeed(handles)
        assert all(len(of(handle)) == 2 for handle in handles)

    play(story, hosts=1)


def test_a_result_that_arrives_after_the_task_was_claimed_anew_changes_nothing() -> None:
    async def story(world: World) -> None:
        world.line.plan["set_results"] = Fault.DELAYED_LATE
        (handle,) = await world.schedule(1, 0.5)
        await world.until(lambda: world.line.hits["set_results"] == 1, look=0.001)
        world.hosts[0].crash()
        await world.until(lambda: len(of(handle)) == 2)
        token = (await world.record(handle)).fence
        await world.succeed([handle])
        before = await world.record(handle)
        await asyncio.sleep(LATE_S)
        after = await world.record(handle)
        assert (after.fence, after.ended_runs) == (token, before.ended_runs)
        assert [run.why for run in after.ended_runs][-1] == "succeeded"

    play(story, hosts=1)


class _Frozen:
    """The HSC as an executor reaches it that stands still, and whose clocks do: nothing leaves it, and it misses no answer."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.thawed = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        async def call(request: Any, *, timeout: float = 10) -> Any:
            if name == "heartbeat" and not self.thawed.is_set():
                return h.HeartbeatReply(verdicts=[h.OK] * len(request.claims))
            await self.thawed.wait()
            return await getattr(self._wire, name)(request, timeout=timeout)

        return call


@pytest.mark.parametrize("early", [True, False], ids=["while the other run goes on", "when the other run is over"])
def test_an_executor_is_frozen_behind_its_lambda_and_thaws_beyond_its_lease(early: bool) -> None:
    """Its host stands still with it. What it then reports is refused: the other run's result is the task's."""

    async def story(world: World) -> None:
        host = await world.add_host()
        host.hsc = frozen = _Frozen(host.hsc)  # type: ignore[assignment]
        frozen.thawed.set()
        (handle,) = await world.schedule(1, 6.0)
        await world.until(lambda: len(of(handle)) == 1)
        await asyncio.sleep(5.8)
        frozen.thawed.clear()
        await host.kill_controller()
        await asyncio.sleep(0.5)
        (first,) = of(handle)
        assert (first.ok, (await world.record(handle)).status) == (True, Status.PROCESSING)
        await world.add_host()
        await world.until(lambda: len(of(handle)) == 2)
        assert first.end is not None
        assert of(handle)[1].start > first.end + H - 3, "its lease has ended; its last heartbeat was a while before"
        if early:
            await asyncio.sleep(3)  # it has been said that it runs
        else:
            await world.succeed([handle])
        before, sent = await world.record(handle), world.line.calls["set_results"]
        frozen.thawed.set()
        await asyncio.sleep(1)
        assert world.line.calls["set_results"] > sent, "the stale result has arrived"
        after = await world.record(handle)
        assert (after.status, after.fence, after.ended_runs) == (before.status, before.fence, before.ended_runs)
        await world.succeed([handle])
        last = await world.record(handle)
        assert (last.fence, [run.why for run in last.ended_runs][-1]) == (of(handle)[1].fence, "succeeded")
        assert len(of(handle)) == 2

    play(story, hosts=0)


@pytest.mark.parametrize("jump_s", [3600, -3600], ids=["forward", "back"])
def test_the_wall_clocks_of_hosts_jump_and_come_back(jump_s: int) -> None:
    """Everything runs once, and is on time by the store's clock, which goes on as before."""

    async def story(world: World) -> None:
        handles = await world.schedule(4, 8.0)
        handles += [each for delay in range(1, 12) for each in await world.schedule(2, 0.1, delay=delay)]
        failing = await world.schedule(2, 0.1, delay=2, fails=2)
        await world.client.schedule_job("f/job", step.prepare(0.1), "@every 1s")
        await asyncio.sleep(1.5)
        _set_clocks(world, jump_s)
        handles += await world.schedule(2, 0.1, delay=3)
        await asyncio.sleep(4)
        _set_clocks(world, 0)
        handles += await world.schedule(2, 0.1, delay=3)
        await world.succeed([*handles, *failing])
        assert all(len(of(handle)) == 1 for handle in handles)
        assert all(len(of(handle)) == 3 for handle in failing)
        assert max(run.store_us - run.due_us for run in _runs(handles)) < US
        job = await world.client.get_job("f/job")
        await world.client.delete_job("f/job")
        began, now = job.created_at, datetime.fromtimestamp(world.store_clock_us() / US, UTC)
        assert began is not None
        assert abs(job.ticks - (now - began).total_seconds()) <= 2
        assert job.skipped == 0
        assert [host.codes for host in world.hosts] == [[], []]

    play(story)


def _set_clocks(world: World, seconds: int) -> None:
    """All wall clocks but the store's are so far off from now on."""
    runtime, us = world.runtime, seconds * US
    runtime.wall_us = lambda: VirtualRuntime.wall_us(runtime) + us  # type: ignore[method-assign]
    world.skew_us = -us


def test_the_hsc_is_restarted() -> None:
    """Away for less than three heartbeats: nobody notices."""

    async def story(world: World) -> None:
        handles = await world.schedule(4, 8.0)
        await world.until(lambda: len(_runs(handles)) == 4)
        world.line.down |= HSC_CALLS
        handles += await world.schedule(4, 0.1)
        await asyncio.sleep(4)
        world.line.down.clear()
        await world.succeed(handles)
        assert all(len(of(handle)) == 1 for handle in handles)

    play(story)


def test_the_hsc_is_away_for_long() -> None:
    """Executors end themselves before a lease of theirs can; then their tasks run again."""

    async def story(world: World) -> None:
        handles = await world.schedule(4, 8.0)
        await world.until(lambda: len(_runs(handles)) == 4)
        world.line.down |= HSC_CALLS
        away_at = _now()
        await asyncio.sleep(2 * H)
        assert max(run.end or 0 for run in _runs(handles)) < away_at + H
        world.line.down.clear()
        await world.succeed(handles)
        assert {code for host in world.hosts for code in host.codes} == {75}

    play(story)


def test_a_host_drains_while_its_controller_claims() -> None:
    """What it holds goes to the other host at once; no attempt and no loss is counted."""

    async def story(world: World) -> None:
        await asyncio.sleep(0.5)
        world.line.slow_s, world.line.slow_only = 0.8, {"next_claims"}
        handles = await world.schedule(12, 1.0)
        await asyncio.sleep(0.1)
        await world.hosts[0].controller.drain()
        began = _now()
        records = await world.succeed(handles)
        assert _now() - began < 6, "nothing waited for a timeout"
        assert {(record.losses, record.attempts) for record in records} == {(0, 1)}

    play(story)


def test_a_backlog_older_than_every_timeout() -> None:
    """Nobody has worked for minutes. Each task is still in its queue once, and runs once."""

    async def story(world: World) -> None:
        handles = await world.schedule(60, 0.1)
        await asyncio.sleep(60)
        depths = [queue.depth for queue in await world.store.queues()]
        assert sum(depths) == 60
        await world.add_host()
        await world.succeed(handles, within=10)
        assert all(len(of(handle)) == 1 for handle in handles)

    play(story, hosts=0)


def test_a_poison_task_among_innocents() -> None:
    """It is a dead letter after three losses; of the others none is charged with more than one."""

    async def story(world: World) -> None:
        handles = await world.schedule(30, 1.0) + await world.schedule(30, 1.0, delay=3)
        bad = await world.client.schedule(poison.prepare())
        (record,) = await world.finished([bad])
        assert Status(record.status) is Status.FATAL_FAILURE
        assert (record.losses, record.attempts) == (3, 0)
        assert 3 <= len(of(bad)) <= 4, "beside other suspects it is not charged, and runs alone the next time"
        assert max(record.losses for record in await world.succeed(handles, within=300)) <= 1

    play(story)
