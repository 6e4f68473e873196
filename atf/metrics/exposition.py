"""Shows a process's metrics to prometheus-client, which renders them as text.

It renders on a thread beside the role's loop, and rests after every few lines: Python runs one thread at a time, and lets go of another by itself
only after 5 ms, which a loop in the middle of its work would wait again and again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from .metrics import Histogram, Metrics
from .table import METRICS, MetricSpec

_LINES: Final = 50
"""Lines between two rests: they take about half a millisecond."""
_REST_S: Final = 0.0001


def registry_of(metrics: Metrics) -> CollectorRegistry:
    """A registry of this process's metrics, and of what prometheus-client itself can say of a process."""
    registry = CollectorRegistry()
    registry.register(_Collector(metrics))
    ProcessCollector(registry=registry)
    return registry


class _Collector:
    """All families that have values, as prometheus-client asks for them at each scrape."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        for spec in METRICS:
            values = self._metrics.values(spec)
            if values:
                family = Metric(spec.name.removesuffix("_total"), spec.help, spec.kind)
                family.samples = _Samples(spec, values)
                yield family


class _Samples(list[Any]):
    """The lines of a family, made while they are rendered."""

    def __init__(self, spec: MetricSpec, values: Iterable[tuple[tuple[str, ...], float | Histogram]]) -> None:
        super().__init__()
        self._spec, self._values = spec, values

    def __iter__(self) -> Iterator[Sample]:
        for number, sample in enumerate(self._lines(), 1):
            yield sample
            if number % _LINES == 0:
                time.sleep(_REST_S)

    def _lines(self) -> Iterator[Sample]:
        spec = self._spec
        bounds = [*map(floatToGoString, spec.buckets), "+Inf"]
        for labels, value in self._values:
            named = dict(zip(spec.labels, labels, strict=True))
            if isinstance(value, Histogram):
                counts = list(accumulate(value.counts))
                for bound, count in zip(bounds, counts, strict=True):
                    yield Sample(f"{spec.name}_bucket", {**named, "le": bound}, count)
                yield Sample(f"{spec.name}_sum", named, value.total)
                yield Sample(f"{spec.name}_count", named, counts[-1])
            else:
                yield Sample(spec.name, named, value)
