"""Checks whether a claimed task may start, prepares its call and makes it, up to its outcome.

Runs user code, and lets nothing that it raises through. It reports nothing and knows no other role; it runs in whatever
thread or on whatever loop a worker calls it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from atf.codec.cipher import Cipher, KeyMissing
from atf.config.settings import Timing
from atf.errors import InvalidArgument, Misfit
from atf.log import get_logger
from atf.runtime import Runtime
from atf.sdk.context import FirstTimeCheck, Flag
from atf.sdk.redaction import NOTHING
from atf.sdk.sealed import is_sealed
from atf.task import US

from . import run_span
from .around import HookRaised, await_within, call_within
from .encryption import RunCipher
from .exception_text import text_of
from .held import HeldTask, Ledger
from .outcome import (
    CUT,
    DoesNotFit,
    GaveUp,
    HandedBack,
    Outcome,
    Returned,
    RunFailed,
    RunStopped,
    RunTimedOut,
    in_hook,
    of_exception,
    reason,
    redacted,
)
from .output import capture as output
from .output.current_run import current
from .run_context import context_of

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from atf.sdk.lambdas import Lambda

    from .isolation.runs import IsolatedRuns

NO_LAMBDA_S: Final = 1.0
"""Seconds that a task waits which came to an executor without its lambda."""
NO_KEY_S: Final = 10.0
MOST_NO_KEY_S: Final = 60.0
"""Seconds that a task waits which came to an executor without its key; twice as many each time, so that a million of them leave room for others.
Then another executor takes it, or this one, which may have the key by then."""
_NO_KEYS: Final = "{name} can't be called with its arguments: they are encrypted, and this executor has no codec_keys: give it the key file (ATF_CODEC_KEYS)"
_log = get_logger(duty="run")
Call = partial[Any]
"""What runs the lambda, and gives what it returned; of an `async def` what has to be awaited."""


@dataclass(slots=True)
class Unawaited:
    """What a `def` has returned which must be awaited, such as the coroutine of an `async def` that a decorator wraps."""

    value: Awaitable[Any]

    def __call__(self) -> Awaitable[Any]:
        return self.value


MayStart = Callable[[HeldTask], bool]
"""Says whether the task's lambda starts now. False: with an outcome, it has ended without running; without, it is lost
or has too little of its lease left."""


class StartCheck:
    """A MayStart; called by the worker that is about to run the task."""

    def __init__(self, ledger: Ledger, timing: Timing, runtime: Runtime) -> None:
        self._slack_us = round((timing.heartbeat_timeout - timing.start_margin) * US)
        self._ledger, self._boottime_us, self._monotonic = ledger, runtime.boottime_us, runtime.monotonic

    def __call__(self, task: HeldTask) -> bool:
        if task.lost or self._stopped(task) or self._boottime_us() > task.lease_us + self._slack_us:
            return False
        task.started_at = self._monotonic()
        self._ledger.start(task)
        # Once more, now that `started` is set: whoever sets one of these from here on sees that it runs (see HeldTask).
        return not task.lost and not self._stopped(task)

    @staticmethod
    def _stopped(task: HeldTask) -> bool:
        if task.cancelled:
            task.outcome = RunStopped("cancelled before it started", began=False)
        return task.cancelled


class Performer:
    """Runs lambdas by name.

    Args:
        lambdas: all that this executor can run.
        runtime: clocks.
        first_time: gives what answers to ctx.first_time of a task, by its id and its lambda's name; None: each is the first.
        draining: whether the executor takes no more; None: it never drains.
        isolated: runs lambdas with isolate=True in processes of their own; None: they run here.
        begin_span: begins the span of a run, given now by the wall clock (run_span.py).
        cipher: decrypts arguments, and encrypts what runs leave; None: nothing is encrypted.
    """

    def __init__(
        self,
        lambdas: Mapping[str, Lambda[..., Any]],
        runtime: Runtime,
        first_time: Callable[[str, str], FirstTimeCheck | None] = lambda _task_id, _lambda_name: None,
        draining: Flag | None = None,
        isolated: IsolatedRuns | None = None,
        begin_span: Callable[[HeldTask, int], Span | None] = run_span.begin,
        cipher: Cipher | None = None,
    ) -> None:
        self._lambdas = lambdas
        self._first_time = first_time
        self._draining = draining
        self._isolated = isolated
        self._begin_span = begin_span
        self._cipher = cipher
        self._said: set[str] = set()
        self._runtime = runtime
        self.monotonic = runtime.monotonic

    def is_async(self, task: HeldTask) -> bool:
        """Whether the task's lambda is an `async def`, or its `def` has returned what is awaited now."""
        known = self._lambdas.get(task.lambda_name)
        return task.awaiting or (known is not None and known.is_async)

    def run(self, task: HeldTask) -> Outcome | Unawaited:
        """Runs a `def` to its end, and notes when that was. What it returns unawaited `finish` awaits, on an event loop."""
        step: Outcome | Unawaited | Call
        try:
            task.span = self._begin_span(task, self._runtime.wall_us())
            step = self._decrypt(task) or self._run_isolated(task) or self.prepare(task)
            if isinstance(step, partial):
                current.set(task)
                try:
                    value = step()
                except BaseException as error:  # noqa: BLE001  SystemExit of a lambda ends the run, not the executor
                    step = self._raised(task, error)
                else:
                    step = self._returned(task, value)
                finally:
                    output.end_of_run()
        except BaseException as error:  # noqa: BLE001  a worker must go on, even if an exception can't be described
            step = _not_judged(error)
        return step if isinstance(step, Unawaited) else self._ended(task, step)

    async def run_async(self, task: HeldTask, left: Unawaited | None = None) -> Outcome:
        """Runs an `async def` likewise, or awaits what a `def` has `left`. A cancellation that was asked for is an outcome too, and goes no further."""
        step: Outcome | Unawaited | Call
        try:
            if left is None:
                task.span = self._begin_span(task, self._runtime.wall_us())
            elif task.span is not None:
                run_span.resume(task.span)
            step = (self._decrypt(task) or self.prepare(task)) if left is None else left
            while not isinstance(step, tuple):  # as outcomes are; what it gives may have to be awaited, too
                current.set(task)
                try:
                    value = await step()
                except BaseException as error:  # noqa: BLE001  see run
                    step = self._raised(task, error)
                else:
                    step = self._returned(task, value)
                finally:
                    output.end_of_run()
        except BaseException as error:  # noqa: BLE001  see run
            step = _not_judged(error)
        return self._ended(task, step)

    async def finish(self, task: HeldTask, left: Unawaited) -> Outcome:
        """Awaits what a `def` has returned. From here on the run can be cancelled, as an `async def` can."""
        task.aio = asyncio.current_task()
        task.awaiting = True  # whoever sets `cancelled` looks at it afterwards, and we the other way round
        if not task.cancelled:
            return await self.run_async(task, left)
        _close(left.value)
        return self._ended(task, self._raised(task, asyncio.CancelledError()))

    def _ended(self, task: HeldTask, outcome: Outcome) -> Outcome:
        task.ended_at = self.monotonic()
        if task.redact is not NOTHING:
            outcome = redacted(outcome, task.redact)
        if task.cipher is not None:
            outcome = task.cipher.outcome(outcome)
        if task.span is not None:
            run_span.end(task.span, task, outcome)
        return outcome

    def _decrypt(self, task: HeldTask) -> Outcome | None:
        """Decrypts a task's arguments where this executor has keys; an outcome where it has not the right one."""
        if self._cipher is None:
            if is_sealed(task.spec.payload):
                return self._without_key(task, _NO_KEYS.format(name=task.lambda_name))
            return None
        cipher = RunCipher(self._cipher, task.task_id, task.lambda_name)
        try:
            failed = cipher.open(task.spec)
        except KeyMissing as error:
            return self._without_key(task, f"{task.lambda_name} can't be called with its arguments: {error}")
        if failed is None:
            task.cipher = cipher
        return failed

    def _without_key(self, task: HeldTask, why: str) -> Outcome:
        """Gives a task back for which this executor lacks the key: an operator's slip costs no attempt, and ends no batch or chain."""
        if why not in self._said:  # one line for each lambda and key
            self._said.add(why)
            _log.warning("tasks wait for a key", error=why)
        before = min(task.run - task.attempt, 10)  # runs that counted nothing, as this one
        return HandedBack(why, min(NO_KEY_S * 2**before, MOST_NO_KEY_S))

    def prepare(self, task: HeldTask) -> Call | Outcome:
        """The call of the task's lambda with its arguments; an outcome where it can't be called."""
        known = self._lambdas.get(task.lambda_name)
        if not task.lambda_name:
            return GaveUp("what the store keeps of this task can't be read")
        if known is None:
            # It was not asked for, so this is a bug; another executor has it, or will.
            return HandedBack(f"this executor has no lambda {task.lambda_name}", NO_LAMBDA_S)
        spec = task.spec
        if known.redacts:
            task.redact = known.redactor(spec.payload, spec.encoding)
        try:
            values = known.decode(spec.payload, spec.encoding)
        except Misfit as error:
            return DoesNotFit(str(error), known.digest)
        except InvalidArgument as error:
            return GaveUp(str(error))
        except Exception as error:  # noqa: BLE001  code of the user's types, which another release may have mended
            return RunFailed(f"{task.lambda_name} can't be called: {reason(error, task.redact)}")
        if known.redacts:
            task.redact.add(values)
        if not known.around and not known.takes_context:
            return partial(known.fn, **values)
        first_time = self._first_time(task.task_id, task.lambda_name)
        ctx = context_of(task, known, first_time, self._draining, self._runtime)
        call = partial(known.fn, *((ctx,) if known.takes_context else ()), **values)
        return (
            partial(await_within if known.is_async else call_within, known.around, ctx, call) if known.around else call
        )

    def _run_isolated(self, task: HeldTask) -> Outcome | None:
        """Runs a task in a process of its own; None: its lambda runs here."""
        known, spec = self._lambdas.get(task.lambda_name), task.spec
        if self._isolated is None or known is None or not known.isolate:
            return None
        if task.span is not None:
            run_span.handed_over(task.span, task)
        # Its arguments are decoded there, and a failure of that is told there: this is so that nothing redacted is said of it here.
        task.redact = known.redactor(spec.payload, spec.encoding)
        if task.redact:
            with contextlib.suppress(Exception):
                task.redact.add(known.decode(spec.payload, spec.encoding))
        return self._isolated.run(task, self._first_time(task.task_id, task.lambda_name))

    def _raised(self, task: HeldTask, error: BaseException) -> Outcome:
        if isinstance(error, HookRaised):
            outcome = self._raised(task, error.error)
            return outcome if outcome is CUT else in_hook(outcome, error.hook)
        if task.timed_out:
            return timed_out(task)
        if task.cancelled:
            raised = "" if isinstance(error, asyncio.CancelledError) else f"; {text_of(error, task.redact)}"
            return RunStopped(f"cancelled{raised}")
        if task.cut:
            return CUT
        draining = self._draining is not None and self._draining.is_set()
        return of_exception(error, draining=draining, redact=task.redact)

    def _returned(self, task: HeldTask, value: Any) -> Outcome | Unawaited:
        if task.timed_out or task.cut:  # it did not get to where it was going, whatever it says
            _close(value)
            return timed_out(task) if task.timed_out else CUT
        try:
            return Returned(*self._lambdas[task.lambda_name].encode_result(value))
        except Exception as error:  # noqa: BLE001  a return value that can't be encoded never can
            if inspect.isawaitable(value):  # looked at only here, so that ordinary results pay nothing for it
                return Unawaited(value)
            if isinstance(error, InvalidArgument):
                return GaveUp(str(error))
            return GaveUp(f"what {task.lambda_name} returned can't be encoded: {reason(error, task.redact)}")


def _not_judged(error: BaseException) -> Outcome:
    return RunFailed(f"the run could not be judged: {type(error).__name__}")


def _close(value: object) -> None:
    """Ends a coroutine that nobody awaits, so that Python does not warn of it."""
    if inspect.iscoroutine(value):
        value.close()


def timed_out(task: HeldTask) -> RunTimedOut:
    """The outcome of a run that lasted longer than it may."""
    return RunTimedOut(f"timed out after {task.timeout:g} s")
