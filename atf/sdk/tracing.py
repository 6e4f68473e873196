"""Spans of OpenTelemetry around scheduling, and the trace context that travels in a task. Where no tracer provider is set, all of it costs a look-up.

Imports nothing of OpenTelemetry by itself: a program that has set a tracer provider has loaded it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, Tracer

TRACEPARENT_CHARS: Final = 55
MAX_TRACESTATE_CHARS: Final = 512
_NOTHING: Final = nullcontext()


class _Tracers:
    """The tracer of the program's provider. A provider gives a new one for each call, and is set once."""

    def __init__(self) -> None:
        self._provider: Any = None
        self._tracer: Tracer | None = None

    def tracer(self) -> Tracer | None:
        """Makes spans; None: the program has set no tracer provider."""
        api: Any = sys.modules.get("opentelemetry.trace")
        if api is None or not hasattr(api, "get_tracer_provider"):  # it may be on the way in, on another thread
            return None
        provider = api.get_tracer_provider()
        if provider is not self._provider:
            unset = isinstance(
                provider, api.ProxyTracerProvider | api.NoOpTracerProvider
            )  # not set, or made to do nothing
            self._provider, self._tracer = provider, None if unset else provider.get_tracer("atf")
        return self._tracer

    def provider(self) -> Any:
        """The program's tracer provider, if it makes spans."""
        return self._provider if self.tracer() is not None else None


_tracers: Final = _Tracers()
tracer: Final = _tracers.tracer
provider_of_spans: Final = _tracers.provider


# --- what schedules ---------------------------------------------------------------------------------------------------


def scheduling(requests: Sequence[f.ScheduleRequest]) -> AbstractContextManager[Span | None]:
    """The span of a call that schedules these tasks, which carry its context from now on. Tasks that were sent before keep theirs."""
    found = tracer()
    return _NOTHING if found is None else _scheduling(found, requests)


@contextmanager
def _scheduling(found: Tracer, requests: Sequence[f.ScheduleRequest]) -> Iterator[Span]:
    names = {_lambda_of(each.spec) for each in requests}
    more = {"messaging.batch.message_count": len(requests)} if len(requests) != 1 else {}
    with _span(found, names.pop() if len(names) == 1 else "", more) as span:
        _carry((each.spec for each in requests), span)
        yield span


def making(header: b.BatchHeader) -> AbstractContextManager[Span | None]:
    """The span of a call that makes a batch, or a chain: what comes of it carries its context."""
    found = tracer()
    return _NOTHING if found is None else _making(found, header)


@contextmanager
def _making(found: Tracer, header: b.BatchHeader) -> Iterator[Span]:
    with _span(found, _lambda_of(header.spec), {"atf.batch.id": header.id}) as span:
        _carry([header.spec], span)
        yield span


def scheduled(span: Span, task_id: str) -> None:
    """Says under which id the only task of a call was stored."""
    span.set_attribute("messaging.message.id", task_id)


@contextmanager
def _span(found: Tracer, lambda_name: str, more: dict[str, Any]) -> Iterator[Span]:
    from opentelemetry.trace import SpanKind, Status, StatusCode

    attributes = messaging("schedule", "send", lambda_name) | more
    name = f"schedule {lambda_name}" if lambda_name else "schedule"
    with found.start_as_current_span(
        name, kind=SpanKind.PRODUCER, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise


def messaging(name: str, kind: str, lambda_name: str) -> dict[str, Any]:
    """The attributes of messaging that every span of ours has, by OpenTelemetry's semantic conventions."""
    said = {"messaging.system": "atf", "messaging.operation.name": name, "messaging.operation.type": kind}
    return said | {"messaging.destination.name": lambda_name} if lambda_name else said


def _lambda_of(spec: t.TaskSpec | b.BatchSpec) -> str:
    name: str = getattr(spec, "lambda")
    return name


# --- the context on the wire ------------------------------------------------------------------------------------------


def _carry(specs: Iterable[t.TaskSpec] | Iterable[b.BatchSpec], span: Span) -> None:
    text = written(span)
    if text is None:
        return
    for spec in specs:
        if not spec.traceparent:
            spec.traceparent, spec.tracestate = text


def written(span: Span) -> tuple[str, str] | None:
    """A span's traceparent and tracestate, sampled or not; None: it has no valid context."""
    context = span.get_span_context()
    if not context.is_valid:
        return None
    entries = context.trace_state.to_header().split(",")
    while len(",".join(entries)) > MAX_TRACESTATE_CHARS:
        entries.pop()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}", ",".join(entries)


def trace_of(batch: b.BatchSpec) -> t.TaskSpec:
    """What the trace of a batch adds to the tasks that come of it; messages of Protocol Buffers that follow each other are one message."""
    return t.TaskSpec(traceparent=batch.traceparent, tracestate=batch.tracestate, traced_at_us=batch.traced_at_us)


def trace_id_of(spec: t.TaskSpec) -> str:
    """The id of the trace in which a task was scheduled, in hexadecimal; empty: in none."""
    return spec.traceparent[3:35]


def span_context(spec: t.TaskSpec) -> SpanContext | None:
    """The context that a task carries; None: it carries none that can be read. Only where OpenTelemetry is loaded."""
    return context_of(spec.traceparent, spec.tracestate) if spec.traceparent else None


def context_of(traceparent: str, tracestate: str = "") -> SpanContext | None:
    """The context that a text tells; None: it can't be read. Only where OpenTelemetry is loaded."""
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {"traceparent": traceparent, "tracestate": tracestate}
    context = get_current_span(TraceContextTextMapPropagator().extract(carrier, _empty())).get_span_context()
    return context if context.is_valid else None


def _empty() -> Context:
    from opentelemetry.context import Context

    return Context()
