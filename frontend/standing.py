"""Reads how all lambdas stand, for whoever shows it: once a second at most, however many ask.

A reading costs the store some 30 µs for each lambda and partition. Where these are thousands, it is used for longer, so that it takes a fortieth of
the time.
"""

from __future__ import annotations

from typing import Final

from atf.calls.single_flight import SingleFlight
from atf.runtime import Runtime
from atf.store.status import StoreStatus
from atf.store.store import Store
from atf.task import US

from .lambdas import Lambdas

RECENT_US: Final = 3_600 * US
"""Failures of this time count as recent, unless who asks says otherwise."""
_FRESH_S: Final = 1.0
_TIMES: Final = 40
"""As many times as long as a reading took it is used, if that is longer than a second."""
_MOST_S: Final = 10.0
"""But no longer than this."""


class StandingReads:
    """The readings of one frontend.

    Args:
        store: which counts.
        lambdas: the copy of the registry, which says whose tasks to count. Who asks has it refreshed.
        runtime: clocks.
    """

    def __init__(self, store: Store, lambdas: Lambdas, runtime: Runtime) -> None:
        self._store, self._lambdas, self._runtime = store, lambdas, runtime
        self._shared = SingleFlight(self._read_shared)
        self._found: StoreStatus | None = None
        self._until_s = 0.0

    async def __call__(self, recent_us: int = RECENT_US) -> StoreStatus:
        """What was read less than a second ago, if that took no more than 25 ms; of another time than the usual one it is read anew.

        Args:
            recent_us: how long ago a failure counts as recent.
        """
        return await (self._shared() if recent_us == RECENT_US else self._read(recent_us))

    async def _read_shared(self) -> StoreStatus:
        now_s = self._runtime.monotonic()
        if self._found is None or now_s >= self._until_s:
            self._found = await self._read(RECENT_US)
            took_s = self._runtime.monotonic() - now_s
            self._until_s = now_s + min(max(_FRESH_S, _TIMES * took_s), _MOST_S)
        return self._found

    async def _read(self, recent_us: int) -> StoreStatus:
        return await self._store.get_status([each.record.name for each in self._lambdas.all()], recent_us)
