"""Stops of a whole worker host on real processes, signalled as a service manager does: each by its pid, in any order.

ATF_TEST_STOPS=100 makes more of them.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import pytest
import pytest_asyncio

from atf.cli.local.processes import descendants
from atf.client import Handle
from atf.task import Status

from . import kills
from .test_kills import LONG_S, QUICK, Busy, busy, is_alive

STOPS: Final = int(os.environ.get("ATF_TEST_STOPS", "2"))
SPREAD_S: Final = 0.05

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120 + 20 * STOPS)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Busy]:
    async with busy(tmp_path_factory.mktemp("stops"), **QUICK, ATF_DRAIN_TIMEOUT="4") as world:
        yield world


async def stop_host(world: Busy, chance: random.Random, *numbers: signal.Signals) -> list[int]:
    """Signals every process of the host within SPREAD_S, and waits until all of them have ended. Returns their pids."""
    controller = world.cluster.pid("controller")
    pids = [controller, *descendants(controller)]
    chance.shuffle(pids)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, chance.choice(numbers))
        await asyncio.sleep(chance.uniform(0, SPREAD_S / len(pids)))
    return pids


async def restarted(world: Busy, before: int) -> None:
    async with asyncio.timeout(LONG_S):
        while world.cluster.pid("controller") in {0, before}:
            await asyncio.sleep(0.05)


async def running(world: Busy, seconds: float) -> list[Handle[int]]:
    handles = await world.schedule(6, seconds) + await world.schedule(6, seconds, aio=True)
    await world.running(handles)
    return handles


@pytest.mark.parametrize("seed", range(STOPS))
async def test_what_fits_the_drain_timeout_succeeds_in_its_first_run(world: Busy, seed: int) -> None:
    chance = random.Random(seed)
    handles = await running(world, chance.uniform(0.5, 3))
    controller = world.cluster.pid("controller")
    pids = await stop_host(world, chance, signal.SIGTERM, *((signal.SIGINT, signal.SIGHUP) if seed % 2 else ()))
    await restarted(world, controller)
    assert not [pid for pid in pids if is_alive(pid)]
    tasks = await world.succeed(handles)
    assert {(task.attempts, task.losses, task.runs) for task in tasks} == {(1, 0, 1)}


async def test_what_does_not_fit_it_runs_again_and_counts_nothing(world: Busy) -> None:
    """The first loss of these would be their end."""
    tries = [each.prepare(6.0) for each in (kills.fragile, kills.fragile_async) for _ in range(3)]
    handles = await world.client.schedule_many(tries)
    for cut in (1, 2):
        await world.until(lambda cut=cut: all(world.starts(each) >= cut for each in handles))  # type: ignore[misc]
        controller = world.cluster.pid("controller")
        await stop_host(world, random.Random(cut), signal.SIGTERM)
        await restarted(world, controller)
    tasks = await world.client.wait(handles, timeout=LONG_S)
    assert {(task.status, task.attempts, task.losses) for task in tasks} == {(Status.SUCCESS, 1, 0)}
    assert {task.runs for task in tasks} == {3}
    assert all(each.why.startswith("handed_back: cut") for task in tasks for each in task.ended_runs[:2])


async def test_a_controller_that_is_asked_twice_ends_all_and_hands_back_what_ran(world: Busy) -> None:
    handles = await world.schedule(3, 2.5) + await world.schedule(3, 2.5, aio=True)
    await world.running(handles)
    controller = world.cluster.pid("controller")
    pids = [controller, *descendants(controller)]
    os.kill(controller, signal.SIGINT)
    await asyncio.sleep(1.1)
    os.kill(controller, signal.SIGINT)
    await restarted(world, controller)
    assert not [pid for pid in pids if is_alive(pid)], "it took its executors along"
    tasks = await world.client.wait(handles, timeout=LONG_S)
    assert {(task.status, task.attempts, task.losses, task.runs) for task in tasks} == {(Status.SUCCESS, 1, 0, 2)}
