"""Keeps the open calls of NextWork, and shares out among them what was found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

Lambdas = frozenset[str]


class Serves(NamedTuple):
    """What a call may be given: tasks of these lambdas that fit these signatures."""

    lambdas: Lambdas
    signatures: frozenset[str] = frozenset()  # "<lambda> <digest>"


Popped = Sequence[tuple[str, Sequence[str]]]
"""Ids by the queue they came from, most urgent first."""


_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def signed(signatures: Mapping[str, str]) -> frozenset[str]:
    """Each lambda with the digest of its signature behind a space."""
    return frozenset([f"{name} {digest}" for name, digest in signatures.items()])


def lambda_of(queue: str) -> str:
    """The lambda whose queue it is: "namespace/name:priority"."""
    return queue.rpartition(":")[0]


class Call:
    """One open NextWork. `known` is `signed` where an earlier call had it made: of thousands of lambdas it takes a while.

    Attributes:
        executor_id: who asks.
        call_stream: of the executor.
        lambdas: what it can run.
        signatures: by lambda the digest of the signature that it runs.
        serves: what it may be given now.
        room: how many tasks it takes at most.
        ids: what it was given: the queue by the id.
        answered: set once it was given something, or is to go away with nothing.
        dismissed: set once the executor has opened another call, or is dead: nobody reads the answer to this one.
    """

    def __init__(
        self,
        executor_id: str,
        call_stream: str,
        lambdas: Lambdas,
        room: int,
        *,
        signatures: Mapping[str, str] = _NONE,
        known: Lambdas | None = None,
    ) -> None:
        self.executor_id = executor_id
        self.call_stream = call_stream
        self.lambdas = lambdas
        self.signatures = signatures
        self.signed = signed(signatures) if known is None else known
        self.serves = Serves(lambdas, self.signed)
        self.room = room
        self.ids: dict[str, str] = {}
        self.answered = asyncio.Event()
        self.dismissed = asyncio.Event()

    def dismiss(self) -> None:
        """Nobody reads the answer any more: it goes away with nothing."""
        self.dismissed.set()
        self.answered.set()


class Demand:
    """The calls that wait, in the order in which they came, by what they may be given."""

    def __init__(self) -> None:
        self._calls: dict[Serves, list[Call]] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def open(self, call: Call) -> None:
        """A call waits from now on."""
        self._calls.setdefault(call.serves, []).append(call)

    def close(self, call: Call) -> None:
        """A call waits no longer, whether it was given something or not."""
        waiting = self._calls.get(call.serves, [])
        if call in waiting:
            waiting.remove(call)
            if not waiting:
                del self._calls[call.serves]

    def rearrange(self, serves: Callable[[Call], Serves]) -> bool:
        """What calls may be given has changed. Returns whether it has for any that waits."""
        changed = [
            (call, now) for calls in self._calls.values() for call in calls if (now := serves(call)) != call.serves
        ]
        for call, now in changed:
            self.close(call)
            call.serves = now
            self.open(call)
        return bool(changed)

    def waits(self, lambda_name: str) -> bool:
        """Whether some call waits for tasks of a lambda."""
        return any(lambda_name in serves.lambdas for serves in self._calls)

    def needs(self) -> list[Serves]:
        """What some call waits for."""
        return [each for each in self._calls if each.lambdas]

    def wanted(self, serves: Serves, most: int) -> int:
        """How many tasks the calls for this would take, `most` each."""
        return sum(min(call.room, most) for call in self._calls.get(serves, ()))

    def give(self, serves: Serves, found: Popped) -> list[tuple[str, list[str]]]:
        """Deals ids out one by one, so that two idle executors get half each. Returns what nobody took."""
        takers = list(self._calls.get(serves, ()))
        left: dict[str, list[str]] = {}
        turn = 0
        for queue, ids in found:
            for task_id in ids:
                if not takers:
                    left.setdefault(queue, []).append(task_id)
                    continue
                taker = takers[turn % len(takers)]
                taker.ids[task_id] = queue
                turn += 1
                if len(taker.ids) >= taker.room:
                    takers.remove(taker)
        for call in list(self._calls.get(serves, ())):
            if call.ids:
                call.answered.set()
                self.close(call)
        return list(left.items())

    def dismiss_all(self) -> None:
        """Every call that waits goes away with nothing."""
        for call in [call for calls in self._calls.values() for call in calls]:
            call.answered.set()
            self.close(call)
