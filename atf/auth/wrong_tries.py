"""Keeps who shows wrong tokens from costing much: what it writes into the log, and how fast it may try again.

Nobody can guess a token. What wrong ones could do is fill the log and keep a server busy. So an address has BURST tries a minute; the answer to
each further one is held back for HOLD_S. Who shows a right token is never held back, wherever it comes from. The addresses of this machine are
not held back either: a proxy brings everybody's calls from there.
"""

from __future__ import annotations

import asyncio
from typing import Final

from atf.log import get_logger
from atf.metrics.metrics import Counter
from atf.runtime import Runtime

BURST: Final = 20
"""Wrong tries of an address in WINDOW_S that are answered at once."""
WINDOW_S: Final = 60.0
HOLD_S: Final = 1.0
MOST_HELD: Final = 256
"""Answers that are held back at the same time; further ones are given at once, so that they take no memory."""
MOST_ADDRESSES: Final = 10_000
"""That are remembered; the one that came first is forgotten for another one."""
LINES: Final = 30
"""Of the log in WINDOW_S, whatever the number of addresses."""
_OF_THIS_MACHINE: Final = ("ipv4:127.", "ipv6:[::1]", "ipv6:%5B::1%5D", "unix:")

_log = get_logger()


class WrongTries:
    """Of one process, for all its ports.

    Args:
        runtime: clocks.
        counter: of tries.
    """

    def __init__(self, runtime: Runtime, counter: Counter | None = None) -> None:
        self._runtime, self._counter = runtime, counter or Counter()
        self._tries: dict[str, tuple[int, float]] = {}
        """By address: how many in its minute, and when that began."""
        self._lines, self._lines_since = 0, float("-inf")
        self._held = 0

    async def after(self, peer: str, why: str) -> None:
        """A wrong try has come; returns when it may be answered.

        Args:
            peer: as gRPC says it: ipv4:10.0.0.1:4711. Never what a header says: whoever tries could write anything there.
            why: what was wrong with it.
        """
        address, now = peer.rpartition(":")[0] or peer, self._runtime.monotonic()
        self._counter.inc()
        tries, since = self._tries.get(address, (0, now))
        if now - since >= WINDOW_S:
            tries, since = 0, now
        if address not in self._tries and len(self._tries) >= MOST_ADDRESSES:
            del self._tries[next(iter(self._tries))]
        self._tries[address] = (tries + 1, since)
        if tries in {0, BURST}:
            self._say(address, why, now, held_back=tries == BURST)
        if tries >= BURST and self._held < MOST_HELD and not peer.startswith(_OF_THIS_MACHINE):
            self._held += 1
            try:
                await asyncio.sleep(HOLD_S)
            finally:
                self._held -= 1

    def _say(self, address: str, why: str, now: float, *, held_back: bool) -> None:
        if now - self._lines_since >= WINDOW_S:
            self._lines, self._lines_since = 0, now
        self._lines += 1
        if self._lines <= LINES:
            more = {"more_than": BURST, "within_s": WINDOW_S} if held_back else {}
            _log.warning("a caller was not let in", address=address, error=why, **more)
