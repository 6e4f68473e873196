"""What a pass of the store consumer over a partition answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .jobs import DueJob


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
    late_us: int = 0  # for how long the next look has been due already
