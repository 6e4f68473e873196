"""One task's way through an executor, in eight steps:

    ask → arrive → release → check → prepare → call → collect → report

1. ask      asks the controller for as much as there is room for (fetch.py, prefetch.py)
2. arrive   writes the claims of an answer into the ledger and its table (held.py)
3. release  lets them through to the workers; suspects one by one (suspects.py, workers.py)
4. check    a worker looks whether the task may start now (perform.py)
5. prepare  finds its lambda, and decodes its arguments (perform.py)
6. call     runs the lambda; what that did becomes an Outcome (perform.py, outcome.py)
7. collect  takes ended tasks from the workers, a burst at a time (report.py)
8. report   sends their outcomes to the HSC in batches until they are answered (report.py)

A task goes through them in this order and never comes back. This file makes the first three; `Ledger.moved` tells it that there may be room for others.
Steps 4 to 6 are a worker's, in whatever thread it has. What cuts in is interrupts.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from atf.log import get_logger
from atf.rpc import controller_pb2 as c
from atf.runtime import Runtime, happens
from atf.task import MAX_BATCH

from .deadlines import WAITED_S, Deadlines
from .fetch import Fetch
from .held import HeldTask, Ledger
from .interrupts import Interrupts
from .prefetch import Prefetch
from .report import Reporter
from .suspects import Suspects
from .workers import Workers

_LEAST_S: Final = 0.001
"""Between two looks at the suspects."""
_log = get_logger(duty="executor")


@dataclass
class Pipeline:
    """The steps of a task up to a worker, and what waits between them."""

    ledger: Ledger
    workers: Workers
    deadlines: Deadlines
    interrupts: Interrupts
    reporter: Reporter
    prefetch: Prefetch
    fetches: Sequence[Fetch]
    """The calls for work."""
    lease_us: int
    runtime: Runtime

    def __post_init__(self) -> None:
        self._suspects = Suspects()
        self._waits = asyncio.Event()
        """Set once suspects wait for their turn."""

    # --- 1. ask -----------------------------------------------------------------------------------------------------

    async def ask(self, fetch: Fetch) -> None:
        """Takes work from one kind of calls, until the controller drains.

        Raises:
            FailedPrecondition, Unauthenticated: as of Fetch.next.
        """
        while True:
            self.ledger.moved.clear()
            lambdas, most = self._wanted(fetch)
            if most == 0:
                await self.ledger.moved.wait()
            elif (reply := await fetch.next(lambdas, most)) is not None:
                if reply.number:
                    if self.arrive(reply):
                        fetch.pauses.reset()
                    else:
                        await fetch.pause()  # what was handed back may come again at once
                if reply.draining:
                    return

    def _wanted(self, fetch: Fetch) -> tuple[Sequence[str], int]:
        """What to ask for now, and how many tasks at most. What the other calls may bring needs slots, too."""
        now = self.runtime.monotonic()
        names = self.prefetch.not_hot(fetch.lambdas, now) if fetch.low_volume else fetch.lambdas
        if not names or self._suspects.crowded(self.ledger.tasks) or self.reporter.stuck(now):
            return (), 0
        workers, running, waiting = self.workers.load(fetch.is_async)
        if fetch.low_volume:  # only where all that runs is short: behind what takes long nothing is to wait
            room = min(workers, self.prefetch.hold(fetch.lambdas, workers, now))
        else:
            room = self.prefetch.room(names, (workers, running, waiting + len(self.ledger.stale)), now)
        slots = self.ledger.room - sum(each.asked for each in self.fetches)
        return names, max(0, min(slots, room, MAX_BATCH))

    # --- 2. arrive --------------------------------------------------------------------------------------------------

    def arrive(self, reply: c.NextWorkReply) -> bool:
        """Takes the claims of an answer. When this returns they are in the table, so the answer may be acknowledged. Says whether any was kept."""
        now = self.runtime.monotonic()
        too_old = self.runtime.boottime_us() - reply.claim_sent_us > self.lease_us // 2
        held, taken = self.ledger.tasks, dict[str, HeldTask]()
        refused: list[HeldTask] = []
        for claim in reply.claims:
            task = HeldTask(claim, reply.claim_sent_us, now)
            before = held.get(task.task_id)
            if before is not None and before.counter < task.counter:
                self.interrupts.lose(before)  # the store has given it anew: the run that we still have is over
            # Never beside an earlier run of it, beyond the slots, or with a lease that the guard would soon kill for.
            if before is not None or too_old or len(taken) >= self.ledger.room or task.task_id in taken:
                refused.append(task)
            else:
                taken[task.task_id] = task
        self.ledger.take(taken.values())
        if refused:
            _log.warning("claims handed back on arrival", tasks=len(refused), too_old=too_old)
            # Not a second copy of a claim that is held.
            mine = {(task_id, task.counter) for task_id, task in held.items()}
            self.reporter.hand_back([task for task in refused if (task.task_id, task.counter) not in mine])
        _log.debug("next_work", tasks=len(taken))
        self.prefetch.arrived([task.lambda_name for task in taken.values()], now)
        self._suspects.admit(taken.values())
        self.release()
        self.ledger.moved.set()  # there may be enough of some lambdas now
        return bool(taken)

    # --- 3. release -------------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Sends what may run now to the workers."""
        if self.ledger.draining.is_set():
            self.reporter.hand_back(self._suspects.withdraw())
            return
        now = self.runtime.monotonic()
        self.reporter.hand_back(self._suspects.overdue(now))
        tasks = self._suspects.release(now, self.ledger.tasks)
        for task in tasks:
            task.queued, task.waiting_since = True, now
        self.prefetch.came([task.lambda_name for task in tasks])
        self.workers.put(tasks)
        self.deadlines.put(tasks, now)
        if self._suspects.waiting:
            self._waits.set()

    async def keep_releasing(self) -> None:
        """Releases suspects as the tasks before them end, and as time passes."""
        while True:
            self.release()
            self.ledger.moved.clear()
            if self._suspects.waiting:
                left = self._suspects.next_in(self.runtime.monotonic())
                await happens(self.ledger.moved, None if left is None else max(_LEAST_S, left))
            else:
                self._waits.clear()
                await self._waits.wait()

    def renewed(self) -> None:
        """Leases were renewed: what had too little of them left may start."""
        self._suspects.admit(self.ledger.take_stale())
        self.release()

    # --- what has not started ---------------------------------------------------------------------------------------

    def empty(self) -> int:
        """Hands back all that has not started; says how many."""
        queued = self.workers.withdraw()
        self.prefetch.left(task.lambda_name for task in queued)
        waiting = [*queued, *self._suspects.withdraw(), *self.ledger.take_stale()]
        self.reporter.hand_back(waiting)
        return len(waiting)

    def relieve(self) -> None:
        """Hands back what has waited too long for a worker: another executor may be free."""
        if self.ledger.draining.is_set():
            return
        since = self.runtime.monotonic() - WAITED_S
        tasks = self.workers.withdraw()
        waited = [task for task in tasks if task.waiting_since <= since]
        self.prefetch.left(task.lambda_name for task in waited)
        self.reporter.hand_back(waited)
        self.workers.put([task for task in tasks if task.waiting_since > since])
