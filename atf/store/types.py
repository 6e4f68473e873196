"""What goes into the task store's verbs and what comes out: plain values, neither Redis replies nor messages of the wire."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from atf.durability import Durability
from atf.task import DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_LOSSES, Status

from .claim_pause import ClaimPause


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


class OutboxRecord(NamedTuple):
    """A change that one partition has to apply for another."""

    partition: int  # in whose outbox it is
    number: int
    target: int  # that has to apply it
    body: bytes

    @property
    def kind(self) -> str:
        """The first word of its body, behind the version."""
        return self.body.partition(b'\n["')[2].partition(b'"')[0].decode()


class FirstTimeKey(NamedTuple):
    """A task asks whether it is the first that asks for a key."""

    task_id: str
    namespace: str
    key: str
    ttl_us: int  # how long the key is kept, if it is


class EnqueuePass(NamedTuple):
    """One pass of the store consumer over one partition."""

    now_us: int  # the store's TIME
    next_in_us: int | None  # until the next look is due; 0: at once; None: nothing is scheduled
    enqueued: int
    enqueued_again: int  # were ENQUEUED, expired, and gone from their queue
    lost: int  # leases that expired
    outbox: list[OutboxRecord]
    jobs: list[DueJob]
    gated: int = 0  # tasks that gates have kept, dropped or let pass, or that were cancelled for their concurrency key
    failing: Sequence[str] = ()  # lambdas whose automatic gates may have to close
    standing: int = 0  # were ENQUEUED, expired, and still in their queue: looked at again later
    step_back: str = "0"  # the last one of the store's clock; "0": there was none
    stepped_over: bool = True  # whether the caller may end leases for all that
    expired: Sequence[str] = ()  # tasks whose leases these were
    unfit: Sequence[str] = ()  # tasks of which an attempt has failed, since nobody's signature has fitted them for long


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


class Replace(enum.IntEnum):
    """What becomes of a job that has the name of a new one."""

    NOT = 0  # it stays, and the new one is refused
    GO_ON = 1  # it is replaced; where both have the same rhythm, the new one goes on from where it stands
    GO_ON_ENDED = 2  # the same, also where it has ended: then the new one has, too
    ANEW = 3  # it is replaced as if it had been deleted: its tasks are cancelled, and the new one begins anew


class NewJob(NamedTuple):
    """A job to make; everything in it has been checked."""

    name: str  # namespace/name
    request_id: str  # of the request, so that it may be repeated; "": none
    replace: Replace
    spec: bytes  # a serialized JobSpec
    overlap: str  # allow, skip, queue, cancel_running
    first_us: int | None  # the tick to come, if it begins anew; None: it would have none
    base_us: int  # what the durations of its timing count from
    rhythm: str  # two jobs with the same one tick alike from the same base
    ticks: int = 0  # that became tasks, of a job that was elsewhere before
    paused: bool = False


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


class Paused(NamedTuple):
    """The answer to pause_job."""

    found: bool  # whether there is such a job that has not ended, or has live tasks
    tasks: int  # that it has: those of a job without a record came by an import


class JobTask(NamedTuple):
    """That a task is one of a job."""

    job: str
    beside: bool = False  # somebody had it made beside the ticks


class ClaimedTask(NamedTuple):
    """A task claimed in an executor's name."""

    task_id: str
    counter: int
    nonce: str
    spec: bytes
    attempt: int
    run: int
    losses: int
    scheduled_at_us: int
    alone: bool  # nothing else may run beside it


class ClaimBatch(NamedTuple):
    """What became of the ids of one ClaimTasks."""

    claims: list[ClaimedTask]
    lost: list[str]
    deferred: list[str]


class HeldClaim(NamedTuple):
    """A claim somebody says it holds."""

    task_id: str
    counter: int
    nonce: str


class Beat(NamedTuple):
    """A claim to renew."""

    held: HeldClaim
    started: bool
    progress: str = ""


class Verdict(enum.IntEnum):
    """What the store says of a claim; the numbers are those of the wire."""

    OK = 1
    LOST = 2
    CANCEL = 3
    UNKNOWN = 4  # its partition is away; nothing was said of the claim


class Outcome(enum.IntEnum):
    """How a run ended; the numbers are those of the wire."""

    SUCCEEDED = 1
    FAILED = 2
    FAILED_FATAL = 3
    TIMED_OUT = 4
    STOPPED = 5
    HANDED_BACK = 6
    MISFIT = 7


class RunResult(NamedTuple):
    """The end of a run."""

    held: HeldClaim
    outcome: Outcome
    result: bytes = b""
    encoding: int = 0
    error: str = ""  # HANDED_BACK: why; MISFIT: where the payload does not fit
    retry_in_us: int = 0
    ran_us: int = 0
    ended_ago_us: int = 0
    began: bool = True  # whether the body was called; else no attempt is counted
    signature: str = ""  # MISFIT: the digest of what the payload does not fit
    grace_us: int = 0  # MISFIT: how long it may fit nobody before that is a failed attempt


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


class CancelResult(NamedTuple):
    """What became of one id of a cancel."""

    status: Status | None  # after the call; None: no such task
    cancelled: bool
    cancel_requested: bool


class RetryResult(NamedTuple):
    """What became of one id of a retry."""

    status: Status | None
    retried: bool
    held_by: str = ""  # the unfinished task that holds its unique key: nothing was done


class KeyRecord(NamedTuple):
    """An ordering key of a lambda."""

    key: str
    stopped_at_us: int  # 0: it has not stopped
    task_id: str  # at which it has stopped, or the first of its unfinished ones
    error: str  # of that one's last failure
    unfinished: int  # tasks of it


class SlotsRecord(NamedTuple):
    """A concurrency key of a lambda."""

    key: str
    taken: int  # slots
    limit: int  # of the task that has waited longest, else of the one that has held its slot longest
    waiting: int  # tasks


class KeyAnswer(enum.IntEnum):
    """What an attempt to have a stopped key go on came to."""

    NOT_STOPPED = 0
    DONE = 1
    WITHOUT = 2  # the task that stopped it can't be started afresh any more; what is behind it goes on
    ANOTHER = 3  # it has stopped at another task than the one given; nothing was done
    HELD = 4  # another task, the one that is named, holds the unique key of the task that stopped it; nothing was done


class MendedKey(NamedTuple):
    """The answer to resume_key or skip_key."""

    mended: KeyAnswer
    task_id: str  # that stopped it


class LambdaRecord(NamedTuple):
    """A registered lambda."""

    name: str
    spec: bytes  # a serialized LambdaSpec
    queue_limit: int  # that holds now
    enqueue_timeout_us: int  # that holds now
    paused: bool
    settings: str = ""  # what else its code says of how it is pushed, "name=value name=value" by name; see settings.py
    overrides: str = ""  # what an operator set instead of what the code says, `limit` and `timeout` among it
    gated: bool = False  # it has a gate


class GateAction(enum.Enum):
    """What a gate does to the tasks that it meets; the values are the store's words."""

    PAUSE = "pause"  # they wait
    DROP = "drop"  # they are cancelled
    DELAY = "delay"  # each waits for a while, once
    ADMIT = "admit"  # a share of them passes, the others wait


class NewGate(NamedTuple):
    """A gate to set; everything in it has been checked."""

    lambda_name: str
    action: GateAction
    labels: Mapping[str, str]  # that a task must have for the gate to meet it; {}: it meets all of the lambda
    amount: float = 0  # of DELAY µs, of ADMIT the share that passes
    until_us: int | None = None  # None: until_us from now ends it, or nothing does
    for_us: int = 0  # 0: until it is lifted
    who: str = ""
    why: str = ""
    automatic: bool = False  # set by ATF itself
    request_id: str = ""  # of the call, so that it may be repeated; "": it may not


class Gate(NamedTuple):
    """A gate as it stands."""

    number: int  # grows with each gate that is set
    lambda_name: str
    action: GateAction
    labels: dict[str, str]
    amount: float
    until_us: int  # 0: until it is lifted
    who: str
    why: str
    automatic: bool
    set_at_us: int
    waiting: int  # tasks that it keeps; of a pause of the whole lambda those that are due
    dropped: int  # tasks that it dropped


class AuditEntry(NamedTuple):
    """What somebody did to a lambda."""

    number: int
    at_us: int
    what: str  # set_gate, lift_gate, redrive
    lambda_name: str
    labels: dict[str, str]
    who: str
    why: str
    detail: str  # for people


class QueueDepth(NamedTuple):
    """One queue as RQ sees it."""

    name: str  # "{partition}namespace/name:priority"
    partition: int
    lambda_name: str
    priority: int
    depth: int


class ExplainedTask(NamedTuple):
    """Where a task stands, and what it waits for."""

    record: TaskRecord
    now_us: int
    paused: bool
    queue_depth: int
    queue_limit: int
    position: int  # in its queue or behind its ordering key; -1: in neither
    in_queue: bool
    behind: str  # the task that holds its ordering key; "": none
    pause: ClaimPause | None = None  # of claims in its partition
    stopped_at: str = ""  # the task at which its ordering key has stopped; "": it has not
    waits_for: str = ""  # the limit of its lambda that its queue waits for, "running=5" or "rate=100"; "": none
    in_hand: int = (
        0  # tasks of its lambda that stand in queues and run, anywhere; counted where it waits for one of these
    )
    gate: int = 0  # number of the gate that keeps it; 0: none does
    unserved: str = (
        ""  # the pool that its lambda names and to which no live worker belongs; "": there is one, or it names none
    )

    served: bool = True  # a live worker belongs to the pool that its lambda runs in, of whatever name
    slots_taken: int = 0  # of its concurrency key
    before: int = -1  # tasks before it that wait for such a slot; -1: it does not wait for one
    hosts: int = 0  # live hosts of the pool that its lambda is given to
    aside: Mapping[str, int] = {}  # those of them that set its lambda aside: until when, µs
    not_run: bool = False  # live workers of that pool all say which lambdas they run, and this one is not among them
    unknown: bool = False  # the partition of the task does not know its lambda, or not yet
    signatures: Sequence[str] = ()  # digests of those of its lambda that live executors run
    failing: Mapping[str, str] = {}  # some hosts of that pool on which no executor can start, and why
    starting: Sequence[str] = ()  # some hosts of that pool whose executors start


class BatchAnswer(enum.IntEnum):
    """What became of a call about a batch."""

    NEW = 0  # it was made; of reserve_items: numbers were handed out
    SAME = 1  # it was there
    OTHER = 2  # there with another description; of reserve_items: the request asked for another number of items before
    MISSING = 3  # there is none
    CANCELLED = 4  # it takes no more items
    DELETED = 5  # a moment ago, or it is being deleted; its id is taken for ten minutes


class OpenedBatch(NamedTuple):
    """The answer to open_batch."""

    found: BatchAnswer
    total: int  # items that it is to have; -1: more may come
    prefix: int  # items with smaller numbers are stored
    first: int  # of an extension's items, which get their numbers by reserve_items
    single_partition: bool  # all its items lie at its home
    spec: bytes  # the description that it was made with


class BatchPlace(NamedTuple):
    """A batch in the order in which batches are listed."""

    created_at_us: int
    partition: int
    id: str


class Reserved(NamedTuple):
    """The answer to reserve_items."""

    found: BatchAnswer  # NEW, OTHER, MISSING, CANCELLED or DELETED
    first: int  # of the numbers


class ItemTerms(NamedTuple):
    """What the items of a batch have in common."""

    lambda_name: str
    priority: int
    max_attempts: int = 10
    max_losses: int = 3
    pause_us: int = 0  # between two items of one ordering key


class NewItem(NamedTuple):
    """An item of a batch; everything in it has been checked."""

    number: int  # in its batch, below 100 million
    md5: str  # of what it does; see atf/sdk/work_items.py
    spec: bytes  # a serialized TaskSpec with every option filled in
    ordering_key: str = ""
    concurrency: str = ""  # see keys.concurrency
    affinity: str = ""  # its affinity key


class BatchRecord(NamedTuple):
    """A batch as it stands in the store. The counts are exact, and add up to `items`."""

    id: str
    lambda_name: str
    spec: bytes  # a serialized BatchSpec
    digest: bytes
    retention_us: int
    created_at_us: int
    ended_at_us: int  # 0: it has not
    round: int  # 1, and 1 more with each extension or retry after an end
    total: int  # items that it is to have; -1: more may come
    prefix: int  # items with smaller numbers are stored
    single_partition: bool  # all its items lie at its home
    cancel_requested: bool
    deleting: bool
    now_us: int  # the store's TIME of the answer
    items: int  # that are stored
    created: int
    in_progress: int
    done: int
    failed: int  # to run again
    permanently_failed: int
    cancelled: int
    begun: bool  # some item has been started; or the batch has ended
    error: str = ""  # why a callback of its newest end was not made, or the batch itself
    unmade: bool = False  # it is a link of a chain, and could not be made

    @property
    def ended(self) -> bool:
        """Whether every item has ended, and no more are to come."""
        return self.ended_at_us > 0 and self.items == self.done + self.permanently_failed + self.cancelled


class ItemRecord(NamedTuple):
    """An item of a batch."""

    number: int
    work_item_id: str
    task: TaskRecord


class ItemsFound(NamedTuple):
    """A page of items."""

    items: list[ItemRecord]
    next: int | None  # the number from which the next page is asked for; None: that was all


class BatchCommandAnswer(enum.IntEnum):
    """What became of a command about a batch."""

    DONE = 0  # it is being done
    NOTHING = 1  # there is nothing to do
    MISSING = 2  # there is no such batch
    CANCELLED = 3  # it was cancelled, and can't be retried
    NOT_ENDED = 4  # so it can't be deleted
