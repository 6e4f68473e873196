"""Runs a client's work on its own event loop for callers on other threads or loops.

A client's work belongs to one loop. What asks for it may be a thread that blocks, or a coroutine of any loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from atf.sdk.blocking import LoopBridge

from .fork import FORK_GUARD

R = TypeVar("R")


class ClientBridge(LoopBridge, Protocol):
    """A way to the loop that a blocking client keeps."""

    def start(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        """Has the work done while the caller's thread goes on."""
        ...

    def stop(self) -> None:
        """Ends what it keeps running."""
        ...


class OwnLoop:
    """The work runs on the loop of whoever asks."""

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        work.close()
        raise RuntimeError(
            "an AsyncClient does not block: await the method of this name with _async, or use atf.Client"
        )

    async def hop(self, work: Coroutine[Any, Any, R]) -> R:
        return await work


class BackgroundLoop:
    """A loop on a thread of its own; it starts with the first work, and anew after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        FORK_GUARD.add(self)

    def start(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        loop = self._running()
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("this call blocks the very thread that has to do it: await its _async twin instead")
        return asyncio.run_coroutine_threadsafe(work, loop)

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # of use only if the wait was interrupted, as by Ctrl-C
            raise

    async def hop(self, work: Coroutine[Any, Any, R]) -> R:
        FORK_GUARD.check(work)  # in a child that an `async def` forks, asyncio says that no loop runs
        loop = self._running()
        if asyncio.get_running_loop() is loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_turn, args=(self._loop,), name="atf-client", daemon=True)
                self._thread.start()
            return self._loop

    def forked(self) -> list[Any]:
        # The loop's selector is shared with the parent: to close it here, even by collecting it, would deafen the parent.
        inherited = [self._loop, self._thread]
        if self._loop is not None:
            self._loop.set_exception_handler(lambda _loop, _context: None)
        self._lock = threading.Lock()
        self._loop = self._thread = None
        return inherited

    def stop(self) -> None:
        """Ends the thread; work that is under way is cancelled."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()
