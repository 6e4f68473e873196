"""Work that a link does beside its calls: asyncio tasks that are kept until they end, and ended when the link closes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from atf.runtime import end

T = TypeVar("T")


class BackgroundTasks:
    """The tasks of one link."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs `work` on the current loop."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end(self) -> None:
        """Cancels what still runs."""
        await end(self._tasks)
