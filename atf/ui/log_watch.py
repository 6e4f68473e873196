"""Watches the logs of running tasks for as long as somebody looks at their pages.

An executor sends what a run has said so far only while somebody watches. All tabs that show a task share one watch, which ends
soon after the last of them was refreshed.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

from atf.errors import AtfError
from atf.rpc import api, frontend_pb2 as f
from atf.runtime import Runtime

UNSEEN_S: Final = 10.0
"""Seconds after the last look until a watch ends."""
MOST: Final = 32
"""Watches of one process at a time; the page of another task shows what was kept."""


class _Watch:
    def __init__(self) -> None:
        self.seen = 0.0
        self.newest: f.GetLogReply | None = None


class LogWatches:
    """The watches of one process."""

    def __init__(self, frontend: api.Frontend, runtime: Runtime) -> None:
        self._frontend, self._runtime = frontend, runtime
        self._watches: dict[str, _Watch] = {}

    def look(self, task_id: str) -> f.GetLogReply | None:
        """What a task's runs have said so far; None: nothing is known yet. Begins a watch, or keeps the one there is."""
        watch = self._watches.get(task_id)
        if watch is None:
            if len(self._watches) >= MOST:
                return None
            watch = self._watches[task_id] = _Watch()
            self._runtime.spawn(self._follow(task_id, watch), name="watch of a log")
        watch.seen = self._runtime.monotonic()
        return watch.newest

    async def _follow(self, task_id: str, watch: _Watch) -> None:
        reading = self._runtime.spawn(self._read(task_id, watch), name="reading of a log")
        try:
            while not reading.done() and self._runtime.monotonic() - watch.seen < UNSEEN_S:
                await asyncio.wait({reading}, timeout=UNSEEN_S / 4)
        finally:
            reading.cancel()
            del self._watches[task_id]

    async def _read(self, task_id: str, watch: _Watch) -> None:
        try:
            async with aclosing(self._frontend.watch_log(f.WatchLogRequest(id=task_id))) as replies:
                async for watch.newest in replies:
                    pass
        except AtfError:
            return  # the page shows what was kept; the next look begins again
