"""Calls at a steady rate, of which every failed one is kept."""

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


async def rotate_under_load(
    secured: Secured, authority: DevAuthority, *, seconds: float, every: float, rate: int
) -> RotationTally:
    """Schedules `rate` tasks a second for `seconds`, while certificates and token are replaced each `every` seconds."""
    tally, (frontend, channel) = RotationTally(), secured.open()
    async with asyncio.TaskGroup() as group:
        rotating = group.create_task(_rotate(secured, authority, frontend, every, tally))
        began = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            while tally.calls < (now - began) * rate:
                tally.calls += 1
                group.create_task(_call(frontend, tally, tally.calls))
            await asyncio.sleep(_STEP_S)
        rotating.cancel()
    await channel.close()
    return tally


async def _rotate(
    secured: Secured, authority: DevAuthority, frontend: api.Frontend, every: float, tally: RotationTally
) -> None:
    while True:
        await asyncio.sleep(every)
        await secured.rotate(authority, frontend)
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
        tally.failed += 1
        if len(tally.errors) < _MOST_ERRORS:
            tally.errors.append(f"{type(error).__name__}: {error}")
    tally.slowest_ms = max(tally.slowest_ms, round((time.monotonic() - began) * 1e3, 1))
