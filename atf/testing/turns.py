"""Runs blocking functions beside a virtual-time loop: each on a thread of its own, but only one thread moves at a time.

The loop stands still while the function runs, so no virtual time passes in it. When the function needs something of the loop
(it schedules a task, or waits for a result), it asks; then it stands still until the loop has the answer, and time may pass.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

R = TypeVar("R")

_here = threading.local()


class _Asks(NamedTuple):
    work: Coroutine[Any, Any, Any]


class _Returned(NamedTuple):
    value: Any
    error: BaseException | None


class ThreadTurn:
    """One function on its way."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._to_loop: SimpleQueue[_Asks | _Returned] = SimpleQueue()
        self._to_function: SimpleQueue[_Returned] = SimpleQueue()

    @staticmethod
    def current() -> ThreadTurn | None:
        """The turn whose thread this is."""
        return getattr(_here, "turn", None)

    def ask(self, work: Coroutine[Any, Any, R]) -> R:
        """Has `work` done on the loop; called from the turn's own thread."""
        self._to_loop.put(_Asks(work))
        value, error = self._to_function.get()
        if error is not None:
            raise error
        result: R = value
        return result

    async def take(self) -> Any:
        """Runs the function to its end; called on the loop."""
        threading.Thread(target=self._run, name="atf-turn", daemon=True).start()
        while isinstance(said := self._to_loop.get(), _Asks):
            self._to_function.put(await _outcome(said.work))
        if said.error is not None:
            raise said.error
        return said.value

    def _run(self) -> None:
        _here.turn = self
        try:
            ended = _Returned(self._call(), None)
        except BaseException as error:  # noqa: BLE001  it is raised again on the loop's side
            ended = _Returned(None, error)
        self._to_loop.put(ended)


async def _outcome(work: Coroutine[Any, Any, Any]) -> _Returned:
    try:
        return _Returned(await work, None)
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  whoever asked gets it
        return _Returned(None, error)
