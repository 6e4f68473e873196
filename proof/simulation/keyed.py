"""An ordering key in some seeds whose lambda stops it at a task that fails for good: somebody looks, and resumes or skips, until all have ended.

Judged is, at every move, that nothing behind such a task starts before that; and like all ordering keys that tasks run in their order.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from atf.client import AsyncClient
from atf.client.info import KeyInfo
from atf.task import FINISHED

from .caller import attempt, schedule, stored_id
from .lambdas import strict
from .net import LATEST_S

if TYPE_CHECKING:
    from .world import World

KEY: Final = "stops"
TASKS: Final = 4
WITHIN_S: Final = 600.0


def has_key(world: World) -> bool:
    """Whether a seed has one."""
    return world.seed % 3 == 1


async def life(world: World, client: AsyncClient) -> None:
    """Schedules the tasks, some of which stop the key, and keeps it going."""
    chance = world.chance
    await asyncio.sleep(chance.uniform(5, 60))
    ids = []
    for number in range(TASKS):
        task_id = stored_id(KEY, f"s{number}")
        ids.append(task_id)
        options = {"key": f"s{number}", "ordering_key": KEY}
        task = strict.options(**options).prepare(chance.choice((0.02, 1.0)), chance.random() < 0.6)  # type: ignore[arg-type]
        await schedule(world, client, task, task_id, KEY)
    # Until then a copy of a call that failed may arrive, and its task stand behind one that has failed.
    settled = world.loop.time() + 2 * LATEST_S
    until = world.loop.time() + WITHIN_S
    while any(_goes_on(world, each, settled) for each in ids) and world.loop.time() < until:
        await asyncio.sleep(chance.uniform(1, 6))
        since = world.now_us()
        for each in await attempt(world, "list keys", client.stopped_keys(strict.name)) or ():
            await _mend(world, client, each, since)


def _goes_on(world: World, task_id: str, settled: float) -> bool:
    status = world.server.field(task_id, "s")
    if status is None:
        return world.loop.time() < settled
    return status not in {each.name for each in FINISHED}


async def _mend(world: World, client: AsyncClient, told: KeyInfo, since_us: int) -> None:
    """Resumes a key, or goes on without the task at which it has stopped."""
    had = world.server.answers.between(told.task_id, since_us, world.now_us())
    if told.key != KEY or "FATAL_FAILURE" not in had:
        world.chronicle.odd.append(f"{told.task_id}: told to have stopped {told.key}, and it was {sorted(had)}")
    resumes = world.chance.random() < 0.5
    go_on = client.resume_key if resumes else client.skip_key
    await attempt(world, f"{'resume' if resumes else 'skip'} key", go_on(strict.name, KEY, told.task_id), told.task_id)
