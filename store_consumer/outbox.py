"""Delivers the outbox of a partition: the changes that a store function could not make outside its own partition.

A record lies in the due index until it has been delivered, and each pass of the store consumer brings it up again; so a
failure here needs no memory. Deliveries run apart from the passes, in a line per target: a partition that is down holds
up neither the others nor the passes of the partition whose outbox it is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

from atf.calls.retry import Trouble
from atf.errors import AtfError
from atf.log import get_logger
from atf.runtime import Runtime
from atf.store.store import Store
from atf.store.values.passes import OutboxRecord

MAX_WAITING: Final = 1_000
"""Records held per target; what does not fit comes up again later."""

_log = get_logger(duty="outbox")


class Outbox:
    """The lines of records that wait for their delivery."""

    def __init__(self, *, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._waiting: dict[int, deque[OutboxRecord]] = {}
        self._works: dict[int, asyncio.Task[None]] = {}
        self._trouble = Trouble(_log, "outbox target")

    def add(self, records: Iterable[OutboxRecord]) -> None:
        """Has records delivered soon."""
        for record in records:
            line = self._waiting.get(record.target)
            if line is None:
                self._waiting[record.target] = deque([record])
                work = self._work(record.target)
                self._works[record.target] = self._runtime.spawn(work, name=f"outbox to {record.target}")
            elif len(line) < MAX_WAITING and record not in line:
                line.append(record)

    async def idle(self) -> None:
        """Waits until all that was taken has been delivered, or has failed."""
        await asyncio.gather(*self._works.values())

    async def _work(self, target: int) -> None:
        line = self._waiting[target]
        delivered = 0
        try:
            while line:
                await self._store.apply_outbox(line[0])
                line.popleft()
                delivered += 1
            self._trouble.ended(target)
            _log.debug("deliver", target=target, records=delivered)
        except AtfError as error:
            self._trouble.failed(target, error)
        finally:
            del self._waiting[target]
