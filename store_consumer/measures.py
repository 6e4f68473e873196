"""Reads what stands in the store, for the metrics: when somebody scrapes, and at most every FRESH_S.

Every store consumer reads it of the whole store, so any number of them say the same. What can't be read is absent: an old number would say that all is
well.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from atf.errors import AtfError
from atf.metrics.metrics import MAX_LAMBDAS, OTHER, LambdaLabels, Metrics
from atf.metrics.table import (
    CLAIMS_PAUSED,
    DUE_LAG,
    DUE_OLDEST,
    LAMBDA_GATED,
    LIVE_WORKERS,
    MEMORY_RATIO,
    QUEUE_DEPTH,
    SLO_RATIO,
    TASKS,
    TASKS_DUE,
    WORKERS,
)
from atf.rpc import frontend_pb2 as f
from atf.runtime import Runtime
from atf.sdk.slo import DEFAULT_SLO, slo_in_force
from atf.store.capacity import HostRecord
from atf.store.claim_pause import ClaimPause
from atf.store.status import LambdaCounts
from atf.store.store import Store
from atf.store.values.lambdas import LambdaRecord
from atf.task import STARTS, US

FRESH_S: Final = 5.0
"""Seconds for which what was read will do."""
_OF_THE_STORE: Final = (
    TASKS,
    TASKS_DUE,
    QUEUE_DEPTH,
    DUE_OLDEST,
    LIVE_WORKERS,
    LAMBDA_GATED,
    SLO_RATIO,
    WORKERS,
    MEMORY_RATIO,
    CLAIMS_PAUSED,
)

Values = defaultdict[tuple[str, ...], float]


class Measures:
    """The gauges of one store consumer.

    Args:
        store: what is read; its metrics are where the values go.
        runtime: the clock.
        lag: how many seconds its passes are behind.
    """

    def __init__(self, store: Store, runtime: Runtime, lag: Callable[[], float]) -> None:
        self._store, self._runtime, self._lag = store, runtime, lag
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._known: Mapping[str, LambdaRecord] = {}
        self._specs: dict[str, f.LambdaSpec] = {}

    async def read(self) -> None:
        """Brings the gauges up to date."""
        metrics = self._store.metrics
        metrics.replace(DUE_LAG, {(): self._lag()})
        async with self._reading:  # who waited for another scrape's reading has its values
            if self._runtime.monotonic() - self._read_at < FRESH_S:
                return
            self._read_at = self._runtime.monotonic()
            try:
                await self._read_lambdas(metrics)
                await self._read_store(metrics)
            except BaseException as error:
                metrics.drop(*_OF_THE_STORE)
                self._read_at = float("-inf")
                if not isinstance(error, AtfError):
                    raise

    async def _read_lambdas(self, metrics: Metrics) -> None:
        known = await self._store.list_lambdas()
        if known is not self._known:
            self._known = known
            self._specs = {name: f.LambdaSpec.FromString(record.spec) for name, record in known.items()}
        names = list(known)
        standing = await self._store.get_status(names, 0)
        counts = standing.whole()
        _, hosts = await self._store.list_hosts()
        served = await self._store.served()
        label = metrics.lambda_label
        metrics.replace(
            TASKS,
            summed(
                ((label(name), status.name), count)
                for name, each in counts.items()
                for status, count in each.counts.items()
                if count
            ),
        )
        metrics.replace(
            TASKS_DUE, summed(((label(name),), each.waiting) for name, each in counts.items() if each.waiting)
        )
        metrics.replace(DUE_OLDEST, oldest(counts, standing.now_us, label))
        queues = await self._store.queues()
        metrics.replace(
            QUEUE_DEPTH,
            summed(((label(each.lambda_name), str(each.priority)), each.depth) for each in queues if each.depth),
        )
        metrics.replace(WORKERS, workers(hosts))
        live = live_workers(self._specs, hosts, served)
        metrics.replace(LIVE_WORKERS, summed(((label(name),), count) for name, count in live.items()))
        kept: Values = defaultdict(
            float, {(label(name),): 1.0 for name, record in known.items() if record.paused or record.gated}
        )
        metrics.replace(LAMBDA_GATED, kept)
        # Beyond the bound of labels, those without tasks shall not take them from those that have some.
        named = names if len(names) <= MAX_LAMBDAS else [name for name in names if name in counts]
        metrics.replace(SLO_RATIO, promises({name: known[name] for name in named}, self._specs, label))

    async def _read_store(self, metrics: Metrics) -> None:
        ratios = [each.used / each.most for each in await self._store.memory() if each.most]
        metrics.replace(MEMORY_RATIO, {(): max(ratios)} if ratios else {})
        pauses = await self._store.claim_pauses()
        metrics.replace(CLAIMS_PAUSED, {(): sum(isinstance(each, ClaimPause) for each in pauses)})


def summed(values: Iterable[tuple[tuple[str, ...], float]]) -> Values:
    """Values by labels; those of the same labels, as of all lambdas beyond the bound, are one."""
    found: Values = defaultdict(float)
    for labels, value in values:
        found[labels] += value
    return found


def oldest(lambdas: Mapping[str, LambdaCounts], now_us: int, label: LambdaLabels) -> Values:
    """For how many seconds the first task of each lambda that waits has been due."""
    found: Values = defaultdict(float)
    for name, each in lambdas.items():
        if each.since_us:
            labels = (label(name),)
            found[labels] = max(found[labels], (now_us - each.since_us) / US)
    return found


def promises(
    known: Mapping[str, LambdaRecord], specs: Mapping[str, f.LambdaSpec], label: LambdaLabels
) -> dict[tuple[str, ...], float]:
    """What lambdas promise about their starts: the share, by lambda and the edge of the bucket within which it is promised."""
    found: dict[tuple[str, ...], float] = {}
    for name, record in known.items():
        labelled = label(name)
        slo = DEFAULT_SLO if labelled == OTHER else slo_in_force(specs[name].slo, record.overrides)
        found[labelled, str(slo.seconds)] = slo.share
    return found


def workers(hosts: Sequence[HostRecord]) -> Values:
    """Executors by pool and state."""
    found: Values = defaultdict(float)
    for each in hosts:
        if each.why_not not in {"", STARTS}:
            found[each.pool, "failing"] += 1
        else:
            found[each.pool, "working" if each.drain_until_us is None else "draining"] += each.executors
    return found


def live_workers(
    specs: Mapping[str, f.LambdaSpec], hosts: Sequence[HostRecord], served: set[tuple[str, str]]
) -> dict[str, float]:
    """Executors of the pools in which lambdas run, by lambda. A pool whose hosts have not said how many run there has one."""
    working = {pool: count for (pool, state), count in workers(hosts).items() if state == "working"}
    found: dict[str, float] = {}
    for name, spec in specs.items():
        pools = [
            pool
            for pool in {spec.pool, *working}
            if (pool, name) in served or (pool == spec.pool and (pool, "*") in served)
        ]
        if pools:
            found[name] = sum(max(working.get(pool, 1), 1) for pool in pools)
    return found
