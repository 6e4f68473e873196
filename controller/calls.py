"""One open call of NextWork, as the steps that serve it know it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from .lambda_sets import NamedLambdas


@dataclass(kw_only=True, eq=False)
class OpenCall:
    """A call that waits for work.

    Attributes:
        executor_id: who asks.
        stream: which of its call streams.
        nonce: names what is claimed for this call.
        runs: what the call stream can run.
        room: how many tasks it takes at most.
        since: when it came, by the monotonic clock.
        withdrawn: whether nobody reads the answer any more.
        stirred: set when it has been withdrawn, or may be given something else than before.
        unknown: whether something may have been claimed for it that nobody here knows.
        asking: the call of NextClaims that is open for it.
    """

    executor_id: str
    stream: str
    nonce: str
    runs: NamedLambdas
    room: int
    since: float
    withdrawn: bool = False
    unknown: bool = False
    stirred: asyncio.Event = field(default_factory=asyncio.Event)
    asking: asyncio.Task[Any] | None = None

    def stir(self) -> None:
        """What it is to ask for has changed: what was asked is taken back."""
        self.stirred.set()
        if self.asking is not None:
            self.asking.cancel()

    def withdraw(self) -> None:
        """The executor has called anew or is dead, or this controller ends."""
        self.withdrawn = True
        self.stir()
