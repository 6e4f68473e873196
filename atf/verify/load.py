"""Plans the load by a seed, and schedules its tasks at a steady rate."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from atf.client import AsyncClient
from atf.errors import AtfError, DeadlineExceeded, ResourceExhausted, Unavailable
from atf.sdk.schedulable import Prepared, named
from atf.task import DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_LOSSES, US

from .events import Accepted, Called, Event
from .record import key_of, now_us, wall_us

_TICK_S: Final = 0.02
"""Seconds between two batches of the stream."""
_AT_ONCE: Final = 400
"""Batches under way at most: while nobody answers they pile up."""
_AGAIN_S: Final = 0.2


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the stream is like."""

    rate: float = 500.0
    """Tasks scheduled in a second."""
    short_s: float = 0.03
    """Seconds that nearly all tasks take at most."""
    long_s: float = 1.0
    """Seconds that the others take at most."""
    long_share: float = 0.02
    delayed_share: float = 0.05
    delay_s: float = 2.0
    """Seconds from its schedule that a delayed task is due at most."""
    failing_share: float = 0.02
    """Tasks whose first attempt, or first two, fail."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of every call of schedule, such as durability."""


class PlannedTask(NamedTuple):
    """One task to be. Times in seconds."""

    key: str
    seconds: float
    delay: float
    fails: int
    aio: bool
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    max_losses: int = DEFAULT_MAX_LOSSES


def planned(load: Load, seed: int, prefix: str) -> Iterator[PlannedTask]:
    """Endlessly many tasks, the same ones for a seed."""
    chance = random.Random(f"load {seed}")
    for number in itertools.count():
        long, delayed, failing = (
            chance.random() < share for share in (load.long_share, load.delayed_share, load.failing_share)
        )
        yield PlannedTask(
            key=f"{prefix}-{number}",
            seconds=round(chance.uniform(0.3, 1) * load.long_s if long else chance.random() * load.short_s, 4),
            delay=round(chance.uniform(0.1, 1) * load.delay_s, 3) if delayed else 0.0,
            fails=chance.choice((1, 1, 2)) if failing else 0,
            aio=chance.random() < 0.5,
            max_attempts=load.options.get("max_attempts", DEFAULT_MAX_ATTEMPTS),
            max_losses=load.options.get("max_losses", DEFAULT_MAX_LOSSES),
        )


class Stream:
    """Schedules tasks at the load's rate, whatever becomes of them, and each until it is accepted.

    Args:
        client: of the frontend.
        namespace: of the lambdas.
        load: the rate, and the options of every call.
        tasks: those to be.
        slack_us: µs by which the store's clock and ours may run apart while a task is delayed.

    Attributes:
        called: the tasks by key, with the instant of the first call (µs, CLOCK_MONOTONIC).
        accepted: the stored ids by key.
        plans: what was asked for, by key.
        refused: calls that failed, by kind; each was repeated.
        events: for the judge.
    """

    def __init__(
        self, client: AsyncClient, namespace: str, load: Load, tasks: Iterator[PlannedTask], *, slack_us: int = 0
    ) -> None:
        self.called: dict[str, int] = {}
        self.accepted: dict[str, str] = {}
        self.plans: dict[str, PlannedTask] = {}
        self.refused: Counter[str] = Counter()
        self.events: list[Event] = []
        self._client, self._namespace, self.load, self._tasks = client, namespace, load, tasks
        self._batches: set[asyncio.Task[None]] = set()
        self._slack_us = slack_us
        self._began_us = 0
        self._failure: BaseException | None = None

    @property
    def per_second(self) -> float:
        """Tasks that `run` has scheduled in a second."""
        mine = [at_us for at_us in self.called.values() if at_us >= self._began_us]
        return (len(mine) - 1) * US / (mine[-1] - mine[0]) if self._began_us and mine and mine[-1] > mine[0] else 0.0

    async def run(self) -> None:
        """Schedules until cancelled. What is on its way then goes on; see `wait_accepted`."""
        loop = asyncio.get_running_loop()
        began, sent, self._began_us = loop.time(), 0, now_us()
        while True:
            await asyncio.sleep(_TICK_S)
            if len(self._batches) >= _AT_ONCE:
                continue
            count = int((loop.time() - began) * self.load.rate) - sent
            if count > self.load.rate:  # it was kept waiting for long, and does not make up for that
                sent, count = sent + count - 1, 1
            if count > 0:
                sent += count
                self.send(count)

    @property
    def waiting(self) -> int:
        """Batches that are not accepted yet."""
        return len(self._batches)

    def send(self, count: int) -> None:
        """Schedules so many tasks more."""
        batch = list(itertools.islice(self._tasks, count))
        task = asyncio.create_task(self._schedule(batch))
        self._batches.add(task)
        task.add_done_callback(self._done)

    async def wait_accepted(self, within: float) -> None:
        """Waits until all are accepted; gives up those that are not after `within` seconds: they may be stored or not.

        Raises:
            AtfError: a call was refused in a way that calling again does not mend.
        """
        if self._batches:
            await asyncio.wait(self._batches, timeout=within)
        for each in self._batches:
            each.cancel()
        if self._batches:
            await asyncio.wait(self._batches)
        if self._failure is not None:
            raise self._failure

    def _done(self, task: asyncio.Task[None]) -> None:
        self._batches.discard(task)
        if not task.cancelled() and self._failure is None:
            self._failure = task.exception()

    async def _schedule(self, batch: Sequence[PlannedTask]) -> None:
        wall, now = wall_us(), now_us()
        for each in batch:
            self.called[each.key], self.plans[each.key] = now, each
            self.events.append(Called(now, each.key))
        prepared = [self._prepare(each) for each in batch]
        while True:
            try:
                handles = await self._client.schedule_many(prepared)  # again: only what is missing is stored
            except (Unavailable, DeadlineExceeded, ResourceExhausted) as error:
                self.refused[type(error).__name__] += 1
                await asyncio.sleep(_AGAIN_S)
            except AtfError as error:
                self.refused[type(error).__name__] += 1
                raise
            else:
                now = now_us()
                for each, handle in zip(batch, handles, strict=True):
                    self.accepted[key_of(handle.id)] = handle.id
                    self.events.append(Accepted(now, each.key, wall + round(each.delay * US) - self._slack_us))
                return

    def _prepare(self, each: PlannedTask) -> Prepared[Any]:
        name = f"{self._namespace}/{'work_async' if each.aio else 'work'}"
        more: dict[str, Any] = {**self.load.options, **({"delay": each.delay} if each.delay else {})}
        return named(name, self.payload(each), {**more, "key": each.key})  # type: ignore[typeddict-item]

    def payload(self, each: PlannedTask) -> dict[str, Any]:
        """What a task is given."""
        return {"seconds": each.seconds, "fails": each.fails}
