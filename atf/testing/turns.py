"""Runs blocking functions beside a virtual-time loop: each on a thread of its own, but only one thread moves at a time.

The loop stands still while the function runs, so no virtual time passes in it. When the function needs something of the loop
(it schedules a task, or waits for a result), it asks; then it stands still until the loop has the answer, and time may pass.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

R = TypeVar("R")

_here = threading.local()


class ThreadTurn:
    """One function on its way."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._asked: SimpleQueue[tuple[Coroutine[Any, Any, Any], Future[Any]] | None] = SimpleQueue()
        """What the function wants done on the loop; None: it has returned."""
        self._returned: Future[Any] = Future()

    @staticmethod
    def current() -> ThreadTurn | None:
        """The turn whose thread this is."""
        return getattr(_here, "turn", None)

    def ask(self, work: Coroutine[Any, Any, R]) -> R:
        """Has `work` done on the loop; called from the turn's own thread."""
        answer: Future[R] = Future()
        self._asked.put((work, answer))
        return answer.result()

    async def take(self) -> Any:
        """Runs the function to its end; called on the loop."""
        threading.Thread(target=self._run, name="atf-turn", daemon=True).start()
        while (asked := self._asked.get()) is not None:
            work, answer = asked
            try:
                answer.set_result(await work)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  whoever asked gets it
                answer.set_exception(error)
        return self._returned.result()

    def _run(self) -> None:
        _here.turn = self
        try:
            self._returned.set_result(self._call())
        except BaseException as error:  # noqa: BLE001  it is raised again on the loop's side
            self._returned.set_exception(error)
        self._asked.put(None)
