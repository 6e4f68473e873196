"""Calls that many share: what is asked for while a call is under way leaves together in the next one.

Nothing waits for a timer: a call goes out at once when none is under way. So an idle process adds no wait, and a busy one makes few calls.

    CallLimits        what one call holds, and how many are under way
    Pending           what waits, cut into calls
    Coalescer         on an event loop: each caller gets the answers to its own items
    KeyedCoalescer    one Coalescer for each key, such as a partition

For threads there is atf/client/thread_coalescing.py, of the same parts.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final, Generic, TypeAlias, TypeVar

from atf.errors import AtfError, DeadlineExceeded
from atf.runtime import Runtime, end
from atf.task import MAX_BATCH

_SLACK_S: Final = 0.5
"""Seconds by which a caller may be kept waiting beyond its time, by company that has more."""


@dataclass(frozen=True)
class CallLimits:
    """What one call holds, and how many are under way."""

    size: int
    """Bytes of the items of one call; a larger item has a call of its own."""
    items: int = MAX_BATCH
    calls: int = 1
    """Under way at once; more than one only while a whole call's worth waits."""
    late_s: float = math.inf
    """Seconds after which nobody waits any more for the answer to a call of others: its connection may be dead."""


E = TypeVar("E")
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
R = TypeVar("R")


class Pending(Generic[E]):
    """What waits, in the order in which it came."""

    def __init__(self, limits: CallLimits) -> None:
        self._limits = limits
        self._entries: deque[E] = deque()
        self._sizes: deque[int] = deque()
        self._size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: E, size: int) -> None:
        self._entries.append(entry)
        self._sizes.append(size)
        self._size += size

    def extend(self, entries: Sequence[E], sizes: Sequence[int]) -> None:
        self._entries.extend(entries)
        self._sizes.extend(sizes)
        self._size += sum(sizes)

    def remove(self, entry: E) -> None:
        """Takes one out that is not to be sent."""
        if entry in self._entries:
            place = self._entries.index(entry)
            self._size -= self._sizes[place]
            del self._entries[place], self._sizes[place]

    @property
    def first(self) -> E | None:
        """What has waited longest."""
        return self._entries[0] if self._entries else None

    @property
    def full(self) -> bool:
        """Whether a whole call's worth waits."""
        return len(self._entries) >= self._limits.items or self._size >= self._limits.size

    def take(self) -> list[E]:
        """Takes out the first ones, as many as one call holds."""
        entries, sizes, limits = self._entries, self._sizes, self._limits
        if len(entries) <= limits.items and self._size <= limits.size:
            batch = list(entries)
            entries.clear()
            sizes.clear()
            self._size = 0
            return batch
        count, size = 0, 0
        for each in islice(sizes, limits.items):
            if count and size + each > limits.size:
                break
            count, size = count + 1, size + each
        self._size -= size
        for _ in range(count):
            sizes.popleft()
        return [entries.popleft() for _ in range(count)]


class _Caller:
    """Who waits for answers."""

    __slots__ = ("answered", "until")

    def __init__(self, until: float) -> None:
        self.answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.until = until

    def answer(self, _place: int, answer: Any) -> None:
        """Takes the answer to the only item; one that is an error is raised."""
        if self.answered.done():
            return
        if isinstance(answer, AtfError):
            self.answered.set_exception(answer)
        else:
            self.answered.set_result(answer)

    def fail(self, error: BaseException) -> None:
        if self.answered.done():
            return
        if isinstance(error, Exception):
            self.answered.set_exception(again(error) if isinstance(error, AtfError) else error)
        else:
            self.answered.cancel()


class _CallerOfMany(_Caller):
    """Who waits for the answers to some items, which may come of several calls. One that is an error is an answer."""

    __slots__ = ("_answers", "_left")

    def __init__(self, items: int, until: float) -> None:
        super().__init__(until)
        self._answers: list[Any] = [None] * items
        self._left = items

    def answer(self, place: int, answer: Any) -> None:
        self._answers[place] = answer
        self._left -= 1
        if not self._left and not self.answered.done():
            self.answered.set_result(self._answers)


_Entry: TypeAlias = tuple[T, _Caller | None, int]
"""An item that waits, who waits for its answer, and the place of the answer among the caller's."""


class Coalescer(Generic[T, R]):
    """Gathers items into calls.

    Args:
        call: takes items, and the instant by which it is to end, on the monotonic clock; answers with one value for each. What it raises goes to every
            caller of theirs.
        size: an item's bytes.
        limits: of the calls.
        runtime: spawns the calls.
        name: of their asyncio tasks.
        free: of the calls of several coalescers, how many more may be under way.
    """

    def __init__(
        self,
        call: Callable[[list[T], float], Awaitable[Sequence[R]]],
        *,
        size: Callable[[T], int],
        limits: CallLimits,
        runtime: Runtime,
        name: str,
        free: asyncio.Semaphore | None = None,
    ) -> None:
        self._call, self._size, self._limits = call, size, limits
        self._runtime, self._name, self._free = runtime, name, free
        self._pending: Pending[_Entry[T]] = Pending(limits)
        self._under_way: list[list[_Entry[T]]] = []
        self._senders: set[asyncio.Task[None]] = set()
        self._late: set[asyncio.Task[None]] = set()
        """Senders whose call nobody waits for any more, but those who asked in it."""

    async def ask(self, items: Sequence[T], until: float = math.inf) -> list[R]:
        """The answers to some items, in their order.

        What a caller asked for that gives up before it is sent is not sent; what others asked for is.

        Args:
            items: of one caller.
            until: when its time is over, on the monotonic clock. No timer of its own watches over it, unless it has less than its company: a call ends
                by the time of those in it, and nobody waits for more than the calls under way before the own one.
        """
        if not items:
            return []
        caller = _CallerOfMany(len(items), until)
        for place, item in enumerate(items):
            self._pending.add((item, caller, place), self._size(item))
        self._start()
        answers: list[R] = await caller.answered
        return answers

    def ask_one(self, item: T, until: float = math.inf) -> asyncio.Future[Any]:
        """The answer to one item. One that is an AtfError is raised."""
        caller = _Caller(until)
        self._pending.add((item, caller, 0), self._size(item))
        self._start()
        return caller.answered

    def add(self, items: Sequence[T]) -> None:
        """Sends items to whose answers nobody waits: `call` deals with these, and with what fails."""
        self._pending.extend([(item, None, 0) for item in items], list(map(self._size, items)))
        self._start()

    def oldest(self) -> T | None:
        """Of the items that are not answered, the one that came first."""
        first = self._under_way[0][0] if self._under_way else self._pending.first
        return None if first is None else first[0]

    async def idle(self) -> None:
        """Waits until no call is under way."""
        while left := self._senders | self._late:
            await asyncio.wait(left)

    async def close(self) -> None:
        """Gives up what is under way or waits, and cancels its callers."""
        self._drop()
        await end(self._senders | self._late)

    def _drop(self) -> None:
        while entries := self._pending.take():
            for _, caller, _ in entries:
                if caller is not None:
                    caller.fail(asyncio.CancelledError())

    def _start(self) -> None:
        while self._goes_on(len(self._senders)):
            self._senders.add(self._runtime.spawn(self._send(), name=self._name))

    def _goes_on(self, others: int) -> bool:
        """Whether one more call is to leave beside so many."""
        return len(self._pending) > 0 and (others == 0 or (others < self._limits.calls and self._pending.full))

    async def _send(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        try:
            while True:
                if self._free is None:
                    await self._send_next(me)
                else:
                    async with self._free:
                        await self._send_next(me)
                if me in self._late or not self._goes_on(len(self._senders) - 1):
                    return
                await asyncio.sleep(0)  # who was answered just now may have more, which leaves with the next call
        except asyncio.CancelledError:  # the loop ends, or `close` was called
            self._drop()
            raise
        finally:
            self._senders.discard(me)
            self._late.discard(me)
            self._start()  # of use only if a bug ended this

    async def _send_next(self, me: asyncio.Task[None]) -> None:
        batch = self._pending.take()
        callers = {caller: caller is None or not caller.answered.done() for _, caller, _ in batch}  # in their order
        if not all(callers.values()):  # some have given up
            batch = [each for each in batch if callers[each[1]]]
        if not batch:
            return
        nobody = None in callers
        heard = [each for each, waits in callers.items() if each is not None and waits]
        until = math.inf if nobody else max([each.until for each in heard])
        timers = self._timers(me, heard, until)
        self._under_way.append(batch)
        try:
            answers = await self._call([item for item, _, _ in batch], until)
            if heard:
                for (_, caller, place), answer in zip(batch, answers, strict=True):
                    if caller is not None:
                        caller.answer(place, answer)
        except BaseException as error:
            for each in heard:
                each.fail(error)
            if nobody or not isinstance(error, Exception):
                raise
        finally:
            self._under_way.remove(batch)
            for timer in timers:
                timer.cancel()

    def _timers(self, me: asyncio.Task[None], heard: list[_Caller], until: float) -> list[asyncio.TimerHandle]:
        call_later, timers = asyncio.get_running_loop().call_later, []
        if self._limits.late_s < math.inf:
            timers.append(call_later(self._limits.late_s, self._relieve, me))
        for each in heard:
            # Callers of a kind have the same time; only what is repeated has less left than its company.
            if each.until < until - _SLACK_S:
                error = DeadlineExceeded(f"{self._name}: no answer in time")
                timers.append(call_later(each.until - self._runtime.monotonic(), each.fail, error))
        return timers

    def _relieve(self, sender: asyncio.Task[None]) -> None:
        if sender in self._senders:
            self._senders.discard(sender)
            self._late.add(sender)
            self._start()


class KeyedCoalescer(Generic[K, T, R]):
    """A coalescer for each key, so that calls of one key, such as a partition that is away, hold up no other.

    Args:
        call: takes a key and some items of it; as of Coalescer.
        size, limits, runtime, name: as of Coalescer.
        calls: of all keys that are under way at once; None: as many as there are keys.
    """

    def __init__(
        self,
        call: Callable[[K, list[T], float], Awaitable[Sequence[R]]],
        *,
        size: Callable[[T], int],
        limits: CallLimits,
        runtime: Runtime,
        name: str,
        calls: int | None = None,
    ) -> None:
        self._call = call
        self._made: dict[K, Coalescer[T, R]] = {}
        free = None if calls is None else asyncio.Semaphore(calls)
        self._make = partial(Coalescer[T, R], size=size, limits=limits, runtime=runtime, name=name, free=free)

    def of(self, key: K) -> Coalescer[T, R]:
        """The coalescer of one key."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._make(partial(self._call, key))
        return found

    def all(self) -> list[Coalescer[T, R]]:
        """Those of every key so far."""
        return list(self._made.values())


def again(error: AtfError) -> AtfError:
    """The same error once more: one that is raised in several tasks would gather all their tracebacks."""
    return copy(error)
