"""Prepares a claimed task's call and makes it, up to its outcome.

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

from atf import errors
from atf.errors import InvalidArgument
from atf.runtime import Runtime
from atf.sdk.context import Context, FirstTimeCheck, Flag, InBatch
from atf.sdk.options import from_us
from atf.sdk.redaction import NOTHING
from atf.sdk.work_items import parse
from atf.task import US

from .around import HookRaised, await_within, call_within
from .exception_text import text_of
from .held import HeldTask
from .outcome import (
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

if TYPE_CHECKING:
    from atf.sdk.lambdas import Lambda

    from .isolation.runs import IsolatedRuns


NO_LAMBDA_S: Final = 1.0
"""Seconds that a task waits which came to an executor without its lambda."""
CUT: Final = HandedBack("cut: the executor was ending, and the run did not end within drain_timeout")
"""The outcome of a coroutine that a drain has cancelled."""


Call = partial[Any]
"""What runs the lambda, and gives what it returned; of an `async def` what has to be awaited."""


@dataclass(slots=True)
class Unawaited:
    """What a `def` has returned which must be awaited, such as the coroutine of an `async def` that a decorator wraps."""

    value: Awaitable[Any]

    def __call__(self) -> Awaitable[Any]:
        return self.value


class Performer:
    """Runs lambdas by name.

    Args:
        lambdas: all that this executor can run.
        runtime: clocks.
        first_time: answers to what the lambda of a task, by its id and its name, asks by ctx.first_time; None: each is the first.
        draining: whether the executor takes no more; None: it never drains.
        isolated: runs lambdas with isolate=True in processes of their own; None: they run here.
    """

    def __init__(
        self,
        lambdas: Mapping[str, Lambda[..., Any]],
        runtime: Runtime,
        first_time: Callable[[str, str], FirstTimeCheck] | None = None,
        draining: Flag | None = None,
        isolated: IsolatedRuns | None = None,
    ) -> None:
        self._lambdas = lambdas
        self._first_time_of = first_time
        self._draining = draining
        self._isolated = isolated
        self._runtime = runtime
        self.monotonic = runtime.monotonic

    def is_async(self, task: HeldTask) -> bool:
        """Whether the task's lambda is an `async def`, or its `def` has returned what is awaited now."""
        if task.awaiting:
            return True
        known = self._lambdas.get(task.lambda_name)
        return known is not None and known.is_async

    def run(self, task: HeldTask) -> Outcome | Unawaited:
        """Runs a `def` to its end, and notes when that was. What it returns unawaited `finish` awaits, on an event loop."""
        step: Outcome | Unawaited | Call
        try:
            step = (self._isolated is not None and self._run_isolated(task)) or self.prepare(task)
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
            step = self.prepare(task) if left is None else left
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
        return outcome if task.redact is NOTHING else redacted(outcome, task.redact)

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
        except errors.Misfit as error:
            return DoesNotFit(str(error), known.digest)
        except InvalidArgument as error:
            return GaveUp(str(error))
        except Exception as error:  # noqa: BLE001  code of the user's types, which another release may have mended
            return RunFailed(f"{task.lambda_name} can't be called: {reason(error, task.redact)}")
        if known.redacts:
            task.redact.add(values)
        if not known.around:
            return (
                partial(known.fn, self._context(task, known), **values)
                if known.takes_context
                else partial(known.fn, **values)
            )
        ctx = self._context(task, known)
        call = partial(known.fn, *((ctx,) if known.takes_context else ()), **values)
        return partial(await_within if known.is_async else call_within, known.around, ctx, call)

    def _context(self, task: HeldTask, known: Lambda[..., Any]) -> Context:
        left_us = round(task.timeout * US)
        tick = task.spec.tick
        scheduled_at = from_us(max(1, tick.at_us or task.scheduled_at_us))
        assert scheduled_at is not None
        return Context(
            task_id=task.task_id,
            lambda_name=task.lambda_name,
            attempt=task.attempt,
            run=task.run,
            fence=task.counter,
            scheduled_at=scheduled_at,
            job=tick.job,
            tick=tick.number,
            batch=_batch_of(task, known) if task.spec.HasField("batch") else None,
            deadline=from_us(self._runtime.wall_us() + left_us) if left_us else None,
            labels=dict(task.spec.labels),
            cancelled=task,
            stopping=self._draining,
            progress=task.say,
            first_time=self._first_time(task),
        )

    def _first_time(self, task: HeldTask) -> FirstTimeCheck | None:
        return None if self._first_time_of is None else self._first_time_of(task.task_id, task.lambda_name)

    def _run_isolated(self, task: HeldTask) -> Outcome | None:
        """Runs a task in a process of its own; None: its lambda runs here."""
        known, spec = self._lambdas.get(task.lambda_name), task.spec
        if known is None or not known.isolate or self._isolated is None:
            return None
        # Its arguments are decoded there, and a failure of that is told there: this is so that nothing redacted is said of it here.
        task.redact = known.redactor(spec.payload, spec.encoding)
        if task.redact:
            with contextlib.suppress(Exception):
                task.redact.add(known.decode(spec.payload, spec.encoding))
        return self._isolated.run(task, self._first_time(task))

    def _raised(self, task: HeldTask, error: BaseException) -> Outcome:
        if isinstance(error, HookRaised):
            outcome = self._raised(task, error.error)
            return outcome if outcome is CUT else in_hook(outcome, error.hook)
        if task.timed_out:
            return timed_out(task)
        if task.cancelled:
            return RunStopped(
                "cancelled"
                if isinstance(error, asyncio.CancelledError)
                else f"cancelled; {text_of(error, task.redact)}"
            )
        if task.cut:
            return CUT
        draining = self._draining is not None and self._draining.is_set()
        return of_exception(error, draining=draining, redact=task.redact)

    def _returned(self, task: HeldTask, value: Any) -> Outcome | Unawaited:
        if task.timed_out or task.cut:
            _close(value)
        if task.timed_out:
            return timed_out(task)
        if task.cut:
            return CUT  # it did not get to where it was going, whatever it says
        try:
            return Returned(*self._lambdas[task.lambda_name].encode_result(value))
        except Exception as error:  # noqa: BLE001  a return value that can't be encoded never can
            if inspect.isawaitable(value):  # looked at only here, so that ordinary results pay nothing for it
                return Unawaited(value)
            if isinstance(error, InvalidArgument):
                return GaveUp(str(error))
            return GaveUp(f"what {task.lambda_name} returned can't be encoded: {reason(error, task.redact)}")


def _batch_of(task: HeldTask, known: Lambda[..., Any]) -> InBatch:
    made, item = task.spec.batch, parse(task.task_id)
    if item is None:
        return InBatch(made.id, None, "", task.task_id)
    return InBatch(item.batch_id, made.number, item.work_item_id, task.task_id, known)


def _not_judged(error: BaseException) -> Outcome:
    return RunFailed(f"the run could not be judged: {type(error).__name__}")


def _close(value: object) -> None:
    """Ends a coroutine that nobody awaits, so that Python does not warn of it."""
    if inspect.iscoroutine(value):
        value.close()


def timed_out(task: HeldTask) -> RunTimedOut:
    """The outcome of a run that lasted longer than it may."""
    return RunTimedOut(f"timed out after {task.timeout:g} s")
