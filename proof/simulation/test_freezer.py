"""Which overlaps a freeze excuses: those that its guard could not prevent, since it was frozen as well when it had to kill."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from atf.task import US
from atf.verify.events import Excused

from .host import ExcusedAtKill, Freezer
from .loop import SimProcess
from .world import TIMING

BOOT_US = US
"""By which boottime is ahead."""
ENDS_S = TIMING.heartbeat_timeout - TIMING.drift
"""When a lease that began at 0 has ended, by a clock that runs as fast as it may."""


class FreezerWorld:
    """A worker and its guard, on a clock."""

    def __init__(self) -> None:
        self.now, self.excused, self._later, self._number = 0, list[Excused](), list[Any](), itertools.count()
        self.processes = {name: SimProcess(name, "host") for name in ("worker", "guard")}
        self.chronicle = SimpleNamespace(say=lambda _text: None, event=self.excused.append)
        self.loop = self

    def now_us(self) -> int:
        return self.now

    def later(self, seconds: float, what: Callable[[], object]) -> None:
        heapq.heappush(self._later, (self.now + round(seconds * US), next(self._number), what))

    def thaw(self, process: SimProcess) -> None:
        process.frozen -= 1

    def run(self) -> None:
        while self._later:
            self.now, _, what = heapq.heappop(self._later)
            what()


def excused(*freezes: tuple[str, float, float]) -> list[Excused]:
    """What is excused where a lease began at 0 and these are frozen: who, from when on, for how long."""
    world = FreezerWorld()
    freezer = Freezer(world)  # type: ignore[arg-type]
    freezer.watch(world.processes["worker"], world.processes["guard"], SimpleNamespace(oldest_lease_us=BOOT_US))  # type: ignore[arg-type]
    for who, at, seconds in freezes:
        world.later(at, lambda who=who, seconds=seconds: freezer.freeze(who, seconds))  # type: ignore[misc]
    world.run()
    return world.excused


def test_both_frozen_past_the_end_of_the_lease_is_excused_until_a_tick_after_the_thaw() -> None:
    found = excused(("worker", 1, 18), ("guard", 1, 18))
    assert {(each.process, each.at_us) for each in found} == {("worker", round(ENDS_S * US))}
    assert max(each.until_us for each in found) / US == pytest.approx(19.5, abs=0.02)
    assert not any(isinstance(each, ExcusedAtKill) for each in found)


def test_a_guard_that_wakes_long_before_its_worker_has_only_the_time_that_a_kill_takes() -> None:
    found = excused(("worker", 1, 30), ("guard", 1, 18))
    assert max(each.until_us for each in found) / US == pytest.approx(19.5 + TIMING.kill_time, abs=0.02)


def test_a_guard_that_wakes_too_late_to_kill_in_time_is_excused() -> None:
    found = excused(("worker", 1, 18), ("guard", 5, ENDS_S - TIMING.kill_time + 0.3 - 5))
    assert found
    assert all(isinstance(each, ExcusedAtKill) for each in found)


@pytest.mark.parametrize(
    "freezes",
    [
        [("worker", 1, 18)],
        [("guard", 1, 18)],
        [("worker", 1, 18), ("guard", 5, ENDS_S - TIMING.kill_time - 0.1 - 5)],
        [("worker", 1, 18), ("guard", ENDS_S - TIMING.kill_time + 0.1, 0.5)],
        [("worker", 1, 5), ("guard", 1, 18)],
    ],
)
def test_nothing_else_is_excused(freezes: list[tuple[str, float, float]]) -> None:
    assert excused(*freezes) == []
