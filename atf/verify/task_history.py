"""What is known of each task while a history is read: its claims, its runs, and when it is due."""

from __future__ import annotations

from dataclasses import dataclass, field

from .events import (
    FOREVER,
    Accepted,
    Claimed,
    Found,
)


@dataclass(slots=True)
class RunHistory:
    """One run."""

    fence: int
    process: str
    start_us: int
    store_us: int
    nonce: str = ""
    end_us: int = FOREVER
    succeeded: bool = False

    @property
    def token(self) -> tuple[int, str]:
        return self.fence, self.nonce


@dataclass(slots=True)
class TaskHistory:
    """One task."""

    called: bool = False
    accepted: Accepted | None = None
    due_us: int = 0
    claims: dict[tuple[int, str], Claimed] = field(default_factory=dict)
    """By their tokens, in the order in which they were given."""
    runs: list[RunHistory] = field(default_factory=list)
    not_before_us: int = 0
    found: Found | None = None
    afresh: bool = False


def is_younger(task: TaskHistory, token: tuple[int, str], other: tuple[int, str]) -> bool:
    """Whether one claim was given after another; by their fences where nobody saw them given."""
    if token not in task.claims or other not in task.claims:
        return token[0] > other[0]
    return task.claims[token].at_us > task.claims[other].at_us
