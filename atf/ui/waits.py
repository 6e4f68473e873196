"""Splits what a task has waited for into parts, for the bar on its page: what the record tells, and explain of the present one."""

from __future__ import annotations

from typing import Final, NamedTuple

from atf.rpc import task_pb2 as t


class WaitPart(NamedTuple):
    """A part of the bar."""

    reason: str
    """One of REASONS."""
    begun_us: int
    us: int


REASONS: Final = {
    "not due": "wait-due",
    "gated": "wait-gate",
    "over a limit": "wait-limit",
    "behind a key": "wait-key",
    "no worker": "wait-worker",
    "due": "wait-due-now",
    "queued": "wait-queue",
    "claimed": "wait-claim",
    "between runs": "wait-retry",
}
"""The reasons in the order of their legend, with the class of the colour of each."""
_NOW: Final = {
    **dict.fromkeys(("not_due", "put_off"), "not due"),
    **dict.fromkeys(("gated", "paused", "claims_paused"), "gated"),
    **dict.fromkeys(("max_running", "rate", "queue_full", "no_core"), "over a limit"),
    **dict.fromkeys(("behind", "key_stopped", "key_busy"), "behind a key"),
    **dict.fromkeys(
        ("cant_start", "starting", "no_pool", "not_served", "quarantined", "misfit", "not_registered"), "no worker"
    ),
    **dict.fromkeys(("queued", "between"), "queued"),
    "due": "due",
    "claimed": "claimed",
    "backing_off": "between runs",
}
"""What explain says of a task that waits now, in the words of the bar."""


def wait_parts(task: t.Task, reason: str, now_us: int) -> list[WaitPart]:
    """What a task has waited for before its newest run, or since the run before it ended.

    Args:
        task: its record.
        reason: explain's word for the present.
        now_us: the present instant.
    """
    end = _end(task) or now_us
    marks = _marks(task, end)
    parts = [
        WaitPart(word, begun, ended - begun)
        for (begun, word), (ended, _) in zip(marks, [*marks[1:], (end, "")], strict=True)
        if ended > begun
    ]
    word = _NOW.get(reason)
    if parts and word and not _end(task):
        parts[-1] = parts[-1]._replace(reason=word)
    return parts


def _marks(task: t.Task, end: int) -> list[tuple[int, str]]:
    """The instants at which a wait of another kind began, in order."""
    runs = list(task.ended_runs)
    if task.finished_at_us and runs and runs[-1].ended_at_us >= task.started_at_us > 0:
        runs.pop()  # the newest run itself
    begin = runs[-1].ended_at_us if runs else task.created_at_us
    marks = [(begin, "between runs" if runs else "not due")]
    due = 0 if runs else max(task.scheduled_at_us, begin)
    for instant, word in ((due, "due"), (task.enqueued_at_us, "queued"), (task.claimed_at_us, "claimed")):
        if marks[-1][0] <= instant <= end:
            marks.append((instant, word))
    return marks


def _end(task: t.Task) -> int:
    """When the wait ended: with the start of the newest run, or with the task; 0: it goes on."""
    if task.status == t.PROCESSING or (task.finished_at_us and task.started_at_us >= task.claimed_at_us > 0):
        return task.started_at_us
    return task.finished_at_us
