"""Says to the store, again and again, what there is to know of this host; and hears whether an operator has it drain."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from atf.errors import AtfError
from atf.log import get_logger
from atf.runtime import Runtime, happens
from atf.store.capacity import STARTS
from atf.store.store import Store
from atf.task import US

from .demand import Lambdas
from .present import PresentExecutors
from .quarantine import Quarantine
from .requests import MAX_WAIT_US
from .starts import Starts

KNOWN_S: Final = 30.0
"""Seconds for which workers that said they are alive count as such."""
FAILING_KNOWN_S: Final = 300.0
"""Seconds for which it is known why none can start here: a controller that has given up is not forgotten before somebody has looked."""

_AGAIN_S: Final = 2.0
"""Seconds after which it is said again where part of the store was away: two lost calls must not have workers count as gone that live."""

_DRAINING_S: Final = 1.0
"""Seconds between two times that a host which drains says how many executors are left: somebody waits for it."""

ASKED_S: Final = 2 * MAX_WAIT_US / US
"""Seconds after its last call that an executor's lambdas count as served here: twice what a call may wait."""

_log = get_logger(duty="next_work")


@dataclass(kw_only=True, eq=False)
class HostState:
    """What this host says of itself.

    Attributes:
        drains: whether an operator has this host drain.
        on_drain: called when that changes.
    """

    store: Store
    """To which it does."""
    pool: str
    """Its pool's name."""
    host: str
    """By what name others know it."""
    runtime: Runtime
    """Clocks."""
    starts: Starts
    """Of its executors."""
    quarantine: Quarantine
    """What it quarantines."""
    here: PresentExecutors
    """The executors of this host."""
    executors: Callable[[], int]
    """How many are here."""
    rearrange: Callable[[], None]
    """Called when what executors may run may have changed."""

    def __post_init__(self) -> None:
        self.drains = False
        self.on_drain: Callable[[bool], None] = lambda _: None
        self._news = asyncio.Event()
        self._asked: dict[Lambdas, float] = {}
        """The sets of lambdas that executors here run, and when each was asked for last."""
        self.starts.changed.append(self.tell)

    def tell(self) -> None:
        """There is something new to say."""
        self._news.set()

    def asked(self, lambdas: Lambdas, now: float, *, new: bool) -> None:
        """An executor asks for tasks of these lambdas; `new`, with signatures of which nothing was known here."""
        if new or lambdas not in self._asked:
            self.tell()
        self._asked[lambdas] = now

    async def run(self) -> None:
        """Says again and again that workers of this pool are alive, and at once what this host quarantines and which code is new here."""
        while True:
            now = self.runtime.monotonic()
            change = self.quarantine.next_change(now)
            self.rearrange()
            rest = KNOWN_S / 3 if await self.say() else _AGAIN_S
            if self.drains and self.executors():
                rest = _DRAINING_S
            await happens(self._news, rest if change is None else min(change - now, rest))
            self._news.clear()

    async def say(self) -> bool:
        """Says to the store what there is to know of this host. Returns whether all of it has answered."""
        now, why_not = self.runtime.monotonic(), self.starts.to_say
        quarantined = {each.lambda_name: max(each.until - now, 0.0) for each in self.quarantine.listing(now)}
        known = FAILING_KNOWN_S if why_not not in {"", STARTS} else KNOWN_S
        with contextlib.suppress(AtfError):  # the poller says what is wrong with the store
            drains, everywhere = await self.store.serve(
                self.pool, known, self.host, quarantined, self._serves(now), executors=self.executors(), why_not=why_not
            )
            self._drain_host(self.drains if drains is None else drains)
            return everywhere
        return False

    def _drain_host(self, drains: bool) -> None:
        """What an operator wants of this host holds until the store says otherwise."""
        if drains == self.drains:
            return
        self.drains = drains
        _log.info("host drains" if drains else "host takes tasks again", host=self.host)
        self.rearrange()
        self.on_drain(drains)

    def _serves(self, now: float) -> list[str]:
        self._asked = {each: asked for each, asked in self._asked.items() if asked + ASKED_S > now}
        signed = self.here.signed()
        unsigned = self.here.lambdas().union(*self._asked).difference([each.partition(" ")[0] for each in signed])
        return sorted(signed | unsigned)
