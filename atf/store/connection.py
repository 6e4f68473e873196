"""One process's connections to the task store: calls of library functions, and what errors mean.

Nothing here retries a command: a popped id must not be popped twice. Whoever calls knows which verbs may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import redis.asyncio as aioredis
import redis.exceptions as rx
from redis import Redis
from redis.asyncio.connection import AbstractConnection, BlockingConnectionPool, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from atf.config import StoreSettings
from atf.errors import AtfError, ConfigError, FailedPrecondition, Internal, ResourceExhausted, Unavailable

from . import library

Arg = str | bytes | int
_REFUSALS: Final = {
    "OOM": (
        ResourceExhausted,
        "the task store is full (maxmemory); nothing was stored. Wait until tasks drain, or raise maxmemory",
    ),
    "READONLY": (Unavailable, "the task store is a read-only replica; point the roles at the primary"),
    "MISCONF": (Unavailable, "the task store refuses writes because it can't save to disk; see the server's log"),
    "LOADING": (Unavailable, "the task store is still loading its data"),
    "NOREPLICAS": (Unavailable, "the task store has too few replicas to accept writes"),
    "MASTERDOWN": (Unavailable, "the task store's primary is down"),
    "CLUSTERDOWN": (Unavailable, "the task store's cluster is down"),
    "ASK": (Unavailable, "this partition of the task store is being moved"),
    "TRYAGAIN": (Unavailable, "this partition of the task store is being moved"),
    "MOVED": (Unavailable, "this partition of the task store lies on another node"),
    "BUSY": (Unavailable, "the task store is busy with somebody's script"),
    "NOAUTH": (FailedPrecondition, "the task store wants a password; put it into the redis URL"),
    "WRONGPASS": (FailedPrecondition, "the task store refuses this user name or password"),
    "NOPERM": (FailedPrecondition, "the task store's ACL forbids this user a command or key that ATF needs"),
}


_CODES: Final = {
    rx.OutOfMemoryError: "OOM",
    rx.ReadOnlyError: "READONLY",
    rx.BusyLoadingError: "LOADING",
    rx.MasterDownError: "MASTERDOWN",
    rx.ClusterDownError: "CLUSTERDOWN",
    rx.AskError: "ASK",
    rx.MovedError: "MOVED",
    rx.TryAgainError: "TRYAGAIN",
    rx.NoPermissionError: "NOPERM",
}
"""The library gives some refusals a class and takes the code out of their text."""


def translate(error: Exception, where: str) -> AtfError:
    """The AtfError that an error of the redis library stands for."""
    text = str(error)
    code = _CODES.get(type(error), text.split(" ", 1)[0])
    if "OOM command not allowed" in text:
        code = "OOM"
    if code in _REFUSALS:
        kind, sentence = _REFUSALS[code]
        return kind(f"{sentence} ({where})")
    if isinstance(error, rx.AuthenticationError) or isinstance(error.__cause__, rx.AuthenticationError):
        return FailedPrecondition(f"the task store refuses this user: {error}; see the redis URL ({where})")
    if isinstance(error, rx.ResponseError):
        return Internal(f"the task store answered with an error: {text}")
    return Unavailable(f"the task store at {where} can't be reached: {error or type(error).__name__}")


class Link:
    """A pool of connections, and function calls over them.

    Every connection learns on its first use which server process is behind it (`server_of`): claims are told, since a
    server that restarted may have forgotten some.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        where: str,
        blocking: Callable[[], Redis],
        server: Callable[[], tuple[str, str]] | None = None,
    ) -> None:
        """Takes a pool, the server's name for people, and what makes a blocking client for the libraries that want one.

        `server` answers in the place of `server_of` where the server is a fake in this process.
        """
        self.where = where
        self.library = library.CURRENT
        self.pool = pool
        self.client = aioredis.Redis(connection_pool=pool)
        self.blocking_client = blocking
        self.in_process = server is not None
        self._server = server

    @classmethod
    def open(cls, settings: StoreSettings) -> Link:
        """A link over the network or a Unix socket. Connects on first use.

        Raises:
            ConfigError: the address of the store has no form that can be one.
        """
        url, timeout = settings.redis_url, settings.store_timeout
        try:
            pool = BlockingConnectionPool.from_url(
                url,
                max_connections=settings.store_connections,
                timeout=timeout,
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
                client_name=library.CURRENT.name,  # so that CLIENT LIST tells which libraries are in use
            )
        except ValueError as error:
            forms = "redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH"
            raise ConfigError(f"redis_url = {safe_url(url)!r}: {error}; write {forms}") from None
        return cls(pool, safe_url(url), lambda: Redis.from_url(url, socket_timeout=timeout))

    async def call(self, verb: str, partition_record: str, args: Sequence[Arg], *, server: bool = False) -> Any:
        """Calls one function of the library.

        Args:
            verb: the function's name without the library's.
            partition_record: KEYS[1].
            args: ARGV; with `server`, the first of them is followed by the server's run id and whether it forgets nothing.
            server: whether the function wants to know the server.

        Raises:
            Unavailable, ResourceExhausted, FailedPrecondition, Internal: see `translate`.
        """
        loaded = False
        while True:
            try:
                return await self._call(verb, partition_record, args, server)
            except (rx.RedisError, OSError) as error:
                if loaded or "Function not found" not in str(error):
                    raise translate(error, self.where) from error
            # the server lost its library (flushed, or another one took over); the call did nothing, so it may be repeated
            await self.load_library()
            loaded = True

    async def _call(self, verb: str, partition_record: str, args: Sequence[Arg], server: bool) -> Any:
        connection = await self.pool.get_connection()
        try:
            if server:
                identity = self._server() if self._server else await server_of(connection)
                args = [args[0], *identity, *args[1:]]
            return await self._send(connection, "FCALL", f"{self.library.name}_{verb}", 1, partition_record, *args)
        finally:
            await self.pool.release(connection)

    async def _send(self, connection: AbstractConnection, *command: Arg) -> Any:
        try:
            await connection.send_command(*command)
            return await connection.read_response()
        except rx.ResponseError:
            raise
        except BaseException:
            # given up in the middle: the answer may still come, and must not be taken for the next command's
            await connection.disconnect(nowait=True)
            raise

    async def command(self, *command: Arg) -> Any:
        """Sends one plain command.

        Raises:
            Unavailable, ResourceExhausted, FailedPrecondition, Internal: see `translate`.
        """
        try:
            connection = await self.pool.get_connection()
            try:
                return await self._send(connection, *command)
            finally:
                await self.pool.release(connection)
        except (rx.RedisError, OSError) as error:
            raise translate(error, self.where) from error

    async def load_library(self) -> None:
        """Loads the function library unless the very same one is there.

        Raises:
            FailedPrecondition: another library of this version is there.
        """
        listed = await self.command("FUNCTION", "LIST", "LIBRARYNAME", self.library.name, "WITHCODE")
        for entry in listed:
            known = dict(zip(entry[::2], entry[1::2], strict=True)) if isinstance(entry, list) else entry
            code = known.get(b"library_code") or known.get("library_code")
            if _text(code) == self.library.source:
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

    async def close(self) -> None:
        """Closes every connection."""
        await self.client.aclose()
        await self.pool.disconnect()


async def server_of(connection: AbstractConnection) -> tuple[str, str]:
    """(run id, "1" where it forgets no claim) of the server behind a connection; asked once per connection made.

    A server forgets nothing if every write is on disk before it is answered, and if it was never a replica: its primary may
    have answered what never reached it.

    A connection that breaks is made anew with a new reader, so what was learnt over the old one is not carried over.
    """
    marker = getattr(connection, "_reader", None)
    known = getattr(connection, "_atf_server", None)
    if known is not None and known[0] is marker:
        return known[1], known[2]
    await connection.send_command("INFO", "server", "replication")
    lines = _text(await connection.read_response()).splitlines()
    info = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    await connection.send_command("CONFIG", "GET", "append*")
    try:
        answer = await connection.read_response()
    except rx.ResponseError:
        answer = {}  # hosted servers hide their settings; then it may forget
    pairs = answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=True)
    config = {_text(key): _text(value) for key, value in pairs}
    synced = config.get("appendonly") == "yes" and config.get("appendfsync") == "always"
    durable = "1" if synced and info.get("second_repl_offset") == "-1" else "0"
    connection._atf_server = (getattr(connection, "_reader", None), info["run_id"], durable)  # type: ignore[attr-defined]
    return info["run_id"], durable


def safe_url(url: str) -> str:
    """A redis URL without its password."""
    scheme, slashes, rest = url.partition("://")
    return f"{scheme}{slashes}{rest.rpartition('@')[2]}"


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
