"""Counts the tasks of each lambda by status: once a second at most, however many callers ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from atf.calls.single_flight import SingleFlight
from atf.runtime import Runtime
from atf.store.store import Store
from atf.task import Status

from .lambdas import Lambdas

_FRESH_S: Final = 1.0


class _Counted(NamedTuple):
    until_s: float
    """It counts for a caller that comes before this, by the monotonic clock."""
    at_us: int
    by_lambda: Mapping[str, Mapping[Status, int]]


class TaskCounts:
    """The counts of all lambdas.

    Args:
        store: which counts.
        lambdas: which there are.
        runtime: clocks.
    """

    def __init__(self, store: Store, lambdas: Lambdas, runtime: Runtime) -> None:
        self._store, self._lambdas, self._runtime = store, lambdas, runtime
        self._counted = _Counted(0, 0, {})
        self.read = SingleFlight(self._read)

    async def _read(self) -> _Counted:
        now_s = self._runtime.monotonic()
        if now_s >= self._counted.until_s:
            await self._lambdas.refresh()
            at_us = await self._store.time_us()
            counts = await self._store.counts_of([each.record.name for each in self._lambdas.all()])
            self._counted = _Counted(now_s + _FRESH_S, at_us, counts)
        return self._counted
