"""Knows which executors of a pool ask this HSC for work, by the reports of their hosts and by their asks, and what they run.

A host may go over to another HSC at any time, and its executors are members of the pool all along. So only what a host says itself strikes
an executor from the members; of a host that falls silent they are merely not named any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from atf.rpc.lambda_sets import LambdaSet
from atf.runtime import Runtime

HERE_S: Final = 3.0
"""Seconds for which a host counts as here after its last report ended: the next one follows at once, or after 2 s where one failed."""


class PresentExecutors:
    """Those of one pool.

    Attributes:
        gone: those that are here no more, until whoever has to know takes them out.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.gone: set[str] = set()
        self._runtime = runtime
        self._runs: dict[str, dict[str, frozenset[LambdaSet]]] = {}
        """By host and executor."""
        self._until: dict[str, float] = {}
        """Hosts, and until when they count as here."""

    def reported(self, host: str, runs: Mapping[str, Iterable[LambdaSet]], seconds: float) -> bool:
        """A host says which executors it has and what they run; for so long it has nothing else to say. Returns whether some are new here."""
        before = self._runs.get(host, {})
        self._runs[host] = {each: frozenset(sets) for each, sets in runs.items()}
        self._until[host] = self._runtime.monotonic() + seconds + HERE_S
        self.gone |= before.keys() - runs.keys()
        self.gone -= runs.keys()
        return bool(runs.keys() - before.keys())

    def asked(self, host: str, executor_id: str, runs: LambdaSet) -> bool:
        """An executor asks for work. Returns whether it is new here: its host's report may be on its way."""
        of_host = self._runs.setdefault(host, {})
        known = of_host.get(executor_id)
        if known is None or runs not in known:
            of_host[executor_id] = (known or frozenset()) | {runs}
        if known is None:
            self.gone.discard(executor_id)
        self._until[host] = max(self._until.get(host, 0.0), self._runtime.monotonic() + HERE_S)
        return known is None

    def report_ended(self, host: str) -> None:
        """A report was answered, or its connection broke."""
        if host in self._until:
            self._until[host] = self._runtime.monotonic() + HERE_S

    def left(self, host: str) -> None:
        """None of a host are here any more."""
        self.gone |= self._runs.pop(host, {}).keys()
        self._until.pop(host, None)

    def forget_silent(self) -> None:
        """Those of hosts that say nothing are not here: they may be at another HSC."""
        now = self._runtime.monotonic()
        for host in [each for each, until in self._until.items() if until < now]:
            del self._until[host], self._runs[host]

    def ids(self) -> Collection[str]:
        """All that are here."""
        return [each for of_host in self._runs.values() for each in of_host]

    def __bool__(self) -> bool:
        return any(self._runs.values())

    def lambdas(self) -> frozenset[str]:
        """All that they run, also those that have no room."""
        sets = {each for of_host in self._runs.values() for runs in of_host.values() for each in runs}
        return frozenset[str]().union(*(each.lambdas for each in sets))
