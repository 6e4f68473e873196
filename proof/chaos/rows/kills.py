"""Rows: SIGKILL to each role, again and again, under 500 tasks a second."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from proof.chaos.bench import back, bench, judged, over, settled
from proof.chaos.frame import Figures, Progress, Row, Trial

RESCUE_S: Final = 2.0
"""Seconds within which what a killed executor ran begins again elsewhere."""

FEW: Final = ("server", "worker")
"""The processes of `atf up --compact`, in place of one per role."""
SLACK_S: Final = 2.0
"""Seconds after the end of a lease within which its task begins again."""


async def _run(role: str, n: int, progress: Progress) -> Sequence[Trial]:
    settings = {"compact": role in FEW}
    async with bench(progress, executors=4 if role == "executor" else 2, settings=settings) as world:
        async for _ in progress.trials(n):
            await settled(world)
            if role == "executor":  # the busiest of those that run tasks
                strike = await world.kill_worker((await world.enough_workers(2))[0].worker)
            else:
                strike = world.kill(role)
            await back(world, strike, progress)
            await over(world, strike)
        bar = world.timing.heartbeat_timeout + SLACK_S
        return judged(world, await world.drain(), progress, worst_s=bar)


def _rescued(figures: Figures) -> list[str]:
    took = figures.get("rescued_s")
    if took is None:
        return ["no killed executor had anything cut off"]
    return (
        [f"cut-off tasks ran again after {took['p99']} s (p99), the bar is {RESCUE_S:g} s"]
        if took["p99"] > RESCUE_S
        else []
    )


def _row(role: str) -> Row:
    rescue = role == "executor"
    return Row(
        name=f"kill-{role}",
        what=f"SIGKILL to the {role} under 500 tasks/s",
        bar="lost 0, concurrent 0, early 0; "
        + (
            "cut-off tasks run again ≤ 2 s (p99), ≤ H + 2 s at worst" if rescue else "every task starts ≤ H + 2 s after"
        ),
        full=100,
        batch=10 if role in {"controller", "worker"} else 20,  # each takes as long as a lease
        run=functools.partial(_run, role),
        verdict=_rescued if rescue else lambda _figures: [],
    )


ROWS: Final = [_row(role) for role in ("frontend", "store-consumer", "controller", "executor", "hsc", *FEW)]
