"""What cuts into the pipeline: a cancellation, a timeout, a lost claim, a drain, and the end of the process.

Owns whether the executor drains, by when it must have done so, and its exit code. It decides what becomes of a run that must end; who finds out
that it must is another's: heartbeats (heartbeat.py), the clock (deadlines.py), or an answer of the controller (pipeline.py).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from atf.config.settings import ExecutorSettings
from atf.exits import EXIT_NO_HEARTBEAT, EXIT_OVERRUN
from atf.log import get_logger
from atf.runtime import Runtime, happens

from .deadlines import Deadlines
from .held import HeldTask, Ledger
from .outcome import RunTimedOut, to_result
from .perform import Performer
from .run_log import say_ended
from .table import SlotState
from .workers import Workers

_log = get_logger(duty="executor")


@dataclass
class Interrupts:
    """The interrupts of one executor."""

    ledger: Ledger
    workers: Workers
    performer: Performer
    deadlines: Deadlines
    settings: ExecutorSettings
    runtime: Runtime
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the executor takes no more."""
    deadline: float = 0.0
    """Of the drain, of the monotonic clock."""
    code: int = 0
    """The exit code so far."""
    aborted: bool = False
    """Whether the process ends at once."""

    # --- cancellations and timeouts ---------------------------------------------------------------------------------

    def stop(self, task: HeldTask, *, timed_out: bool) -> None:
        """Tells a run to end; a coroutine is cancelled, a `def` sees ctx.cancelled. One that has not started never will."""
        if task.outcome is not None or task.cancelled or task.cut:
            return
        task.timed_out = timed_out
        task.stop_at = self.runtime.monotonic()
        task.cancelled = True  # last, since a worker looks at it (see HeldTask)
        if task.started and self.performer.is_async(task):
            self.workers.cancel(task)
        elif task.isolated is not None:
            task.isolated.tell("cancel", timed_out)
        self.deadlines.note(task)

    def overran(self, task: HeldTask) -> bool:
        """A run was told to end and has not. Says whether this process is to end for it, as in any other drain.

        Its thread can't be stopped, so no other way is left. Once the process is dead, the controller reports that run as the table says.
        """
        if self._killed_alone(task):
            return False
        if task.lost:
            self._end_for(task, "is lost and its lambda goes on")
            return False
        if task.timed_out:
            ended = RunTimedOut(
                f"timed out after {task.timeout:g} s, and did not end within {self.settings.stop_grace:g} s more"
            )
            _, _, _, error, retry_in_us = to_result(ended, task.spec.options, task.attempt, self.runtime.random)
            self.ledger.give_up(task, SlotState.TIMED_OUT, error, retry_in_us)
            say_ended(task, ended)
        else:
            error = f"cancelled, and did not end within {self.settings.stop_grace:g} s"
            self.ledger.give_up(task, SlotState.STOPPED, error)
        _log.error(
            "lambda does not end; this process will", task=task.task_id, lambda_name=task.lambda_name, error=error
        )
        self.code = EXIT_OVERRUN
        self.ledger.moved.set()
        return True

    def _killed_alone(self, task: HeldTask) -> bool:
        """Kills the process of an isolated run; that it has ended comes as any other end. False: it has none, or that was of no use."""
        if task.isolated is None or not task.isolated.kill():
            return False
        task.stop_at = self.runtime.monotonic()  # should it not die, the next look comes a grace later
        self.deadlines.note(task)
        _log.warning("isolated run killed", task=task.task_id, lambda_name=task.lambda_name, timed_out=task.timed_out)
        return True

    # --- losses -----------------------------------------------------------------------------------------------------

    def lose(self, task: HeldTask) -> None:
        """The claim is somebody else's: nothing of it may go on here."""
        if task.lost or self.ledger.tasks.get(task.task_id) is not task or task.outcome is not None:
            return  # its result is on the way, and the answer to that will say LOST too
        _log.warning("claim lost", task=task.task_id, started=task.started)
        task.lost = True
        self.stop(task, timed_out=False)
        task.cancelled = True
        if not task.started:
            self.ledger.release([task])  # whoever comes upon it later sees that it is lost
        elif not self.performer.is_async(task) and not self._killed_alone(task):
            self._end_for(task, "was lost while its lambda ran")

    def _end_for(self, task: HeldTask, why: str) -> None:
        """Ends the process at once, since the task may run elsewhere. What is cut with it has done nothing wrong, and counts nothing."""
        self.ledger.cut()
        self.abort(EXIT_NO_HEARTBEAT, f"{task.task_id} {why}")

    def abort(self, code: int, why: str) -> None:
        """Ends the executor at once with this exit code."""
        _log.error("ending at once", why=why, code=code)
        self.code, self.aborted = code, True
        self.draining.set()
        self.ledger.moved.set()

    # --- drains -----------------------------------------------------------------------------------------------------

    def drain(self) -> bool:
        """From now on nothing more is taken. Says whether that is new."""
        if self.draining.is_set():
            return False
        self.draining.set()
        self.ledger.drain()
        self.deadline = self.runtime.monotonic() + self.settings.drain_timeout
        return True

    async def drain_out(self) -> None:
        """Waits until all that is held has left, or time is up. Coroutines are cancelled `stop_grace` before, and have at least half of the time."""
        cut_at = self.deadline - min(self.settings.stop_grace, self.settings.drain_timeout / 2)
        while not self.aborted:
            self.ledger.moved.clear()
            now = self.runtime.monotonic()
            open_tasks = [task for task in self.ledger.snapshot() if not task.overrun]
            if not open_tasks:
                return
            if now >= self.deadline:
                self._cut(open_tasks)
                return
            if now >= cut_at:
                cut_at = math.inf
                for task in open_tasks:
                    if task.started and task.outcome is None and self.performer.is_async(task):
                        self.workers.cancel(task, cut=True)
            await happens(self.ledger.moved, min(cut_at, self.deadline) - now)

    def _cut(self, tasks: Sequence[HeldTask]) -> None:
        """Time is up: the process ends. Once it is dead, its guard says what it held, and that goes back."""
        self.ledger.cut()
        self.code = self.code or EXIT_OVERRUN
        self.ledger.drained["cut"] = cut = sum(task.started and task.outcome is None for task in tasks)
        _log.warning("not all that started has ended in time; it will run again", tasks=cut)
