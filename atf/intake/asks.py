"""What an ask is: an executor, or an app, waits for tasks that it can run, for so long as its call is open."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from atf.rpc.lambda_sets import LambdaSet
from atf.store.values.claims import ClaimedTask

Lambdas = frozenset[str]

FRESH_S: Final = 1.0
"""Seconds for which an ask may be given something. Its asker takes no answer that comes over 2 s after it asked."""
RENEW: Final = 0.75
"""Of that time, what passes until an ask whose turn is near is renewed."""

_NUMBERS: Final = itertools.count(1)


def lambda_of(queue: str) -> str:
    """The lambda whose queue it is: "namespace/name:priority"."""
    return queue.rpartition(":")[0]


class AskKind(NamedTuple):
    """What an ask may be given. Asks of one kind stand in one line."""

    pool: str
    """The worker cluster; "": of no name."""
    runs: LambdaSet
    """What the executor runs."""
    without: Lambdas = frozenset()
    """Of these nothing is wanted."""
    only: Lambdas | None = None
    """Of these alone something may be given, where cores are set for the pool; None: of all."""

    @property
    def lambdas(self) -> Lambdas:
        """Whose tasks may be given."""
        allowed = self.runs.lambdas if self.only is None else self.only & self.runs.lambdas
        return allowed - self.without


class Answer(NamedTuple):
    """What an ask is answered."""

    claims: Sequence[ClaimedTask] = ()
    again: bool = False
    """Whether to ask again at once: the ask is too old to be given anything, and its turn is near."""
    over: bool = False
    """Whether its nonce is given nothing any more: what it had claimed is over, or it was given up."""


NOTHING: Final = Answer()


@dataclass(eq=False, slots=True)
class Ask:
    """One ask. Its answer belongs to the call that is open: nobody else takes what was claimed for it."""

    owner: str
    """In whose name tasks are claimed."""
    nonce: str
    """Tells this ask from all others, in every process; the same when it is asked again."""
    kind: AskKind
    host: str
    """By what name others know the asker's host; "": by none, and then it shares no call with others."""
    room: int
    """How many tasks it takes at most."""
    max_bytes: int
    """Of its claims together."""
    received: float
    """When the call came, by the monotonic clock: leases count from its sending, so it is given nothing once it is old."""
    since: float
    """Since when its executor waits: its place in the line."""
    fresh: float = FRESH_S
    """Seconds for which it may be given something; longer where the asker is in this process, and sees no answer late."""
    answered: asyncio.Future[Answer] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    may_be: AskKind = field(init=False)
    """`kind` as the pool's cores restrict it now: that of the line it stands in."""
    call: asyncio.Task[None] | None = None
    """What claims tasks for it just now, or finds out what was claimed."""
    number: int = field(default_factory=_NUMBERS.__next__)

    def __post_init__(self) -> None:
        self.may_be = self.kind

    @property
    def place(self) -> tuple[float, int]:
        """Less is served first."""
        return self.since, self.number

    @property
    def fresh_until(self) -> float:
        """From then on it is given nothing."""
        return self.received + self.fresh

    @property
    def renew_at(self) -> float:
        """From then on it is told to ask again, once its turn is near."""
        return self.received + RENEW * self.fresh

    @property
    def open(self) -> bool:
        """Whether it waits for an answer."""
        return not self.answered.done()

    def answer(self, answer: Answer) -> None:
        """Answers it, if it still waits."""
        if self.open:
            self.answered.set_result(answer)

    def fail(self, error: Exception) -> None:
        """Answers it with an error, if it still waits."""
        if self.open:
            self.answered.set_exception(error)
