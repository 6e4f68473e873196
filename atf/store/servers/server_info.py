"""What a connection knows of the server behind it.

Asked when a connection is made, and now and then: it decides whether claims must pause after a restart, and which durability can be had.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import redis.exceptions as rx
from redis.asyncio.connection import AbstractConnection

FRESH_S: Final = 30.0
"""Seconds for which a connection's server_info are taken to hold; its server may be set otherwise at any time."""
_WAITAOF: Final = (7, 2)
"""The first version that can wait for its own disk."""


@dataclass(frozen=True)
class ServerInfo:
    """One server, as one connection met it."""

    run_id: str
    """Names this life of the server's process."""
    synced: bool
    """Whether every write is on its disk before it is answered."""
    logged: bool
    """Whether it keeps an append-only file, and can say when a write is in it."""
    flushed: bool
    """Whether it brings what it writes there onto the disk by itself, within a second or so."""
    promoted: bool
    """Whether it was a replica before: its primary may have answered what never reached it."""
    master: bool
    """Whether it takes writes."""
    replicas: int
    """Connected to it."""

    @property
    def durable(self) -> bool:
        """Whether it forgets no claim that was answered."""
        return self.synced and not self.promoted

    def memory(self, *, alone: bool) -> str:
        """What it has after a restart, as the store's functions are told: all that it answered ("1"), a prefix of it ("p"), or nobody knows ("0").

        Of several servers another one may go on, without what had not reached it.
        """
        if self.durable:
            return "1"
        return "p" if alone and self.logged and self.flushed and not self.promoted else "0"


async def server_info_of(connection: AbstractConnection, *, anew: bool = False) -> ServerInfo:
    """What is behind a connection.

    Args:
        connection: an open one. If it breaks, it is made anew with a new reader, and what was learnt over the old one is
            not carried over.
        anew: ask again, though it is known.

    Raises:
        BusyLoadingError: the server loads its data, and takes no calls.
    """
    marker, now = getattr(connection, "_reader", None), asyncio.get_running_loop().time()
    known = getattr(connection, "_atf_server_info", None)
    if known is not None and known[0] is marker and now < known[2] and not anew:
        found: ServerInfo = known[1]
        return found
    await connection.send_command("INFO", "server", "replication", "persistence")
    lines = text(await connection.read_response()).splitlines()
    info = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if (
        info.get("loading") == "1"
    ):  # it says that it keeps no append-only file, and may have loaded everything by the next command
        raise rx.BusyLoadingError("LOADING it is loading its data")
    await connection.send_command("CONFIG", "GET", "append*")
    try:
        answer = await connection.read_response() or {}
    except rx.ResponseError:
        answer = {}  # hosted servers hide their settings; then it may forget
    pairs = answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=True)
    config = {text(key): text(value) for key, value in pairs}
    version = tuple(int(part) for part in info.get("redis_version", "0").split(".")[:2])
    server_info = ServerInfo(
        run_id=info["run_id"],
        synced=config.get("appendonly") == "yes" and config.get("appendfsync") == "always",
        logged=info.get("aof_enabled") == "1" and version >= _WAITAOF,
        flushed=config.get("appendonly") == "yes" and config.get("appendfsync") in {"always", "everysec"},
        promoted=info.get("second_repl_offset") != "-1",
        master=info.get("role") == "master",
        replicas=int(info.get("connected_slaves", 0)),
    )
    connection._atf_server_info = (getattr(connection, "_reader", None), server_info, now + FRESH_S)  # type: ignore[attr-defined]
    return server_info


def text(value: object) -> str:
    """A reply's text."""
    return value.decode() if isinstance(value, bytes) else str(value)
