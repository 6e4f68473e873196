"""Spreads callers over several servers of a role, and goes on to the next one where one is away."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from atf.errors import Unavailable

from .connection import QUICK_OPTIONS, addresses_of

C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R", bound=Message)
S = TypeVar("S", bound=Message)


def to_any(address: str, connect: Callable[[str, Sequence[tuple[str, Any]]], C], of: Callable[..., D]) -> C | D:
    """A connection to the server at `address`, or to any one of those with commas between. Of them a frozen one holds up a call for 2 s at most.

    Args:
        address: host:port, or several.
        connect: makes a channel to one of them, with these options of gRPC's.
        of: makes one of several channels.

    Raises:
        InvalidArgument: an address is none.
    """
    addresses = addresses_of(address)
    if len(addresses) == 1:
        return connect(addresses[0], ())
    return of([connect(each, QUICK_OPTIONS) for each in addresses], random.SystemRandom())


class OneOfSeveral:
    """A connection to any one of several servers of the same role.

    It begins with one by chance, so that callers spread, and keeps to it. Where that one is not reached, does not answer in time, or says that
    it can't do what was asked now, as one that ends, the next call goes to the next one. No call is repeated: calls that were under way end
    as they do.

    Args:
        channels: one to each server.
        chance: orders them.
    """

    def __init__(self, channels: Sequence[Any], chance: random.Random) -> None:
        self._channels = list(channels)
        chance.shuffle(self._channels)
        self._now = 0
        self.address: str = self._channels[0].address
        """Of the server that the next call goes to."""

    async def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:
        with self._one() as channel:
            answer: R = await channel.call(path, request, reply, timeout)
            return answer

    async def send(self, path: str, requests: AsyncIterator[S], request: type[S], reply: type[R], timeout: float) -> R:
        with self._one() as channel:
            answer: R = await channel.send(path, requests, request, reply, timeout)
            return answer

    async def receive(self, path: str, request: Message, reply: type[R], timeout: float) -> AsyncGenerator[R, None]:
        with self._one() as channel:
            async with contextlib.aclosing(channel.receive(path, request, reply, timeout)) as replies:
                async for each in replies:
                    yield each

    @contextlib.contextmanager
    def _one(self) -> Iterator[Any]:
        """The channel of the next call. Where that breaks, another one is the next."""
        number = self._now
        channel = self._channels[number]
        broke, away = channel.broke, False
        try:
            yield channel
        except Unavailable:
            away = True
            raise
        finally:
            if (away or channel.broke != broke) and self._now == number:
                self._now = (number + 1) % len(self._channels)
                self.address = self._channels[self._now].address

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()


class BlockingOneOfSeveral(OneOfSeveral):
    """The same of channels whose calls block."""

    def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:  # type: ignore[override]
        with self._one() as channel:
            answer: R = channel.call(path, request, reply, timeout)
            return answer

    def close(self) -> None:  # type: ignore[override]
        for channel in self._channels:
            channel.close()
