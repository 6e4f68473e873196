"""A scrape stays small: 200 lambdas that use everything, on 50 hosts, are at most 6,000 series and 600 KB in each process."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Final

import pytest
from prometheus_client import generate_latest

from atf.metrics.exposition import registry_of
from atf.metrics.metrics import MAX_LAMBDAS, OTHER, Metrics
from atf.metrics.table import METRICS, ROLES, RUNS_ENDED, SLO_RATIO, TASKS, Kind, MetricSpec
from atf.rpc import controller_pb2, frontend_pb2, hsc_pb2, store_consumer_pb2
from atf.task import MAX_PRIORITY, Status

MOST_SERIES: Final = 6_000
MOST_BYTES: Final = 600_000
LAMBDAS: Final = [*(f"warehouse/report-{number:03}-eu" for number in range(MAX_LAMBDAS)), OTHER]
"""Names of 23 characters."""
SERVICES: Final = {
    "frontend": (frontend_pb2, "Frontend"),
    "hsc": (hsc_pb2, "HSC"),
    "controller": (controller_pb2, "Controller"),
    "store-consumer": (store_consumer_pb2, "StoreConsumer"),
}
FUNCTIONS: Final = {"frontend": 60, "hsc": 12, "controller": 12, "store-consumer": 25}
"""Functions of the task store that a process calls, about."""
POOLS: Final = [f"pool-{number}" for number in range(10)]


def outcomes_of(number: int) -> list[str]:
    """How the runs of a lambda have ended: most have failed and succeeded, some in every way."""
    rare = ["failed_fatal", "stopped", "handed_back", "misfit"] if number % 10 == 0 else []
    return [
        "succeeded",
        "failed",
        *(["timed_out"] if number % 3 == 0 else []),
        *(["lost"] if number % 5 == 0 else []),
        *rare,
    ]


def labels_of(spec: MetricSpec, role: str) -> list[tuple[str, ...]]:
    """All that a metric's labels may be in one process."""
    if spec is RUNS_ENDED:
        return [(name, outcome) for number, name in enumerate(LAMBDAS) for outcome in outcomes_of(number)]
    if spec is SLO_RATIO:
        return [(name, "5.0") for name in LAMBDAS]
    module, service = SERVICES[role]
    methods = module.DESCRIPTOR.services_by_name[service].methods_by_name
    statuses = [each.name for each in Status] if spec is TASKS else ["SUCCESS", "FATAL_FAILURE", "CANCELLED"]
    values = {
        "lambda": LAMBDAS,
        "status": statuses,
        "result": ["ok", "unavailable"]
        if "function" in spec.labels
        else ["accepted", "existed", "refused", "too_many_pending"],
        "priority": [str(each) for each in range(MAX_PRIORITY + 1)],
        "pool": POOLS if len(spec.labels) > 1 else POOLS[:1],
        "state": ["working", "draining", "failing"],
        "method": list(methods),
        "code": ["OK", "UNAVAILABLE", "INVALID_ARGUMENT"],
        "limit": ["calls", "streams", "bytes", "rate", "slow", "token"],
        "function": [f"function_number_{number}" for number in range(FUNCTIONS[role])],
        "check": [f"check-{number}" for number in range(20)],
        "file": ["tls_cert", "tls_client_ca", "tls_ca"],
        "role": [role],
        "version": ["0.2.0"],
        "python": ["3.11.7"],
    }
    return list(product(*(values[label] for label in spec.labels)))


def full(role: str) -> Metrics:
    """The metrics of a process in which everything has happened."""
    metrics = Metrics()
    for spec in METRICS:
        if role not in spec.roles:
            continue
        every = labels_of(spec, role)
        if spec.kind is Kind.GAUGE:
            metrics.replace(spec, dict.fromkeys(every, 1234.5))
            continue
        for labels in every:
            if spec.kind is Kind.COUNTER:
                metrics.counter(spec, *labels).inc(1_234_567)
            else:
                histogram = metrics.histogram(spec, *labels)
                histogram.add([1_234] * len(histogram.counts), 1_234.567)
    return metrics


@pytest.mark.parametrize("role", ROLES)
async def test_a_scrape_of_a_process_in_which_everything_has_happened_is_small(role: str) -> None:
    text = await asyncio.to_thread(generate_latest, registry_of(full(role)))
    series = sum(not line.startswith("#") for line in text.decode().splitlines())
    assert series <= MOST_SERIES, f"{series} series"
    assert len(text) <= MOST_BYTES, f"{len(text)} bytes"
