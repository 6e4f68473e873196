"""Concurrent callers share calls of the store.

A call goes out at once when none is under way, and what arrives meanwhile leaves together when it has come back, or when it is late. So
an idle role adds no wait, and a busy one makes few calls. There is a lane for each partition, so that one which is away holds up no other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from itertools import islice
from typing import Final, Generic, TypeVar

from atf.errors import AtfError
from atf.runtime import Runtime
from atf.task import MAX_BATCH

from .calls import CALL_BYTES

LATE_S: Final = 0.2
"""Seconds after which nobody waits any more for the answer to a call of others: its connection may be dead."""

T = TypeVar("T")
R = TypeVar("R")

SHARED: Final = 32
"""Fewer items of a caller share a call with those of others; so many are worth one of their own, beside those that are under way."""


class Lanes(Generic[T, R]):
    """Calls of one verb.

    Args:
        call: takes a partition and some items, answers with one value for each. What it raises goes to every caller of theirs.
        size: an item's bytes.
        kind: items of one call have this in common.
        runtime: spawns the calls.
        name: of their asyncio tasks.
    """

    def __init__(
        self,
        call: Callable[[int, list[T]], Awaitable[Sequence[R]]],
        *,
        size: Callable[[T], int],
        kind: Callable[[T], Hashable] = lambda _: None,
        runtime: Runtime,
        name: str,
    ) -> None:
        self.size, self.kind = size, kind
        self._call, self._runtime, self._name = call, runtime, name
        self._lanes: dict[tuple[int, Hashable], _Lane[T, R]] = {}

    async def ask(self, partition: int, items: list[T]) -> Sequence[R]:
        """The answers to some items of a kind, in their order. What a caller asked that is cancelled before it is sent is not sent."""
        if len(items) >= SHARED:
            return await self._call(partition, items)
        key = partition, self.kind(items[0])
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(partial(self._call, partition), self.size, self._runtime, self._name)
        caller = _Caller[R](len(items))
        lane.waiting.extend((item, caller, place) for place, item in enumerate(items))
        lane.start()
        return await caller.answered


class _Caller(Generic[R]):
    """Who waits for the answers to some items, which may come of several calls."""

    __slots__ = ("_answers", "_left", "answered")

    def __init__(self, items: int) -> None:
        self.answered: asyncio.Future[list[R]] = asyncio.get_running_loop().create_future()
        self._answers: dict[int, R] = {}
        self._left = items

    @property
    def waits(self) -> bool:
        """Whether it has neither been answered nor given up."""
        return not self.answered.done()

    def answer(self, place: int, answer: R) -> None:
        self._answers[place] = answer
        self._left -= 1
        if not self._left and self.waits:
            self.answered.set_result([self._answers[each] for each in range(len(self._answers))])

    def fail(self, error: Exception) -> None:
        if self.waits:
            self.answered.set_exception(again(error) if isinstance(error, AtfError) else error)


class _Lane(Generic[T, R]):
    """One call after the other, but that none waits for one that is late."""

    def __init__(
        self, call: Callable[[list[T]], Awaitable[Sequence[R]]], size: Callable[[T], int], runtime: Runtime, name: str
    ) -> None:
        self._call, self._size, self._runtime, self._name = call, size, runtime, name
        self.waiting: deque[tuple[T, _Caller[R], int]] = deque()
        self._sender: object | None = None
        """Whose turn it is to send; None: nobody's, and nothing waits."""

    def start(self) -> None:
        """Sends what waits, unless a call that is not late will be followed by it."""
        if self.waiting and self._sender is None:
            self._sender = object()
            self._runtime.spawn(self._send_all(self._sender), name=self._name)

    async def _send_all(self, sender: object) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self.waiting and self._sender is sender:
                batch = [each for each in self._next() if each[1].waits]
                if batch:
                    late = loop.call_later(LATE_S, self._relieve, sender)
                    try:
                        await self._send(batch)
                    finally:
                        late.cancel()
        finally:
            if self._sender is sender:
                self._sender = None

    def _relieve(self, sender: object) -> None:
        if self._sender is sender:
            self._sender = None
            self.start()

    def _next(self) -> list[tuple[T, _Caller[R], int]]:
        """What the store takes in one call: none waits for the answer to more."""
        size = some = 0
        for item, _, _ in islice(self.waiting, MAX_BATCH):
            size += self._size(item)
            if some and size > CALL_BYTES:
                break
            some += 1
        return [self.waiting.popleft() for _ in range(some)]

    async def _send(self, batch: list[tuple[T, _Caller[R], int]]) -> None:
        try:
            answers = await self._call([item for item, _, _ in batch])
            for (_, caller, place), answer in zip(batch, answers, strict=True):
                caller.answer(place, answer)
        except Exception as error:  # noqa: BLE001  every caller of the batch gets it, whatever it is
            for _, caller, _ in batch:
                caller.fail(error)


def again(error: AtfError) -> AtfError:
    """The same error once more: one that is raised in several tasks would gather all their tracebacks."""
    return type(error)(str(error))
