"""What the verbs about jobs take and answer."""

from __future__ import annotations

import enum
from typing import NamedTuple

from .tasks import NewTask


class DueJob(NamedTuple):
    """A job whose tick has come."""

    name: str
    generation: int
    due_us: int  # the tick
    ticks: int  # made before it
    running: str  # a tick before it that has not ended; "": there is none
    ended_us: int  # when the last one had ended; 0: none has yet
    base_us: int  # what the durations of its timing count from
    spec: bytes  # a serialized JobSpec


class Tick(NamedTuple):
    """What comes of a tick."""

    name: str
    generation: int
    due_us: int  # where the job must stand
    next_us: int | None  # the job's next tick; None: it ends
    passed_over: int  # ticks that make no task
    why: str  # they don't
    retention_us: int  # of the job's record, once it has ended
    tick_us: int = 0  # the tick of the task: due_us, or a later one
    task: NewTask | None = None  # at its at_us


class JobAnswer(enum.IntEnum):
    """What ScheduleJob came to."""

    MADE = 0
    BEFORE = 1  # by this very request
    TAKEN = 2  # by another job; nothing was stored
    REPLACED = 3
    NOT_YET = 4  # the job before it has more tasks than one call cancels
    NEVER = 5  # it would have to begin anew, and has no tick to come; nothing was stored


class ReplaceJob(enum.IntEnum):
    """What becomes of a job that has the name of a new one."""

    NOT = 0  # it stays, and the new one is refused
    GO_ON = 1  # it is replaced; where both have the same rhythm, the new one goes on from where it stands
    GO_ON_ENDED = 2  # the same, also where it has ended: then the new one has, too
    ANEW = 3  # it is replaced as if it had been deleted: its tasks are cancelled, and the new one begins anew


class NewJob(NamedTuple):
    """A job to make; everything in it has been checked."""

    name: str  # namespace/name
    request_id: str  # of the request, so that it may be repeated; "": none
    replace: ReplaceJob
    spec: bytes  # a serialized JobSpec
    overlap: str  # allow, skip, queue, cancel_running
    first_us: int | None  # the tick to come, if it begins anew; None: it would have none
    base_us: int  # what the durations of its timing count from
    rhythm: str  # two jobs with the same one tick alike from the same base
    ticks: int = 0  # that became tasks, of a job that was elsewhere before
    paused: bool = False
    lambda_name: str = ""  # of its tasks
    may_replace: int | None = None  # the generation of the one job that it may replace; 0: none; None: any


class MadeJob(NamedTuple):
    """The answer to a NewJob."""

    made: JobAnswer
    generation: int  # NEVER: of the job that has the name; 0: there is none, or it has ended
    made_at_us: int  # of the job that has the name


class JobRecord(NamedTuple):
    """A job as it stands in the store."""

    name: str
    generation: int  # grows with each replacement
    made_at_us: int
    spec: bytes
    next_us: int | None  # None: it has ended
    ticks: int  # that became tasks
    paused: bool
    last_us: int | None  # the newest tick that became a task
    last_task: str
    last_outcome: str  # the status in which it ended; "": not yet
    passed_over: int  # ticks that made no task
    why: str  # the newest of them did not
    overlap: str  # what comes of a tick while one before it has not ended
    base_us: int  # what the durations of its timing count from
    rhythm: str  # two jobs with the same one tick alike from the same base
    running: str  # a tick that has not ended; "": there is none


class PausedJob(NamedTuple):
    """The answer to pause_job."""

    found: bool  # whether there is such a job that has not ended, or has live tasks
    tasks: int  # that it has: those of a job without a record came by an import
