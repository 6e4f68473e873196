"""Task stores on TCP for questions about their number: one server, or the masters of a Redis Cluster, all on loopback.

They are set as the embedded store is, and are the same program: what differs between them is how many there are.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, NamedTuple

from atf.embedded import find_binary
from tests.store.modes import Nodes, TcpServer

RELAXED: Final = (
    ("appendonly", "yes"),
    ("appendfsync", "everysec"),
    ("auto-aof-rewrite-min-size", "16mb"),
    ("maxmemory-policy", "noeviction"),
)
"""As `atf up --durability relaxed` sets its own."""


class Said(NamedTuple):
    """Bytes that servers have received and sent since they were started, and that their data take now."""

    received: int
    sent: int
    used: int


class LoopbackStore:
    """One server, or a cluster of three masters without replicas, on TCP.

    Args:
        folder: for their files; it is made.
        cluster: whether it is the cluster.
    """

    def __init__(self, folder: Path, *, cluster: bool) -> None:
        folder.mkdir()
        binary = str(find_binary().path)
        self._nodes = Nodes(binary, folder, replicas=False, settings=RELAXED) if cluster else None
        self._servers = self._nodes.servers if self._nodes else [TcpServer(binary, folder, RELAXED)]

    @property
    def url(self) -> str:
        return self._nodes.url if self._nodes else f"redis://{self._servers[0].address}/0"

    @property
    def pids(self) -> list[int]:
        """Of the masters, in the order of their slots."""
        return [each.pid for each in self._servers]

    async def said(self) -> Said:
        """What all servers together say now."""
        found = [await asyncio.to_thread(_said, each) for each in self._servers]
        return Said(*map(sum, zip(*found, strict=True)))

    async def start(self) -> None:
        """Returns when all slots are served."""
        await asyncio.to_thread(self._nodes.start if self._nodes else self._servers[0].start)

    async def stop(self, _grace: float) -> None:
        """Ends them at once: nobody reads their data again."""
        for each in self._servers:
            each.kill()


def _said(server: TcpServer) -> Said:
    stats, memory = server.info("stats"), server.info("memory")
    data = memory["used_memory"] - memory["mem_clients_normal"] - memory["mem_aof_buffer"]
    return Said(stats["total_net_input_bytes"], stats["total_net_output_bytes"], data)
