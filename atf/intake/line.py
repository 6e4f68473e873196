"""Keeps the asks of one kind in the order in which their executors began to wait. Calls nobody, and knows no clock.

Leases count from the sending of an ask, so an old one can be given nothing: it is *stale* a second after it came. The first `near` of the line are
renewed before that: they are answered `again`, and come back with the same nonce. Their places are kept until then, so that those behind
them do not move up and are not asked for in vain. All others wait without a message.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from .asks import Ask, AskKind

LOOK_S: Final = 0.25
"""Seconds between two looks at who is to be renewed, so that those who move up together are renewed together."""
NEAR: Final = 8
"""Asks at the front of a line that are kept fresh."""
MOST_NEAR: Final = 256
"""Of them, while every call of the store brings all that it may."""
EXPECTED_S: Final = 0.5
"""Seconds for which the place of one that was answered `again` is kept."""

_Place = tuple[float, int, Ask]


class AskLine:
    """The asks of one kind.

    Attributes:
        kind: what they may be given.
        near: how many at the front are to be kept fresh.
    """

    def __init__(self, kind: AskKind) -> None:
        self.kind = kind
        self.near = NEAR if kind.lambdas else 0
        self._places: list[_Place] = []
        """All of them, and those that are expected back."""
        self._fresh: list[_Place] = []
        """Those that can be given something now: fresh, in no call, of no host that rests."""
        self._of_host: dict[str, dict[Ask, None]] = {}
        """Those among all that are open, by host."""
        self._by_age: list[tuple[float, int, Ask]] = []
        """A heap of all that are fresh, or were when they were answered, by until when."""
        self._expected: dict[str, tuple[float, Ask]] = {}
        """By nonce those that were answered `again`, and until when their places are kept."""
        self._rests: dict[str, float] = {}
        self._look_at = 0.0
        self.open = 0
        """How many asks are open."""

    def __len__(self) -> int:
        return self.open

    def add(self, ask: Ask, now: float) -> None:
        """An ask stands in the line from now on; at its old place, if it is expected."""
        if (expected := self._expected.pop(ask.nonce, None)) is not None:
            before = expected[1]
            self._leave(self._places, before)
            ask.since, ask.number = before.place
        insort(self._places, (*ask.place, ask))
        self._of_host.setdefault(ask.host, {})[ask] = None
        heappush(self._by_age, (ask.fresh_until, ask.number, ask))
        self.open += 1
        self._look_at = min(self._look_at, ask.renew_at)
        self._free(ask, now)

    def remove(self, ask: Ask) -> None:
        """An ask stands there no longer."""
        of_host = self._of_host.get(ask.host, {})
        if ask not in of_host:
            return
        del of_host[ask]
        if not of_host:
            del self._of_host[ask.host]
        self.open -= 1
        self._leave(self._fresh, ask)
        self._leave(self._places, ask)

    def renewed(self, ask: Ask, now: float) -> None:
        """An ask was answered `again`: its place is kept for a while."""
        self.remove(ask)
        insort(self._places, (*ask.place, ask))
        self._expected[ask.nonce] = now + EXPECTED_S, ask

    def taken(self, asks: Iterable[Ask], call: asyncio.Task[None]) -> None:
        """A call of the store is made for these: they are given nothing else until it has ended."""
        for ask in asks:
            ask.call = call
            self._leave(self._fresh, ask)

    def released(self, ask: Ask, now: float) -> None:
        """The call has ended, and has claimed nothing for it."""
        ask.call = None
        if ask in self._of_host.get(ask.host, ()):
            self._free(ask, now)

    # --- whose turn it is ------------------------------------------------------------------------------------------------

    def front(self) -> tuple[float, int] | None:
        """The place of who has waited longest, or is expected back there; None: the line is empty."""
        return self._places[0][:2] if self._places else None

    def first(self, now: float) -> Ask | None:
        """Who has waited longest of those that can be given something."""
        self._age(now)
        return self._fresh[0][2] if self._fresh else None

    def beside(self, ask: Ask) -> list[Ask]:
        """This one, and those of its host that can be given something with it, in the order of the line."""
        others = self._of_host[ask.host] if ask.host else {ask: None}
        return sorted((each for each in others if self._is_fresh(each)), key=lambda each: each.place)

    def of_host(self, host: str, now: float) -> Ask | None:
        """Who of a host can be given something."""
        self._age(now)
        found = [each for each in self._of_host.get(host, ()) if self._is_fresh(each)]
        return min(found, key=lambda each: each.place, default=None)

    def waiting(self, host: str) -> list[Ask]:
        """The asks of a host that are in no call."""
        return [each for each in self._of_host.get(host, ()) if each.call is None]

    def rest(self, host: str, until: float) -> None:
        """The asks of a host are given nothing until then."""
        self._rests[host] = until
        for ask in self._of_host.get(host, ()):
            self._leave(self._fresh, ask)

    # --- who is to be renewed --------------------------------------------------------------------------------------------

    def due(self, now: float) -> list[Ask]:
        """Does what its time has come for: rests end, places of those that did not come back go. Returns who is to be renewed."""
        for host in [each for each, until in self._rests.items() if until <= now]:
            del self._rests[host]
            for ask in self._of_host.get(host, ()):
                self._free(ask, now)
        if now < self._look_at and self._fresh:
            return []
        for nonce in [each for each, (until, _) in self._expected.items() if until <= now]:
            self._leave(self._places, self._expected.pop(nonce)[1])
        near = [ask for _, _, ask in self._places[: self.near] if ask.open and ask.call is None]
        renew = [ask for ask in near if ask.renew_at <= now]
        coming = [ask.renew_at for ask in near if ask.renew_at > now]
        self._look_at = max(now + LOOK_S, min(coming, default=now))
        return renew

    def hurry(self) -> None:
        """Who is to be renewed is looked at at once."""
        self._look_at = 0.0

    def due_at(self) -> float:
        """When `due` is to be called next."""
        look_at = self._look_at if self._places and self.near else math.inf
        return min(look_at, min(self._rests.values(), default=math.inf))

    # --- within ----------------------------------------------------------------------------------------------------------

    def _free(self, ask: Ask, now: float) -> None:
        fresh = ask.open and ask.call is None and ask.fresh_until > now
        if fresh and ask.host not in self._rests and not self._is_fresh(ask):
            insort(self._fresh, (*ask.place, ask))

    def _age(self, now: float) -> None:
        """Those that have become stale can be given nothing any more."""
        while self._by_age and self._by_age[0][0] <= now:
            self._leave(self._fresh, heappop(self._by_age)[2])

    def _is_fresh(self, ask: Ask) -> bool:
        at = bisect_left(self._fresh, ask.place)
        return at < len(self._fresh) and self._fresh[at][2] is ask

    @staticmethod
    def _leave(places: list[_Place], ask: Ask) -> None:
        at = bisect_left(places, ask.place)
        if at < len(places) and places[at][2] is ask:
            del places[at]
