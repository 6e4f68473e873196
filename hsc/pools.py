"""Keeps a part in the cores of every pool of which executors ask here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from atf.errors import ResourceExhausted
from atf.intake.asks import Ask, Lambdas, lambda_of
from atf.intake.intake import Intake
from atf.runtime import Runtime, end
from atf.store.store import Store

from .cores import Cores

MOST_POOLS: Final = 1_000
"""Pools that one HSC serves at a time."""
FORGET_S: Final = 120.0
"""Seconds without an executor until a pool is forgotten."""


class Pools:
    """The pools that one HSC serves.

    Args:
        store: where their records are.
        runtime: clocks, chance, spawning.
    """

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._cores: dict[str, Cores] = {}
        self._duties: dict[str, asyncio.Task[None]] = {}
        self._used_at: dict[str, float] = {}
        self._runs = False
        self._rearrange: Callable[[Collection[str]], None] = lambda _: None
        self._waits: Callable[[str, str], bool] = lambda *_: False

    def serve(self, intake: Intake) -> None:
        """Says to whom they tell what executors may run."""
        self._rearrange, self._waits = intake.rearrange, intake.waits

    def of(self, pool: str) -> Cores:
        """The part in this one.

        Raises:
            ResourceExhausted: there are too many.
        """
        now = self._runtime.monotonic()
        self._used_at[pool] = now
        cores = self._cores.get(pool)
        if cores is None:
            self._forget(now - FORGET_S)
            if len(self._cores) >= MOST_POOLS:
                raise ResourceExhausted(
                    f"pool {pool!r}: this HSC serves {MOST_POOLS} pools already; spread hosts of fewer pools over each HSC"
                )
            cores = self._cores[pool] = Cores(
                store=self._store,
                name=pool,
                runtime=self._runtime,
                rearrange=self._rearrange,
                hungry=lambda name: self._waits(name, pool),
            )
            if self._runs:
                self._begin(pool, cores)
        return cores

    def start(self) -> None:
        """Keeps up with the pools' records from now on."""
        self._runs = True
        for pool, cores in self._cores.items():
            self._begin(pool, cores)

    def _begin(self, pool: str, cores: Cores) -> None:
        self._duties[pool] = self._runtime.spawn(cores.run(), name=f"cores of {pool!r}")

    def only(self, ask: Ask) -> Lambdas | None:
        """Of which lambdas alone an ask may be given something now; None: of all."""
        return self.of(ask.kind.pool).only(ask.owner)

    def handed(self, ask: Ask, lambdas: Lambdas, full: bool) -> None:
        """An ask was given tasks; `full`, as many as it would take."""
        self.of(ask.kind.pool).handed_over(ask.owner, lambdas, full=full)

    def notified(self, queue: str) -> None:
        """A queue has entries."""
        name = lambda_of(queue)
        for each in self._cores.values():
            each.notified(name)

    def changed(self, pool: str) -> None:
        """Somebody has written a pool's record."""
        if (cores := self._cores.get(pool)) is not None:
            cores.changed()

    async def end(self) -> None:
        """Ends that."""
        self._runs = False
        await end(self._duties.values())

    def _forget(self, before: float) -> None:
        for pool in [each for each, used_at in self._used_at.items() if used_at < before]:
            if pool in self._cores and self._cores[pool].here:
                continue
            del self._used_at[pool]
            self._cores.pop(pool, None)
            if (duty := self._duties.pop(pool, None)) is not None:
                duty.cancel()
