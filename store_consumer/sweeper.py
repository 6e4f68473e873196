"""Removes finished tasks whose retention is over, a small batch at a time, so that no other call of the store waits for it.

It is in no hurry: a rest follows each batch. One that has not come to its end within a sweep_interval rests less, so that it
keeps up with whatever ends.
"""

from __future__ import annotations

import asyncio
from typing import Final

from atf.calls.retry import Trouble
from atf.config.settings import StoreConsumerSettings
from atf.log import get_logger
from atf.runtime import Runtime
from atf.store.store import Store

PAUSE_TIMES: Final = 4.0
"""Times as long as the batch before took: four fifths of the store's time are for the others."""
PAUSE_TIMES_BEHIND: Final = 1.0
"""The same for one that takes longer than a sweep_interval: half of the store's time."""

_log = get_logger(duty="sweep")


class Sweeper:
    """Sweeps every partition, again and again. Peers do no harm: what one has removed, the other does not find."""

    def __init__(self, *, store: Store, settings: StoreConsumerSettings, runtime: Runtime) -> None:
        self._store = store
        self._settings = settings
        self._runtime = runtime
        self._trouble = Trouble(_log, "store")

    async def run(self) -> None:
        """Sweeps all partitions each sweep_interval, in an order of chance, until cancelled."""
        while True:
            await asyncio.sleep(self._settings.sweep_interval * (0.5 + self._runtime.random.random()))
            for partition in self._runtime.random.sample(range(self._store.partitions), self._store.partitions):
                try:
                    await self.once(partition)
                except Exception as error:  # noqa: BLE001  a duty outlives whatever fails in it; Trouble says what
                    self._trouble.failed(partition, error)
                else:
                    self._trouble.ended(partition)

    async def once(self, partition: int) -> int:
        """Sweeps one partition until nothing is left to remove. Returns the number of records removed or reduced."""
        total, behind_at = 0, self._runtime.monotonic() + self._settings.sweep_interval
        while True:
            began = self._runtime.monotonic()
            swept = await self._store.sweep(partition, self._settings.max_finished)
            if swept == 0:
                break
            total += swept
            now = self._runtime.monotonic()
            await asyncio.sleep((PAUSE_TIMES if now < behind_at else PAUSE_TIMES_BEHIND) * (now - began))
        if total:
            _log.debug("sweep", partition=partition, records=total)
        return total
