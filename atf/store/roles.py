"""Which processes of roles are alive, and what one of them has said for all: warnings of a store are worth one line a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from atf.task import US

from .partitions import Partitions

_REGISTRY_PARTITION: Final = 0
_MOST: Final = 4_096
"""Processes that are listed."""


class LiveRole(NamedTuple):
    """A process of a role that is alive; executors are their controllers' matter."""

    role: str
    version: str  # of ATF
    name: str  # host:pid


class RoleVerbs(Partitions):
    """The verbs of Store about processes of roles."""

    async def announce(self, process: LiveRole, seconds: float, warnings: Sequence[str] = ()) -> list[bool]:
        """Notes that a process lives.

        Args:
            process: it; no part has a blank.
            seconds: how long it counts as alive.
            warnings: what it sees that is wrong, by names that are the same in each process.

        Returns:
            of each warning whether it is new: nobody who is alive has said it.
        """
        reply = await self._call("announce", _REGISTRY_PARTITION, [" ".join(process), round(seconds * US), *warnings])
        return [new == 1 for new in reply]

    async def live_roles(self) -> list[LiveRole]:
        """The processes that are alive, by role."""
        found = [each.decode().split(" ", 2) for each in await self._call("live_roles", _REGISTRY_PARTITION, [_MOST])]
        return sorted(LiveRole(*each) for each in found)
