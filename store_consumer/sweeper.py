"""Removes finished tasks whose retention is over, a small batch at a time, so that no other call of the store waits for it.

Where a server's memory is too full, finished tasks go before that, the oldest first.

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
"""The same for one that takes longer than a sweep_interval, or has to make room: half of the store's time."""

_log = get_logger(duty="sweep")


class Sweeper:
    """Sweeps every partition, again and again. Peers do no harm: what one has removed, the other does not find."""

    def __init__(self, *, store: Store, settings: StoreConsumerSettings, runtime: Runtime) -> None:
        self._store = store
        self._settings = settings
        self._runtime = runtime
        self._trouble = Trouble(_log, "store")
        self._early: set[int] = set()
        """Partitions from which finished tasks went early when they were last swept."""

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
        total = 0
        behind_at = self._runtime.monotonic() + self._settings.sweep_interval
        while swept := await self._sweep(partition, behind_at):
            total += swept
        if total:
            _log.debug("sweep", partition=partition, records=total)
        return total + await self.make_room(partition)

    async def make_room(self, partition: int) -> int:
        """Removes finished tasks before their retention is over, while their server's memory is too full; for one sweep_interval at most.

        Returns:
            The number of tasks.
        """
        bound, total = self._settings.retention_memory, 0
        until = self._runtime.monotonic() + self._settings.sweep_interval
        while bound < 1 and self._runtime.monotonic() < until:
            if await self._store.memory_ratio(partition) <= bound:
                break
            if not (swept := await self._sweep(partition, self._runtime.monotonic(), early=True)):
                break
            total += swept
        if total and not self._early:
            _log.warning(
                "finished tasks go before their retention: a store server is fuller than it may be", bound=bound
            )
        if total:
            self._early.add(partition)
        elif partition in self._early:
            self._early.remove(partition)
            if not self._early:
                _log.info("no more finished tasks go before their retention")
        return total

    async def _sweep(self, partition: int, behind_at: float, *, early: bool = False) -> int:
        """A batch, and a rest behind it."""
        began = self._runtime.monotonic()
        swept = await self._store.sweep(partition, self._settings.max_finished, early=early)
        if swept:
            now = self._runtime.monotonic()
            await asyncio.sleep((PAUSE_TIMES if now < behind_at else PAUSE_TIMES_BEHIND) * (now - began))
        return swept
