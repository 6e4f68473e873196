"""Makes the span `process L` of a run, current while the lambda runs. Where the program has set no tracer provider, a run costs a look-up."""

from __future__ import annotations

import threading  # noqa: TID251  an exporter may block for as long as it likes
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from atf.log import get_logger
from atf.sdk.failure import failure_of, summary_of
from atf.sdk.redaction import NOTHING
from atf.sdk.tracing import context_of, messaging, provider_of_spans, span_context, tracer, written
from atf.task import US

from .held import HeldTask
from .outcome import DoesNotFit, GaveUp, HandedBack, Outcome, Returned, RunFailed, RunStopped, RunTimedOut

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

PARENT_WITHIN_US: Final = 60 * US
"""Of what was scheduled longer ago, the trace has long been looked at: its run begins one of its own."""
PARENT_OF_ITEMS: Final = 1_000
"""Of a batch, so many items at most belong to the trace of whoever made it: a trace of millions of spans helps nobody."""
FLUSH_S: Final = 1.0
_OUTCOMES: Final[Mapping[type[Any], str]] = {
    Returned: "succeeded",
    RunFailed: "failed",
    GaveUp: "failed_fatal",
    RunTimedOut: "timed_out",
    RunStopped: "stopped",
    HandedBack: "handed_back",
    DoesNotFit: "misfit",
}
"""As the record of a task names them."""
_FAILURES: Final = (RunFailed, GaveUp, RunTimedOut, DoesNotFit)

_log = get_logger(duty="trace")


def begin(task: HeldTask, wall_us: int) -> Span | None:
    """Begins a run's span, and makes it current in the contextvars of this thread or coroutine, which must be the run's own.

    Args:
        task: the run; its spec says in which trace it was scheduled.
        wall_us: now, by the wall clock.

    Returns:
        the span, which is to be ended by `end`; None: nobody has set a tracer provider.
    """
    found = tracer()
    if found is None:
        return None
    try:
        span = _begin(found, task, wall_us)
        resume(span)
    except Exception as error:  # noqa: BLE001  of the program's sampler or processor: the run goes on without
        _log.warning("the span of a run could not begin", task=task.task_id, error=type(error).__name__)
        return None
    return span


def resume(span: Span) -> None:
    """Makes a span current in the contextvars of this thread or coroutine."""
    from opentelemetry import context, trace

    context.attach(trace.set_span_in_context(span))


def carry_on(task: HeldTask, _wall_us: int) -> Span | None:
    """In the process of an isolated run: makes the span current that its executor has begun, and ends."""
    if tracer() is not None and (remote := span_context(task.spec)) is not None:
        from opentelemetry.trace import NonRecordingSpan

        resume(NonRecordingSpan(remote))
    return None


def _begin(found: Tracer, task: HeldTask, wall_us: int) -> Span:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, NonRecordingSpan, SpanKind, set_span_in_context

    remote, root = span_context(task.spec), Context()
    under = remote is not None and _belongs(task, wall_us)
    before = context_of(task.spec.batch.follows) if task.spec.batch.follows else None
    return found.start_span(
        f"process {task.lambda_name}",
        context=set_span_in_context(NonRecordingSpan(remote), root) if under and remote is not None else root,
        kind=SpanKind.CONSUMER,
        attributes=_attributes(task),
        links=[Link(each) for each in (remote, before) if each is not None],
    )


def _belongs(task: HeldTask, wall_us: int) -> bool:
    """Whether the run is part of the trace in which its task was scheduled."""
    soon = wall_us - task.spec.traced_at_us < PARENT_WITHIN_US
    return task.attempt == 1 and soon and task.spec.batch.number < PARENT_OF_ITEMS


def _attributes(task: HeldTask) -> dict[str, Any]:
    said = messaging("process", "process", task.lambda_name) | {
        "messaging.message.id": task.task_id,
        "atf.task.attempt": task.attempt,
        "atf.task.run": task.run,
    }
    spec = task.spec
    if spec.batch.id:
        said["atf.batch.id"] = spec.batch.id
    if spec.tick.job:
        said |= {"atf.job.name": spec.tick.job, "atf.job.tick": spec.tick.number}
    return said


def end(span: Span, task: HeldTask, outcome: Outcome) -> None:
    """Ends a run's span. Of a task with redacted arguments it says no message: these stand in it in ways that nobody foresees."""
    from opentelemetry.trace import Status, StatusCode

    try:
        span.set_attribute("atf.task.outcome", _OUTCOMES[type(outcome)])
        if isinstance(outcome, _FAILURES):
            kind = failure_of(outcome.error).type or _OUTCOMES[type(outcome)]
            span.set_attribute("error.type", kind)
            span.set_status(Status(StatusCode.ERROR, kind if task.redact is not NOTHING else summary_of(outcome.error)))
        span.end()
    except Exception as error:  # noqa: BLE001  of the program's processor: the run has ended as it has
        _log.warning("the span of a run could not end", task=task.task_id, error=type(error).__name__)


def for_followers(span: Span, task: HeldTask) -> str:
    """The traceparent of the first item of a batch, for what follows it; empty: it is another item, or a callback, or its trace is not kept."""
    batch = task.spec.batch
    first = batch.HasField("number") and batch.number == 0
    text = written(span) if first and span.get_span_context().trace_flags.sampled else None
    return text[0] if text is not None else ""


def handed_over(span: Span, task: HeldTask) -> None:
    """Has the task's spec carry a run's span, for the process that it runs in."""
    if text := written(span):
        task.spec.traceparent, task.spec.tracestate = text


def flush(within_s: float = FLUSH_S) -> None:
    """Has the spans of this process sent, which is about to end without a goodbye. A collector that is away holds it up so long at most."""
    flush_of = getattr(provider_of_spans(), "force_flush", None)
    if flush_of is not None:
        sending = threading.Thread(
            target=flush_of, name="flush", daemon=True
        )  # what it is given as a timeout it may ignore
        sending.start()
        sending.join(within_s)
