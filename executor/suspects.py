"""Lets tasks through to the workers, and keeps apart those that may have killed their executor.

A suspect has lost an executor before. What kills its process mostly does so at once, so suspects start one by one: then the
guilty one is the only suspect there, or among few. Of several, nobody can say which it was; none is charged, and each of them is
claimed to run alone from then on, like one that may be lost only once more: whatever runs alone takes no neighbour along, and if
its executor dies again it was the cause. Ordinary tasks never wait for suspects, however many there are. Pure: it is told the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from .deadlines import WAITED_S
from .held import HeldTask

SUSPECT_S: Final = 0.05
"""Seconds a suspect runs until the next one may start; sooner, if its end is recorded. Short, since all that a killed executor
had started are suspects, and want to run again within a second or two. Not shorter when there are many: all that run beside the
guilty one run alone from then on, and a hundred of those cost more than they would have waited."""

MAX_SUSPECTS: Final = 256
"""So many may wait for their turn. Of more the first pass at once: about as many run in one executor, so no single task made more
of them, and the slots are for ordinary tasks too."""


class Suspects:
    """Tasks between their arrival and a worker.

    A suspect counts as running, and what must end before another runs alone as not ended, until its result is recorded: else
    the next one to kill the process would charge it with a second loss.
    """

    def __init__(self) -> None:
        self._ordinary: deque[HeldTask] = deque()
        self._suspects: deque[HeldTask] = deque()
        self._alone: deque[HeldTask] = deque()
        self._suspect: HeldTask | None = None
        self._single: HeldTask | None = None

    @property
    def waiting(self) -> bool:
        """Whether anything waits here, or nothing may pass for now: then `release` is worth a call whenever something ends."""
        return bool(self._ordinary or self._suspects or self._alone) or self._single is not None

    def crowded(self, held: Mapping[str, HeldTask]) -> bool:
        """Whether nothing more is wanted: a task is to run alone. Suspects that wait are no reason, since they fill no worker."""
        self._settle(held)
        return bool(self._alone) or self._single is not None

    def admit(self, tasks: Iterable[HeldTask]) -> None:
        """Takes tasks that have arrived, or that could not start yet."""
        for task in tasks:
            self._forget(task)
            if task.alone:
                self._alone.append(task)
            elif task.losses:
                self._suspects.append(task)
            else:
                self._ordinary.append(task)

    def release(self, now: float, held: Mapping[str, HeldTask]) -> list[HeldTask]:
        """What may go to the workers now. `held`: all that the executor holds, what waits here included."""
        self._settle(held)
        if self._single is not None:
            return []
        passed = list(self._ordinary)
        self._ordinary.clear()
        if self._alone:
            if not passed and len(held) == len(self._alone) + len(self._suspects):
                self._single = self._alone.popleft()
                passed = [self._single]
        else:
            passed += [self._suspects.popleft() for _ in range(len(self._suspects) - MAX_SUSPECTS)]
            if self._suspects and self._wait(now) == 0:
                self._suspect = self._suspects.popleft()
                passed.append(self._suspect)
        return passed

    def overdue(self, now: float) -> list[HeldTask]:
        """Takes back what has waited too long, since another executor may be free: suspects for their turn, and everything behind
        a task that runs alone, which may take hours.
        """
        if self._single is not None:
            return self.withdraw() if self._wait_behind(self._single, now) == 0 else []
        tasks = [task for task in self._suspects if self._left(task, now) == 0]
        if tasks:
            self._suspects = deque(task for task in self._suspects if self._left(task, now) > 0)
        return tasks

    def next_in(self, now: float) -> float | None:
        """Seconds until `release` or `overdue` may answer otherwise by the passing of time alone; None: they won't."""
        if self._single is not None:
            return self._wait_behind(self._single, now) if self._suspects or self._alone or self._ordinary else None
        if not self._suspects:
            return None
        left = min(self._left(task, now) for task in self._suspects)
        return left if self._alone else min(left, self._wait(now))

    def withdraw(self) -> list[HeldTask]:
        """Takes back everything that waits here."""
        tasks = [*self._ordinary, *self._suspects, *self._alone]
        for waiting in (self._ordinary, self._suspects, self._alone):
            waiting.clear()
        return tasks

    def _settle(self, held: Mapping[str, HeldTask]) -> None:
        """Forgets what is not held any more: recorded, handed back or lost."""
        for gone in [each for each in (self._suspect, self._single) if each and held.get(each.task_id) is not each]:
            self._forget(gone)
        for waiting in (self._ordinary, self._suspects, self._alone):
            if any(task.lost for task in waiting):
                still = [task for task in waiting if not task.lost]
                waiting.clear()
                waiting.extend(still)

    def _forget(self, task: HeldTask) -> None:
        if task is self._suspect:
            self._suspect = None
        if task is self._single:
            self._single = None

    @staticmethod
    def _wait_behind(single: HeldTask, now: float) -> float:
        if not single.started or single.outcome is not None:
            return WAITED_S  # as in _wait
        return max(0.0, single.started_at + WAITED_S - now)

    @staticmethod
    def _left(task: HeldTask, now: float) -> float:
        """Seconds that a suspect may still wait."""
        return max(0.0, task.waiting_since + WAITED_S - now)

    def _wait(self, now: float) -> float:
        if self._suspect is None:
            return 0.0
        if not self._suspect.started or self._suspect.outcome is not None:
            return SUSPECT_S  # until it starts; or until its end is recorded, which is on its way
        return max(0.0, self._suspect.started_at + SUSPECT_S - now)
