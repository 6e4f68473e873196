"""What waits in the store for the lambdas of a pool, over all partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from atf.errors import AtfError
from atf.store.capacity import WaitingTasks
from atf.store.store import Store
from atf.task import MAX_BATCH


async def waiting_tasks(store: Store, pool: str, names: Sequence[str]) -> dict[str, int]:
    """What the store has of each lambda; one that a partition does not tell of has something."""
    found = dict.fromkeys(names, WaitingTasks.NOTHING)
    parts = [names[start : start + MAX_BATCH] for start in range(0, len(names), MAX_BATCH)]
    for part in parts:
        asked = (store.waiting(partition, pool, part) for partition in range(store.partitions))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for partition, answer in enumerate(answers):
            if isinstance(answer, BaseException) and not isinstance(answer, AtfError):
                raise answer
            told = [WaitingTasks.TAKEN] * len(part) if isinstance(answer, BaseException) else answer
            for name, state in zip(part, told, strict=True):
                if state != WaitingTasks.UNKNOWN:
                    found[name] = max(found[name], state)
                elif partition == 0 and found[name] == WaitingTasks.NOTHING:
                    found[name] = WaitingTasks.UNKNOWN
    return found
