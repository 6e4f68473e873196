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


class Taker(NamedTuple):
    """An ask that may be given tasks: one call of an executor for work."""

    owner: str  # the executor
    nonce: str  # of the ask, unguessable: what it claims bears that
    room: int  # tasks that it takes at most; 1 at least


class Taken(NamedTuple):
    """What one call of next_claims has claimed."""

    claims: dict[str, list[ClaimedTask]]  # by the nonces of the takers
    served: dict[str, int]  # queue -> tasks of it that were claimed
    filled: list[str]  # queues that may hold more for these takers: they had to stand back, or not all was wanted
    left_to: frozenset[
        str
    ]  # hosts to which some was left, where fewer were found than wanted: it is anybody's before long
    over: frozenset[
        str
    ]  # nonces of takers that get nothing any more: they were given up, or what they had claimed is over

    @property
    def left(self) -> bool:
        """Whether some was left to other hosts."""
        return bool(self.left_to)

    def taken(self) -> int:
        """How many tasks were claimed."""
        return sum(self.served.values())


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
