"""What a question is, and the sizes at which it is asked. The questions themselves stand in questions/, a list QUESTIONS per file."""

from __future__ import annotations

import importlib
import pkgutil
import statistics
import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from .known import OURS, PEERS, SYSTEMS, System
from .stats import figure, percentile, ratios
from .world import BenchmarkWorld, NotAsked

Figures = dict[str, Any]
FULL_TASKS: Final = 50_000
FULL_ROUNDS: Final = 5
_QUESTIONS: Final = Path(__file__).parent / "questions"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How large a measurement is.

    Attributes:
        tasks: of questions about throughput and cost.
        seconds: of questions that watch for a while.
        burst: tasks due at one instant.
        per_s: tasks a second that are scheduled ahead.
        kill_within_s: seconds after a kill within which every task must have run.
        pending: numbers of tasks that wait meanwhile.
        million: tasks of the question about memory.
        singles: tasks that are scheduled one at a time for their latency.
        jobs: recurring jobs that are registered.
        ticks: jobs whose ticks are due at one instant.
        million_jobs: of the question about very many.
        batch: items of a batch, and plain tasks beside it.
    """

    tasks: int = FULL_TASKS
    seconds: float = 30.0
    burst: int = 1_500
    per_s: int = 500
    kill_within_s: float = 900.0
    pending: tuple[int, ...] = (1_000, 100_000, 1_000_000, 10_000_000)
    million: int = 1_000_000
    singles: int = 200
    jobs: int = 100_000
    ticks: int = 20_000
    million_jobs: int = 1_000_000
    batch: int = 100_000

    def as_json(self, names: tuple[str, ...]) -> dict[str, Any]:
        """The sizes that matter to a question."""
        values = {name: value for name, value in asdict(self).items() if name in names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def smaller(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Those sizes that are smaller than by default, and what each is by default."""
    full = asdict(Sizes())
    return {
        name: full[name]
        for name, value in sizes.items()
        if (not set(full[name]) <= set(value) if isinstance(value, list | tuple) else value < full[name])
    }


Measure = Callable[[System, Sizes], Awaitable[Figures]]


class Reached(NamedTuple):
    """What was reached of a bar: the figure, or the median of the ratios; whether that is enough; and the ratio of each pair."""

    value: float
    enough: bool
    pairs: list[float]


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What ATF is to reach.

    Attributes:
        words: the same for people.
        figure: the path of the figure.
        limit: of it, or of its ratio to the best of `against`.
        least: whether the limit is to be reached from above.
        against: the peers; (): the figure itself is judged.
        of: the system that is judged.
        at_least_once: whether only those of `against` count of which `kill` has shown that they run every task.
        tolerant: whether it is enough that the better half of the pairs comes near enough: that the quarter of them which is best for us
            reaches the limit. For "no worse than", where two that are the same would miss a limit of 1 every other time.
    """

    words: str
    figure: str
    limit: float
    least: bool
    against: tuple[str, ...] = ()
    of: str = OURS
    at_least_once: bool = False
    tolerant: bool = False

    def others(self, safe: Container[str]) -> list[str]:
        """Those that are compared with.

        Args:
            safe: the peers of which it is known that they run every task.
        """
        return [name for name in self.against if not self.at_least_once or SYSTEMS[name].module in safe]

    def best(self, systems: Mapping[str, Mapping[str, Any]], safe: Container[str] = ()) -> str | None:
        """The peer that is compared with, by its median; None: none has figures.

        Args:
            systems: of a result, by name.
            safe: the peers of which it is known that they run every task.
        """
        found = {
            name: value
            for name in self.others(safe)
            if name in systems and (value := figure(systems[name]["median"], self.figure)) is not None
        }
        return (max if self.least else min)(found, key=lambda name: found[name]) if found else None

    def reached(self, systems: Mapping[str, Mapping[str, Any]], safe: Container[str] = ()) -> Reached | None:
        """What was reached; None: there is no figure of ours, or none of the same round to compare it with.

        Args:
            systems: of a result, by name.
            safe: the peers of which it is known that they run every task.
        """
        if self.of not in systems:
            return None
        if not self.against:
            value = figure(systems[self.of]["median"], self.figure)
            return None if value is None else Reached(value, self._enough(value), [])
        best = self.best(systems, safe)
        pairs = ratios(systems[self.of]["rounds"], systems[best]["rounds"], self.figure) if best else []
        if not pairs:
            return None
        return Reached(statistics.median(pairs), self._enough(self._judged(pairs)), pairs)

    def _judged(self, pairs: Sequence[float]) -> float:
        if not self.tolerant:
            return statistics.median(pairs)
        return percentile(pairs, 75 if self.least else 25)

    def _enough(self, value: float) -> bool:
        return value >= self.limit if self.least else value <= self.limit


@dataclass(frozen=True, kw_only=True)
class Question:
    """One thing that is measured.

    Attributes:
        name: for ASK=, of a-z, 0-9 and -.
        what: what is measured, for the page.
        figure: the path of the figure that is compared, such as "lateness_ms.p99".
        unit: its unit.
        more: whether more of it is better.
        measure: one round of one system.
        sizes: the sizes that it depends on; results of other ones are not thrown together.
        systems: who is asked.
        also: paths of further figures that the page shows.
        by_level: paths of figures within each of the mapping "levels", for a table with a line per level; the picture then has a bar for
            the first of them per level, in place of one per system.
        rounds: rounds where nobody says how many; fewer than a full measurement has for what takes very long and has no bar.
        bars: what ATF is to reach.
        also_judged: questions whose bars belong to this one, too: the page shows them in both places.
        budget: µs of CPU per task that each role of ATF may take; compared with the figures "cpu_us".
        paired: whether every other system runs directly before or after `pivot`, which then runs several times in a round. Without it each
            runs once: where it takes long, and what the machine does meanwhile changes little.
        beside: the pivot, where it is another one than the bars' own system.
        every: whether the rounds of every system decide something, not only those of the best ones.
        ways: figures of a round, of which `figure` is one: ATF's the first, a peer's the one with the best median over all its rounds.
    """

    name: str
    what: str
    figure: str
    unit: str
    more: bool
    measure: Measure
    sizes: tuple[str, ...]
    systems: tuple[str, ...] = (OURS, *PEERS)
    also: tuple[str, ...] = ()
    by_level: tuple[str, ...] = ()
    rounds: int = FULL_ROUNDS
    bars: tuple[Bar, ...] = ()
    also_judged: tuple[str, ...] = ()
    budget: Mapping[str, float] = field(default_factory=dict)
    ways: tuple[str, ...] = ()
    paired: bool = True
    beside: str = ""
    every: bool = False

    @property
    def pivot(self) -> str:
        """The system that the others are compared with."""
        return self.beside or (self.bars[0].of if self.bars else OURS)


def all_questions() -> dict[str, Question]:
    """Every question by name, in the order of the modules."""
    found: dict[str, Question] = {}
    for module in sorted(pkgutil.iter_modules([str(_QUESTIONS)]), key=lambda each: each.name):
        for each in importlib.import_module(f"{__package__}.{_QUESTIONS.name}.{module.name}").QUESTIONS:
            if each.name in found:
                raise ValueError(f"two questions are called {each.name}")
            found[each.name] = each
    return found


def able(world: BenchmarkWorld, verb: str) -> None:
    """Passes if the system's client has this verb.

    Raises:
        NotAsked: it has not.
    """
    if why := world.client.lacks.get(verb):
        raise NotAsked(why)


def ran(world: BenchmarkWorld, numbers: range) -> Figures:
    """How many tasks never ran, and how many more than once."""
    return {"never": world.ledger.never(numbers), "twice": world.ledger.twice(numbers)}


def wall_minus_monotonic_ns() -> int:
    """What to add to CLOCK_MONOTONIC for the wall clock: the middle one of some readings."""
    found = []
    for _ in range(9):
        before = time.monotonic_ns()
        wall = time.time_ns()
        found.append(wall - (before + time.monotonic_ns()) // 2)
    return sorted(found)[4]


def per_task_us(cpu_s: Mapping[str, float], tasks: int) -> dict[str, float]:
    """µs of CPU per task by role."""
    return {role: round(seconds * 1e6 / tasks, 2) for role, seconds in cpu_s.items()}
