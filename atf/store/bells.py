"""Wake-ups: how a role sleeps until the store says that something has happened.

A bell may ring for nothing and may fail to ring (a lost connection); whoever waits looks for itself now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import redis.exceptions as rx

from atf.runtime import Runtime, end, happens

from . import keys
from .connection import Link

_RECONNECT_S = 0.5
_WAIT_S = 60.0


class Bell:
    """Collects messages of some channels, for one waiter."""

    def __init__(self) -> None:
        self._messages: set[str] = set()
        self._rung = asyncio.Event()

    def ring(self, *messages: str) -> None:
        """Wakes the waiter; without a message it only looks for itself."""
        self._messages.update(messages)
        self._rung.set()

    async def wait(self, seconds: float) -> set[str]:
        """What was rung since the last wait; empty after `seconds` of silence, or where a ring may have been missed."""
        await happens(self._rung, seconds)
        self._rung.clear()
        messages, self._messages = self._messages, set()
        return messages


def where(message: str) -> tuple[int, str]:
    """The partition and the queue that a message of `due` or `ready` names."""
    tag, _, queue = message[1:].partition("}")
    return int(tag), queue


@contextlib.asynccontextmanager
async def listen(
    link: Link, runtime: Runtime, kind: str, partitions: Sequence[int], wakeups: bool
) -> AsyncIterator[Bell]:
    """A bell that rings with the messages of `kind` in any of the partitions: `due`, `ready` ("{partition}queue"), `done` (id)."""
    bell = Bell()
    if not wakeups:
        yield bell
        return
    channels = [keys.bell(partition, kind) for partition in partitions]
    task = runtime.spawn(_forward(link, channels, bell), name=f"bell {kind}")
    try:
        yield bell
    finally:
        await end([task])


async def _forward(link: Link, channels: list[str], bell: Bell) -> None:
    while True:
        pubsub = link.client.pubsub(ignore_subscribe_messages=True)
        try:
            await pubsub.subscribe(*channels)
            bell.ring()  # whatever happened before the subscription
            while True:
                message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=_WAIT_S)
                if message is not None:
                    bell.ring(_placed(message["channel"].decode(), message["data"].decode()))
        except (rx.RedisError, OSError):
            await asyncio.sleep(_RECONNECT_S)
        finally:
            with contextlib.suppress(rx.RedisError, OSError):
                await pubsub.aclose()


def _placed(channel: str, data: str) -> str:
    """A queue's name is one within its partition, so the partition's tag goes with it; a task id names its own."""
    return data if channel.endswith(":done") else channel[channel.index("{") : channel.index("}") + 1] + data
