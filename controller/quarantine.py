"""Decides which lambdas this host quarantines because executors that ran them keep dying, and until when.

Pure. A host whose tasks keep failing by system errors takes no more of them for a while, so that others run them:

1. STRIKES executors in a row die while they run tasks of one lambda: that lambda is quarantined here
2. STRIKES executors in a row die and no single lambda can be blamed, or can't keep their leases: the whole host is (EVERYTHING)
3. an executor that ended WELL tasks since the last such death, of that lambda or of all, begins a new row
4. once the while is over, one task is handed out on trial. If its executor dies too, the next while is twice as long; if it still
   lives after TRIAL_S, all goes on as before. Where it was the whole host that was tried, the lambda of that task comes last in
   the next trial: it may have been the cause
5. QUIET_S without another death, and nothing is held against it any more

Exceptions and timeouts of user code count nothing. As far as one lambda can be blamed, only that one is quarantined, so a lambda that kills
its executors costs no other its host. A single task that kills executors does not, either. It may die among others in its first two deaths. Its last
run is alone (see suspects.py of the executor), so its deaths are too few for a row. Executors that don't even start ask for no work: they
need not be quarantined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from atf.exits import EXIT_FORKED, EXIT_NO_HEARTBEAT, EXIT_OK, EXIT_OVERRUN
from atf.rpc import task_pb2 as t

from .losses import Death

EVERYTHING: Final = "*"
"""Stands for all lambdas: the whole host is quarantined."""
STRIKES: Final = 3
WELL: Final = 32
"""Tasks that an executor ended, or handed back, since the last death. So many speak for the host: with the default number of threads, they are about twice
as many as an executor holds when it dies. Fewer prove nothing: a bad host may end one between two deaths, again and again."""
SAME_S: Final = 1.0
"""Seconds after a death within which others count as the same: one cause may end several executors."""
SAME_OUTAGE_S: Final = 15.0
"""The same for lost leases: an outage ends all executors of a host within three heartbeats."""
FIRST_S: Final = 2.0
MOST_S: Final = 60.0
TRIAL_S: Final = 5.0
QUIET_S: Final = 60.0
REMEMBERED: Final = 1_024
"""Tasks handed to one executor of which it is known what lambda they are of: more than it can hold."""
FORGET_S: Final = 3600.0
"""Seconds after which it is forgotten what was handed to an executor that took nothing since."""
_USERS_DOING: Final = frozenset({EXIT_OK, EXIT_FORKED, EXIT_OVERRUN})


class Quarantined(NamedTuple):
    """What is quarantined, for people."""

    lambda_name: str  # EVERYTHING: the host
    until: float  # the monotonic clock; 0: it is on trial
    deaths: int


@dataclass
class _QuarantineRecord:
    deaths: int = 0
    last: float = 0.0
    pause: float = 0.0  # the newest one's length; 0: it was never quarantined
    until: float = 0.0
    trial_until: float = 0.0
    tried: bool = True

    def blocked(self, now: float) -> bool:
        return now < self.until or now < self.trial_until


@dataclass
class _QuarantineExecutor:
    last: float = 0.0
    handed: dict[str, tuple[str, float]] = field(default_factory=dict)
    """The tasks that it was given last, by id: of which lambda, and when."""


class Quarantine:
    """What one controller holds against its own executors."""

    def __init__(self) -> None:
        self._records: dict[str, _QuarantineRecord] = {}
        self._executors: dict[str, _QuarantineExecutor] = {}

    # --- what happens --------------------------------------------------------------------------------------------------

    def handed(self, executor_id: str, lambdas: Mapping[str, str], now: float) -> None:
        """Tasks were given to an executor: by id the lambda."""
        executor = self._executors.pop(executor_id, None) or _QuarantineExecutor()
        executor.last = now
        handed = executor.handed
        given = {name: (name, now) for name in set(lambdas.values())}
        for task_id, name in lambdas.items():
            handed.pop(task_id, None)
            handed[task_id] = given[name]
        for _ in range(len(handed) - REMEMBERED):
            del handed[next(iter(handed))]
        self._executors[executor_id] = executor  # the one that took something last is the last
        longest = next(iter(self._executors))
        if self._executors[longest].last + FORGET_S < now:
            del self._executors[longest]

    def died(self, death: Death, undelivered: Sequence[t.ClaimRef], now: float) -> str | None:
        """An executor is dead, and what of its last answers had not arrived. Returns what was quarantined for it now, if anything was."""
        executor = self._executors.pop(death.executor_id, None)
        if executor is None or death.ordered or death.code in _USERS_DOING:
            return None
        left = {each.task_id for each in (*death.claims, *undelivered)}
        ended = [each for task_id, each in executor.handed.items() if task_id not in left]
        self._forget(now)
        for name in [name for name in self._records if self._well(name, ended)]:
            del self._records[name]
        if death.code == EXIT_NO_HEARTBEAT:
            name, same = EVERYTHING, SAME_OUTAGE_S
        else:
            name, same = self._to_blame(death, executor.handed), SAME_S
        if not name or self._well(name, ended):
            return None
        host = self._records.get(EVERYTHING)
        if name == EVERYTHING or host is None or now >= host.trial_until:
            return self._strike(name, same, now)
        told = self._strike(EVERYTHING, same, now)  # whosever task was tried
        self._strike(name, same, now, until=host.until + TRIAL_S)
        return told

    def admit(self, lambdas: Mapping[str, str], now: float) -> tuple[set[str], bool]:
        """Tasks that have come, by id their lambda: which of them must not run here, since a single one is tried first; and whether one is now."""
        refused: set[str] = set()
        tried: set[str] = set()
        if not self._records:
            return refused, False
        for task_id, name in lambdas.items():
            names = [each for each in (EVERYTHING, name) if each in self._records]
            if any(self._records[each].blocked(now) or each in tried for each in names):
                refused.add(task_id)
            else:
                tried.update(each for each in names if not self._records[each].tried)
        for each in tried:
            self._records[each].tried, self._records[each].trial_until = True, now + TRIAL_S
        return refused, bool(tried)

    # --- what holds ----------------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        """Whether anything is held against this host or a lambda."""
        return bool(self._records)

    def blocked(self, now: float) -> set[str]:
        """What is quarantined: lambdas, or EVERYTHING."""
        return {name for name, each in self._records.items() if each.blocked(now)}

    def untried(self, now: float) -> set[str]:
        """What is on trial, of which nothing has been tried yet."""
        return {name for name, each in self._records.items() if not each.tried and not each.blocked(now)}

    def next_change(self, now: float) -> float | None:
        """The instant at which something is no longer quarantined, or forgotten."""
        self._forget(now)
        instants = [
            instant
            for each in self._records.values()
            for instant in (each.until, each.trial_until, _forgotten_at(each))
            if instant > now
        ]
        return min(instants, default=None)

    def listing(self, now: float) -> list[Quarantined]:
        """What is quarantined or on trial."""
        return [
            Quarantined(name, each.until if now < each.until else 0.0, each.deaths)
            for name, each in sorted(self._records.items())
            if each.blocked(now) or not each.tried
        ]

    def _forget(self, now: float) -> None:
        for name in [name for name, each in self._records.items() if _forgotten_at(each) <= now]:
            del self._records[name]

    def _well(self, name: str, ended: Sequence[tuple[str, float]]) -> bool:
        """Whether what an executor ended speaks for the host: enough of it was given to it since the last death."""
        record = self._records.get(name)
        since = record.last if record else -inf
        return sum(at > since and name in {each, EVERYTHING} for each, at in ended) >= WELL

    def _to_blame(self, death: Death, handed: Mapping[str, tuple[str, float]]) -> str:
        """The lambda whose tasks ended their executor, as far as only one can have. EVERYTHING: several can have; "": nothing ran.

        If some of the tasks had been lost before, only these are suspects. If something is held against some of their lambdas, only these are.
        """
        suspects = [each for each in death.started if each.task_id in death.suspects] or death.started
        names = {handed[each.task_id][0] for each in suspects if each.task_id in handed}
        names = names & self._records.keys() or names
        return EVERYTHING if len(names) > 1 else "".join(names)

    def _strike(self, name: str, same: float, now: float, until: float = 0.0) -> str | None:
        """Holds a death against a lambda or the host. Returns its name if it is quarantined now: as it must be with `until`, so long at least."""
        record = self._records.setdefault(name, _QuarantineRecord())
        if record.deaths and now < record.last + same and now >= record.trial_until:
            return None
        record.deaths += 1
        record.last = now
        if now < record.until or (record.deaths < STRIKES and not record.pause and not until):
            return None  # what ran on since before, or too few yet
        record.pause = min(record.pause * 2 or FIRST_S, MOST_S)
        record.until, record.trial_until, record.tried = max(now + record.pause, until), 0.0, False
        return name


def _forgotten_at(record: _QuarantineRecord) -> float:
    """The instant from which nothing is held against it: after its last death, or its trial, a time without any."""
    return max(record.last, record.until, record.trial_until) + QUIET_S if record.deaths else inf
