"""Keeps a process's connections to one server of the task store, and calls library functions over them.

Nothing here retries a command: a popped id must not be popped twice. Whoever calls knows which verbs may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import redis.asyncio as aioredis
import redis.exceptions as rx
from redis import Redis
from redis.asyncio.connection import AbstractConnection, BlockingConnectionPool, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from atf.config.settings import StoreSettings
from atf.durability import Durability
from atf.errors import FailedPrecondition, Internal, Unavailable
from atf.store import library

from .durable_writes import WAIT_S, DurableWrites
from .refusals import translate
from .server_info import ServerInfo, server_info_of, text
from .sockets import Arg, KeptConnections, blocking_client, lost, send


class Link:
    """A pool of connections to one server, and function calls over them.

    Every connection learns on its first use which server process is behind it (server_info.py): claims are told, since a
    server that restarted may have forgotten some.

    Attributes:
        where: the server's name for people.
        library: the function library that is called.
        server_info: what the newest connection met; None: there was none yet, or the server is a fake in this process.
    """

    blocks = False
    """Whether a call blocks its thread, so that no other one begins meanwhile."""
    in_process = False
    proves = True
    """Whether it can be asked to wait until a write is on a disk."""
    server_info: ServerInfo | None = None
    alone = True
    """Whether nobody promised that this server has replicas."""
    parted = False
    """Whether partitions lie on several servers, so that some may be away while others are not."""

    def __init__(
        self,
        pool: ConnectionPool,
        where: str,
        blocking: Callable[[], Redis],
        server: Callable[[], tuple[str, str]] | None = None,
        *,
        wait: float = WAIT_S,
        keep: int = 0,
        floor: Durability = Durability.RELAXED,
    ) -> None:
        """Takes a pool, the server's name for people, and what makes a blocking client for the libraries that want one.

        `server` answers (run id, what it remembers: see ServerInfo.memory) where the server is a fake in this process. `wait`: seconds
        that a write may take to be as safe as demanded. `keep`: connections that are kept at hand between calls. `floor`: what
        every write that demands more than nothing has to meet, too.
        """
        self.where = where
        self.library = library.CURRENT
        self.pool = pool
        self._connections = KeptConnections(pool, keep)
        self._blocking = blocking
        self.in_process = server is not None
        self.proves = not self.in_process
        self._server = server
        self._durable = DurableWrites(where, self.alone, wait, floor)

    @classmethod
    def to(
        cls, options: Mapping[str, Any], where: str, settings: StoreSettings, make: Any = BlockingConnectionPool
    ) -> Self:
        """A link over the network or a Unix socket. Connects on first use.

        Args:
            options: of a connection, its address among them.
            where: the server's name for people.
            settings: timeouts and bounds.
            make: makes the pool of its connections.
        """
        timeout = settings.store_timeout
        bounds = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "client_name": library.CURRENT.name}
        # the client's name is the library's, so that CLIENT LIST tells which libraries are in use
        pool = make(
            max_connections=settings.store_connections,
            timeout=timeout,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            **{**options, **bounds},
        )
        wait, keep = min(WAIT_S, timeout / 2), settings.store_connections - 1
        return cls(pool, where, lambda: blocking_client(options, timeout), wait=wait, keep=keep, floor=settings.floor)

    # --- calls --------------------------------------------------------------------------------------------------------

    async def call(
        self,
        verb: str,
        partition_record: str,
        args: Sequence[Arg],
        *,
        server: bool = False,
        demand: Durability = Durability.RELAXED,
    ) -> Any:
        """Calls one function of the library.

        Args:
            verb: the function's name without the library's.
            partition_record: KEYS[1].
            args: ARGV; with `server`, the first of them is followed by the server's run id and what it remembers.
            server: whether the function wants to know the server.
            demand: how safe what it wrote, or had written before, must be when this returns.

        Raises:
            Unavailable, ResourceExhausted, FailedPrecondition, Internal: see `translate` and durable_writes.py.
        """
        try:
            return await self.attempt(verb, partition_record, args, server, demand)
        except (rx.RedisError, OSError) as error:
            raise translate(error, self.where) from error

    async def attempt(self, verb: str, record: str, args: Sequence[Arg], server: bool, demand: Durability) -> Any:
        """Like `call`, with the library's own errors."""
        try:
            return await self._call(verb, record, args, server, demand)
        except rx.ResponseError as error:
            if "Function not found" not in str(error):
                raise
        # the server lost its library (flushed, or another one took over); the call did nothing, so it may be repeated
        await self.load_library()
        return await self._call(verb, record, args, server, demand)

    async def _call(self, verb: str, record: str, args: Sequence[Arg], server: bool, demand: Durability) -> Any:
        connection = await self._connections.take()
        try:
            server_info = None if self.in_process else await self._meet(connection)
            if demand > Durability.RELAXED:
                server_info = self.server_info = await self._durable.possible(connection, server_info, demand)
            if server:
                args = [args[0], *self._identity(server_info), *args[1:]]
            reply = await send(connection, *self._function(verb, record, *args))
            if server_info is not None and demand > Durability.RELAXED:
                await self._durable.prove(connection, server_info, demand, self._function("barrier", record, ""))
            return reply
        except RuntimeError as error:
            raise lost(error) from error
        finally:
            await self._connections.give(connection)

    def _function(self, verb: str, record: str, *args: Arg) -> tuple[Arg, ...]:
        return ("FCALL", f"{self.library.name}_{verb}", 1, record, *args)

    def _identity(self, server_info: ServerInfo | None) -> tuple[str, str]:
        if self._server is not None:
            return self._server()
        assert server_info is not None
        return server_info.run_id, server_info.memory(alone=self.alone)

    async def _meet(self, connection: AbstractConnection) -> ServerInfo:
        self.server_info = await server_info_of(connection)
        return self.server_info

    async def command(self, *command: Arg, key: str = "") -> Any:
        """Sends one plain command.

        Args:
            command: its words.
            key: the key that it is about; a cluster finds the node by it.

        Raises:
            Unavailable, ResourceExhausted, FailedPrecondition, Internal: see `translate`.
        """
        try:
            connection = await self._connections.take()
            try:
                return await send(connection, *command)
            except RuntimeError as error:
                raise lost(error) from error
            finally:
                await self._connections.give(connection)
        except (rx.RedisError, OSError) as error:
            raise translate(error, self.where) from error

    async def load_library(self) -> None:
        """Loads the function library unless the very same one is there.

        Raises:
            FailedPrecondition: another library of this version is there.
            Unavailable: none is there, and this user may load none.
        """
        listed = await self.command("FUNCTION", "LIST", "LIBRARYNAME", self.library.name, "WITHCODE")
        for entry in listed:
            known = dict(zip(entry[::2], entry[1::2], strict=True)) if isinstance(entry, list) else entry
            code = known.get(b"library_code") or known.get("library_code")
            if text(code) == self.library.source:
                return
            raise FailedPrecondition(
                f"the task store at {self.where} holds another function library {self.library.name} than this release's."
                f" Stop the roles that use it, then delete it: FUNCTION DELETE {self.library.name}"
            )
        try:
            await self.command("FUNCTION", "LOAD", self.library.source)
        except Internal as error:
            if "already exists" not in str(error):  # a peer was faster
                raise
        except FailedPrecondition as error:
            raise Unavailable(
                f"the task store at {self.where} does not have the functions {self.library.name} yet, and this user may not load them: start a"
                " frontend or an `atf server` of this release, whose user may"
            ) from error

    # --- where things are ---------------------------------------------------------------------------------------------

    async def masters(self) -> list[Link]:
        """Every server that takes writes."""
        return [self]

    def link_for(self, key: str) -> Link | None:
        """The server on which a key lies, as far as it is known without asking."""
        return self

    async def routes(self, channels: Sequence[str]) -> dict[Link, list[str]]:
        """On which server each channel is to be listened to.

        Raises:
            Unavailable: nobody can say.
        """
        return {self: list(channels)}

    def run_id(self, record: str) -> str:
        """The process behind the newest connection to a partition's server; "" where none is known."""
        link = self.link_for(record)
        return link.server_info.run_id if link is not None and link.server_info is not None else ""

    def met(self, record: str, demand: Durability) -> Durability:
        """The class that writes with a demand have met, once they have returned: it, or what the server does anyway."""
        link = self.link_for(record)
        synced = link is not None and link.server_info is not None and link.server_info.synced
        return max(demand, Durability.DISK if synced else Durability.RELAXED)

    @cached_property
    def client(self) -> Any:
        """A client of the redis library, for tools."""
        return aioredis.Redis(connection_pool=self.pool)

    def blocking_client(self) -> Any:
        """A blocking one, for libraries that want one. Close it."""
        return self._blocking()

    # --- ends ---------------------------------------------------------------------------------------------------------

    async def drop_idle(self) -> None:
        """Closes the connections that nobody uses now: what broke one may have broken them all."""
        await self._connections.drop_idle()

    async def close(self) -> None:
        """Closes every connection."""
        await self._connections.close()
