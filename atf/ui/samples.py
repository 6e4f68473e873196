"""Remembers how many tasks there were at each moment of the last hour, for the chart of the first page."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from atf.errors import AtfError
from atf.rpc import api
from atf.runtime import Runtime

from .reads import SharedReads, cluster_status
from .words import counted

EVERY_S: Final = 10.0
"""Seconds between two samples."""
MOST: Final = 360
"""Samples that are kept: an hour's."""
WORDS: Final = ("waiting", "running", "dead")
"""What is counted, in the order of a sample."""


class Samples:
    """The samples of one process, oldest first.

    Attributes:
        read: by which they are taken, and whatever else the pages show.
    """

    def __init__(self, frontend: api.Frontend, read: SharedReads, runtime: Runtime) -> None:
        self._frontend, self.read, self._runtime = frontend, read, runtime
        self._taken: deque[list[int]] = deque(maxlen=MOST)

    def add(self, counts: Mapping[str, int]) -> None:
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
            found = await cluster_status(self._frontend, self.read)
        except AtfError:
            return
        self.add(found.counts)


async def keep_sampling(samples: Samples) -> None:
    """Takes a sample every ten seconds for as long as the process lives."""
    while True:
        await samples.take()
        await asyncio.sleep(EVERY_S)
