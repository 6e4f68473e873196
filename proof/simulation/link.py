"""How processes reach the simulated store: calls that go astray on the network, and notifications.

Stands in for atf.store.servers.connection and atf.store.servers.notifications; what the server does with a call is store.py's.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import fakeredis
import redis.exceptions as rx

from atf.durability import Durability
from atf.errors import DeadlineExceeded, Unavailable
from atf.runtime import Runtime
from atf.store.servers.connection import Link
from atf.store.servers.notifications import Notifications
from atf.store.values.explained import QueueDepth

from .calls import RQ_READS
from .loop import PROCESS, SimProcess
from .net import Net
from .store import StoreServer

T = TypeVar("T")


class SimLink(Link):
    """One process's connections to the server. Loading the library, where it has gone, is Link's own work."""

    def __init__(self, server: StoreServer, net: Net, process: SimProcess) -> None:
        self.where = "the store"
        self.library = server.library
        self.in_process = True
        self.proves = True
        self._store = server
        self._net = net
        self._process = process
        self.timeout = 5.0
        self._met = ""
        self._blocking = lambda: fakeredis.FakeRedis(server=server.fake, protocol=2)

    def run_id(self, _record: str = "") -> str:
        """Of the server that answered last."""
        return self._met

    async def _call(self, verb: str, record: str, args: Sequence[Any], server: bool, demand: Durability) -> Any:
        def perform() -> Awaitable[Any]:
            try:
                reply = self._store.execute(verb, record, args, server=server)
                if demand > Durability.RELAXED:
                    self._store.sync()
            except rx.ResponseError as error:  # it has no such function: for a caller no call that failed, yet
                return _done((error, self._store.run_id))
            return _done((reply, self._store.run_id))

        try:
            reply, self._met = await self._net.call("store", verb, perform, self.timeout)
        except DeadlineExceeded as error:
            raise Unavailable(str(error)) from error
        if isinstance(reply, rx.ResponseError):
            raise reply
        return reply

    async def command(self, *command: Any, key: str = "") -> Any:
        return await self._carry(str(command[0]), lambda: self._store.command(*command))

    async def read_by_rq(self, read: Callable[[], T]) -> T:
        """What RQ's own client reads, as one call."""
        return await self._carry(RQ_READS, read)

    async def _carry(self, name: str, perform: Callable[[], T]) -> T:
        try:
            found: T = await self._net.call("store", name, lambda: _done(perform()), self.timeout)
        except DeadlineExceeded as error:
            raise Unavailable(str(error)) from error
        return found

    async def close(self) -> None:
        """Nothing is held."""


async def queues(store: Any) -> list[QueueDepth]:
    """Stands in for atf.store.queues.QueueVerbs.queues: RQ's client waits for its answers, and here that would be for ever."""
    found: list[QueueDepth] = await store.link.read_by_rq(store.read_queues)
    return found


async def _done(value: Any) -> Any:
    return value


class SimNotifications:
    """Wake-ups: what the server publishes reaches each listener by a packet of its own, or does not."""

    def __init__(self, server: StoreServer, net: Net) -> None:
        self._net = net
        self._notifications: list[tuple[SimProcess, str, Notifications]] = []
        server.publish_to(self._publish)

    def _publish(self, channel: str, data: str) -> None:
        tag, _, kind = channel.rpartition(":notify:")
        messages = [each if kind == "done" else tag.removeprefix("atf:") + each for each in data.split("\n")]
        for process, wanted, listener in list(self._notifications):
            if wanted == kind and process.alive:
                self._net.tell("store", process, partial(listener.notify, *messages), "notification", kind)

    @contextlib.asynccontextmanager
    async def listen(
        self, _link: Link, _runtime: Runtime, kind: str, _partitions: Sequence[int], wakeups: bool
    ) -> AsyncIterator[Notifications]:
        """Stands in for atf.store.servers.notifications.listen."""
        listener, process = Notifications(), PROCESS.get()
        assert process is not None
        entry = (process, kind, listener)
        if wakeups:
            self._notifications.append(entry)
            listener.notify()
        try:
            yield listener
        finally:
            if entry in self._notifications:
                self._notifications.remove(entry)

    def died(self, process: SimProcess) -> None:
        """Forgets a process."""
        self._notifications = [entry for entry in self._notifications if entry[0] is not process]

    def broken(self) -> None:
        """The server has gone: everybody subscribes anew some time later, and looks for itself."""
        for process, _, listener in self._notifications:
            self._net.tell("store", process, listener.notify, "notification", "again")
