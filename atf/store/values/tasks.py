"""What the verbs about tasks take and answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from atf.durability import Durability
from atf.task import DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_LOSSES, Status


class NewTask(NamedTuple):
    """A task to schedule; everything in it has been checked."""

    id: str  # as the client made it
    partition: int
    lambda_name: str
    priority: int
    spec: bytes  # a serialized TaskSpec with every option filled in
    digest: bytes  # of the request as it was sent
    at_us: int | None  # the instant asked for; None: delay_us from now
    delay_us: int
    max_attempts: int
    max_losses: int
    retention_us: int
    ordering_key: str = ""
    durability: Durability = Durability.RELAXED  # at least
    concurrency: str = ""  # see keys.concurrency
    unique: str = ""  # see keys.unique
    affinity: str = ""  # its affinity key
    joins: bool = (
        False  # it is unique, and stored nowhere: it is answered with the task that stands for it, or left out
    )
    labels: str = ""  # see keys.labels
    entries: str = ""  # of the opt-in index: see keys.entry, with a blank between two

    @property
    def stored_id(self) -> str:
        """As every other call names it."""
        return f"{self.partition}-{self.id}"


class Scheduled(NamedTuple):
    """What became of one NewTask."""

    id: str  # "<partition>-<id>"; of another task, where that stands for it by its unique key
    existed: bool  # the same request had been stored before, or another task stands for it
    conflict: bool  # another request holds the id; nothing was stored
    scheduled_at_us: int
    durability: Durability = Durability.RELAXED  # that was met
    left_out: bool = False  # it might only join, and no task stands for it; nothing was stored

    @property
    def new(self) -> bool:
        """Whether there is one task more."""
        return not (self.existed or self.conflict or self.left_out)


class CancelResult(NamedTuple):
    """What became of one id of a cancel."""

    status: Status | None  # after the call; None: no such task
    cancelled: bool
    cancel_requested: bool
    lambda_name: str = ""  # its task's; "": no such task


class RetryResult(NamedTuple):
    """What became of one id of a retry."""

    status: Status | None
    retried: bool
    held_by: str = ""  # the unfinished task that holds its unique key: nothing was done
    lambda_name: str = ""  # its task's; "": no such task


class RunRecord(NamedTuple):
    """One run that has ended."""

    owner: str
    started_at_us: int
    ended_at_us: int
    why: str
    attempt: int


class MisfitRecord(NamedTuple):
    """Signatures that a task's payload did not fit."""

    since_us: int  # when it met the last of them, or those have gone that it might fit; 0: it does not wait for that
    until_us: int  # from when on that is a failed attempt; 0: it stands where those take it that it might fit
    digests: Sequence[str]
    error: str  # where the payload did not fit the last of them


class TaskRecord(NamedTuple):
    """A task as it stands in the store."""

    id: str
    lambda_name: str
    priority: int
    status: Status
    attempts: int
    losses: int
    runs: int
    fence: int
    scheduled_at_us: int
    next_at_us: int  # 0: none
    moved_at_us: dict[Status, int]  # the last move into each state
    owner: str
    cancel_requested: bool
    result: bytes
    result_encoding: int
    error: str
    progress: str
    ended_runs: list[RunRecord]
    spec: bytes
    ordering_key: str = ""
    digest: bytes = b""
    limits: str = ""  # as the store keeps them; "": the defaults
    lapses: str = ""  # ends of leases in a row that counted nothing, as the store keeps them
    alone: bool = False  # nothing else may run beside it
    failed_version: int = 0  # of its lambda's code, of a dead letter; 0: the code said none

    concurrency: str = ""  # see keys.concurrency
    nonce: str = ""  # of its newest claim: all tasks that were given out together have the same
    number: int = -1  # of an item in its batch; -1: it is none
    misfit: MisfitRecord | None = None  # None: it has met none that it did not fit
    of_job: JobTask | None = None  # while it is live
    held: bool = False  # its job is paused, and keeps it
    last_run: bool = False  # its job was deleted while it ran: there is no further run
    labels: str = ""  # see keys.labels
    entries: str = ""  # of the opt-in index: see keys.entry, with a blank between two
    has_log: bool = False  # get_log has something to say
    failure_group: str = ""  # of a dead letter: the group of those that failed alike
    waited: str = ""  # what it has waited for, as the store keeps it: see fields.FIELDS, wr
    traceparent: str = ""  # of its newest run that has ended, for what follows it
    late: str = ""  # why it was pushed late: see fields.FIELDS, wp
    withheld: bool = False  # what it holds was left out, for somebody who may not read that; never so in the store

    @property
    def most_attempts(self) -> int:
        """Attempts that it may have."""
        return int(self.limits.split()[0]) if self.limits else DEFAULT_MAX_ATTEMPTS

    @property
    def most_losses(self) -> int:
        """Losses at which it is a dead letter."""
        return int(self.limits.split()[1]) if self.limits else DEFAULT_MAX_LOSSES


class RestoredTask(NamedTuple):
    """A live task out of an export, with what it had been through; or one at which an ordering key has stopped."""

    id: str  # as its client made it
    lambda_name: str
    priority: int
    spec: bytes
    digest: bytes
    scheduled_at_us: int
    next_at_us: int  # 0: now
    limits: str
    ordering_key: str
    attempts: int
    losses: int
    runs: int
    fence: int
    error: str
    cancelled: bool = False  # that was asked for while it ran; it comes back as CANCELLED
    concurrency: str = ""  # see keys.concurrency
    lapses: str = ""  # ends of leases in a row that counted nothing, as the store keeps them
    alone: bool = False  # nothing else may run beside it
    unique_key: str = ""  # of the open window whose task it is
    stopped_at_us: int = (
        0  # when its ordering key has stopped at it, which failed for good; no spec: its record is gone
    )
    of_job: JobTask | None = None
    labels: str = ""  # see keys.labels
    entries: str = ""  # of the opt-in index: see keys.entry, with a blank between two


class JobTask(NamedTuple):
    """That a task is one of a job."""

    job: str
    beside: bool = False  # somebody had it made beside the ticks
