"""Judges how fast tasks of the lambda with a rate go to its queues, over all partitions: never more than its burst in a second, and over any
t seconds no more than burst + rate × t.

Pushes are counted where they arrive, by how much longer a pass of a store consumer leaves the queues: so what is pushed again counts, too. The clock is the
observer's, and the store's where that is set forward: to the bucket, that much time has passed. What the store pushed and has forgotten
does not count from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from atf.task import US

from .lambdas import limited, steps_of

_SPEC: Final = limited.spec()
RATE: Final = int(_SPEC.rate)
BURST: Final = -(-RATE * 5 // 4)
"""As documented where a lambda declares none: a quarter more than the rate, rounded up."""


class Rates:
    """The pushes of a seed, if its lambda has a rate.

    Attributes:
        wrong: what was found.
    """

    def __init__(self, seed: int) -> None:
        self.wrong: list[str] = []
        self._judged = steps_of(seed) is limited
        self._queues = f"}}{limited.name}:".encode()
        self._pushes: list[tuple[int, int]] = []  # the loop's clock, what the store's was set forward until then
        self._offset_us, self._forward_us = 0, 0

    def look(self, offset_us: int) -> None:
        """The store's clock stands so far from the loop's now."""
        self._forward_us += max(offset_us - self._offset_us, 0)
        self._offset_us = offset_us

    def standing(self, data: Mapping[bytes, Any]) -> int:
        """Entries of the lambda's queues."""
        if not self._judged:
            return 0
        return sum(
            len(item.value) for key, item in data.items() if key.startswith(b"rq:queue:") and self._queues in key
        )

    def pushed(self, count: int, at_us: int) -> None:
        """So many more stand there after a pass: they must not end a crowd."""
        if not count:
            return
        self._pushes += [(at_us, self._forward_us)] * count
        for number, (since_us, forward_us) in enumerate(self._pushes):
            crowd, passed_us = len(self._pushes) - number, at_us - since_us + self._forward_us - forward_us
            most = BURST if passed_us < US else BURST + RATE * passed_us / US
            if crowd > most:
                text = f"{crowd} were pushed from {since_us / US:.6f} s to {at_us / US:.6f} s, {most:g} may be"
                self.wrong.append(text)
                return

    def forgot(self, since_us: int) -> None:
        """The store has forgotten what it did since then: it can't count what it pushed."""
        self._pushes = [each for each in self._pushes if each[0] < since_us]
