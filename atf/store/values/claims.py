"""What the verbs about claims take and answer."""

from __future__ import annotations

import enum
from typing import NamedTuple


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
    logs: str = ""  # of which runs the log is kept, by its word; "": as by default


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


class ClaimRenewal(NamedTuple):
    """A claim to renew."""

    held: HeldClaim
    started: bool
    progress: str = ""
    log: KeptRunLog | None = None  # None: unchanged


class KeptRunLog(NamedTuple):
    """What is kept of what a run said."""

    run: int
    attempt: int
    text: str
    cut_bytes: int  # that stood before it


class Verdict(enum.IntEnum):
    """What the store says of a claim; the numbers are those of the wire."""

    OK = 1
    LOST = 2
    CANCEL = 3
    UNKNOWN = 4  # its partition is away; nothing was said of the claim
    WATCHED = 5  # of a heartbeat: as OK, and somebody watches the run's log


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
    log: KeptRunLog | None = None  # where it is to be kept
    traceparent: str = ""  # of its span, for what follows the task


class FirstTimeKey(NamedTuple):
    """A task asks whether it is the first that asks for a key."""

    task_id: str
    namespace: str
    key: str
    ttl_us: int  # how long the key is kept, if it is
