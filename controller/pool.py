"""Keeps a number of executors running: starts their guards, starts them again when they end, and passes on what they held.

A guard is the process that starts one executor, watches it, and reads its table once it is dead (atf executor). The pool knows a
guard only by what it writes: a line of JSON when its executor has started, and one when it is dead. Starting the process
is guards.py's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from atf.errors import AtfError
from atf.exits import EXIT_BAD_INPUT
from atf.log import get_logger
from atf.retry import Pauses
from atf.runtime import Runtime, happens

from .losses import Death, parse_death

RESTART_FIRST_S: Final = 1.0
RESTART_MOST_S: Final = 30.0
HEALTHY_S: Final = 30.0
"""An executor that lived so long, or that died while it ran tasks, did not fail at its start: the next one starts after the
shortest wait. Else a few tasks that kill their process would keep a whole pool away from all others."""

_log = get_logger(duty="pool")


class Guard(Protocol):
    """A running guard."""

    pid: int

    async def wait(self) -> int:
        """Its exit code, once it has ended and every line of it was passed on."""
        ...

    def drain(self) -> None:
        """Asks it to let its executor finish what it has started, and to end."""
        ...


Start = Callable[[Callable[[str], None]], Awaitable[Guard]]
"""Starts a guard; the argument takes the lines it writes."""


class Pool:
    """The executors of one controller.

    Args:
        start: starts a guard.
        size: how many to keep running.
        on_death: told of every executor that is verifiably dead.
        runtime: clocks, chance, spawning.
        guarded: where the ids of the executors stand whose guards run.
    """

    def __init__(
        self,
        *,
        start: Start,
        size: int,
        on_death: Callable[[Death], None],
        runtime: Runtime,
        guarded: set[str] | None = None,
    ) -> None:
        self._start = start
        self._size = size
        self._on_death = on_death
        self._runtime = runtime
        self._guarded = guarded if guarded is not None else set()
        self._guards: list[Guard] = []
        self._draining = asyncio.Event()

    async def run(self) -> None:
        """Keeps the executors running; returns once `drain` was called and all have ended."""
        slots = [self._runtime.spawn(self._slot(), name=f"executor {number}") for number in range(self._size)]
        try:
            await asyncio.gather(*slots)
        finally:
            for slot in slots:
                slot.cancel()

    def drain(self) -> None:
        """Starts no more executors, and asks those that run to end."""
        self._draining.set()
        for guard in self._guards:
            guard.drain()

    async def _slot(self) -> None:
        pauses = Pauses(self._runtime.random, first=RESTART_FIRST_S, most=RESTART_MOST_S)
        while not self._draining.is_set():
            began, ran = self._runtime.monotonic(), False
            try:
                ran = await self._one_life()
            except OSError as error:
                _log.error("executor can't be started", error=str(error))
            if ran or self._runtime.monotonic() - began >= HEALTHY_S:
                pauses.reset()
            await happens(self._draining, pauses.next())

    async def _one_life(self) -> bool:
        """Whether the executor ran tasks when it died."""
        started: list[str] = []
        told: list[Death] = []

        def line(text: str) -> None:
            match self._event(text):
                case str(executor_id):
                    started.append(executor_id)
                    self._guarded.add(executor_id)
                case Death() as death:
                    told.append(death)
                    self._on_death(death)

        guard = await self._start(line)
        self._guards.append(guard)
        if self._draining.is_set():
            guard.drain()
        try:
            code = await guard.wait()
        finally:
            self._guards.remove(guard)
            self._guarded.difference_update(started)
        if code == EXIT_BAD_INPUT:
            _log.error(
                "executor refused to start; its own lines say why, and it is tried again", guard=guard.pid, code=code
            )
        elif self._draining.is_set():
            _log.info("executor ended", guard=guard.pid, code=code)
        elif not told:
            _log.warning("guard ended without an account of its executor", guard=guard.pid, code=code)
        else:
            _log.warning("executor ended; starting another", guard=guard.pid, code=code, why=told[-1].why)
        return any(each.started for each in told)

    def _event(self, line: str) -> str | Death | None:
        """The executor that has started, or how one has ended; None: neither."""
        try:
            event = json.loads(line)
            match event["event"]:
                case "started":
                    _log.info("executor started", executor=event["executor"], worker=event["pid"])
                    return str(event["executor"])
                case "dead":
                    return parse_death(event)
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError, AtfError) as error:
            # Not what it said: that may hold tokens.
            _log.error("a guard said what can't be read", error=type(error).__name__, characters=len(line))
        return None
