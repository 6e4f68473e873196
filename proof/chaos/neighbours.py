"""Two lambdas that share a cluster: one that floods it, and a quiet one that writes down when it ran. And the process that floods.

python -P -m proof.chaos.neighbours ADDRESS TASKS DUE_US KIND     schedules so many tasks of `flood`, due at an instant
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import Final

import atf
from atf.client import AsyncClient
from atf.sdk.schedulable import named
from atf.verify import record

RETENTION_S: Final = 5.0
"""So short that what has ended of the flood is swept while the quiet lambda is measured."""
QUIET_RETENTION_S: Final = 1_200.0
"""Longer than a trial: its end asks each task when it was pushed and claimed."""
BATCH: Final = 1_000
AT_ONCE: Final = 4

noisy = atf.App("noisy")
quiet = atf.App("quiet")


@noisy.task(retention=RETENTION_S)
def flood(fails: int) -> None:
    """Does nothing, or fails."""
    if fails:
        raise RuntimeError("every one of these fails")


@quiet.task(retention=QUIET_RETENTION_S)
def work(ctx: atf.Context) -> None:
    """Writes down when it began."""
    record.began(ctx.task_id, ctx.fence)


async def _flood(address: str, tasks: int, due_us: int, fails: int) -> None:
    at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=due_us)
    left = tasks
    async with AsyncClient(address, timeout=120) as client:

        async def send() -> None:
            nonlocal left
            while left > 0:
                count = min(BATCH, left)
                left -= count
                await client.schedule_many(
                    [named("noisy/flood", {"fails": fails}, {"at": at, "retention": RETENTION_S}) for _ in range(count)]
                )

        await asyncio.gather(*(send() for _ in range(AT_ONCE)))


if __name__ == "__main__":
    asyncio.run(_flood(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
