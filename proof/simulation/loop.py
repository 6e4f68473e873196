"""Processes on one virtual-time event loop: in a seeded order, and killed, frozen and thawed as the simulation wishes.

Every handle on the loop belongs to the process in whose context it was made. Killing a process drops its handles, so no
`finally` of it runs; freezing it stashes them. Within a process handles keep their order, as asyncio promises.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from atf.testing.loop import VirtualLoop

MOST_STEPS: Final = 50_000
"""Handles within WINDOW_S; beyond that something goes round in circles. A busy seed has a tenth of it."""
WINDOW_S: Final = 10.0


@dataclass(eq=False)
class SimProcess:
    """One incarnation of one operating-system process.

    Attributes:
        name: unique, e.g. "hsc-1.3".
        host: the host it runs on.
        alive: until it is killed or ends.
        frozen: by how many freezes at once.
        code: its exit code, once it has ended.
        ended: set then; whoever waits for it is another process.
        on_end: called then.
    """

    name: str
    host: str
    alive: bool = True
    frozen: int = 0
    code: int = 0
    stash: list[asyncio.Handle] = field(default_factory=list)
    on_end: list[Callable[[], object]] = field(default_factory=list)

    @property
    def running(self) -> bool:
        """Whether it is alive and not frozen."""
        return self.alive and not self.frozen


PROCESS: contextvars.ContextVar[SimProcess | None] = contextvars.ContextVar("process", default=None)
"""The process that runs now; None: the world around."""


class Livelock(RuntimeError):
    """Something goes round in circles, and hardly any time passes."""


class _Task(asyncio.Task):  # type: ignore[type-arg]
    """Hashed by its number: sets of tasks iterate in the same order in every run."""

    _numbers = count(1)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(*args, **kwargs)
        self._log_destroy_pending = False  # killed processes leave theirs behind

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimLoop(VirtualLoop):
    """The loop of one seed."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._steps = 0
        self._window_s = 0.0
        # With the instant before each timer the heap compares numbers; asyncio's own has each comparison made by Python.
        self._timers: list[tuple[float, asyncio.TimerHandle]] = []
        self.graves: list[Any] = []
        """What belonged to killed processes: kept, so that nothing of it is finalized while the simulation runs."""
        self.world = contextvars.Context()
        """The context of what belongs to no process: packets under way, faults."""
        _Task._numbers = count(1)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        owner = PROCESS.get()
        if context is None:
            context = contextvars.copy_context()
        elif owner is not None and context.get(PROCESS) is None:
            context.run(PROCESS.set, owner)  # a lambda's own context is empty, and still its process's
        task = _Task(coro, loop=self, name=name, context=context)
        self.graves.append(task)
        return task

    def start(self, process: SimProcess | None, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs `work` as part of a process."""
        context = contextvars.Context()
        context.run(PROCESS.set, process)
        return self.create_task(work, context=context)

    def later(self, seconds: float, call: Callable[[], object]) -> asyncio.TimerHandle:
        """Calls something of the world around after a while."""
        return self.call_later(seconds, call, context=self.world)

    def thaw(self, process: SimProcess) -> None:
        """Takes one freeze away; what waited goes on."""
        process.frozen -= 1
        if process.frozen == 0:
            self._ready.extend(process.stash)  # type: ignore[attr-defined]
            process.stash = []

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, timer))
        return timer

    def run_in_executor(  # type: ignore[override]
        self, _executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """At once, and no thread: what is given to one here computes, and waits for nothing."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  the caller's
            done.set_exception(error)
        return done

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its instant comes."""

    def _run_once(self) -> None:
        timers, ready = self._timers, self._ready  # type: ignore[attr-defined]
        while timers and timers[0][1]._cancelled:
            heapq.heappop(timers)
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            # What stands for the next timer is all that a virtual loop asks of its heap.
            self._scheduled = [timer for _, timer in timers[:1]]
            self.select(None)
        now = self.time()
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[1]
            if not timer._cancelled:
                ready.append(timer)
        turns = self._turns(ready)
        self._count(len(turns), now)
        for handle in turns:
            if handle._cancelled:
                continue
            owner = handle._context.get(PROCESS)
            if owner is not None and not owner.running:  # killed or frozen within this very round
                self._put_by(owner, handle)
            else:
                handle._run()

    def _turns(self, ready: deque[Any]) -> list[Any]:
        """Empties `ready` into a seeded order that keeps each process's own."""
        if len(ready) == 1 and ((only := ready[0]._context.get(PROCESS)) is None or only.running):
            return [ready.popleft()]  # most turns
        queues: dict[SimProcess | None, deque[Any]] = {}
        owners = []
        for handle in ready:
            owner = handle._context.get(PROCESS)
            if owner is not None and not owner.running:
                self._put_by(owner, handle)
            else:
                queues.setdefault(owner, deque()).append(handle)
                owners.append(owner)
        ready.clear()
        if len(queues) > 1:
            self._chance.shuffle(owners)
        return [queues[owner].popleft() for owner in owners]

    def _put_by(self, owner: SimProcess, handle: asyncio.Handle) -> None:
        (owner.stash if owner.alive else self.graves).append(handle)

    def _count(self, steps: int, now: float) -> None:
        if now >= self._window_s + WINDOW_S:
            self._window_s, self._steps = now, 0
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise Livelock(
                f"{self._steps} steps from {self._window_s:.6f} s to {now:.6f} s: something goes round in circles"
            )
