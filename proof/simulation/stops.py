"""Tasks in some seeds whose runs end in every way that is no attempt, one after the other as a plan says, and in some that are a loss.

Each run stops its own executor, or takes it along, at a point that chance alone would seldom hit. What each of them must have counted is
judged by counts.py, as of every other task.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

import atf
from atf.client import AsyncClient
from atf.executor.executor import Executor
from atf.executor.held import HeldTask, Ledger

from .caller import schedule, stored_id
from .loop import PROCESS

if TYPE_CHECKING:
    from .world import World

PLANS: Final = (
    "mmm.",  # the lease ends in a drain, three times: no loss
    "mmmm.",  # the fourth is one
    "uu.",  # the lease ends before the run has said that it started
    "uuu.",
    "uuuuuuuuu",  # it takes its host along each time
    "umumu.",
    "mbmmm.",  # a row that is interrupted
    "ufuu.",
    "kb.",
    "ck.",
    "xs.",
    "wbw.",
    "bwb.",
    "mhm.",
    "hxh.",
    "qq",
)
"""A letter is how a run ends; see _leave. The last ones are one that ends well, and one that is cancelled before its body is called."""
TASKS: Final = 2
CANCELLED: Final = "q"
_EVERY: Final = 3
_DRAINS: Final = frozenset("mcxs")
_MARKED_S: Final = 2.0
"""Seconds after the begin of a drain by which a heartbeat has mostly said so."""
_HEARTBEAT_S: Final = 5.0
_LONG_S: Final = 60.0
"""Longer than a drain."""


def has_stops(seed: int) -> bool:
    """Whether a seed has such tasks."""
    return seed % _EVERY == 0


async def life(world: World, client: AsyncClient) -> None:
    """Schedules them."""
    from .lambdas import leaver

    chance = random.Random(world.seed)  # not the world's: what happens in the other seeds stays as it was
    for number in range(TASKS):
        await asyncio.sleep(chance.uniform(1, 30))
        plan, key = chance.choice(PLANS), f"stops-{number}"
        losses = chance.choice((1, 2, 3))
        task = leaver.options(key=key, max_losses=losses).prepare(plan)
        await schedule(world, client, task, stored_id(key, key))


def step_of(plan: str, run: int) -> str:
    """How a run is to end; "." well, as all do beyond the plan's end."""
    return plan[run - 1] if run <= len(plan) else "."


async def leave(world: World, how: str) -> None:
    """Ends a run in a way, or returns."""
    process = PROCESS.get()
    assert process is not None
    guard = process.name.rpartition(".")[0].replace("-e", "-g")
    if how in _DRAINS:
        world.terminate(guard)
    match how:
        case "m":  # a container runtime kills everything, in the middle of a drain
            await asyncio.sleep(_MARKED_S)
            world.kill(guard)
        case "u":  # the whole host is gone, before the first heartbeat
            world.kill(guard)
        case "h":  # and here after it
            await asyncio.sleep(_HEARTBEAT_S)
            world.kill(guard)
        case "c":
            await asyncio.sleep(_MARKED_S)
            world.end(process, 139, "crashes in a drain")
        case "k":
            world.end(process, 139, "crashes")
        case "x":  # is cancelled by the drain before it is cut
            await asyncio.sleep(_LONG_S)
        case "s":  # and this one ignores that
            until = world.loop.time() + _LONG_S
            while (left := until - world.loop.time()) > 0:
                try:
                    await asyncio.sleep(left)
                except asyncio.CancelledError:
                    continue
        case "b":
            raise atf.HandBack
        case "w":
            raise atf.HandBack(after=3)
        case "f":
            raise RuntimeError("this attempt fails")
        case _:
            return
    await asyncio.sleep(_LONG_S)  # whoever has ended its process does not get here


def cancels_in_between(world: World, executor: Executor) -> None:
    """Has a task whose plan says so cancelled when its executor has marked it as started and not called its body yet.

    The answer of a heartbeat may tell of a cancel at that very instant.
    """
    from .lambdas import leaver, plan_of

    ledger: Ledger = executor.ledger
    start = ledger.start

    def started(task: HeldTask) -> None:
        start(task)
        if task.lambda_name == leaver.name and step_of(plan_of(task.spec.payload), task.run) == CANCELLED:
            record = f"atf:{{{task.task_id.split('-', 1)[0]}}}"
            world.server.execute("cancel_tasks", record, ["", "", task.task_id], server=False)
            executor.interrupts.stop(task, timed_out=False)

    ledger.start = started  # type: ignore[method-assign]
