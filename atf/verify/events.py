"""What is seen of a run: the events that verify's checker judges. All instants are microseconds of the observer's clock, unless they say store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FOREVER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Called:
    """A Schedule call was sent (again)."""

    at_us: int
    task_id: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """Schedule has answered; the task is due at `due_us` of the store's clock. `stored_us`: when it was written, if known (else 0)."""

    at_us: int
    task_id: str
    due_us: int
    stored_us: int = 0


@dataclass(frozen=True, slots=True)
class Keyed:
    """The task has a key, of whose tasks at most `limit` run at once; `ordered`: in the order of what Accepted says of `stored_us`."""

    at_us: int
    task_id: str
    key: str
    limit: int
    ordered: bool


@dataclass(frozen=True, slots=True)
class Rescheduled:
    """An operator has started the task afresh: it is due at `due_us` of the store's clock."""

    at_us: int
    task_id: str
    due_us: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """The store gave a claim at `store_us` of its clock; the token is fence and nonce. Who can't see that speaks of runs alone."""

    at_us: int
    task_id: str
    fence: int
    nonce: str
    store_us: int


@dataclass(frozen=True, slots=True)
class Began:
    """A run began. `store_us` is the latest instant that the store's clock had shown until then.

    `together` names what it shares a limit with, of which `most` may run at once; 0: no limit. `nonce`: of its claim, if known.
    """

    at_us: int
    task_id: str
    fence: int
    process: str
    store_us: int
    together: str = ""
    most: int = 0
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """A run's body ended, in whatever way; `succeeded` only if it returned."""

    at_us: int
    task_id: str
    fence: int
    process: str
    succeeded: bool


@dataclass(frozen=True, slots=True)
class Gone:
    """A process has ended, and all its runs with it. A frozen process has not ended."""

    at_us: int
    process: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """The store accepted the outcome of a claim. `not_before_us` (store): no run may begin earlier; 0: none is to come."""

    at_us: int
    task_id: str
    fence: int
    not_before_us: int = 0
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class Forgot:
    """The store lost every write that it had answered after `since_us`: a power loss without a sync, a failover."""

    at_us: int
    since_us: int


@dataclass(frozen=True, slots=True)
class SetBack:
    """The store's clock was set back. Where it also forgets a claim, later ones may have no larger fence: see Forgot."""

    at_us: int


@dataclass(frozen=True, slots=True)
class Excused:
    """Until `until_us` a run in this process may overlap: executor and guard were frozen past the end of its leases."""

    at_us: int
    process: str
    until_us: int


@dataclass(frozen=True, slots=True)
class Found:
    """What the store says of a task at the very end: `status` "" where it does not know it."""

    at_us: int
    task_id: str
    status: str
    finished: bool


Event = (
    Called | Accepted | Keyed | Rescheduled | Claimed | Began | Ended
    | Gone | Recorded | Forgot | SetBack | Excused | Found
)  # fmt: skip
