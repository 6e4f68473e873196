"""Has the ticks that are due become tasks: what comes of each is ticks.py's to say, and the store sees that it happens once.

A pass tells which jobs are due. They are dealt with apart from the passes, a batch at a time and per partition in a line. Schedules are
computed on a thread, since one may take milliseconds. Nothing is remembered: what is not done comes up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from atf.log import get_logger
from atf.retry import Trouble
from atf.runtime import Runtime
from atf.store.store import Store
from atf.store.types import DueJob, Tick

from .ticks import cancels, tick_of

_log = get_logger(duty="tick")


class Jobs:
    """The batches of due jobs that wait."""

    def __init__(self, *, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._busy: dict[int, list[tuple[int, Sequence[DueJob]]]] = {}
        self._works: dict[int, asyncio.Task[None]] = {}
        self._trouble = Trouble(_log, "store")

    def take(self, partition: int, due: Sequence[DueJob], now_us: int) -> None:
        """Has jobs dealt with soon.

        Args:
            partition: where they lie.
            due: the jobs.
            now_us: the store's TIME when they were due.
        """
        if not due:
            return
        line = self._busy.get(partition)
        if line is not None:
            line.append((now_us, due))
            return
        self._busy[partition] = [(now_us, due)]
        self._works[partition] = self._runtime.spawn(self._work(partition), name=f"ticks of {partition}")

    async def idle(self) -> None:
        """Waits until all that was taken has been dealt with."""
        await asyncio.gather(*self._works.values())

    async def _work(self, partition: int) -> None:
        line = self._busy[partition]
        try:
            while line:
                await self._deal(partition, *line.pop(0))
            self._trouble.ended(partition)
        except Exception as error:  # noqa: BLE001  what is not done comes up again; Trouble says what
            self._trouble.failed(partition, error)
        finally:
            del self._busy[partition]

    async def _deal(self, partition: int, now_us: int, due: Sequence[DueJob]) -> None:
        ticks, stop, unread = await asyncio.to_thread(_decided, due, partition, now_us)  # noqa: TID251  pure, and may take long
        for name, why in unread:  # it would come up again and again
            _log.error("job can't be read; it is paused", job=name, error=why)
            await self._store.pause_job(name, paused=True)
        if stop:
            await self._store.cancel(stop)
        done = await self._store.tick(partition, ticks)
        _log.info(
            "tick",
            partition=partition,
            tasks=sum(mine and each.task is not None for each, mine in zip(ticks, done, strict=True)),
            skipped=sum(each.passed_over for each, mine in zip(ticks, done, strict=True) if mine),
            others=done.count(False),
            cancelled=len(stop),
        )


def _decided(due: Sequence[DueJob], partition: int, now_us: int) -> tuple[list[Tick], list[str], list[tuple[str, str]]]:
    """What comes of each tick; the tasks to cancel first, whose jobs come up again when these have ended; and which jobs can't be read,
    with the reason.
    """
    ticks: list[Tick] = []
    stop: list[str] = []
    unread: list[tuple[str, str]] = []
    for each in due:
        try:
            if cancels(each):
                stop.append(each.running)
            else:
                ticks.append(tick_of(each, partition, now_us))
        except Exception as error:  # noqa: BLE001  of an import, or of another release: the other jobs go on
            unread.append((each.name, repr(error)))
    return ticks, stop, unread
