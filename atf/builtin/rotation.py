"""Chooses which of a target's addresses is tried next, and sets one that keeps failing aside for a while.

Pure logic: the clock is given, nothing waits. State is this process's own, and bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple, TypeVar

FIRST_PAUSE_S: Final = 1.0
"""Seconds that an address is set aside after a first failure; each further one doubles them."""
MOST_PAUSE_S: Final = 60.0
MOST_KEPT: Final = 1_024
"""Targets, and addresses that failed, of which something is remembered; what was used longest ago is forgotten."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _RestingAddress(NamedTuple):
    pause_s: float
    until: float


class AddressRotation:
    """The turns and the failures of addresses.

    Args:
        monotonic: seconds of a clock that never goes back.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._turns: OrderedDict[tuple[str, ...], int] = OrderedDict()
        self._aside: OrderedDict[str, _RestingAddress] = OrderedDict()

    def order(self, addresses: Sequence[str]) -> list[str]:
        """The addresses of one target to try in this run, in this order: those that are not set aside; if all are, the one
        that comes back first. Each call begins one further.
        """
        known = tuple(dict.fromkeys(addresses))
        turn = self._turns.get(known, 0) % len(known)
        if len(known) > 1:
            _keep(self._turns, known, turn + 1)
        turned = known[turn:] + known[:turn]
        now = self._monotonic()
        ready = [each for each in turned if self._until(each) <= now]
        return ready or [min(turned, key=self._until)]

    def failed(self, address: str, at_least_s: float = 0.0) -> None:
        """Sets an address aside. One that is aside already stays so for no longer: many runs may meet the same failure.

        Args:
            address: as given to `order`.
            at_least_s: seconds that it asked for itself; counts up to the longest pause.
        """
        now = self._monotonic()
        asked_s = min(at_least_s, MOST_PAUSE_S)
        before = self._aside.get(address)
        if before is not None and now < before.until:
            aside = _RestingAddress(before.pause_s, max(before.until, now + asked_s))
        else:
            pause_s = FIRST_PAUSE_S if before is None else min(before.pause_s * 2, MOST_PAUSE_S)
            aside = _RestingAddress(pause_s, now + max(pause_s, asked_s))
        _keep(self._aside, address, aside)

    def worked(self, address: str) -> None:
        """It answered: its failures are forgotten."""
        self._aside.pop(address, None)

    def _until(self, address: str) -> float:
        aside = self._aside.get(address)
        return float("-inf") if aside is None else aside.until


def _keep(kept: OrderedDict[K, V], key: K, value: V) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > MOST_KEPT:
        kept.popitem(last=False)
