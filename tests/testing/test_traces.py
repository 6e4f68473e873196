"""Traces from the call that schedules to the run, its retries and what it schedules itself: the roles without processes, spans in memory."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler
from opentelemetry.trace import SpanKind, StatusCode

import atf
from atf import log
from atf.cli.task_view import show_task
from atf.config.settings import LogSettings
from atf.errors import UnknownLambda
from atf.executor import run_span
from atf.rpc import task_pb2 as t
from atf.testing import Harness

app = atf.App("traced")


@app.task
def double(number: int) -> int:
    return 2 * number


@app.task
def total(batch: dict[str, Any]) -> None: ...


@app.task
async def double_async(number: int) -> int:
    return 2 * number


@app.task
def wraps(number: int) -> Any:
    return double_async(number)


@app.task(max_attempts=3, backoff=atf.Backoff(1, jitter=0))
def flaky(ctx: atf.Context) -> None:
    if ctx.attempt < 3:
        raise ValueError(f"attempt {ctx.attempt}")


@app.task(max_attempts=1, redact=["card"])
def pay(card: str) -> None:
    raise ValueError(f"no such card: {card[::-1]}")


@app.task
async def parent() -> None:
    with trace.get_tracer("user").start_as_current_span("inner"):
        await double.schedule_async(1)


@app.task
def says() -> None:
    log.get_logger().info("within")


class Traces:
    """A tracer provider whose spans stay in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.sampler: Sampler = ALWAYS_ON
        self.provider = TracerProvider(sampler=ParentBased(self))  # type: ignore[arg-type]
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def should_sample(self, *args: Any, **kwargs: Any) -> Any:
        return self.sampler.should_sample(*args, **kwargs)

    def get_description(self) -> str:
        return "as the test says"

    def spans(self, name: str = "") -> list[ReadableSpan]:
        return [each for each in self.exporter.get_finished_spans() if name in each.name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.spans(name)
        return span


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traces]:
    made = Traces()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made.provider)
    yield made
    made.provider.shutdown()


@pytest.fixture
def h() -> Iterator[Harness]:
    with Harness(app) as harness:
        yield harness


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(each.context.trace_id, each.context.span_id) for each in span.links]


def is_under(span: ReadableSpan, above: ReadableSpan) -> bool:
    return span.parent is not None and (span.parent.trace_id, span.parent.span_id) == ids(above)


def test_a_run_is_part_of_the_request_that_scheduled_it(traces: Traces, h: Harness) -> None:
    with traces.provider.get_tracer("web").start_as_current_span("GET /"):
        handle = double.schedule(4)
    assert h.result(handle) == 8
    request, scheduled, processed = traces.one("GET /"), traces.one("schedule"), traces.one("process")
    assert (scheduled.name, scheduled.kind) == ("schedule traced/double", SpanKind.PRODUCER)
    assert (processed.name, processed.kind) == ("process traced/double", SpanKind.CONSUMER)
    assert is_under(scheduled, request)
    assert is_under(processed, scheduled)
    assert linked(processed) == [ids(scheduled)]
    common = {
        "messaging.system": "atf",
        "messaging.destination.name": "traced/double",
        "messaging.message.id": handle.id,
    }
    assert dict(scheduled.attributes or {}) == common | {
        "messaging.operation.name": "schedule",
        "messaging.operation.type": "send",
    }
    assert dict(processed.attributes or {}) == common | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "atf.task.attempt": 1,
        "atf.task.run": 1,
        "atf.task.outcome": "succeeded",
    }
    assert processed.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("task", [double_async, wraps], ids=["async def", "def that returns a coroutine"])
def test_a_coroutine_has_its_span_too(traces: Traces, h: Harness, task: Any) -> None:
    h.result(task.schedule(4))
    assert is_under(traces.one("process"), traces.one("schedule"))


def test_a_later_attempt_and_a_run_after_a_minute_begin_traces_that_link_to_the_schedule(
    traces: Traces, h: Harness
) -> None:
    h.result(flaky.schedule())
    scheduled, runs = traces.one("schedule"), traces.spans("process")
    assert [(each.attributes or {})["atf.task.attempt"] for each in runs] == [1, 2, 3]
    assert [each.status.description for each in runs] == ["ValueError: attempt 1", "ValueError: attempt 2", None]
    assert [(each.attributes or {}).get("error.type") for each in runs] == ["ValueError", "ValueError", None]
    assert [is_under(each, scheduled) for each in runs] == [True, False, False]
    assert [linked(each) for each in runs] == [[ids(scheduled)]] * 3
    assert len({ids(each)[0] for each in runs}) == 3
    traces.exporter.clear()
    h.result(double.options(delay=59).schedule(1))
    h.result(double.options(delay=61).schedule(1))
    assert [each.parent is not None for each in traces.spans("process")] == [True, False]
    assert [linked(each) for each in traces.spans("process")] == [[ids(each)] for each in traces.spans("schedule")]


def test_what_a_task_schedules_stands_under_the_span_that_is_current_there(traces: Traces, h: Harness) -> None:
    h.result(parent.schedule())
    h.run_until_idle()
    assert is_under(traces.one("inner"), traces.one("process traced/parent"))
    assert is_under(traces.one("schedule traced/double"), traces.one("inner"))
    assert is_under(traces.one("process traced/double"), traces.one("schedule traced/double"))


def test_nothing_is_said_of_redacted_arguments_but_the_exceptions_type(traces: Traces, h: Harness) -> None:
    pay.schedule("4711")
    h.run_until_idle()
    span = traces.one("process")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ValueError")
    assert "1174" not in span.to_json()


def test_a_decision_against_a_trace_travels_too(traces: Traces, h: Harness) -> None:
    traces.sampler = ALWAYS_OFF
    handle = double.schedule(1)
    traces.sampler = ALWAYS_ON
    h.result(handle)
    assert traces.spans() == []


def test_a_call_of_many_tasks_has_one_span(traces: Traces, h: Harness) -> None:
    h.client.schedule_many([double.prepare(each) for each in range(3)])
    h.run_until_idle()
    scheduled = traces.one("schedule")
    assert (scheduled.attributes or {})["messaging.batch.message_count"] == 3
    assert [is_under(each, scheduled) for each in traces.spans("process")] == [True] * 3


def test_a_call_that_is_refused_says_why_in_its_span(traces: Traces, h: Harness) -> None:
    with pytest.raises(UnknownLambda):
        h.client.schedule("traced/unknown", {})
    span = traces.one("schedule")
    assert (span.attributes or {})["error.type"] == "UnknownLambda"
    assert span.status.status_code is StatusCode.ERROR


def test_the_items_of_a_batch_belong_to_the_call_that_made_it(traces: Traces, h: Harness) -> None:
    batch = double.map(range(1_003), on_complete=total)
    h.run_until_idle()
    scheduled, items = traces.one("schedule"), traces.spans("process traced/double")
    assert (scheduled.attributes or {})["atf.batch.id"] == batch.id
    assert [linked(each) for each in items] == [[ids(scheduled)]] * 1_003
    assert sum(is_under(each, scheduled) for each in items) == 1_000
    assert is_under(traces.one("process traced/total"), scheduled)


def test_a_batch_that_is_gone_on_with_in_another_trace_is_the_same_batch(traces: Traces, h: Harness) -> None:
    for _ in range(2):
        double.map(range(2), batch_id="twice")
    h.run_until_idle()
    assert [linked(each) for each in traces.spans("process")] == [[ids(traces.spans("schedule")[0])]] * 2


def test_the_steps_of_a_chain_belong_to_the_call_that_submitted_it(traces: Traces, h: Harness) -> None:
    chain = (double.s(1) | double_async.s() | double.s()).submit()
    h.run_until_idle()
    assert chain.result() == 8
    scheduled, steps = traces.one("schedule"), traces.spans("process")
    assert len(steps) == 3
    assert [is_under(each, scheduled) for each in steps] == [True] * 3
    first, second, third = steps
    assert [linked(each) for each in steps] == [
        [ids(scheduled)],
        [ids(scheduled), ids(first)],
        [ids(scheduled), ids(second)],
    ]
    assert [ids(each)[0] for each in (second, third)] == [ids(first)[0]] * 2


@pytest.mark.parametrize("count", [1, 2])
def test_a_callback_links_to_the_run_of_an_only_item(traces: Traces, h: Harness, count: int) -> None:
    double.map(range(count), on_complete=total)
    h.run_until_idle()
    scheduled, (item, *_) = traces.one("schedule"), traces.spans("process traced/double")
    assert linked(traces.one("process traced/total")) == [ids(scheduled), *([ids(item)] if count == 1 else [])]


def test_a_callback_after_failures_links_to_the_last_run(traces: Traces, h: Harness) -> None:
    pay.map(["4711"], on_failure=total)
    h.run_until_idle()
    (run,) = traces.spans("process traced/pay")
    assert linked(traces.one("process traced/total"))[1:] == [ids(run)]


@pytest.mark.parametrize(
    ("sampled", "number", "kept"), [(True, 0, True), (False, 0, False), (True, 1, False), (True, None, False)]
)
def test_only_the_first_items_run_is_kept_for_what_follows(sampled: bool, number: int | None, kept: bool) -> None:
    spec = t.TaskSpec(batch=t.BatchInfo(id="b", number=number))
    span = trace.NonRecordingSpan(trace.SpanContext(7, 8, is_remote=False, trace_flags=trace.TraceFlags(sampled)))
    text = run_span.for_followers(span, cast("Any", SimpleNamespace(spec=spec)))
    assert text == (f"00-{7:032x}-{8:016x}-01" if kept else "")


def test_a_ticks_run_begins_a_trace_of_its_own(traces: Traces, h: Harness) -> None:
    h.client.schedule_job("traced/hourly", double.prepare(1), "@every 1h")
    h.advance("1h")
    span = traces.one("process")
    assert (span.parent, list(span.links)) == (None, [])
    assert (span.attributes or {})["atf.job.name"] == "traced/hourly"


def test_log_lines_say_which_span_is_current(traces: Traces, h: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = io.StringIO()
    monkeypatch.setattr(log.output, "logger", log.output.logger)
    log.setup(LogSettings(log_format="json"), "executor", stream=lines)
    h.result(says.schedule())
    log.get_logger().info("outside")
    within, outside = map(json.loads, lines.getvalue().splitlines())
    trace_id, span_id = ids(traces.one("process"))
    assert (within["trace_id"], within["span_id"]) == (f"{trace_id:032x}", f"{span_id:016x}")
    assert "trace_id" not in outside


def test_a_collector_that_is_away_does_not_hold_up_a_process_that_ends(
    traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, asked = threading.Event(), threading.Event()

    def force_flush() -> None:
        asked.set()
        away.wait()

    monkeypatch.setattr(traces.provider, "force_flush", force_flush)
    run_span.flush(0.01)
    assert asked.is_set()
    away.set()


@pytest.mark.parametrize("method", ["on_start", "on_end"])
def test_a_processor_that_fails_fails_no_run(
    traces: Traces, h: Harness, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    failed: list[str] = []

    def fail(_self: object, span: ReadableSpan, **_: object) -> None:
        if span.name.startswith("process"):
            failed.append(span.name)
            raise RuntimeError("the processor is broken")

    monkeypatch.setattr(SimpleSpanProcessor, method, fail)
    assert h.result(double.schedule(4)) == 8
    assert failed == ["process traced/double"]
    assert traces.spans("process") == []


def test_the_same_request_in_another_trace_is_the_same_request(traces: Traces, h: Harness) -> None:
    first = double.options(key="one").schedule(1)
    again = double.options(key="one").schedule(1)
    assert first.id == again.id
    kept = h.client.get(first.id)
    assert kept.trace_id == f"{ids(traces.spans('schedule')[0])[0]:032x}"


def test_atf_get_shows_the_trace(capsys: pytest.CaptureFixture[str]) -> None:
    show_task(t.Task(id="0-a", spec=t.TaskSpec(traceparent=f"00-{7:032x}-{8:016x}-01")))
    assert f"{7:032x}" in capsys.readouterr().out


def test_without_a_provider_a_task_carries_nothing(h: Harness) -> None:
    assert h.client.get(double.schedule(1).id).trace_id == ""
