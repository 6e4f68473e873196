"""Calls a task store behind Sentinels: calls go to the server that they name as the master, and to no other.

1. The Sentinels are asked at the first call, after each call that the master did not carry out, and once a second while
   there are calls or one waits. Of their answers the one with the highest configuration epoch counts: a Sentinel that was
   cut off still names the old master.
2. A connection whose server says that it is a replica is closed.
3. When another server is the master, no call goes to the old one any more, and an answer that it still gives is not believed:
   what it wrote may be forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import redis.exceptions as rx
from redis.asyncio.connection import AbstractConnection, Connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from atf.config.settings import StoreSettings
from atf.durability import Durability
from atf.errors import Unavailable

from .address import Host, StoreAddress
from .background import BackgroundTasks
from .connection import Link
from .refusals import translate
from .server_info import ServerInfo, text
from .sockets import Arg, lost

T = TypeVar("T")

ASK_S: Final = 1.0
"""Seconds that a Sentinel has to answer."""
MORE_S: Final = 0.2
"""Seconds that the others have after the first one, so that a newer word can overrule it."""
LOOK_S: Final = 1.0
"""Seconds between two looks at the Sentinels while all goes well."""
SPACED_S: Final = 0.1
"""The same while calls fail."""


class SentinelAnswer(NamedTuple):
    """A Sentinel's word."""

    epoch: int
    host: str
    port: int


class _Master(Link):
    """A server that must be a master."""

    alone = False

    async def _meet(self, connection: AbstractConnection) -> ServerInfo:
        server_info = await super()._meet(connection)
        if not server_info.master:
            await connection.disconnect(nowait=True)
            raise rx.ReadOnlyError("it is a replica now")
        return server_info


class SentinelLink(Link):
    """The link to whichever server is the master."""

    alone = False

    def __init__(self, address: StoreAddress, settings: StoreSettings) -> None:
        self.where = address.where
        self._address = address
        self._settings = settings
        self._master: Link | None = None
        self._said = SentinelAnswer(-1, "", 0)
        self._looked_at = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        self._replaced: asyncio.Future[None] | None = None
        """Done when the master is no more the master."""
        self._retired: set[Link] = set()
        self._background = BackgroundTasks()

    # --- who is the master --------------------------------------------------------------------------------------------

    async def _current(self) -> Link:
        """The master, as far as known; the Sentinels are asked where it is time to."""
        if self._master is None:
            await self._look(wait=True)
        elif asyncio.get_running_loop().time() - self._looked_at > LOOK_S:
            await self._look(wait=False)
        return self._named()

    def _named(self) -> Link:
        """The master that was named last."""
        if self._master is not None:
            return self._master
        asked = ", ".join(f"{host}:{port}" for host, port in self._address.hosts)
        raise Unavailable(
            f"no Sentinel of {self.where} has named a master of the task store. Check that the Sentinels run at {asked}, and that they know"
            f" a master of the name {self._address.master!r} (SENTINEL MASTERS); while they elect another one, call again"
        )

    async def _look(self, *, wait: bool) -> None:
        now = asyncio.get_running_loop().time()
        if self._looking is None or (self._looking.done() and (wait or now - self._looked_at > SPACED_S)):
            self._looked_at = now
            self._looking = self._background.start(self._ask_all())
        if wait:
            await asyncio.wait({self._looking})

    async def _ask_all(self) -> None:
        asked = {self._background.start(self._ask(each)) for each in self._address.hosts}
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        while asked - done and not any(each.result() for each in done):
            more, _ = await asyncio.wait(asked - done, return_when=asyncio.FIRST_COMPLETED)
            done |= more
        if asked - done:
            more, _ = await asyncio.wait(asked - done, timeout=MORE_S)
            done |= more
        words = [said for each in done if (said := each.result()) is not None]
        if words:
            # a lower epoch than was known is an old word, unless most say it: then the Sentinels have been set up anew
            await self._follow(max(words), anew=2 * len(words) > len(self._address.hosts))

    async def _ask(self, host: Host) -> SentinelAnswer | None:
        """One Sentinel's word; None where it has none."""
        options = dict(self._address.sentinel_options)
        kind = options.pop("connection_class", Connection)
        bounds = {"socket_timeout": ASK_S, "socket_connect_timeout": ASK_S, "protocol": 2, "client_name": "atf"}
        connection: AbstractConnection = kind(
            **{**options, **bounds, "host": host[0], "port": host[1], "retry": Retry(NoBackoff(), 0)}
        )
        try:
            async with asyncio.timeout(2 * ASK_S):
                await connection.connect()
                await connection.send_command("SENTINEL", "MASTER", self._address.master)
                answer = await connection.read_response() or []
            found = dict(zip(map(text, answer[::2]), map(text, answer[1::2]), strict=True))
            return SentinelAnswer(int(found["config-epoch"]), found["ip"], int(found["port"]))
        except RuntimeError as error:
            lost(error)  # raises any other
            return None
        except (rx.RedisError, OSError, ValueError, KeyError):
            return None
        finally:
            with contextlib.suppress(rx.RedisError, OSError):
                await connection.disconnect(nowait=True)

    async def _follow(self, said: SentinelAnswer, *, anew: bool) -> None:
        if said.epoch < self._said.epoch and not anew:
            return
        if (said.host, said.port) == self._said[1:]:
            self._said = said
            return
        old, self._said = self._master, said
        options = {**self._address.options, "host": said.host, "port": said.port}
        self._master = _Master.to(options, f"{said.host}:{said.port} ({self.where})", self._settings)
        if old is not None:
            if self._replaced is not None:
                self._replaced.set_result(None)
                self._replaced = None
            self._retired.add(old)
            self._background.start(self._retire(old))

    async def _retire(self, old: Link) -> None:
        """Closes what is left of a link once no call of it can be under way."""
        await old.drop_idle()
        await asyncio.sleep(2 * self._settings.store_timeout)
        self._retired.discard(old)
        await old.close()

    # --- the link's own ------------------------------------------------------------------------------------------------

    async def call(
        self,
        verb: str,
        partition_record: str,
        args: Sequence[Arg],
        *,
        server: bool = False,
        demand: Durability = Durability.RELAXED,
    ) -> Any:
        master = await self._current()
        try:
            return await self._answer(master, master.attempt(verb, partition_record, args, server, demand))
        except (rx.RedisError, OSError) as error:
            await self._failed(master, error)
            raise translate(error, master.where) from error

    async def command(self, *command: Arg, key: str = "") -> Any:
        master = await self._current()
        try:
            return await self._answer(master, master.command(*command))
        except Unavailable as error:
            await self._failed(master, error)
            raise

    async def _failed(self, master: Link, error: Exception) -> None:
        """It did not carry a call out. Perhaps it is no master any more, and the next call has another."""
        if isinstance(error, rx.ResponseError) and not isinstance(error, rx.ReadOnlyError | rx.MasterDownError):
            if not str(error).startswith(("NOREPLICAS", "UNBLOCKED")):
                return
        else:
            await master.drop_idle()
        await self._look(wait=False)

    async def _answer(self, master: Link, work: Coroutine[Any, Any, T]) -> T:
        """What the master answers, if it still is the master then.

        The Sentinels are asked while it is silent, and when another is the master nobody waits any more for one that may
        lie behind a cut.
        """
        call = self._background.start(work)
        if self._replaced is None:
            self._replaced = asyncio.get_running_loop().create_future()
        replaced = self._replaced
        either: set[asyncio.Future[Any]] = {call, replaced}
        try:
            while not call.done() and not replaced.done():
                done, _ = await asyncio.wait(either, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    await self._look(wait=False)
        finally:
            call.cancel()
        if not replaced.done():
            return call.result()
        if call.done() and not call.cancelled():
            call.exception()  # what became of it is nobody's business
        await master.drop_idle()
        raise Unavailable(
            f"the task store failed over from {master.where} while it was to answer; what it wrote may be forgotten"
        )

    async def load_library(self) -> None:
        await (await self._current()).load_library()

    async def masters(self) -> list[Link]:
        return [await self._current()]

    def link_for(self, key: str) -> Link | None:
        return self._master

    async def routes(self, channels: Sequence[str]) -> dict[Link, list[str]]:
        return {await self._current(): list(channels)}

    @property
    def client(self) -> Any:
        """A client of the master."""
        return self._named().client

    def blocking_client(self) -> Any:
        """A blocking client of the master."""
        return self._named().blocking_client()

    async def close(self) -> None:
        await self._background.end()
        for each in [*self._retired, *([self._master] if self._master else [])]:
            await each.close()
