"""Waits for tasks to finish: any number of WaitTasks calls share one listener and one look at the store per interval.

The store notifies "done" at the end of a task that is watched, and of a batch. A notification may be lost, so what is waited for is also
looked at once per poll_interval.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

from atf.errors import AtfError
from atf.runtime import Runtime, happens
from atf.store.store import Store

from .view import no_task

_IDLE_LOOKS: Final = 10
"""Intervals that the listener stays when nobody waits: a subscription per call would cost more than the call."""


class _Waiter:
    """One WaitTasks: what it still waits for, and what has finished."""

    def __init__(self, ids: Sequence[str], want_all: bool) -> None:
        self.open = set(ids)
        self.done: set[str] = set()
        self.want_all = want_all
        self.enough = asyncio.Event()

    def finished(self, task_id: str) -> None:
        self.open.discard(task_id)
        self.done.add(task_id)
        if not self.open or not self.want_all:
            self.enough.set()


class TaskWaits:
    """Everybody who waits at this frontend."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._poll = store.settings.poll_interval
        self._calls: dict[str, dict[_Waiter, None]] = {}
        """By task, in the order in which they came: in that order they wake. The same holds for those below."""
        self._notified: dict[str, dict[asyncio.Event, None]] = {}
        self._listener: asyncio.Task[None] | None = None
        self._draining = False

    async def finished(self, ids: Sequence[str], *, seconds: float, want_all: bool) -> set[str]:
        """Which of the tasks have finished: as soon as one has (or all have), or after `seconds`.

        Raises:
            TaskNotFound: one of them does not exist, or its record has expired.
        """
        call = _Waiter(ids, want_all)
        for each in call.open:
            self._calls.setdefault(each, {})[call] = None
        try:
            if seconds > 0 and not self._draining:
                self._listen()  # before the first look, so that no end falls between the two
            gone = await self._read(list(call.open))
            if gone:
                raise no_task(min(gone))
            if not self._draining:
                await happens(call.enough, seconds)
            return call.done
        finally:
            self._forget(call)

    @contextlib.contextmanager
    def notification_of(self, name: str) -> Iterator[asyncio.Event]:
        """Within the block the event is set at a notification for this name. A notification may be lost."""
        notified = asyncio.Event()
        self._notified.setdefault(name, {})[notified] = None
        if not self._draining:
            self._listen()
        try:
            yield notified
        finally:
            del self._notified[name][notified]
            if not self._notified[name]:
                del self._notified[name]

    def drain(self) -> None:
        """Answers everybody with what has finished, now and from now on: they ask again, elsewhere."""
        self._draining = True
        for events in self._notified.values():
            for each in events:
                each.set()
        for calls in self._calls.values():
            for call in calls:
                call.enough.set()
        if self._listener is not None:
            self._listener.cancel()

    def _forget(self, call: _Waiter) -> None:
        for each in call.open | call.done:
            calls = self._calls.get(each, {})
            calls.pop(call, None)
            if not calls:
                self._calls.pop(each, None)

    def _finished(self, task_id: str) -> None:
        for call in self._calls.get(task_id, ()):
            call.finished(task_id)
        for notified in self._notified.get(task_id, ()):
            notified.set()

    async def _read(self, ids: list[str]) -> list[str]:
        """Asks the store, and has it notify of those that go on. Returns those that don't exist."""
        statuses = await self._store.watch_tasks(ids)
        for task_id, status in zip(ids, statuses, strict=True):
            if status is None or status.finished:
                self._finished(task_id)
        return [task_id for task_id, status in zip(ids, statuses, strict=True) if status is None]

    async def _read_everywhere(self, ids: Sequence[str]) -> None:
        """Like `_read`, but a partition that is away hides nothing of the others; it is looked at again later."""
        with contextlib.suppress(AtfError):
            await self._read(list(ids))
            return
        parts: dict[str, list[str]] = {}
        for each in ids:
            parts.setdefault(each.partition("-")[0], []).append(each)
        for answer in await asyncio.gather(*map(self._read, parts.values()), return_exceptions=True):
            if isinstance(answer, BaseException) and not isinstance(answer, AtfError):
                raise answer

    # --- the listener -------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        if self._listener is None or self._listener.done():
            self._listener = self._runtime.spawn(self._listener_loop(), name="wait for ends")

    async def _listener_loop(self) -> None:
        idle, looked_at = 0, self._runtime.monotonic()
        async with self._store.listen("done", range(self._store.partitions)) as notifications:
            while idle < _IDLE_LOOKS:
                notified = await notifications.wait(self._poll)
                for task_id in notified:
                    self._finished(task_id)
                now = self._runtime.monotonic()
                if notified and now - looked_at < self._poll:
                    continue
                looked_at = now
                idle = 0 if self._calls or self._notified else idle + 1
                await self._read_everywhere(
                    [each for each, calls in self._calls.items() if not all(call.enough.is_set() for call in calls)]
                )
            self._listener = None  # at once, not after the notifications have been let go: a call may come in between
