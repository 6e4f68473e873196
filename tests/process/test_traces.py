"""Spans of a real worker, as a collector gets them by OTLP/HTTP: of threads, coroutines and isolated runs."""

from __future__ import annotations

import gzip
import json
import signal
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from atf.rpc import task_pb2 as t
from atf.runtime import SystemRuntime

from .test_guard import call, guarded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="isolated runs need Linux")

NAMES = ("threaded", "awaited", "alone")
TRACE, ABOVE = 7 << 64 | 9, 11


class Collector:
    """Takes what exporters send by OTLP/HTTP."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.path == "/v1/traces"
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        collector.spans += scope.spans
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    made = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.address)
    yield made
    made.close()


def traced(name: str) -> t.Claim:
    """A claim of a task that was scheduled a moment ago in the trace TRACE, under the span ABOVE."""
    claim = call(f"0-{name}", name)
    spec = t.TaskSpec.FromString(claim.spec)
    spec.traceparent, spec.traced_at_us = f"00-{TRACE:032x}-{ABOVE:016x}-01", SystemRuntime().wall_us()
    claim.spec = spec.SerializeToString()
    return claim


def attributes(span: Span) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


async def test_a_collector_gets_the_spans_of_every_kind_of_run(
    collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    async with guarded(app="spans:app") as world:
        await world.event()
        await world.give(*map(traced, NAMES))
        await world.until(lambda: len(world.hsc.results) == len(NAMES))
        world.process.send_signal(signal.SIGTERM)
        assert await world.process.wait() == 0
    spans = {each.name: each for each in collector.spans}
    assert spans.keys() == {f"process g/{name}" for name in NAMES} | {f"in {name}" for name in NAMES}
    assert {int.from_bytes(each.trace_id) for each in spans.values()} == {TRACE}
    for name in NAMES:
        run, inner = spans[f"process g/{name}"], spans[f"in {name}"]
        assert (run.kind, int.from_bytes(run.parent_span_id)) == (Span.SPAN_KIND_CONSUMER, ABOVE)
        assert [int.from_bytes(each.span_id) for each in run.links] == [ABOVE]
        assert attributes(run)["messaging.message.id"] == f"0-{name}"
        assert inner.parent_span_id == run.span_id
    assert attributes(spans["process g/alone"])["atf.task.outcome"] == "failed"
    failed = spans["process g/alone"].status
    assert (failed.code, failed.message) == (Status.STATUS_CODE_ERROR, "ValueError: alone has failed")
    lines = [json.loads(each) for each in capsys.readouterr().out.splitlines() if each.startswith("{")]
    said = {each["event"]: (each.get("trace_id"), each.get("span_id")) for each in lines if each.get("task_id")}
    for name in NAMES:
        assert said[f"within in {name}"] == (f"{TRACE:032x}", spans[f"in {name}"].span_id.hex())
