"""Subscribes to the store's notifications, so that a role can sleep until something has happened.

A notification may come for nothing and may fail to come (a lost connection); whoever waits looks for itself now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

import redis.exceptions as rx
from redis.asyncio.connection import AbstractConnection

from atf.errors import AtfError
from atf.runtime import Runtime, end, happens
from atf.store import keys

from .connection import Link
from .sockets import lost

_RECONNECT_S: Final = 0.5
_WAIT_S: Final = 60.0
_SILENT_S: Final = 4.0
"""Seconds of silence after which a server is asked whether it is there, and after which it is given up."""


class Notifications:
    """Collects messages of some channels, for one waiter."""

    def __init__(self) -> None:
        self._messages: set[str] = set()
        self._missed = False
        self._notified = asyncio.Event()

    def notify(self, *messages: str) -> None:
        """Wakes the waiter; without a message it looks for itself."""
        self._messages.update(messages)
        self._missed = self._missed or not messages
        self._notified.set()

    async def wait(self, seconds: float) -> set[str]:
        """What was notified since the last wait; empty after `seconds` of silence, or where a notification may have been missed."""
        await happens(self._notified, seconds)
        self._notified.clear()
        # Beside a notification that may have been missed, what was heard is not all: whoever went by that would pass over the rest.
        messages = set[str]() if self._missed else self._messages
        self._messages, self._missed = set(), False
        return messages


def place_of(message: str) -> tuple[int, str]:
    """The partition and the queue that a message of `due` or `ready` names."""
    tag, _, queue = message[1:].partition("}")
    return int(tag), queue


@contextlib.asynccontextmanager
async def listen(
    link: Link, runtime: Runtime, kind: str, partitions: Sequence[int], wakeups: bool
) -> AsyncIterator[Notifications]:
    """Notifications with the messages of `kind` in any of the partitions: `due`, `ready` ("{partition}queue"), `done` (id).

    The store may send several in one, a line each.
    """
    notifications = Notifications()
    if not wakeups:
        yield notifications
        return
    channels = [keys.channel(partition, kind) for partition in partitions]
    task = runtime.spawn(_forward(link, runtime, channels, notifications), name=f"notifications {kind}")
    try:
        yield notifications
    finally:
        await end([task])


async def _forward(link: Link, runtime: Runtime, channels: list[str], notifications: Notifications) -> None:
    """Keeps one subscription per server that has some of the channels; one that ends does not disturb the others."""
    listening: dict[tuple[Link, tuple[str, ...]], asyncio.Task[None]] = {}
    try:
        while True:
            with contextlib.suppress(AtfError):
                routes = {(server, tuple(some)) for server, some in (await link.routes(channels)).items()}
                await end([listening.pop(each) for each in listening.keys() - routes])
                for server, some in routes - {each for each, task in listening.items() if not task.done()}:
                    work = _receive(link, server, list(some), notifications)
                    listening[server, some] = runtime.spawn(work, name=f"hear {server.where}")
            if listening:
                await asyncio.wait(listening.values(), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(_RECONNECT_S)
    finally:
        await end(listening.values())


async def _receive(link: Link, server: Link, channels: list[str], notifications: Notifications) -> None:
    """Passes on what one server says, until its connection fails or a channel belongs to another server."""
    connection = server.pool.make_connection()
    with contextlib.suppress(rx.RedisError, OSError):
        try:
            await connection.connect()
            for each in channels:  # one by one: on a cluster, the channels of one command must share a slot
                await connection.send_command("SSUBSCRIBE", each)
            await _notify_on(connection, link, server, channels, notifications)
        except RuntimeError as error:
            raise lost(error) from error
        finally:
            await connection.disconnect(nowait=True)


async def _notify_on(
    connection: AbstractConnection, link: Link, server: Link, channels: list[str], notifications: Notifications
) -> None:
    missing, asked = set(channels), False
    while True:
        wait = _WAIT_S if server.in_process else _SILENT_S
        answer = await connection.read_response(timeout=wait, disconnect_on_error=False)
        if answer is not None:
            asked = False
        match answer:
            case [b"smessage", channel, data]:
                notifications.notify(*(_placed(channel.decode(), each) for each in data.decode().split("\n")))
            case [b"ssubscribe", channel, _]:
                missing.discard(channel.decode())
                if not missing:
                    notifications.notify()  # whatever happened before the subscription
            case [b"sunsubscribe", *_]:
                return  # the slot has moved
            case None if server.in_process:
                pass
            case None if asked or missing or any(link.link_for(each) is not server for each in channels):
                return
            case None:
                # A half-open connection is silent for ever: nothing but a question tells it from a quiet one.
                asked = True
                await connection.send_command("PING")


def _placed(channel: str, data: str) -> str:
    """A queue's name is one within its partition, so the partition's tag goes with it; a task id names its own."""
    return data if channel.endswith(":done") else channel[channel.index("{") : channel.index("}") + 1] + data
