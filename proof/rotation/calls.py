"""Calls at a steady rate, of which every failed one is kept.

No more are under way than a second of them: a machine that can't keep up makes fewer, instead of a queue that grows until calls are late.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final

from atf.auth.dev_certificates import DevAuthority
from atf.errors import AtfError
from atf.rpc import api, frontend_pb2 as f, task_pb2 as t
from atf.task import US

from .secured import LAMBDA, Secured

_STEP_S: Final = 0.02
_MOST_ERRORS: Final = 20


@dataclass
class RotationTally:
    """What became of the calls."""

    calls: int = 0
    failed: int = 0
    rotations: int = 0
    slowest_ms: float = 0.0
    errors: list[str] = field(default_factory=list)

    def note(self, error: AtfError) -> None:
        """One has failed."""
        self.failed += 1
        if len(self.errors) < _MOST_ERRORS:
            self.errors.append(f"{type(error).__name__}: {error}")


async def rotate_under_load(
    secured: Secured, authority: DevAuthority, *, seconds: float, every: float, rate: int
) -> RotationTally:
    """Schedules `rate` tasks a second for `seconds`, while certificates and token are replaced each `every` seconds."""
    tally, (frontend, channel) = RotationTally(), secured.open()
    under_way: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as group:
        began = time.monotonic()
        group.create_task(_rotate(secured, authority, frontend, every, began + seconds, tally))
        while (now := time.monotonic()) < began + seconds:
            while tally.calls < (now - began) * rate and len(under_way) < rate:
                tally.calls += 1
                under_way.add(call := group.create_task(_call(frontend, tally, tally.calls)))
                call.add_done_callback(under_way.discard)
            await asyncio.sleep(_STEP_S)
    await channel.close()
    return tally


async def _rotate(
    secured: Secured, authority: DevAuthority, frontend: api.Frontend, every: float, until: float, tally: RotationTally
) -> None:
    while time.monotonic() + every < until:  # one that is begun is ended: it would leave a secret that nobody knows
        await asyncio.sleep(every)
        try:
            await secured.rotate(authority, frontend)
        except AtfError as error:
            tally.note(error)
        else:
            tally.rotations += 1


async def _call(frontend: api.Frontend, tally: RotationTally, number: int) -> None:
    spec = t.TaskSpec()
    setattr(spec, "lambda", LAMBDA)
    began = time.monotonic()
    try:
        await frontend.schedule(
            f.ScheduleRequest(id=f"{time.time_ns()}-{number}", spec=spec, delay_us=3_600 * US), timeout=20
        )
    except AtfError as error:
        tally.note(error)
    tally.slowest_ms = max(tally.slowest_ms, round((time.monotonic() - began) * 1e3, 1))
