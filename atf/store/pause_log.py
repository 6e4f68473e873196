"""Says in the log of a role that claims are paused, and that they are given again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from atf.errors import AtfError
from atf.log import get_logger
from atf.runtime import Runtime

from .claim_pause import ClaimPause

if TYPE_CHECKING:
    from .store import Store

LOOK_S: Final = 1.0
"""Seconds between two looks whether claims are still paused; and until the first, by when all partitions of a server have met its restart."""

_log = get_logger(duty="claims")


class PauseLog:
    """Says in the log once that claims are paused, and once that they are given again, where this process meets that.

    Nothing is looked at before a call of the store meets a pause (`Store.pause_met`); then the store is asked once a second until it is over.

    Args:
        store: whose claims.
        runtime: clocks.
    """

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._paused: set[int] = set()

    async def run(self) -> None:
        """Watches until cancelled."""
        while True:
            await self._store.pause_met.wait()
            met, said = self._runtime.monotonic(), False
            while True:
                await asyncio.sleep(LOOK_S)
                pause = await self._look()
                if not self._paused:
                    break
                if pause is not None and not said:
                    _log.warning("claims are paused", why=pause.sentence)
                    said = True
            self._store.pause_met.clear()
            if said:
                _log.info("claims are given again", paused_s=round(self._runtime.monotonic() - met, 1))

    async def _look(self) -> ClaimPause | None:
        """Notes which partitions are paused. One that can't be asked is as it was."""
        try:
            found = await self._store.claim_pauses()
        except AtfError:
            return None
        for partition, each in enumerate(found):
            if isinstance(each, ClaimPause):
                self._paused.add(partition)
            elif each is None:
                self._paused.discard(partition)
        return ClaimPause.longest_of(found)
