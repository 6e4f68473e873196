"""Where a task stands and what it waits for, as the store knows it; and the lengths of queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from atf.store.claim_pause import ClaimPause

from .tasks import TaskRecord


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
    quarantined: Mapping[str, int] = {}  # those of them that quarantine its lambda: until when, µs
    not_run: bool = False  # live workers of that pool all say which lambdas they run, and this one is not among them
    unknown: bool = False  # the partition of the task does not know its lambda, or not yet
    signatures: Sequence[str] = ()  # digests of those of its lambda that live executors run
    failing: Mapping[str, str] = {}  # some hosts of that pool on which no executor can start, and why
    starting: Sequence[str] = ()  # some hosts of that pool whose executors start
    pauses: Sequence[tuple[int, int]] = ()  # of its lambda, the last ones: since and until when; 0: it goes on


class QueueDepth(NamedTuple):
    """One queue as RQ sees it."""

    name: str  # "{partition}namespace/name:priority"
    partition: int
    lambda_name: str
    priority: int
    depth: int
