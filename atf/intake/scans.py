"""Looks into partitions for what no notification told, and keeps away from those that can't give anything now.

- Each partition is *scanned* once a poll_interval while somebody waits: the store names the queues that hold something. That is the net for
  lost notifications, one call for all who wait.
- A partition of which a call has failed is *shut*: nothing is asked of it but scans, some times a second, until one is answered. So no
  ask is risked on a store that is away, and work goes on soon after it is back.
- While claims are *paused* in a partition nothing is taken from it. Whether they still are is looked up twice a second, for all at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from atf.calls.retry import Trouble
from atf.errors import AtfError, DeadlineExceeded, Unavailable
from atf.log import get_logger
from atf.runtime import Runtime, end, happens
from atf.store.claim_pause import ClaimPause
from atf.store.store import Store

PAUSED_S: Final = 0.5
"""Seconds between two looks whether claims are still paused."""
SHUT_S: Final = 0.3
"""Seconds for which a partition is left alone at most after a call of it failed."""
LONG_SHUT_S: Final = 2.0
"""The same once it has been away for LONG_S, or where a call failed in a way that waiting does not mend."""
LONG_S: Final = 180.0

_log = get_logger(duty="next_claims")


class Scans:
    """The partitions of one store.

    Args:
        store: whose.
        runtime: clocks.
        found: takes the queues of a partition that hold something.
        opened: told that something can be taken from a partition again.
    """

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        *,
        found: Callable[[int, Sequence[str]], None],
        opened: Callable[[], None],
    ) -> None:
        self.closed: set[int] = set()
        """The partitions that are shut, or where claims are paused."""
        self._store = store
        self._runtime = runtime
        self._found = found
        self._opened = opened
        self._open = [asyncio.Event() for _ in range(store.partitions)]
        self._wanted = asyncio.Event()
        self._paused: set[int] = set()
        self._pause_met = asyncio.Event()
        self._next_at = [0.0] * store.partitions
        self._sooner = [asyncio.Event() for _ in range(store.partitions)]
        self._shut_since: dict[int, float] = {}
        self._trouble = Trouble(_log, "store")
        for each in self._open:
            each.set()

    def want(self, wanted: bool) -> None:
        """Whether somebody waits: else nothing is looked for."""
        if wanted:
            self._wanted.set()
        else:
            self._wanted.clear()

    def soon(self, partition: int | None = None, at: float = 0.0) -> None:
        """A partition, or each of them, is to be scanned at that instant, or at once."""
        for each in range(self._store.partitions) if partition is None else (partition,):
            if at < self._next_at[each] and each not in self._shut_since:
                self._next_at[each] = at
                self._sooner[each].set()

    def failed(self, partition: int, error: Exception) -> None:
        """A call of a partition failed. Call inside the `except` block."""
        self._trouble.failed(partition, error)
        now = self._runtime.monotonic()
        since = self._shut_since.setdefault(partition, now)
        away = isinstance(error, Unavailable | DeadlineExceeded | TimeoutError) and now - since < LONG_S
        self._next_at[partition] = now + (SHUT_S if away else LONG_SHUT_S) * self._runtime.random.uniform(0.5, 1)
        self._sooner[partition].set()
        self._note(partition)

    def paused(self, partition: int) -> None:
        """A call of a partition found that claims are paused."""
        self._paused.add(partition)
        self._pause_met.set()
        self._note(partition)

    async def reopened(self, partition: int, seconds: float) -> bool:
        """Waits until a partition answers, at most so long. Returns whether it does."""
        return await happens(self._open[partition], seconds)

    async def run(self) -> None:
        """Looks until cancelled."""
        duties = [self._runtime.spawn(self._scan(each), name=f"scan {each}") for each in range(self._store.partitions)]
        duties.append(self._runtime.spawn(self._look_for_pauses(), name="look for pauses of claims"))
        try:
            await asyncio.gather(*duties)
        finally:
            await end(duties)

    async def _scan(self, partition: int) -> None:
        sooner = self._sooner[partition]
        while True:
            await self._wanted.wait()
            sooner.clear()
            wait = self._next_at[partition] - self._runtime.monotonic()
            if wait > 0:
                await happens(sooner, wait)
                continue
            self._next_at[partition] = self._runtime.monotonic() + self._store.settings.poll_interval
            try:
                queues = await self._store.filled_queues(partition)
            except Exception as error:  # noqa: BLE001  a duty outlives whatever fails in it; Trouble says what
                self.failed(partition, error)
                continue
            self._trouble.ended(partition)
            shut = self._shut_since.pop(partition, None) is not None
            if queues:
                self._found(partition, queues)
            if shut:
                self._note(partition)

    async def _look_for_pauses(self) -> None:
        while True:
            await self._pause_met.wait()
            await asyncio.sleep(PAUSED_S)
            try:
                found = await self._store.claim_pauses()
            except AtfError:
                continue
            over = {each for each in self._paused if not isinstance(found[each], ClaimPause | AtfError)}
            self._paused -= over
            if not self._paused:
                self._pause_met.clear()
            for each in over:
                self._note(each)

    def _note(self, partition: int) -> None:
        """Notes whether something can be taken from a partition."""
        (self._open[partition].clear if partition in self._shut_since else self._open[partition].set)()
        if partition in self._shut_since or partition in self._paused:
            self.closed.add(partition)
        elif partition in self.closed:
            self.closed.discard(partition)
            self._opened()
