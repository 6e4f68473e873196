"""Says whether a write can be as safe as demanded, and waits until it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from redis.asyncio.connection import AbstractConnection

from atf.durability import Durability
from atf.errors import AtfError, FailedPrecondition, Unavailable

from .server_info import ServerInfo, server_info_of
from .sockets import Arg, send_all

WAIT_S: Final = 1.5
"""Seconds that a write may take to reach a disk or a replica. A claim is answered within two seconds, or asked for again."""


@dataclass(frozen=True)
class DurableWrites:
    """The writes to one server that have to be as safe as demanded."""

    where: str
    """The server's name for people."""
    alone: bool
    """Whether it is a server of its own, of which nobody promised that it has replicas."""
    wait: float
    """Seconds that a write may take to be as safe as demanded."""
    floor: Durability
    """What every write that demands more than nothing has to meet, too."""

    async def possible(
        self, connection: AbstractConnection, server_info: ServerInfo | None, demand: Durability
    ) -> ServerInfo:
        """Whether a write could be made as safe as demanded; asked before it is made. Returns what the server is by now.

        Raises:
            FailedPrecondition: not on this server, as it is set.
            Unavailable: not now.
        """
        if server_info is None:
            raise FailedPrecondition(
                f"durability {demand.word}: a store in memory is gone with its process; nothing was stored"
            )
        classes = self._classes(demand)
        try:
            for each in classes:
                self._check(server_info, each)
        except AtfError:  # it may have been set otherwise since it was asked, or a replica may have come
            server_info = await server_info_of(connection, anew=True)
            for each in classes:
                self._check(server_info, each)
        return server_info

    async def prove(
        self, connection: AbstractConnection, server_info: ServerInfo, demand: Durability, barrier: tuple[Arg, ...]
    ) -> None:
        """Waits until what the call before wrote is safe.

        A repeated call writes nothing by itself, and a server waits only for what came over the same connection. So one
        write more, `barrier`, goes before: what is behind it in the stream is safe when it is.

        Raises:
            Unavailable: it was written, and nobody can say whether it is safe.
        """
        waits = [(each, command) for each in self._classes(demand) for command in self._proof(server_info, each)]
        if not waits:
            return
        first, *answers = await send_all(connection, [barrier, *(command for _, command in waits)])
        if isinstance(first, Exception):
            raise self._unproven(demand, str(first))
        for (each, _), answer in zip(waits, answers, strict=True):
            if isinstance(answer, Exception):
                raise self._unproven(each, str(answer))
            if (answer[0] if isinstance(answer, list) else answer) < 1:
                raise self._unproven(each)

    def _classes(self, demand: Durability) -> tuple[Durability, ...]:
        """What has to be met: a replica's having it says nothing of the disk."""
        disk_too = demand is Durability.REPLICATED and self.floor is Durability.DISK
        return (Durability.DISK, demand) if disk_too else (demand,)

    def _check(self, server_info: ServerInfo, demand: Durability) -> None:
        if demand is Durability.DISK and not (server_info.synced or server_info.logged):
            raise FailedPrecondition(
                f"durability disk: the task store at {self.where} does not write to its disk before it answers, and can't say when it"
                " has. Mend it: CONFIG SET appendonly yes and appendfsync always, or use Redis 7.2 or newer, or Valkey, with"
                " appendonly yes. Nothing was stored"
            )
        if demand is Durability.REPLICATED and server_info.replicas == 0:
            if self.alone:
                raise FailedPrecondition(
                    f"durability replicated: the task store at {self.where} has no replica. Give it two, or ask for less. Nothing was"
                    " stored"
                )
            raise Unavailable(
                f"durability replicated: {self.where} has no replica now; nothing was stored. The call may be repeated, and succeeds when a replica"
                " follows (INFO replication)"
            )

    def _proof(self, server_info: ServerInfo, demand: Durability) -> list[tuple[Arg, ...]]:
        """The command that waits until all that was written over the same connection is as safe as demanded; [] if it is.

        It answers with how many have it: of a disk in a list, first its own.
        """
        limit = max(round(self.wait * 1000), 1)
        if demand is Durability.REPLICATED:
            return [("WAIT", 1, limit)]
        # a server that is not synced may have been set otherwise since it was asked
        return [("WAITAOF", 1, 0, limit)] if server_info.logged or not server_info.synced else []

    def _unproven(self, demand: Durability, why: str = "") -> Unavailable:
        who = "a replica" if demand is Durability.REPLICATED else "the disk"
        return Unavailable(
            f"durability {demand.word}: {self.where} did not hear from {who} within {WAIT_S:g} s{why and f' ({why})'}. The task may be"
            " stored all the same; the same request with the same id may be sent again"
        )
