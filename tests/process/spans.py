"""Lambdas whose worker sends spans to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names, and make spans of their own."""

from __future__ import annotations

import logging

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import atf

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
app = atf.App("g")


def step(name: str) -> None:
    """A span of the lambda's own, and a line of log within it."""
    with trace.get_tracer("user").start_as_current_span(name):
        logging.getLogger("user").warning("within %s", name)


@app.task
def threaded() -> None:
    step("in threaded")


@app.task
async def awaited() -> None:
    step("in awaited")


@app.task(isolate=True)
def alone() -> None:
    step("in alone")
    raise ValueError("alone has failed")
