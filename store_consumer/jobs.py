"""Turns due ticks of jobs into tasks, each once.

A pass tells which jobs are due. They are dealt with apart from the passes, a batch at a time per partition, with one more that waits.
Schedules are computed on a thread, since one may take milliseconds. Nothing is remembered: what is not done comes up again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from atf.calls.retry import Trouble
from atf.log import get_logger
from atf.metrics.table import TICKS_MISSED
from atf.rpc import job_pb2 as j
from atf.runtime import Runtime
from atf.store.library import JOBS_PER_PASS
from atf.store.store import Store
from atf.store.values.jobs import DueJob, Tick

from .searched import Declared, SearchedArguments
from .ticks import OVERLAP, cancels, tick_of

MOST_STEPS: Final = 2_000
"""Ticks that one batch passes over, about: a fraction of a second's work, so that jobs which catch up hold up no other."""
MOST_UNREAD: Final = 1_000
"""Jobs that are said to be unreadable."""

_log = get_logger(duty="tick")


class DueJobs:
    """The batches of due jobs under way, one per partition, and one that waits.

    Args:
        store: where they are.
        runtime: spawns.
        searched: what the tasks of ticks are found by.
        more: called with a partition that has room again, if it had none when it was asked.
    """

    def __init__(
        self, *, store: Store, runtime: Runtime, searched: SearchedArguments, more: Callable[[int], None]
    ) -> None:
        self._store = store
        self._searched = searched
        self._runtime = runtime
        self._more = more
        self._waiting: dict[int, deque[tuple[Sequence[DueJob], int]]] = {}
        self._works: dict[int, asyncio.Task[None]] = {}
        self._refused: set[int] = set()
        self._unread: set[tuple[str, int]] = set()
        self._trouble = Trouble(_log, "store")

    def room(self, partition: int) -> int:
        """How many jobs a pass should tell of: those that nobody deals with would only come up again later."""
        if not self._waiting.get(partition):
            return JOBS_PER_PASS
        self._refused.add(partition)
        return 0

    def add(self, partition: int, due: Sequence[DueJob], now_us: int) -> None:
        """Has jobs dealt with soon.

        Args:
            partition: where they lie.
            due: the jobs.
            now_us: the store's TIME when they were due.
        """
        if due:
            self._waiting.setdefault(partition, deque()).append((due, now_us))
            if partition not in self._works:
                self._works[partition] = self._runtime.spawn(self._work(partition), name=f"ticks of {partition}")

    async def idle(self) -> None:
        """Waits until all that was taken has been dealt with."""
        await asyncio.gather(*self._works.values())

    async def _work(self, partition: int) -> None:
        waiting = self._waiting[partition]
        try:
            while waiting:
                due, now_us = waiting.popleft()
                if partition in self._refused:
                    self._refused.remove(partition)
                    self._more(partition)
                try:
                    await self._decide_ticks(partition, due, now_us)
                    self._trouble.ended(partition)
                except Exception as error:  # noqa: BLE001  what is not done comes up again; Trouble says what
                    self._trouble.failed(partition, error)
        finally:
            del self._works[partition]

    async def _decide_ticks(self, partition: int, due: Sequence[DueJob], now_us: int) -> None:
        declared = await self._searched.declared()
        decided = await asyncio.to_thread(_decide, due, partition, now_us, declared)  # noqa: TID251  pure, and may take long
        for job, why in decided.unread:  # it comes up again, perhaps at a peer that can read it
            if (job.name, job.generation) not in self._unread and len(self._unread) < MOST_UNREAD:
                self._unread.add((job.name, job.generation))
                _log.error("job can't be read, and does not tick", job=job.name, error=why)
        if decided.stop:
            await self._store.cancel_tasks(decided.stop)
        done = await self._store.tick(partition, decided.ticks)
        self._count_missed(
            {each.name: each.spec for each in due},
            [tick for tick, mine in zip(decided.ticks, done, strict=True) if mine],
        )
        _log.debug(
            "tick",
            partition=partition,
            tasks=sum(mine and each.task is not None for each, mine in zip(decided.ticks, done, strict=True)),
            skipped=sum(each.passed_over for each, mine in zip(decided.ticks, done, strict=True) if mine),
            others=done.count(False),
            cancelled=len(decided.stop),
        )

    def _count_missed(self, specs: Mapping[str, bytes], ticks: Iterable[Tick]) -> None:
        for each in ticks:
            if each.passed_over and each.why != OVERLAP:
                name = getattr(j.JobSpec.FromString(specs[each.name]).task, "lambda")
                self._store.metrics.counter(TICKS_MISSED, name).inc(each.passed_over)


class _Decided(NamedTuple):
    """What comes of a batch."""

    ticks: list[Tick]
    stop: list[str]  # tasks to cancel first; their jobs come up again when these have ended
    unread: list[tuple[DueJob, str]]  # and why


def _decide(due: Sequence[DueJob], partition: int, now_us: int, declared: Declared) -> _Decided:
    made = _Decided([], [], [])
    steps = 0
    for each in due:
        if steps >= MOST_STEPS:
            break  # the rest comes up again, before those that were dealt with now
        try:
            if cancels(each):
                made.stop.append(each.running)
            else:
                made.ticks.append(tick_of(each, partition, now_us, declared))
                steps += made.ticks[-1].passed_over
        except Exception as error:  # noqa: BLE001  of an import, or of another release: the other jobs go on
            made.unread.append((each, repr(error)))
    return made
