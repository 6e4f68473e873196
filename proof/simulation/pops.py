"""Judges what a pop takes whose answer is lost: its ids are astray until they are pushed again.

That can't be helped, nor for those that are under way beside it. But whoever repeats it at once, while the trouble lasts, takes along what
the next one would have taken, too: the roles make a pause first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

AT_ONCE_US: Final = 20_000
"""The roles' first pause is longer."""


@dataclass(slots=True)
class Astray:
    """One pop.

    Attributes:
        process: who sent it, to whose store's partition.
        sent_us: when, by the observer's clock, like `failed_us`.
        taken: the ids that it took from queues, perhaps after it had failed.
    """

    process: str
    record: str
    sent_us: int
    failed_us: int = 0
    taken: list[str] = field(default_factory=list)

    def take(self, reply: Sequence[Any]) -> None:
        """It was carried out."""
        for queue, ids in zip(reply[::2], reply[1::2], strict=True):
            if queue != b"?":  # what follows are names of sets
                self.taken += [each.decode() for each in ids]


class Pops:
    """Those that failed: nobody was told what they took."""

    def __init__(self) -> None:
        self._failed: dict[tuple[str, str], list[Astray]] = {}

    def failed(self, pop: Astray, at_us: int) -> None:
        """Nobody will hear of it any more."""
        pop.failed_us = at_us
        self._failed.setdefault((pop.process, pop.record), []).append(pop)

    def judge(self) -> Iterator[str]:
        """What is wrong with them at the very end."""
        for pops in self._failed.values():
            for pop, following in combinations((each for each in pops if each.taken), 2):
                waited_us = following.sent_us - pop.failed_us
                if 0 <= waited_us < AT_ONCE_US:
                    more = f"{waited_us} µs later {', '.join(following.taken)} went the same way"
                    yield f"a pop of {pop.process} took {', '.join(pop.taken)} astray, and {more}"
