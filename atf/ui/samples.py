"""Remembers how many tasks there were at each moment of the last hour, for the chart of the first page."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from atf.errors import AtfError
from atf.rpc import api
from atf.runtime import Runtime

from .lambda_list import every_lambda
from .reads import SharedReads
from .words import counted

EVERY_S: Final = 10.0
"""Seconds between two samples."""
MOST: Final = 360
"""Samples that are kept: an hour's."""
WORDS: Final = ("waiting", "running", "dead")
"""What is counted, in the order of a sample."""


class Samples:
    """The samples of one process, oldest first."""

    def __init__(self, frontend: api.Frontend, read: SharedReads, runtime: Runtime) -> None:
        self._frontend, self._read, self._runtime = frontend, read, runtime
        self._taken: deque[list[int]] = deque(maxlen=MOST)

    def add(self, counts: dict[str, int]) -> None:
        """Adds one, of counts by the names of statuses, unless there is one of this moment already."""
        at_s = self._runtime.wall_us() // 1_000_000
        if not self._taken or at_s - self._taken[-1][0] >= 1:
            self._taken.append([at_s, *(counted(counts, word) for word in WORDS)])

    def columns(self) -> list[list[int]]:
        """The instants in seconds, then what was counted at each, as a chart takes them."""
        return [list(column) for column in zip(*self._taken, strict=True)]

    async def take(self) -> None:
        """Counts once. While the frontend is away there is nothing to count."""
        try:
            found = await every_lambda(self._frontend, self._read)
        except AtfError:
            return
        self.add(total(each.counts for each in found))


async def keep_sampling(samples: Samples) -> None:
    """Takes a sample every ten seconds for as long as the process lives."""
    while True:
        await samples.take()
        await asyncio.sleep(EVERY_S)


def total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums of several counts."""
    sums: dict[str, int] = {}
    for each in counts:
        for name, number in each.items():
            sums[name] = sums.get(name, 0) + number
    return sums
