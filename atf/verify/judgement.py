"""What a history of tasks comes to: which promises it breaks, and the figures."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field


class Breach(enum.Enum):
    """A broken promise, or what comes near to one."""

    LOST = "accepted, and the store does not know it at the end"
    STUCK = "accepted, and not finished although nothing has disturbed it for long"
    EARLY = "started before its instant had come by the store's clock"
    CONCURRENT = "two of its runs overlapped"
    STALE_RESULT_ACCEPTED = "a result was accepted although a younger claim was known"
    TOKEN_REUSED = "two claims, or two runs, had one claim token"  # noqa: S105  no password
    FENCE_NOT_GROWN = "a claim's fence was no larger than that of a claim before it"
    CROWDED = "more tasks of its lambda ran at once than may"

    TOO_MANY = "more runs of a key's tasks at once than its limit"
    OUT_OF_ORDER = "it began before a task of its ordering key that was accepted earlier"
    UNEXPECTED = "it ran, or is in the store, and nobody asked for it"


@dataclass(frozen=True, slots=True)
class Finding:
    """One breach. `text` says it in a sentence, with the instants."""

    breach: Breach
    task_id: str
    at_us: int
    text: str


@dataclass(slots=True)
class Judgement:
    """What a history comes to.

    Attributes:
        attempted: tasks somebody called Schedule for.
        acknowledged: of these, how many were accepted.
        recovered: attempted, never acknowledged, and there all the same.
        duplicated: tasks of which more than one run succeeded; at least once allows it.
        repeated: runs beyond the first of each task.
        forgiven: accepted tasks that went with what the store forgot; see Forgot.
        excused: overlaps that no timeout can prevent; see Excused.
    """

    attempted: int = 0
    acknowledged: int = 0
    recovered: int = 0
    duplicated: int = 0
    repeated: int = 0
    forgiven: int = 0
    excused: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def counts(self) -> Counter[Breach]:
        """How many of each breach."""
        return Counter(each.breach for each in self.findings)
