"""The numbers of one process: roles add to them, and whoever renders them reads them, perhaps on another thread.

Adding takes well under a microsecond, and no lock: a metric is added to on one thread, and a reader may be one value late.
A value's place is found once (`counter`, `histogram`) by whoever adds often.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from .table import BUILD_INFO, METRICS, Kind, MetricSpec

MAX_LAMBDAS: Final = 200
"""Lambdas with a label of their own in one process; all others are one: OTHER."""
OTHER: Final = "other"

Labels = tuple[str, ...]


class Counter:
    """A number that grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, count: float = 1) -> None:
        """Adds to it."""
        self.value += count


class Histogram:
    """How many values lie in each bucket, and their sum. The last bucket has no bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Adds one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, counts: Iterable[int], total: float) -> None:
        """Adds what another one of the same buckets has counted."""
        self.counts = [mine + more for mine, more in zip(self.counts, counts, strict=True)]
        self.total += total


class LambdaLabels:
    """Which lambdas have a label of their own: the first MAX_LAMBDAS that this process meets."""

    def __init__(self, most: int = MAX_LAMBDAS) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        """The label of a lambda."""
        if name in self._known:
            return name
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(name)
        return name


class Metrics:
    """All metrics of one process.

    Attributes:
        lambda_label: the value of the label `lambda` for a lambda's name. Whoever passes one to the other methods need not call it.
    """

    def __init__(self) -> None:
        self.lambda_label = LambdaLabels()
        self._counters: dict[str, dict[Labels, Counter]] = {}
        self._histograms: dict[str, dict[Labels, Histogram]] = {}
        self._gauges: dict[str, Mapping[Labels, float]] = {}
        self._named = {spec.name for spec in METRICS if "lambda" in spec.labels[:1]}

    def begin(self, roles: Sequence[str], version: str, python: str) -> None:
        """Says what runs, and shows the counters without labels that these roles have, at 0: only then a first step is seen as one."""
        self.replace(BUILD_INFO, {(role, version, python): 1 for role in roles})
        for spec in METRICS:
            if not set(roles).isdisjoint(spec.roles) and spec.kind is Kind.COUNTER and not spec.labels:
                self.counter(spec)

    def counter(self, spec: MetricSpec, *labels: str) -> Counter:
        """The counter of these labels."""
        places = self._counters.setdefault(spec.name, {})
        key = self._key(spec, labels)
        found = places.get(key)
        if found is None:
            found = places[key] = Counter()
        return found

    def histogram(self, spec: MetricSpec, *labels: str) -> Histogram:
        """The histogram of these labels."""
        places = self._histograms.setdefault(spec.name, {})
        key = self._key(spec, labels)
        found = places.get(key)
        if found is None:
            found = places[key] = Histogram(spec.buckets)
        return found

    def replace(self, spec: MetricSpec, values: Mapping[Labels, float]) -> None:
        """All values of a gauge, by labels, in the place of those before. The caller has bounded the lambdas among them."""
        self._gauges[spec.name] = values

    def drop(self, *specs: MetricSpec) -> None:
        """Nothing is known of these gauges any more."""
        for spec in specs:
            self._gauges.pop(spec.name, None)

    def values(self, spec: MetricSpec) -> list[tuple[Labels, float | Histogram]]:
        """What a metric has now, by labels; of a counter or gauge numbers."""
        match spec.kind:
            case Kind.COUNTER:
                return [(labels, each.value) for labels, each in list(self._counters.get(spec.name, {}).items())]
            case Kind.HISTOGRAM:
                return list(self._histograms.get(spec.name, {}).items())
            case Kind.GAUGE:
                return list(self._gauges.get(spec.name, {}).items())

    def _key(self, spec: MetricSpec, labels: Labels) -> Labels:
        if spec.name in self._named:
            return self.lambda_label(labels[0]), *labels[1:]
        return labels


async def no_gauges() -> None:
    """No gauge has to be read."""


class UnreadMetrics(Metrics):
    """Of a process whose metrics nobody reads: all counters are one, and all histograms."""

    def __init__(self) -> None:
        super().__init__()
        self._counter, self._histogram = Counter(), Histogram(())

    def counter(self, _spec: MetricSpec, *_labels: str) -> Counter:
        return self._counter

    def histogram(self, _spec: MetricSpec, *_labels: str) -> Histogram:
        return self._histogram
