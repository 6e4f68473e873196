"""Splits what a task has waited for by reason: what its record tells, and what explain says of the present."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from atf.rpc import frontend_pb2 as f, task_pb2 as t

Spans = Sequence[tuple[int, int]]

NOT_DUE: Final = "not due"
GATED: Final = "gated"
LIMIT: Final = "over a limit"
KEY: Final = "behind a key"
NO_WORKER: Final = "no worker"
DUE: Final = "due"
QUEUED: Final = "queued"
CLAIMED: Final = "claimed"
BETWEEN_RUNS: Final = "between runs"

_NOTED: Final = {"g": GATED, "k": KEY, "o": KEY, "q": QUEUED, "b": BETWEEN_RUNS}
"""The letters of the record's field `wr`."""
_LATE: Final = {"l": LIMIT, "f": LIMIT}
"""Those of `wp`: the bound of a queue is a limit, too."""
_NOW: Final = {
    **dict.fromkeys(("not_due", "put_off"), NOT_DUE),
    **dict.fromkeys(("gated", "paused", "job_paused", "claims_paused"), GATED),
    **dict.fromkeys(("max_running", "rate", "queue_full", "no_core"), LIMIT),
    **dict.fromkeys(("behind", "key_stopped", "key_busy"), KEY),
    **dict.fromkeys(
        ("cant_start", "starting", "no_pool", "not_served", "quarantined", "misfit", "not_registered"), NO_WORKER
    ),
    **dict.fromkeys(("queued", "between"), QUEUED),
    "due": DUE,
    "claimed": CLAIMED,
    "backing_off": BETWEEN_RUNS,
}
"""What explain says of a task that waits now, in the words of its wait."""


def waits(task: t.Task, reason: str, now_us: int, noted: str, late: str, pauses: Spans) -> list[f.WaitPart]:
    """What a task has waited for before its newest run, or since the run before it ended.

    Args:
        task: as callers see it.
        reason: explain's word for the present.
        now_us: the present instant.
        noted: the field `wr` of its record.
        late: the field `wp`.
        pauses: of its lambda, each with its begin and its end; 0: it goes on.
    """
    ended, runs = _end(task), list(task.ended_runs)
    if task.finished_at_us and runs and runs[-1].ended_at_us >= task.started_at_us > 0:
        runs.pop()  # the newest run itself
    # One that has left its queue without a run became NEW once more.
    begin = runs[-1].ended_at_us if runs else min(task.created_at_us, task.scheduled_at_us or task.created_at_us)
    parts = _WaitParts(begin, ended or now_us)
    if not runs:
        parts.until(task.scheduled_at_us, NOT_DUE)
    pushed_late = _LATE.get(late, DUE)
    waiting = BETWEEN_RUNS if runs else pushed_late  # of a retry only a note says when it was due
    for word, until in _noted(noted, begin):
        if word == QUEUED and task.enqueued_at_us < until:
            parts.until(task.enqueued_at_us, waiting)
        parts.until(until, word)
        waiting = pushed_late
    for instant, following in ((task.enqueued_at_us, QUEUED), (task.claimed_at_us, CLAIMED)):
        if instant >= parts.at:
            parts.until(instant, waiting)
            waiting = following
    told = ended or (reason == "paused" and pauses)
    parts.until(parts.end, waiting if told else _NOW.get(reason, waiting))
    return _paused(parts.found, pauses, now_us)


class _WaitParts:
    """The parts so far."""

    def __init__(self, begin: int, end: int) -> None:
        self.found: list[f.WaitPart] = []
        self.at, self.end = begin, end

    def until(self, instant: int, reason: str) -> None:
        """What comes next, up to an instant; nothing where that has passed."""
        instant = min(instant, self.end)
        if instant > self.at:
            _add(self.found, reason, self.at, instant)
            self.at = instant


def _add(parts: list[f.WaitPart], reason: str, begun: int, ended: int) -> None:
    if parts and parts[-1].reason == reason:
        parts[-1].us += ended - begun
    else:
        parts.append(f.WaitPart(reason=reason, begun_us=begun, us=ended - begun))


def _noted(text: str, begin: int) -> Iterable[tuple[str, int]]:
    """The notes of the record that are about this wait."""
    for each in text.split():
        word, until = _NOTED.get(each[0]), each[1:]
        if word and until.isdigit() and int(until) > begin:
            yield word, int(until)


def _paused(parts: Sequence[f.WaitPart], pauses: Spans, now_us: int) -> list[f.WaitPart]:
    """The same parts, with what was due or stood in a queue while the lambda was paused as gated."""
    split: list[f.WaitPart] = []
    for part in parts:
        at, end = part.begun_us, part.begun_us + part.us
        for since, until in pauses if part.reason in (DUE, QUEUED, LIMIT, NO_WORKER) else ():
            begun, ended = max(since, at), min(until or now_us, end)
            if ended > begun:
                if begun > at:
                    _add(split, part.reason, at, begun)
                _add(split, GATED, begun, ended)
                at = ended
        if end > at:
            _add(split, part.reason, at, end)
    return split


def _end(task: t.Task) -> int:
    """When the wait ended: with the start of the newest run, or with the task; 0: it goes on."""
    if task.status == t.PROCESSING or (task.finished_at_us and task.started_at_us >= task.claimed_at_us > 0):
        return task.started_at_us
    return task.finished_at_us
