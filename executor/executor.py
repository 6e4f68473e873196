"""The executor: one straight pipe from the controller to the HSC.

    fetch → admit → resolve → decode → perform → outcome → report

1. fetch    asks the controller for as much as there is room for (fetch.py, prefetch.py)
2. admit    writes what came into the ledger and its table, keeps suspects apart (held.py, suspects.py), fills the workers (workers.py)
3. resolve, decode, perform: in a worker, the lambda runs (start_check.py, perform.py)
4. outcome  what it did becomes a value (outcome.py)
5. report   results go to the HSC in batches until they are answered (report.py, sender.py)

This file joins them, and owns what cuts across: cancellation, timeouts, lost claims, draining. It takes everything from its
constructor and runs on one event loop; heartbeats are apart (heartbeat.py), the process around it too (worker_main.py).
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from atf.calls.retry import Trouble
from atf.config.settings import ExecutorSettings, Timing
from atf.exits import EXIT_NO_HEARTBEAT, EXIT_OVERRUN
from atf.log import get_logger
from atf.rpc import controller_pb2 as c
from atf.rpc.api import HSC, Controller
from atf.runtime import Runtime, end, happens

from .deadlines import WAITED_S, Deadlines
from .fetch import Fetch
from .first_time import FirstTimes
from .held import HeldTask, Ledger
from .isolated import IsolatedRuns
from .outcome import HandedBack, RunTimedOut, to_result
from .perform import Lambda, Performer
from .prefetch import Prefetch
from .report import Reporter
from .run_log import say_ended
from .start_check import StartCheck
from .suspects import Suspects
from .table import SlotState, Table
from .workers import Workers

MUCH: Final = 8
"""Tasks of one lambda in one answer that make it one of those that come in great numbers."""
MUCH_S: Final = 1.0
"""Seconds for which it counts as such."""

_log = get_logger(duty="executor")


def _nothing() -> None:
    """Nobody is there to be told: the next regular heartbeat will do."""


async def _no_hooks(_within_s: float) -> None:
    """There are no stop hooks."""


class _Aside:
    """What a worker asks for aside: lambdas that do not come in great numbers just now, so that they don't wait for those that do.

    An ordinary call brings many of these, and until its answer has come there is no other one for the rest.
    """

    def __init__(self, names: Sequence[str], room: Callable[[], int], much: Callable[[], set[str]]) -> None:
        self._names, self._room, self._much = names, room, much

    def room(self) -> int:
        """How many tasks to ask for now."""
        if len(self._names) < 2 or not 0 < len(self.lambdas()) < len(self._names):
            return 0
        return self._room()

    def lambdas(self) -> Sequence[str]:
        """Of these."""
        much = self._much()
        return [name for name in self._names if name not in much]


class Executor:
    """Runs the tasks of one executor.

    Args:
        executor_id: new for every process.
        lambdas: by name; all that it announces.
        controller: gives work.
        hsc: takes results and what is handed back.
        workers: where lambdas run.
        table: where it writes what it holds, for its guard.
        settings: bounds and graces.
        timing: the arithmetic of leases.
        runtime: clocks, chance, spawning.
        isolated: runs lambdas with isolate=True in processes of their own; None: they run in workers like all others.

    Attributes:
        ledger: what it holds; for Heartbeats.
        nudge: called when a heartbeat is due now, of all claims (a task needs one before it may start, or a drain has begun), or only of those
            that are given (their runs have started); Heartbeats.nudge belongs here.
        drains: called when a drain has begun; what tells the guard belongs here.
        stop_hooks: called once nothing runs any more, with the seconds that are left of the drain; WorkerHooks.stop belongs here.
    """

    def __init__(
        self,
        *,
        executor_id: str,
        lambdas: Mapping[str, Lambda],
        controller: Controller,
        hsc: HSC,
        workers: Workers,
        table: Table,
        settings: ExecutorSettings,
        timing: Timing,
        runtime: Runtime,
        isolated: IsolatedRuns | None = None,
    ) -> None:
        self.executor_id = executor_id
        self.ledger = Ledger(table)
        self.nudge: Callable[[Sequence[HeldTask]], None] = lambda _: None
        self.drains: Callable[[], None] = _nothing
        self.stop_hooks: Callable[[float], Awaitable[None]] = _no_hooks
        self._workers = workers
        self._settings = settings
        self._lease_us = timing.heartbeat_timeout_us
        self._runtime = runtime
        first_times = FirstTimes(executor_id=executor_id, hsc=hsc, portal=workers.portal, runtime=runtime)
        self._performer = Performer(lambdas, runtime, first_times, self.ledger.draining, isolated)
        self._start_check = StartCheck(self.ledger, timing, runtime)
        self._suspects = Suspects()
        self._prefetch = Prefetch()
        self._stale: list[HeldTask] = []
        self._deadlines = Deadlines(self.ledger, self, stop_grace=settings.stop_grace, runtime=runtime)
        self._came: dict[str, float] = {}
        self._fetches: list[Fetch] = []
        trouble = Trouble(get_logger(duty="fetch"), "controller")
        signatures = {name: each.digest for name, each in lambdas.items()}
        for lane, is_async in (("def", False), ("async", True)):
            names = sorted(name for name, each in lambdas.items() if each.is_async is is_async)
            if not names:
                continue
            aside = _Aside(names, partial(self._aside_room, is_async, names), self._much)
            for name, room, asked in (
                (lane, partial(self._room, is_async, names), lambda names=names: names),
                (f"{lane}aside", aside.room, aside.lambdas),
            ):
                self._fetches.append(
                    Fetch(
                        executor_id=executor_id,
                        lane=name,
                        lambdas=asked,
                        signatures=signatures,
                        controller=controller,
                        room=room,
                        admit=self._admit,
                        drain=self.drain,
                        timing=timing,
                        runtime=runtime,
                        trouble=trouble,
                        pool=settings.pool,
                    )
                )
        self._reporter = Reporter(
            executor_id=executor_id, hsc=hsc, ledger=self.ledger, moved=self._moved, timing=timing, runtime=runtime
        )
        self._timer: asyncio.TimerHandle | None = None
        self._draining = asyncio.Event()
        self._progress = asyncio.Event()
        self._code = 0
        self._deadline = 0.0
        self._aborted = False
        self._drained: Counter[str] = Counter()
        """What became of what was held when the drain began, for the log."""

    async def run(self) -> int:
        """Works until drained.

        Returns:
            The exit code: 0 drained; 75 a claim was lost while its `def` ran; 76 a lambda did not end. After 75 and 76 a body
            may still run: the caller MUST end the process.

        Raises:
            FailedPrecondition: the controller is on another host, or gives leases of another length.
        """
        self._workers.open(self._performer, self._start_check, self._ended)
        fetches = [self._runtime.spawn(each.run(), name="fetch") for each in self._fetches]
        duties = [
            *fetches,
            self._runtime.spawn(self._reporter.results.run(), name="set_results"),
            self._runtime.spawn(self._reporter.returns.run(), name="hand_back"),
            self._runtime.spawn(self._deadlines.run(), name="watch"),
        ]
        draining = self._runtime.spawn(self._draining.wait(), name="draining")
        leaving: asyncio.Task[None] | None = None
        try:
            await asyncio.wait({draining, *duties}, return_when=asyncio.FIRST_COMPLETED)
            self.drain()
            for fetch in fetches:
                fetch.cancel()
            leaving = self._runtime.spawn(self._leave(fetches), name="leave")
            await self._finish()
            if not self._aborted:
                await self.stop_hooks(self._deadline - self._runtime.monotonic())
            for duty in duties:
                if duty.done() and not duty.cancelled():
                    duty.result()  # a bug, or the wrong host: it is raised here
            if not self._code:
                await asyncio.wait({leaving})
            _log.info("drained", code=self._code, **self._drained)
            return self._code
        finally:
            try:
                await end([draining, *duties, *([leaving] if leaving is not None else [])])
            finally:
                if self._timer is not None:
                    self._timer.cancel()
                self._workers.close()

    def drain(self) -> None:
        """Takes no more, hands back what has not started, lets the rest end; then `run` returns. May be called again."""
        if not self._draining.is_set():
            self._draining.set()
            self.ledger.drain()
            self.nudge(())
            self.drains()
            self._deadline = self._runtime.monotonic() + self._settings.drain_timeout
            queued = self._workers.withdraw()
            self._prefetch.left(task.lambda_name for task in queued)
            waiting = [*queued, *self._suspects.withdraw(), *self._stale]
            self._stale = []
            _log.info("draining", started=len(self.ledger.tasks) - len(waiting), handed_back=len(waiting))
            self._give_back(waiting)

    def abort(self, code: int, why: str) -> None:
        """Ends `run` at once with this exit code."""
        _log.error("ending at once", why=why, code=code)
        self._code, self._aborted = code, True
        self._draining.set()
        self._progress.set()

    def began(self, tasks: Sequence[HeldTask]) -> None:
        """These runs have lasted long enough for their start to be told now."""
        self.nudge(tasks)

    def heard(self, lost: Sequence[HeldTask], cancelled: Sequence[HeldTask]) -> None:
        """A heartbeat was answered: these claims are not ours any more, these shall be cancelled, the others are renewed."""
        for task in lost:
            self._lose(task)
        for task in cancelled:
            self.stop(task, timed_out=False)
        self._suspects.admit(self._stale)
        self._stale = []
        self._pump()

    # --- admit ------------------------------------------------------------------------------------------------------

    def _room(self, is_async: bool, lambdas: Sequence[str]) -> int:
        """How many tasks of one kind to ask for now. What the other one's call may bring needs slots, too."""
        now = self._runtime.monotonic()
        if self._suspects.crowded or self._reporter.stuck(now):
            return 0
        workers, running, waiting = self._workers.load(is_async)
        load = (workers, running, waiting + len(self._stale))
        slots = self.ledger.room - sum(each.asked for each in self._fetches)
        return max(0, min(slots, self._prefetch.room(lambdas, load, now)))

    def _aside_room(self, is_async: bool, lambdas: Sequence[str]) -> int:
        """How many tasks to ask for of lambdas that do not come in great numbers.

        Only where all that runs is short: behind what takes long nothing is to wait.
        """
        now = self._runtime.monotonic()
        workers = self._workers.load(is_async)[0]
        if self._suspects.crowded or self._reporter.stuck(now):
            return 0
        slots = self.ledger.room - sum(each.asked for each in self._fetches)
        return max(0, min(slots, workers, self._prefetch.hold(lambdas, workers, now)))

    def _much(self) -> set[str]:
        """Lambdas that come in great numbers."""
        since = self._runtime.monotonic() - MUCH_S
        self._came = {name: at for name, at in self._came.items() if at > since}
        return set(self._came)

    def _admit(self, reply: c.NextWorkReply) -> bool:
        """Takes the claims of an answer. When this returns they are in the table, so the answer may be acknowledged. Says whether any was kept."""
        now = self._runtime.monotonic()
        too_old = self._runtime.boottime_us() - reply.claim_sent_us > self._lease_us // 2
        taken: dict[str, HeldTask] = {}
        refused: list[HeldTask] = []
        for claim in reply.claims:
            task = HeldTask(claim, reply.claim_sent_us, now)
            before = self.ledger.tasks.get(task.task_id)
            if before is not None and before.counter < task.counter:
                self._lose(before)  # the store has given it anew: the run that we still have is over
            # Never beside an earlier run of it, beyond the slots, or with a lease that the guard would soon kill for.
            if before is not None or too_old or len(taken) >= self.ledger.room or task.task_id in taken:
                refused.append(task)
            else:
                taken[task.task_id] = task
        self.ledger.take(taken.values())
        if refused:
            _log.warning("claims handed back on arrival", tasks=len(refused), too_old=too_old)
            self._give_back([task for task in refused if not self._same(task)])
        _log.debug("next_work", tasks=len(taken))
        for name, count in Counter(task.lambda_name for task in taken.values()).items():
            if count >= MUCH:
                self._came[name] = now
        self._suspects.admit(taken.values())
        self._pump()
        for fetch in self._fetches:
            fetch.look()  # the lane may have enough of some lambdas now
        return bool(taken)

    def _same(self, task: HeldTask) -> bool:
        """Whether it is a second copy of a claim that is held: that must not be handed back."""
        held = self.ledger.tasks.get(task.task_id)
        return held is not None and held.counter == task.counter

    def _pump(self) -> None:
        """Sends what may run now to the workers."""
        if self._draining.is_set():
            self._give_back(self._suspects.withdraw())
            return
        now = self._runtime.monotonic()
        self._give_back(self._suspects.overdue(now))
        tasks = self._suspects.release(now, self.ledger.tasks)
        for task in tasks:
            task.queued, task.waiting_since = True, now
        self._prefetch.came([task.lambda_name for task in tasks])
        self._workers.put(tasks)
        self._deadlines.put(tasks, now)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wait = self._suspects.next_in(now)
        if wait is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.001, wait), self._pump)

    # --- outcome, report --------------------------------------------------------------------------------------------

    def _ended(self, tasks: list[HeldTask]) -> None:
        """Tasks come back from their workers: ended, or not to be started now."""
        now = self._runtime.monotonic()
        self._prefetch.left([task.lambda_name for task in tasks])
        stale = []
        for task in tasks:
            task.queued = False
            if task.lost:
                self.ledger.release([task])
            elif task.outcome is None:
                stale.append(task)
            elif task.ended_at:
                self._prefetch.ran(task.lambda_name, task.ended_at - task.started_at, now)
        ended = [task for task in tasks if task.outcome is not None and not task.lost]
        self._reporter.ended(ended)
        if self._draining.is_set():
            for task in ended:
                self._drained["handed_back" if isinstance(task.outcome, HandedBack) else "ended"] += 1
            self._give_back(stale)
        elif stale:
            self._stale += stale
            self.nudge(())
        self._moved()

    def _give_back(self, tasks: Iterable[HeldTask]) -> None:
        """Hands back tasks that have not started, and now never will here."""
        waiting = list(tasks)
        for task in waiting:
            task.queued = False
        if waiting and self._draining.is_set():
            self._drained["not_started"] += len(waiting)
        self._reporter.unstarted(waiting)

    def _moved(self) -> None:
        """Something has ended or was recorded: others may start, or be fetched."""
        if self._suspects.waiting:
            self._pump()
        for fetch in self._fetches:
            fetch.look()
        self._progress.set()

    # --- what cuts in -------------------------------------------------------------------------------------------------

    def stop(self, task: HeldTask, *, timed_out: bool) -> None:
        """Tells a run to end; a coroutine is cancelled, a `def` sees ctx.cancelled. One that has not started never will."""
        if task.outcome is not None or task.cancelled or task.cut:
            return
        task.timed_out = timed_out
        task.stop_at = self._runtime.monotonic()
        task.cancelled = True  # last, since a worker looks at it (see HeldTask)
        if task.started and self._performer.is_async(task):
            self._workers.cancel(task)
        elif task.isolated is not None:
            task.isolated.tell("cancel", timed_out)
        self._deadlines.note(task)

    def overran(self, task: HeldTask) -> None:
        """A run was told to end and has not. Its thread can't be stopped, so this process ends, like in any other drain: it takes no more
        and the others have their time. Once it is dead, the controller reports that run as the table says.
        """
        if self._killed_alone(task):
            return
        if task.lost:
            self._end_for(task, "is lost and its lambda goes on")
            return
        if task.timed_out:
            ended = RunTimedOut(
                f"timed out after {task.timeout:g} s, and did not end within {self._settings.stop_grace:g} s more"
            )
            _, _, _, error, retry_in_us = to_result(ended, task.spec.options, task.attempt, self._runtime.random)
            self.ledger.give_up(task, SlotState.TIMED_OUT, error, retry_in_us)
            say_ended(task, ended)
        else:
            error = f"cancelled, and did not end within {self._settings.stop_grace:g} s"
            self.ledger.give_up(task, SlotState.STOPPED, error)
        _log.error(
            "lambda does not end; this process will", task=task.task_id, lambda_name=task.lambda_name, error=error
        )
        self._code = EXIT_OVERRUN
        self.drain()
        self._progress.set()

    def _killed_alone(self, task: HeldTask) -> bool:
        """Kills the process of an isolated run; that it has ended comes as any other end. False: it has none, or that was of no use."""
        if task.isolated is None or not task.isolated.kill():
            return False
        task.stop_at = self._runtime.monotonic()  # should it not die, the next look comes a grace later
        _log.warning("isolated run killed", task=task.task_id, lambda_name=task.lambda_name, timed_out=task.timed_out)
        return True

    def _end_for(self, task: HeldTask, why: str) -> None:
        """Ends the process at once, since the task may run elsewhere. What is cut with it has done nothing wrong, and counts nothing."""
        self.ledger.cut()
        self.abort(EXIT_NO_HEARTBEAT, f"{task.task_id} {why}")

    def relieve(self) -> None:
        """Hands back what has waited too long for a worker: another executor may be free."""
        if self._draining.is_set():
            return
        since = self._runtime.monotonic() - WAITED_S
        tasks = self._workers.withdraw()
        waited = [task for task in tasks if task.waiting_since <= since]
        self._prefetch.left(task.lambda_name for task in waited)
        self._give_back(waited)
        self._workers.put([task for task in tasks if task.waiting_since > since])

    def _lose(self, task: HeldTask) -> None:
        """The claim is somebody else's: nothing of it may go on here."""
        if task.lost or self.ledger.tasks.get(task.task_id) is not task or task.outcome is not None:
            return  # its result is on the way, and the answer to that will say LOST too
        _log.warning("claim lost", task=task.task_id, started=task.started)
        task.lost = True
        self.stop(task, timed_out=False)
        task.cancelled = True
        if not task.started:
            self.ledger.release([task])  # whoever comes upon it later sees that it is lost
        elif not self._performer.is_async(task) and not self._killed_alone(task):
            self._end_for(task, "was lost while its lambda ran")

    async def _leave(self, fetches: Sequence[asyncio.Task[None]]) -> None:
        """Tells the controller that no more is wanted, once no call can bring more."""
        await end(fetches)
        await asyncio.gather(*(each.leave() for each in self._fetches))

    async def _finish(self) -> None:
        """Waits until all that is held has left, or time is up. Coroutines are cancelled `stop_grace` before, and have at least half of the time."""
        cut_at = self._deadline - min(self._settings.stop_grace, self._settings.drain_timeout / 2)
        while not self._aborted:
            self._progress.clear()
            now = self._runtime.monotonic()
            open_tasks = [task for task in self.ledger.snapshot() if not task.overrun]
            if not open_tasks:
                return
            if now >= self._deadline:
                self._cut(open_tasks)
                return
            if now >= cut_at:
                cut_at = math.inf
                for task in open_tasks:
                    if task.started and task.outcome is None and self._performer.is_async(task):
                        self._workers.cancel(task, cut=True)
            await happens(self._progress, min(cut_at, self._deadline) - now)

    def _cut(self, tasks: Sequence[HeldTask]) -> None:
        """Time is up: the process ends. Once it is dead, its guard says what it held, and that goes back."""
        self.ledger.cut()
        self._code = self._code or EXIT_OVERRUN
        self._drained["cut"] = sum(task.started and task.outcome is None for task in tasks)
        _log.warning("not all that started has ended in time; it will run again", tasks=self._drained["cut"])
