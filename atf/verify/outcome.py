"""Computes the figures from events: what of the load was kept and broken, and how long it took to recover from each strike. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from atf.task import US

from .events import Began, Called, Ended, Event, Gone, Keyed
from .history import check
from .judgement import Breach
from .load import PlannedTask

_SHOWN: Final = 20
"""Findings that are told whole."""


@dataclass(slots=True)
class Strike:
    """Something that was done to a process.

    Attributes:
        what: "kill", "freeze", "stop", or a row's own word.
        role: whose process.
        pid: it.
        at_us: when, by CLOCK_MONOTONIC.
        until_us: when a frozen one went on; 0: it never did.
        cut_off: the runs that it had begun and not ended, as (key, fence).
    """

    what: str
    role: str
    pid: int
    at_us: int
    until_us: int = 0
    cut_off: list[tuple[str, int]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """What was done to which role."""
        return f"{self.what} {self.role}"


@dataclass(frozen=True, slots=True)
class Recovery:
    """What came after one strike, in seconds from it; None: nothing did, or nothing had to.

    Attributes:
        resumed_s: the first start of a task that was asked for after the strike.
        rescued_s: the last of the runs that it cut off began again.
        worst_s: the last task started that was due before the strike and waited, or was cut off.
    """

    strike: Strike
    resumed_s: float | None
    rescued_s: float | None
    worst_s: float | None


@dataclass(frozen=True, slots=True)
class FinalRecord:
    """What the store says of a task at the end."""

    status: str
    finished: bool
    attempts: int
    losses: int
    result: Any


@dataclass
class LoadOutcome:
    """What a load comes to. Counts are of tasks."""

    attempted: int
    acknowledged: int
    succeeded: int
    breaches: dict[str, int]
    """By name, those that were looked for: none of limits or keys where the load has none."""
    recovered: int
    duplicated: int
    repeated: int
    excused: int
    forgiven: int
    dead: int
    """Dead letters by `max_losses`: their executors were killed under them so often."""
    wrong: int
    """Ended otherwise than planned, or counted otherwise than their own limits and their own record allow. See `_wrong`."""
    spent: int
    """Attempts beyond those that the plan asked for, over all tasks."""
    losses: int
    """Runs that ended with their executors, over all tasks, as the store counts them."""
    refused: dict[str, int]
    """Calls of Schedule that failed, by kind; each was repeated."""
    findings: list[str]
    recoveries: list[Recovery]

    @property
    def failures(self) -> list[str]:
        """What broke a promise, a sentence each; none: all were kept."""
        said = [f"{count} × {name}" for name, count in self.breaches.items() if count]
        return said + ([f"{self.wrong} tasks ended otherwise than planned"] if self.wrong else [])

    def figures(self) -> dict[str, Any]:
        """The counts, for programs: each breach by its own name."""
        found: dict[str, Any] = {}
        for each in fields(self)[:-2]:  # what is told in words, and the recoveries, are no counts
            value = getattr(self, each.name)
            found |= value if each.name == "breaches" else {each.name: value}
        return found


def judge(
    events: Sequence[Event],
    endings: Mapping[str, FinalRecord],
    plans: Mapping[str, PlannedTask],
    strikes: Iterable[Strike] = (),
    refused: Mapping[str, int] | None = None,
) -> LoadOutcome:
    """Judges a load.

    Args:
        events: all of them, Found included.
        endings: what the store says of each task at the end, by key.
        plans: what was asked for, by key.
        strikes: what was done meanwhile.
        refused: calls that failed, by kind.
    """
    strikes = list(strikes)
    verdict = check(events)
    won = {(each.task_id, each.fence) for each in events if isinstance(each, Ended) and each.succeeded}
    begun = Counter(each.task_id for each in events if isinstance(each, Began))
    asked = {each.task_id: each.at_us for each in reversed(events) if isinstance(each, Called)}
    ends = sorted([each.at_us for each in strikes] + [each.at_us for each in events if isinstance(each, Gone)])
    findings = [f"{each.breach.name} {each.task_id}: {each.text}" for each in verdict.findings]
    dead = wrong = spent = losses = 0
    for key, ending in endings.items():
        plan = plans.get(key, PlannedTask(key, 0.0, 0.0, 0, aio=False))
        spent += max(ending.attempts - plan.fails - (ending.status == "SUCCESS"), 0)
        losses += ending.losses
        if ending.status == "SUCCESS" and (key, ending.result) not in won:
            why = f"succeeded by claim {ending.result}, of which no run returned"
        else:
            why = _wrong(ending, plan, begun[key], unseen=len(ends) - bisect_left(ends, asked.get(key, 0)))
        if why:
            findings.append(f"WRONG {key}: {why}")
            wrong += 1
        elif ending.status == "FATAL_FAILURE":
            dead += 1
    return LoadOutcome(
        attempted=verdict.attempted,
        acknowledged=verdict.acknowledged,
        succeeded=sum(each.status == "SUCCESS" for each in endings.values()),
        recovered=verdict.recovered,
        duplicated=verdict.duplicated,
        repeated=verdict.repeated,
        excused=verdict.excused,
        forgiven=verdict.forgiven,
        breaches={each.name.lower(): verdict.counts[each] for each in looked_for(events)},
        dead=dead,
        wrong=wrong,
        spent=spent,
        losses=losses,
        refused=dict(refused or {}),
        findings=findings[:_SHOWN],
        recoveries=recoveries(events, plans, strikes),
    )


def _wrong(ending: FinalRecord, plan: PlannedTask, begun: int, unseen: int) -> str:
    """What is wrong with how a task stands at the end; "": nothing.

    Args:
        ending: what the store says.
        plan: what was asked for, with the task's own limits.
        begun: its runs, by what it wrote down itself.
        unseen: strikes and ends of processes since it was asked for. Each may have met a run before that could write anything down.
    """
    most = plan.max_losses
    if ending.losses > most:
        return f"{ending.losses} losses are counted, and it was to end at {most}"
    if ending.attempts > begun:
        return f"{ending.attempts} attempts are counted, and {begun} runs began by its own record"
    if ending.attempts + ending.losses > begun + unseen:
        return f"{ending.attempts} attempts and {ending.losses} losses are counted, and {begun} runs began by its own record; {unseen} more may have been cut off"
    if ending.status == "FATAL_FAILURE" and ending.losses == most:
        return ""  # a dead letter: its executors were killed under it that often
    if ending.losses == most:
        return f"{ending.status} with {most} losses, at which it was to end as a dead letter"
    if ending.status == "SUCCESS" and ending.attempts != plan.fails + 1:
        return f"succeeded in attempt {ending.attempts}, and its first {plan.fails} were to fail, no others"
    if ending.finished and ending.status != "SUCCESS":
        return f"{ending.status} after {ending.attempts} attempts, {ending.losses} losses"
    return ""


def looked_for(events: Sequence[Event]) -> list[Breach]:
    """The breaches that this history can tell of: of limits and of keys only where a task has one."""
    keyed = [each for each in events if isinstance(each, Keyed)]
    tried = {
        Breach.CROWDED: any(isinstance(each, Began) and each.most for each in events),
        Breach.TOO_MANY: bool(keyed),
        Breach.OUT_OF_ORDER: any(each.ordered for each in keyed),
    }
    return [each for each in Breach if tried.get(each, True)]


def times(counts: Mapping[str, int]) -> str:
    """Counts by kind, for people: "3 × Unavailable, 1 × Internal"; "" where there are none."""
    return ", ".join(f"{count} × {name}" for name, count in counts.items())


def recoveries(events: Sequence[Event], plans: Mapping[str, PlannedTask], strikes: Iterable[Strike]) -> list[Recovery]:
    """How each strike was recovered from."""
    called = {each.task_id: each.at_us for each in reversed(events) if isinstance(each, Called)}
    starts: dict[str, list[int]] = {}
    for each in sorted((each for each in events if isinstance(each, Began)), key=lambda each: each.at_us):
        starts.setdefault(each.task_id, []).append(each.at_us)
    first = [
        (called[key], called[key] + round(plans[key].delay * US), starts[key][0])
        for key in called
        if key in starts and key in plans
    ]
    return [_recovery(strike, first, starts) for strike in strikes]


def _recovery(strike: Strike, first: Sequence[tuple[int, int, int]], starts: Mapping[str, Sequence[int]]) -> Recovery:
    at_us = strike.at_us
    fresh = [start for called, _, start in first if called >= at_us]
    waited = [start for _, due, start in first if due < at_us <= start]
    again = ([start for start in starts.get(key, ()) if start > at_us] for key in {key for key, _ in strike.cut_off})
    rescued = [later[0] for later in again if later]
    return Recovery(
        strike=strike,
        resumed_s=_seconds(min(fresh, default=0), strike),
        rescued_s=_seconds(max(rescued, default=0), strike),
        worst_s=_seconds(max([*rescued, *waited], default=0), strike),
    )


def _seconds(at_us: int, strike: Strike) -> float | None:
    return round((at_us - strike.at_us) / US, 3) if at_us else None


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest of the values that `percent` of them do not exceed; 0 if there are none."""
    ordered = sorted(values)
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)] if ordered else 0.0
