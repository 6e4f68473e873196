"""From a claim that may start to the outcome of its run: resolve → decode → perform → outcome.

Runs user code, and lets nothing that it raises through. It reports nothing and knows no other role; it runs in whatever
thread or on whatever loop a worker calls it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from atf import errors
from atf.errors import InvalidArgument
from atf.runtime import Runtime
from atf.sdk.context import Context, FirstTimeCheck, Flag, InBatch
from atf.sdk.hooks import AroundRun
from atf.sdk.options import from_us
from atf.sdk.redaction import NOTHING, Redactor
from atf.sdk.work_items import parse
from atf.task import US

from . import output
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
from .whose import current

if TYPE_CHECKING:
    from .isolated import IsolatedRuns


class FirstTimes(Protocol):
    """Answers to what lambdas ask by ctx.first_time."""

    def of(self, task_id: str, lambda_name: str) -> FirstTimeCheck:
        """Those of one task."""
        ...


class Lambda(Protocol):
    """What a run needs of a registered lambda; atf.sdk.lambdas.Lambda is one."""

    @property
    def name(self) -> str: ...
    @property
    def fn(self) -> Any: ...
    @property
    def is_async(self) -> bool: ...
    @property
    def takes_context(self) -> bool: ...
    @property
    def isolate(self) -> bool: ...
    @property
    def around(self) -> Sequence[AroundRun]: ...
    @property
    def redacts(self) -> bool: ...
    @property
    def digest(self) -> str: ...
    def decode(self, payload: bytes, encoding: int) -> dict[str, Any]: ...
    def redactor(self, payload: bytes, encoding: int) -> Redactor: ...
    def encode_result(self, value: Any) -> tuple[bytes, int]: ...


NO_LAMBDA_S: Final = 1.0
"""Seconds that a task waits which came to an executor without its lambda."""
CUT: Final = HandedBack("cut: the executor was ending, and the run did not end within drain_timeout")
"""The outcome of a coroutine that a drain has cancelled."""


class Unawaited(NamedTuple):
    """What a `def` has returned which must be awaited, such as the coroutine of an `async def` that a decorator wraps."""

    value: Awaitable[Any]


class _NotCalledError(Exception):
    """The lambda is not called; with the outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class Performer:
    """Runs lambdas by name.

    Args:
        lambdas: all that this executor can run.
        runtime: clocks.
        first_times: answers to what lambdas ask by ctx.first_time; None: each is the first.
        draining: whether the executor takes no more; None: it never drains.
        isolated: runs lambdas with isolate=True in processes of their own; None: they run here.
    """

    def __init__(
        self,
        lambdas: Mapping[str, Lambda],
        runtime: Runtime,
        first_times: FirstTimes | None = None,
        draining: Flag | None = None,
        isolated: IsolatedRuns | None = None,
    ) -> None:
        self._lambdas = lambdas
        self._first_times = first_times
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
        outcome: Outcome | Unawaited
        try:
            if self._isolated is not None and self._is_isolated(task):
                self._redact(task)
                raise _NotCalledError(self._isolated.run(task, self._first_time(task)))  # not called here
            known, context, values = self._prepare(task)
            current.set(task)
            try:
                value = self._within(task, known, context, values) if known.around else known.fn(*context, **values)
            except BaseException as error:  # noqa: BLE001  SystemExit of a lambda ends the run, not the executor
                outcome = self._raised(task, error)
            else:
                outcome = self._returned(task, known, value)
            finally:
                output.end_of_run()
        except _NotCalledError as error:
            outcome = error.outcome
        except BaseException as error:  # noqa: BLE001  a worker must go on, even if an exception can't be described
            outcome = RunFailed(f"the run could not be judged: {type(error).__name__}")
        return outcome if isinstance(outcome, Unawaited) else self._ended(task, outcome)

    async def run_async(self, task: HeldTask) -> Outcome:
        """Runs an `async def` likewise. A cancellation that was asked for is an outcome too, and goes no further."""
        outcome: Outcome | Unawaited
        try:
            known, context, values = self._prepare(task)
            current.set(task)
            try:
                value = await (
                    self._within(task, known, context, values) if known.around else known.fn(*context, **values)
                )
            except BaseException as error:  # noqa: BLE001  see run
                outcome = self._raised(task, error)
            else:
                outcome = self._returned(task, known, value)
            finally:
                output.end_of_run()
            if isinstance(outcome, Unawaited):
                outcome = await self._awaited(task, known, outcome)
        except _NotCalledError as error:
            outcome = error.outcome
        except BaseException as error:  # noqa: BLE001  see run
            outcome = RunFailed(f"the run could not be judged: {type(error).__name__}")
        return self._ended(task, outcome)

    async def finish(self, task: HeldTask, left: Unawaited) -> Outcome:
        """Awaits what a `def` has returned. From here on the run can be cancelled, as an `async def` can."""
        task.aio = asyncio.current_task()
        task.awaiting = True  # whoever sets `cancelled` looks at it afterwards, and we the other way round
        try:
            if task.cancelled:
                _close(left.value)
                outcome = self._raised(task, asyncio.CancelledError())
            else:
                outcome = await self._awaited(task, self._lambdas[task.lambda_name], left)
        except BaseException as error:  # noqa: BLE001  see run
            outcome = RunFailed(f"the run could not be judged: {type(error).__name__}")
        return self._ended(task, outcome)

    def _ended(self, task: HeldTask, outcome: Outcome) -> Outcome:
        task.ended_at = self.monotonic()
        return outcome if task.redact is NOTHING else redacted(outcome, task.redact)

    async def _awaited(self, task: HeldTask, known: Lambda, left: Unawaited) -> Outcome:
        outcome: Outcome | Unawaited = left
        while isinstance(outcome, Unawaited):  # it may give the next one
            current.set(task)
            try:
                value = await outcome.value
            except BaseException as error:  # noqa: BLE001  see run
                return self._raised(task, error)
            finally:
                output.end_of_run()
            outcome = self._returned(task, known, value)
        return outcome

    def _prepare(self, task: HeldTask) -> tuple[Lambda, tuple[Context, ...], dict[str, Any]]:
        """The task's lambda, and what it is called with. Raises _NotCalledError where it can't be."""
        known = self._lambdas.get(task.lambda_name)
        if not task.lambda_name:
            raise _NotCalledError(GaveUp("what the store keeps of this task can't be read"))
        if known is None:
            # It was not asked for, so this is a bug; another executor has it, or will.
            raise _NotCalledError(HandedBack(f"this executor has no lambda {task.lambda_name}", NO_LAMBDA_S))
        spec = task.spec
        if known.redacts:
            task.redact = known.redactor(spec.payload, spec.encoding)
        try:
            values = known.decode(spec.payload, spec.encoding)
        except errors.Misfit as error:
            raise _NotCalledError(DoesNotFit(str(error), known.digest)) from None
        except InvalidArgument as error:
            raise _NotCalledError(GaveUp(str(error))) from None
        except Exception as error:  # noqa: BLE001  code of the user's types, which another release may have mended
            raise _NotCalledError(
                RunFailed(f"{task.lambda_name} can't be called: {reason(error, task.redact)}")
            ) from None
        if known.redacts:
            task.redact.add(values)
        return known, (self._context(task, known),) if known.takes_context else (), values

    def _within(self, task: HeldTask, known: Lambda, context: tuple[Context, ...], values: dict[str, Any]) -> Any:
        """Calls the lambda within the hooks of its app; what comes of an `async def` is to be awaited."""
        ctx = context[0] if context else self._context(task, known)
        within = await_within if known.is_async else call_within
        return within(known.around, ctx, partial(known.fn, *context, **values))

    def _context(self, task: HeldTask, known: Lambda) -> Context:
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
        return None if self._first_times is None else self._first_times.of(task.task_id, task.lambda_name)

    def _is_isolated(self, task: HeldTask) -> bool:
        known = self._lambdas.get(task.lambda_name)
        return known is not None and known.isolate

    def _redact(self, task: HeldTask) -> None:
        """Sees to it that nothing redacted is said of an isolated run. It decodes its arguments itself, and a failure of that is told there."""
        known, spec = self._lambdas[task.lambda_name], task.spec
        task.redact = known.redactor(spec.payload, spec.encoding)
        if task.redact:
            with contextlib.suppress(Exception):
                task.redact.add(known.decode(spec.payload, spec.encoding))

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

    def _returned(self, task: HeldTask, known: Lambda, value: Any) -> Outcome | Unawaited:
        if task.timed_out or task.cut:
            _close(value)
        if task.timed_out:
            return timed_out(task)
        if task.cut:
            return CUT  # it did not get to where it was going, whatever it says
        try:
            return Returned(*known.encode_result(value))
        except Exception as error:  # noqa: BLE001  a return value that can't be encoded never can
            if inspect.isawaitable(value):  # looked at only here, so that ordinary results pay nothing for it
                return Unawaited(value)
            if isinstance(error, InvalidArgument):
                return GaveUp(str(error))
            return GaveUp(f"what {task.lambda_name} returned can't be encoded: {reason(error, task.redact)}")


def _batch_of(task: HeldTask, known: Lambda) -> InBatch:
    made, item = task.spec.batch, parse(task.task_id)
    if item is None:
        return InBatch(made.id, None, "", task.task_id)
    return InBatch(item.batch_id, made.number, item.work_item_id, task.task_id, known)


def _close(value: object) -> None:
    """Ends a coroutine that nobody awaits, so that Python does not warn of it."""
    if inspect.iscoroutine(value):
        value.close()


def timed_out(task: HeldTask) -> RunTimedOut:
    """The outcome of a run that lasted longer than it may."""
    return RunTimedOut(f"timed out after {task.timeout:g} s")
