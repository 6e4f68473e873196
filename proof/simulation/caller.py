"""What the parts of the simulated service share: calls that may fail, calls that must not, and tasks that are asked for and written down."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from atf.client import AsyncClient
from atf.errors import AtfError
from atf.verify.events import Accepted, Called, Keyed

if TYPE_CHECKING:
    from .world import World

T = TypeVar("T")
PARTITIONS: Final = 2


def stored_id(routing: str, key: str) -> str:
    """The id of a task as the store has it."""
    return f"{zlib.crc32(routing.encode()) % PARTITIONS}-{key}"


async def attempt(world: World, what: str, call: Awaitable[T], *tasks: str) -> T | None:
    """What a call answered; None: it failed."""
    try:
        answer = await call
    except AtfError as error:
        world.chronicle.say(f"{what} failed: {error}", *tasks)
        return None
    world.chronicle.say(f"{what} answered {answer}", *tasks)
    return answer


async def until_done(world: World, what: str, call: Callable[[], Awaitable[T]], *fine: type[AtfError]) -> T | None:
    """What a call answered in the end; None: with an error that is `fine`."""
    while True:
        try:
            answer = await call()
        except fine as error:
            world.chronicle.say(f"{what} answered {error!r}")
            return None
        except AtfError as error:
            world.chronicle.say(f"{what} failed: {error}")
            await asyncio.sleep(1)
            continue
        world.chronicle.say(f"{what} answered {answer}")
        return answer


async def schedule(world: World, client: AsyncClient, task: Any, task_id: str, ordering_key: str = "") -> None:
    """Asks for a task, and tells the judge of it."""
    world.chronicle.event(Called(world.now_us(), task_id))
    if ordering_key:
        group = f"{getattr(task.request.spec, 'lambda')} {ordering_key}"
        world.chronicle.event(Keyed(world.now_us(), task_id, group, 1, ordered=True))
    if await attempt(world, "Schedule", client.schedule(task), task_id) is not None:
        stored = world.server.stored[task_id]
        world.chronicle.event(Accepted(world.now_us(), task_id, stored.time_us, stored.loop_us))
