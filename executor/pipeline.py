"""One task's way through an executor, in eight steps:

    ask → arrive → release → check → prepare → call → collect → report

1. ask      asks the controller for as much as there is room for (fetch.py, prefetch.py)
2. arrive   writes the claims of an answer into the ledger and its table (held.py)
3. release  lets them through to the workers; suspects one by one (suspects.py, workers.py)
4. check    a worker looks whether the task may start now (held.py)
5. prepare  finds its lambda, and decodes its arguments (perform.py)
6. call     runs the lambda; what that did becomes an Outcome (perform.py, outcome.py)
7. collect  takes ended tasks from the workers, a burst at a time
8. report   sends their outcomes to the HSC in batches until they are answered (report.py)

Steps 4 to 6 are a worker's, in whatever thread it has; this file is the others. What cuts in is interrupts.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from atf.log import get_logger
from atf.rpc import controller_pb2 as c
from atf.runtime import Runtime
from atf.task import MAX_BATCH

from .deadlines import WAITED_S, Deadlines
from .fetch import Fetch
from .held import HeldTask, Ledger
from .interrupts import Interrupts
from .outcome import HandedBack
from .prefetch import Prefetch
from .report import Reporter
from .suspects import Suspects
from .workers import Workers

_log = get_logger(duty="executor")


@dataclass
class Pipeline:
    """The steps that an executor's loop makes, and what lies between them."""

    ledger: Ledger
    workers: Workers
    deadlines: Deadlines
    interrupts: Interrupts
    beat: Callable[[], None]
    """Has a heartbeat sent now: a task needs one before it may start."""
    fetches: Sequence[Fetch]
    """The calls for work."""
    lease_us: int
    runtime: Runtime

    def __post_init__(self) -> None:
        self.reporter: Reporter
        self._suspects, self._prefetch = Suspects(), Prefetch()
        self._stale: list[HeldTask] = []
        """What has too little of its lease left to start: the next heartbeat renews that."""
        self._timer: asyncio.TimerHandle | None = None

    # --- 1. ask -----------------------------------------------------------------------------------------------------

    async def ask(self, fetch: Fetch) -> None:
        """Takes work from one kind of calls, until the controller drains.

        Raises:
            FailedPrecondition: the controller is on another host, or gives leases of another length.
        """
        while True:
            fetch.changed.clear()
            lambdas, most = self._wanted(fetch)
            if most == 0:
                await fetch.changed.wait()
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
        names = self._prefetch.not_hot(fetch.lambdas, now) if fetch.low_volume else fetch.lambdas
        if not names or self._suspects.crowded or self.reporter.stuck(now):
            return (), 0
        workers, running, waiting = self.workers.load(fetch.is_async)
        if fetch.low_volume:  # only where all that runs is short: behind what takes long nothing is to wait
            room = min(workers, self._prefetch.hold(fetch.lambdas, workers, now))
        else:
            room = self._prefetch.room(names, (workers, running, waiting + len(self._stale)), now)
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
            self.hand_back([task for task in refused if not self._same(task)])
        _log.debug("next_work", tasks=len(taken))
        self._prefetch.arrived([task.lambda_name for task in taken.values()], now)
        self._suspects.admit(taken.values())
        self.release()
        self._look_for_room()  # there may be enough of some lambdas now
        return bool(taken)

    def _same(self, task: HeldTask) -> bool:
        """Whether it is a second copy of a claim that is held: that must not be handed back."""
        held = self.ledger.tasks.get(task.task_id)
        return held is not None and held.counter == task.counter

    # --- 3. release -------------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Sends what may run now to the workers."""
        if self.interrupts.draining.is_set():
            self.hand_back(self._suspects.withdraw())
            return
        now = self.runtime.monotonic()
        self.hand_back(self._suspects.overdue(now))
        tasks = self._suspects.release(now, self.ledger.tasks)
        for task in tasks:
            task.queued, task.waiting_since = True, now
        self._prefetch.came([task.lambda_name for task in tasks])
        self.workers.put(tasks)
        self.deadlines.put(tasks, now)
        self.close()
        wait = self._suspects.next_in(now)
        if wait is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.001, wait), self.release)

    def close(self) -> None:
        """Releases nothing more by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def renewed(self) -> None:
        """Leases were renewed: what had too little of them left may start."""
        self._suspects.admit(self._stale)
        self._stale = []
        self.release()

    # --- 7. collect -------------------------------------------------------------------------------------------------

    def collect(self, tasks: list[HeldTask]) -> None:
        """Takes tasks from the workers: ended, or not to be started now."""
        now = self.runtime.monotonic()
        self._prefetch.left([task.lambda_name for task in tasks])
        ended: list[HeldTask] = []
        stale: list[HeldTask] = []
        for task in tasks:
            task.queued = False
            if task.lost:
                self.ledger.release([task])
            elif task.outcome is None:
                stale.append(task)
            else:
                ended.append(task)
                if task.ended_at:
                    self._prefetch.ran(task.lambda_name, task.ended_at - task.started_at, now)
        self.reporter.ended(ended)
        if self.interrupts.draining.is_set():
            for task in ended:
                self.interrupts.drained["handed_back" if isinstance(task.outcome, HandedBack) else "ended"] += 1
            self.hand_back(stale)
        elif stale:
            self._stale += stale
            self.beat()
        self.moved()

    def moved(self) -> None:
        """Something has ended or was recorded: others may start, or be fetched."""
        if self._suspects.waiting:
            self.release()
        self._look_for_room()
        self.interrupts.progress.set()

    def _look_for_room(self) -> None:
        for fetch in self.fetches:
            fetch.changed.set()

    # --- what has not started ---------------------------------------------------------------------------------------

    def hand_back(self, tasks: Iterable[HeldTask]) -> None:
        """Hands back tasks that have not started, and now never will here."""
        waiting = list(tasks)
        for task in waiting:
            task.queued = False
        if waiting and self.interrupts.draining.is_set():
            self.interrupts.drained["not_started"] += len(waiting)
        self.reporter.unstarted(waiting)

    def empty(self) -> int:
        """Hands back all that has not started; says how many."""
        queued = self.workers.withdraw()
        self._prefetch.left(task.lambda_name for task in queued)
        waiting = [*queued, *self._suspects.withdraw(), *self._stale]
        self._stale = []
        self.hand_back(waiting)
        return len(waiting)

    def relieve(self) -> None:
        """Hands back what has waited too long for a worker: another executor may be free."""
        if self.interrupts.draining.is_set():
            return
        since = self.runtime.monotonic() - WAITED_S
        tasks = self.workers.withdraw()
        waited = [task for task in tasks if task.waiting_since <= since]
        self._prefetch.left(task.lambda_name for task in waited)
        self.hand_back(waited)
        self.workers.put([task for task in tasks if task.waiting_since > since])
