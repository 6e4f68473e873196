"""Ending asyncio tasks: nothing of them is left, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import contextlib

from atf.runtime import end
from atf.testing.loop import VirtualLoop


async def _stubborn(swallowed: int) -> None:
    """Goes on after its first cancellations, as a library may have it."""
    for _ in range(swallowed):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
    await asyncio.sleep(3600)


async def _keeper(kept: asyncio.Task[None]) -> None:
    try:
        await asyncio.sleep(3600)
    finally:
        await end([kept])


async def _ends_both() -> None:
    for swallowed in range(4):
        kept = asyncio.create_task(_stubborn(swallowed))
        keeper = asyncio.create_task(_keeper(kept))
        await asyncio.sleep(0.01)
        await end([keeper])
        assert kept.done()
        assert keeper.cancelled()


def test_whoever_ends_others_while_it_is_ended_itself_leaves_none_behind() -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(_ends_both())
    finally:
        loop.close()
