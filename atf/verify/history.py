"""Judges what happened to tasks, as seen from outside: what of it breaks a promise.

Whoever watches (the simulation, `atf verify`) writes down events on one clock of its own; `check` reads them. Nothing here
knows how ATF works: a task is accepted, runs in processes, and is found finished or not at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from .allowances import Allowances
from .events import (
    FOREVER,
    Accepted,
    Began,
    Called,
    Claimed,
    Ended,
    Event,
    Excused,
    Forgot,
    Found,
    Gone,
    Keyed,
    Recorded,
    Rescheduled,
    SetBack,
)
from .judgement import Breach, Finding, Judgement
from .task_history import RunHistory, TaskHistory, is_younger


def check(events: Iterable[Event]) -> Judgement:
    """Judges a history. Events of one instant count in the order given; Found come last."""
    ordered = sorted(events, key=lambda each: each.at_us)
    return _Checker().judge(ordered)


class _Checker:
    def __init__(self) -> None:
        self._tasks: dict[str, TaskHistory] = defaultdict(TaskHistory)
        self._open: dict[str, list[RunHistory]] = defaultdict(list)  # by process
        self._allowed = Allowances()
        self._together: dict[str, list[RunHistory]] = defaultdict(list)  # unfinished, as far as is known

        self._keys: dict[str, list[Keyed]] = defaultdict(list)
        self._judgement = Judgement()

    def judge(self, events: Sequence[Event]) -> Judgement:
        for event in events:
            self._take(event)
        for task_id, task in self._tasks.items():
            self._overlaps(task_id, task)
            self._outcome(task_id, task)
        for group in self._keys.values():
            self._crowds(group)
            self._disorder([each for each in group if each.ordered])
        self._judgement.findings.sort(key=lambda each: each.at_us)
        return self._judgement

    def _take(self, event: Event) -> None:  # noqa: C901, PLR0912  one case an event
        match event:
            case Called():
                self._tasks[event.task_id].called = True
            case Accepted():
                task = self._tasks[event.task_id]
                if task.accepted is None:
                    task.called, task.accepted, task.due_us = True, event, event.due_us
                    for run in task.runs:  # the answer came late
                        self._early(event.task_id, run, event.due_us)
            case Keyed():
                self._keys[event.key].append(event)
            case Rescheduled():
                task = self._tasks[event.task_id]
                task.afresh = True
                task.due_us, task.not_before_us = event.due_us, 0
            case Claimed():
                self._claimed(event)
            case Began():
                self._began(event)
            case Ended():
                for run in self._tasks[event.task_id].runs:
                    if (run.fence, run.process, run.end_us) == (event.fence, event.process, FOREVER):
                        run.end_us, run.succeeded = event.at_us, event.succeeded
            case Gone():
                for run in self._open.pop(event.process, []):
                    run.end_us = min(run.end_us, event.at_us)
            case Recorded():
                self._recorded(event)
            case Forgot():
                self._allowed.take(event)
                for task in self._tasks.values():
                    task.not_before_us = 0  # it may have forgotten the failure that asked for the pause
            case SetBack() | Excused():
                self._allowed.take(event)
            case Found():
                self._tasks[event.task_id].found = event

    def _breach(self, breach: Breach, task_id: str, at_us: int, text: str) -> None:
        self._judgement.findings.append(Finding(breach, task_id, at_us, text))

    def _claimed(self, event: Claimed) -> None:
        task, token = self._tasks[event.task_id], (event.fence, event.nonce)
        same = task.claims.get(token)
        # A late copy of the call that got a forgotten claim gets it once more. Two runs with its token there must not be all the same.
        if same is not None and not self._allowed.is_no_more(same, event):
            text = f"claim {event.fence} was given, and had been given at {_at(same.at_us)}"
            self._breach(Breach.TOKEN_REUSED, event.task_id, event.at_us, text)
            return
        larger = [
            each
            for each in task.claims.values()
            if each.fence >= event.fence and not self._allowed.is_no_more(each, event)
        ]
        if larger:
            text = f"claim {event.fence}, after claim {larger[-1].fence} was given at {_at(larger[-1].at_us)}"
            self._breach(Breach.FENCE_NOT_GROWN, event.task_id, event.at_us, text)
        task.claims[token] = event

    def _began(self, event: Began) -> None:
        task = self._tasks[event.task_id]
        for other in task.runs:
            if other.token == (event.fence, event.nonce):
                text = f"claim {event.fence} runs in {event.process}, and ran in {other.process} from {_at(other.start_us)}"
                self._breach(Breach.TOKEN_REUSED, event.task_id, event.at_us, text)
        run = RunHistory(event.fence, event.process, event.at_us, event.store_us, event.nonce)
        self._early(event.task_id, run, max(task.due_us, task.not_before_us))
        task.runs.append(run)
        self._open[event.process].append(run)
        if event.most:
            self._crowded(event, run)

    def _crowded(self, event: Began, run: RunHistory) -> None:
        """A run of a lambda with a limit against those that still run; one that no timeout can prevent does not count."""
        beside = [each for each in self._together[event.together] if each.end_us == FOREVER]
        counted = [each for each in beside if not self._allowed.is_excused(each.process, event.at_us, event.at_us)]
        if len(counted) >= event.most:
            where = ", ".join(f"{each.process} since {_at(each.start_us)}" for each in counted)
            text = f"beside {len(counted)} others of {event.together}, of which {event.most} may run: {where}"
            self._breach(Breach.CROWDED, event.task_id, event.at_us, text)
        self._together[event.together] = [*beside, run]

    def _early(self, task_id: str, run: RunHistory, due_us: int) -> None:
        if run.store_us < due_us and not self._is_of_before(task_id, run):
            text = f"it was due {due_us - run.store_us} µs after the latest instant that the store's clock had shown"
            self._breach(Breach.EARLY, task_id, run.start_us, text)

    def _is_of_before(self, task_id: str, run: RunHistory) -> bool:
        """Whether a run was claimed before the store forgot something: perhaps by an earlier call for the task, due at another instant."""
        claim = self._tasks[task_id].claims.get(run.token)
        given_us = run.start_us if claim is None else claim.at_us
        return self._allowed.forgot_since(given_us)

    def _recorded(self, event: Recorded) -> None:
        task = self._tasks[event.task_id]
        task.not_before_us = event.not_before_us
        forgotten = {token for token, each in task.claims.items() if self._allowed.is_forgotten(each.at_us)}
        # Who can't see claims knows of those that began to run.
        known = {*task.claims, *(run.token for run in task.runs)} - forgotten
        younger = [each[0] for each in known if is_younger(task, each, (event.fence, event.nonce))]
        if younger:
            text = f"the result of claim {event.fence}, after claim {max(younger)} had been given"
            self._breach(Breach.STALE_RESULT_ACCEPTED, event.task_id, event.at_us, text)

    def _overlaps(self, task_id: str, task: TaskHistory) -> None:
        """Each run against the one before it that lasted longest."""
        latest: RunHistory | None = None
        for run in sorted(task.runs, key=lambda each: each.start_us):
            if latest is not None and run.start_us < latest.end_us and run.token != latest.token:
                until = min(run.end_us, latest.end_us)
                if self._allowed.is_excused(latest.process, run.start_us, until):
                    self._judgement.excused += 1
                else:
                    shown = "the end" if until == FOREVER else _at(until)
                    text = (
                        f"{latest.process} (claim {latest.fence}) and {run.process} (claim {run.fence}) until {shown}"
                    )
                    self._breach(Breach.CONCURRENT, task_id, run.start_us, text)
            if latest is None or run.end_us > latest.end_us:
                latest = run

    def _crowds(self, group: Sequence[Keyed]) -> None:
        """How many tasks of a key run at once; each goes by its own limit."""
        runs = [(run, each) for each in group for run in self._tasks[each.task_id].runs]
        for run, each in sorted(runs, key=lambda pair: pair[0].start_us):
            others = [other for other, its in runs if its.task_id != each.task_id]
            held = [
                other
                for other in others
                if other.start_us <= run.start_us < other.end_us
                and not self._allowed.is_excused(other.process, run.start_us, min(run.end_us, other.end_us))
            ]
            if len(held) >= each.limit:
                where = ", ".join(f"{other.process} (claim {other.fence})" for other in held)
                text = f"it began in {run.process} beside {where}; the limit is {each.limit}"
                self._breach(Breach.TOO_MANY, each.task_id, run.start_us, text)

    def _disorder(self, line: Sequence[Keyed]) -> None:
        """Whether first runs began in the order of acceptance. What was started afresh stands elsewhere in the line, and what the store had
        forgotten may have been accepted twice.
        """
        found = []
        for each in line:
            task = self._tasks[each.task_id]
            if (
                task.accepted is not None
                and task.runs
                and not task.afresh
                and not self._allowed.is_forgotten(task.accepted.stored_us)
            ):
                found.append((task.accepted.stored_us, min(run.start_us for run in task.runs), each.task_id))
        latest, by = 0, ""
        for _, began_us, task_id in sorted(found):
            if began_us < latest:
                self._breach(Breach.OUT_OF_ORDER, task_id, latest, f"{by} began after it, at {_at(latest)}")
            latest, by = max((latest, by), (began_us, task_id))

    def _outcome(self, task_id: str, task: TaskHistory) -> None:
        tally, found = self._judgement, task.found
        tally.attempted += task.called
        tally.acknowledged += task.accepted is not None
        tally.repeated += max(len(task.runs) - 1, 0)
        tally.duplicated += sum(run.succeeded for run in task.runs) > 1
        known = found is not None and found.status != ""
        at_us = found.at_us if found else 0
        if not task.called:
            self._breach(Breach.UNEXPECTED, task_id, at_us, f"{len(task.runs)} runs, {found.status if found else ''}")
        elif task.accepted is None:
            tally.recovered += known
            if found is not None and known and not found.finished:
                self._breach(Breach.STUCK, task_id, at_us, f"{found.status} at the end")
        elif not known:
            stored_us = task.accepted.stored_us or task.accepted.at_us
            if self._allowed.is_forgotten(stored_us):
                tally.forgiven += 1
            else:
                self._breach(Breach.LOST, task_id, at_us, f"accepted at {_at(task.accepted.at_us)}, unknown at the end")
        elif found is not None and not found.finished:
            self._breach(Breach.STUCK, task_id, at_us, f"{found.status} at the end")


def _at(instant_us: int) -> str:
    return f"{instant_us / 1e6:.3f} s"
