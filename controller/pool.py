"""Keeps a number of executors running: starts their guards, starts them again when they end, and passes on what they held.

A guard is the process that starts one executor, watches it, and reads its table once it is dead (atf executor). The pool knows a
guard only by what it writes: a line of JSON when its executor has started, one when it drains, and one when it is dead. Starting the
process is guards.py's.

An executor that drains while the pool does not takes no more, and may do so for as long as its drain_timeout: so its successor starts
at once, beside it. But one at a time: where that drains as well, the next one waits until either has ended. So there are never more than
two processes for each executor that is asked for, or MOST_REPLACED where it is replaced again and again.

Who has changed the code asks for other executors by `replace`. Then the successor starts first, and an executor drains once its successor
works: if that can't start, the one before it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from atf.calls.retry import Pauses, RetryPolicy
from atf.exits import EXIT_BAD_INPUT, EXIT_UNAVAILABLE
from atf.log import get_logger
from atf.process.descriptors import error_text
from atf.runtime import Runtime, end, happens

from .guards import Drains, Slow, Started, event_of
from .losses import Death
from .starts import Starts

RESTART_FIRST_S: Final = 1.0
RESTART_MOST_S: Final = 30.0
HEALTHY_S: Final = 30.0
"""An executor that lived so long, or that died while it ran tasks, did not fail at its start: the next one starts after the
shortest wait. Else a few tasks that kill their process would keep a whole pool away from all others."""

SUCCESSOR_S: Final = 0.25
"""Seconds until the successor of an executor that drains starts: a stop that reaches every process may reach the executors first."""
MOST_REPLACED: Final = 4
"""Processes in the place of one executor, where those before the newest still drain."""

_log = get_logger(duty="pool")


class ExecutorGuard(Protocol):
    """A running guard."""

    pid: int

    async def wait(self) -> int:
        """Its exit code, once it has ended and every line of it was passed on."""
        ...

    def drain(self) -> None:
        """Asks it to let its executor finish what it has started, and to end."""
        ...

    def end_at_once(self) -> None:
        """Asks it to kill its executor, and to end."""
        ...


class _Life:
    """One executor, from its start to its end.

    Attributes:
        slot: the number of its place.
        leaving: set once it drains, has ended, or is to be replaced.
        guard: its process, while that runs.
        replaced_at: since when it is to be replaced; 0: it is not.
        drains: whether it has said that it drains.
        ran: whether it ran tasks when it began to drain, or died.
        failed_start: why it never came to work; empty: it did, or nobody knows.
        started: the id of its executor, once its guard has said so.
        told: what its guard said of its executor's end, once it has.
    """

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.leaving = asyncio.Event()
        self.guard: ExecutorGuard | None = None
        self.replaced_at = 0.0
        self.drains = False
        self.ran = False
        self.failed_start = ""
        self.started: list[str] = []
        self.told: list[Death] = []


Start = Callable[[Callable[[str], None]], Awaitable[ExecutorGuard]]
"""Starts a guard; the argument takes the lines it writes."""


@dataclass(kw_only=True, eq=False)
class ExecutorPool:
    """The executors of one controller."""

    start: Start
    """Starts a guard."""
    size: int
    """How many to keep running."""
    on_death: Callable[[Death], None]
    """Told of every executor that is verifiably dead."""
    runtime: Runtime
    """Clocks, chance, spawning."""
    guarded: set[str] = field(default_factory=set)
    """Where the ids of the executors stand whose guards run."""
    starts: Starts | None = None
    """What is known of their starts."""
    on_start: Callable[[], None] = lambda: None
    """Told of each executor that has started."""

    def __post_init__(self) -> None:
        self._starts = self.starts or Starts(self.size)
        self._starts.works.append(self._came_to_work)
        self._lives: list[_Life] = []
        self._hurries = [asyncio.Event() for _ in range(self.size)]
        """Per place: set to have the next executor start now."""
        self._draining = asyncio.Event()
        self._released = asyncio.Event()
        self._released.set()
        self._at_once = False

    async def run(self) -> None:
        """Keeps the executors running; returns once `drain` was called and all have ended.

        Raises:
            FailedPrecondition: none of them can start (starts.py). The controller is still to drain.
        """
        slots = [self.runtime.spawn(self._slot(number), name=f"executor {number}") for number in range(self.size)]
        try:
            await asyncio.gather(*slots)
            await self._draining.wait()  # there may be no slots
        finally:
            for slot in slots:
                slot.cancel()

    def drain(self) -> None:
        """Starts no more executors, and asks those that run to end. May be called again."""
        self._no_more()
        for guard in self._guards():
            guard.drain()

    def replace(self) -> None:
        """Starts a successor beside each executor, such as after the code has changed; an executor drains once its successor works."""
        for life in self._lives:
            if life.drains:
                continue
            life.replaced_at = self.runtime.monotonic()
            if life.guard is not None and not any(map(self._starts.is_working, life.started)):
                life.guard.drain()  # it may have loaded the code from before
            life.leaving.set()
        for each in self._hurries:
            each.set()

    def hold(self, held: bool) -> None:
        """Has all executors drain, and starts no more until it is called with False; while the host drains."""
        self._starts.hold(held)
        if not held:
            self._released.set()
            return
        self._released.clear()
        for guard in self._guards():
            guard.drain()

    def end_at_once(self) -> None:
        """Starts no more executors, and has those that run killed."""
        self._at_once = True
        self._no_more()
        for guard in self._guards():
            guard.end_at_once()

    def _no_more(self) -> None:
        self._draining.set()
        for each in self._hurries:
            each.set()

    def _guards(self) -> list[ExecutorGuard]:
        return [each.guard for each in self._lives if each.guard is not None]

    def _came_to_work(self, executor_id: str) -> None:
        """An executor works: those that it replaces drain."""
        slot = next((each.slot for each in self._lives if executor_id in each.started), -1)
        for life in self._lives:
            if life.slot == slot and executor_id not in life.started and life.guard and life.replaced_at:
                life.guard.drain()
                took_ms = round((self.runtime.monotonic() - life.replaced_at) * 1e3)
                _log.info("executor replaced", executor=executor_id, guard=life.guard.pid, took_ms=took_ms)

    async def _slot(self, number: int) -> None:
        pauses, hurry = Pauses(RetryPolicy(RESTART_FIRST_S, RESTART_MOST_S), self.runtime), self._hurries[number]
        lives: set[asyncio.Task[None]] = set()
        try:
            await self._until_released()
            while not self._draining.is_set():
                began, life = self.runtime.monotonic(), _Life(number)
                lives.add(self.runtime.spawn(self._live(life), name="executor's life"))
                await life.leaving.wait()
                if len(lives) >= (MOST_REPLACED if life.replaced_at else 2):  # those before drain still
                    await asyncio.wait(lives, return_when=asyncio.FIRST_COMPLETED)
                for each in [each for each in lives if each.done()]:
                    lives.remove(each)
                    each.result()  # raises what was a bug
                await self._until_released()
                if life.replaced_at:
                    pauses.reset()
                    hurry.clear()
                    continue
                well = not life.failed_start and (life.ran or self.runtime.monotonic() - began >= HEALTHY_S)
                if well:
                    pauses.reset()
                wait = SUCCESSOR_S if well and life.drains else pauses.next()
                if life.failed_start and not self._draining.is_set():
                    self._starts.failed(number, life.failed_start, wait)
                if await happens(hurry, wait):
                    pauses.reset()
                hurry.clear()
            if lives:
                await asyncio.wait(lives)
        finally:
            await end(lives)

    async def _until_released(self) -> None:
        """Waits while the host drains."""
        if self._released.is_set():
            return
        waits = [self.runtime.spawn(each.wait(), name="released") for each in (self._released, self._draining)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(waits)

    async def _live(self, life: _Life) -> None:
        """One executor's life."""
        try:
            await self._one_life(life)
        except OSError as error:
            life.failed_start = f"its process can't be started: {error_text(error)}"
        finally:
            life.leaving.set()

    async def _one_life(self, life: _Life) -> None:
        self._lives.append(life)
        try:
            guard = life.guard = await self.start(lambda text: self._hear(life, text))
            if self._at_once:
                guard.end_at_once()
            elif self._draining.is_set() or not self._released.is_set() or life.replaced_at:
                guard.drain()
            code = await guard.wait()
        finally:
            self._lives.remove(life)
            self.guarded.difference_update(life.started)
            for executor_id in life.started:
                self._starts.ended(executor_id)
        if not life.told and code in {EXIT_BAD_INPUT, EXIT_UNAVAILABLE}:
            life.failed_start = f"its guard ended with exit code {code} at once; its own lines say why"
        if not life.failed_start:  # of which starts.py tells
            self._say_ended(guard.pid, code, life.told[-1].why if life.told else "", drained=life.drains)

    def _hear(self, life: _Life, text: str) -> None:
        """Takes a line of the guard."""
        match event_of(text):
            case Started(executor_id):
                life.started.append(executor_id)
                self.guarded.add(executor_id)
                self._starts.began(life.slot, executor_id)
                self.on_start()
            case Slow(why):
                self._starts.slow(why)
            case Drains(running):
                life.drains, life.ran = True, life.ran or running > 0
                life.leaving.set()
            case Death() as death:
                life.told.append(death)
                life.failed_start = death.failed_start
                life.ran = life.ran or any((death.started, death.cut, death.timed_out, death.stopped))
                self.on_death(death)

    def _say_ended(self, guard: int, code: int, why: str, *, drained: bool) -> None:
        if self._draining.is_set():
            _log.info("executor ended", guard=guard, code=code)
        elif not why:
            _log.warning("guard ended without an account of its executor", guard=guard, code=code)
        elif drained:
            _log.info("executor ended after it drained", guard=guard, code=code, why=why)
        else:
            _log.warning("executor ended; starting another", guard=guard, code=code, why=why)
