"""Calls a task store in a Redis Cluster: each partition's calls go to the master that serves its slot.

1. The map of slots is read from the nodes at the first call, and anew whenever a call shows that it is old.
2. MOVED: the call did nothing; it is sent once more, to the node that was named.
3. ASK, TRYAGAIN and CLUSTERDOWN mean that the partition is unavailable. They are never followed: a function must find all of
   its partition's keys in one place.
4. A node that does not answer is tried in the background until it does, and calls to it fail at once meanwhile, so that those
   for other nodes need not wait behind them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

import redis.exceptions as rx
from redis import RedisCluster
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.asyncio.connection import SSLConnection
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry as BlockingRetry

from atf.config.settings import StoreSettings
from atf.durability import Durability
from atf.errors import AtfError, Unavailable

from .address import Host, StoreAddress
from .background import BackgroundTasks
from .cluster_slots import SlotMap, read, slot_of
from .connection import Link
from .refusals import translate
from .server_info import text
from .sockets import BROKEN, Arg
from .store_tls import TlsConnection

ASK_S: Final = 1.0
"""Seconds that a node has to say which slots it knows of."""
MORE_S: Final = 0.1
"""Seconds that the others have after the first one, so that a newer word can overrule it."""
SPACED_S: Final = 0.1
"""Seconds between two readings of the map, at least."""
_REVIVE_S: Final = (0.05, 0.5)
"""Seconds between two tries of a node that does not answer: the first wait, and the longest."""


class _Node(Link):
    """One server of the cluster."""

    alone = False
    failing = False


class ClusterLink(Link):
    """The links to all masters of a cluster."""

    alone = False
    parted = True

    def __init__(self, address: StoreAddress, settings: StoreSettings) -> None:
        self.where = address.where
        self._address = address
        self._settings = settings
        self._nodes: dict[Host, _Node] = {}
        self._map: SlotMap | None = None
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self._background = BackgroundTasks()
        self._for_tools: Any = None

    # --- the map ------------------------------------------------------------------------------------------------------

    async def _known(self) -> SlotMap:
        if self._map is None:
            await self._refresh(wait=True)
        if self._map is None:
            raise Unavailable(
                f"no node of the task store at {self.where} can be reached. Check that nodes of a Redis Cluster run at the addresses given,"
                " and that CLUSTER NODES, asked of one of them, names addresses that can be reached from here"
            )
        return self._map

    async def _refresh(self, *, wait: bool) -> None:
        now = asyncio.get_running_loop().time()
        if self._reading is None or (self._reading.done() and (wait or now - self._read_at > SPACED_S)):
            self._read_at = now
            self._reading = self._background.start(self._read_map())
        if wait:
            await asyncio.wait({self._reading})

    async def _read_map(self) -> None:
        hosts = {*self._address.hosts, *(self._map.nodes if self._map else ())}
        asked = {self._background.start(self._view(each)) for each in hosts}
        views: list[tuple[Host, str]] = []
        limit: float | None = None
        while asked:
            done, asked = await asyncio.wait(asked, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            views += [view for each in done if (view := each.result()) is not None]
            if not done:
                break
            limit = MORE_S if views else None
        if views:
            found = read(
                views, hostnames=issubclass(self._address.options.get("connection_class", object), SSLConnection)
            )
            if found.all():
                self._map = found
                for host in self._nodes.keys() - found.nodes - set(self._address.hosts):
                    await self._nodes.pop(host).close()

    async def _view(self, host: Host) -> tuple[Host, str] | None:
        try:
            async with asyncio.timeout(ASK_S):
                return host, text(await self._node(host).command("CLUSTER", "NODES"))
        except (AtfError, TimeoutError):
            return None

    def _node(self, host: Host) -> _Node:
        node = self._nodes.get(host)
        if node is None:
            options = {**self._address.options, "host": host[0], "port": host[1]}
            node = self._nodes[host] = _Node.to(options, f"{host[0]}:{host[1]} ({self.where})", self._settings)
        return node

    async def _node_for(self, key: str) -> _Node:
        host = (await self._known()).of(key)
        if host is None:
            await self._refresh(wait=False)
            raise Unavailable(
                f"no node of the task store at {self.where} serves slot {slot_of(key)}. Its master is away, or it was given to none: look at"
                " CLUSTER SLOTS, and CLUSTER ADDSLOTS a slot that no master has; while a replica takes over, call again"
            )
        return self._node(host)

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
        node = await self._node_for(partition_record)
        try:
            try:
                reply = await self._try(node, verb, partition_record, args, server, demand)
            except rx.MovedError as moved:
                node = await self._moved(node, moved)
                reply = await self._try(node, verb, partition_record, args, server, demand)
        except (rx.RedisError, OSError) as error:
            if isinstance(error, rx.AskError | rx.ClusterDownError | rx.MasterDownError | rx.ReadOnlyError):
                await self._refresh(wait=False)
            raise translate(error, node.where) from error
        except Unavailable:  # not as safe as demanded: it may have no replica since it is one, and then was not asked, so never said MOVED
            await self._refresh(wait=False)
            raise
        if self.link_for(partition_record) is not node:
            raise Unavailable(
                f"{node.where} does not serve slot {slot_of(partition_record)} of the task store any more; what it"
                " answered may be forgotten"
            )
        return reply

    async def _try(
        self, node: _Node, verb: str, record: str, args: Sequence[Arg], server: bool, demand: Durability
    ) -> Any:
        if node.failing:
            raise Unavailable(f"the task store at {node.where} can't be reached")
        try:
            return await node.attempt(verb, record, args, server, demand)
        except BROKEN as error:
            await self._broke(node, error)
            raise

    async def _moved(self, asked: _Node, moved: rx.MovedError) -> _Node:
        """Takes the server's word for the slot. The call that it refused did nothing."""
        known = await self._known()
        host = (moved.host.strip("[]"), moved.port)
        if host[0] in {"", "?"}:
            host = next(each for each, node in self._nodes.items() if node is asked)[0], moved.port
        known.masters[moved.slot_id] = host
        known.nodes.add(host)
        await self._refresh(wait=False)
        return self._node(host)

    async def _broke(self, node: _Node, error: Exception) -> None:
        if isinstance(error, rx.AuthenticationError) or "No connection available" in str(error):
            return
        await node.drop_idle()
        await self._refresh(wait=False)
        if not node.failing:
            node.failing = True
            self._background.start(self._revive(node))

    async def _revive(self, node: _Node) -> None:
        """Tries a node until it answers, or is no part of the cluster any more.

        Not by `retry`: between two tries it reads the cluster's nodes anew, and no try ever has to give an answer.
        """
        pause, most = _REVIVE_S
        try:
            while node in self._nodes.values():
                with contextlib.suppress(AtfError):
                    await node.command("PING")
                    break
                await asyncio.sleep(pause)
                pause = min(pause * 2, most)
                await self._refresh(wait=False)
        finally:  # whatever ended this: as long as a node is failing it is not called
            node.failing = False

    async def command(self, *command: Arg, key: str = "") -> Any:
        if not key:
            return await (await self._any()).command(*command)
        node = await self._node_for(key)
        if node.failing:
            raise Unavailable(f"the task store at {node.where} can't be reached")
        try:
            return await node.command(*command)
        except Unavailable as error:
            if isinstance(error.__cause__, rx.MovedError):
                return await (await self._moved(node, error.__cause__)).command(*command)
            if isinstance(error.__cause__, BROKEN):
                await self._broke(node, error.__cause__)
            raise

    async def _any(self) -> _Node:
        """A master that answers, as far as known."""
        masters = [self._node(each) for each in (await self._known()).all()]
        return next((each for each in masters if not each.failing), masters[0])

    async def load_library(self) -> None:
        """Loads the function library on every master that can be reached; one that can't gets it with its first call.

        Raises:
            Unavailable: none can be reached.
        """
        answers = await asyncio.gather(*(each.load_library() for each in await self.masters()), return_exceptions=True)
        errors = [each for each in answers if isinstance(each, BaseException)]
        for each in errors:
            if not isinstance(each, Unavailable) or len(errors) == len(answers):
                raise each

    # --- where things are ---------------------------------------------------------------------------------------------

    async def masters(self) -> list[Link]:
        return [self._node(each) for each in (await self._known()).all()]

    def link_for(self, key: str) -> Link | None:
        host = self._map.of(key) if self._map is not None else None
        return self._nodes.get(host) if host is not None else None

    async def routes(self, channels: Sequence[str]) -> dict[Link, list[str]]:
        await self._refresh(wait=True)
        known = await self._known()
        found: dict[Link, list[str]] = {}
        for each in channels:
            if (host := known.of(each)) is not None:
                found.setdefault(self._node(host), []).append(each)
        return found

    def _own_options(self) -> dict[str, Any]:
        """What a client of the library takes that looks after the cluster by itself."""
        kind = self._address.options.get("connection_class")
        own = {name: value for name, value in self._address.options.items() if name not in {"connection_class", "db"}}
        return {**own, "ssl": True} if kind is TlsConnection else own

    @property
    def client(self) -> Any:
        """A client of the library's own, for tools."""
        if self._for_tools is None:
            host, port = self._address.hosts[0]
            self._for_tools = AsyncRedisCluster(host=host, port=port, **self._own_options())
        return self._for_tools

    def blocking_client(self) -> Any:
        """A blocking client of the library's own."""
        nodes = [ClusterNode(*each) for each in self._address.hosts]
        timeout = self._settings.store_timeout
        retry = BlockingRetry(NoBackoff(), 0)
        return RedisCluster(startup_nodes=nodes, socket_timeout=timeout, retry=retry, **self._own_options())

    async def close(self) -> None:
        await self._background.end()
        if self._for_tools is not None:
            await self._for_tools.aclose()
        for node in self._nodes.values():
            await node.close()
