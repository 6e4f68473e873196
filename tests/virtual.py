"""Tests of roles on virtual time: a wait costs nothing, and what a test sees depends on nothing outside it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from atf.testing.loop import VirtualLoop
from atf.testing.runtime import VirtualRuntime

W = TypeVar("W")


def virtual(
    world: Callable[[VirtualRuntime], AbstractAsyncContextManager[W]],
) -> Callable[[Callable[[W], Awaitable[None]]], Callable[[], None]]:
    """Makes a test out of an `async def` that takes a world; the world is opened for it on a loop of its own."""

    def decorate(story: Callable[[W], Awaitable[None]]) -> Callable[[], None]:
        def test() -> None:
            loop = VirtualLoop()

            async def play() -> None:
                async with world(VirtualRuntime(loop)) as opened:
                    await story(opened)
                left = asyncio.all_tasks() - {asyncio.current_task()}
                assert not left, f"still running after the end: {left}"

            try:
                loop.run_until_complete(play())
            finally:
                loop.close()

        test.__name__, test.__doc__, test.__module__ = story.__name__, story.__doc__, story.__module__
        return test

    return decorate
