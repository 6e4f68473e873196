"""Describes a pause of claims, during which no task of a partition starts, words it for people, and says it in the logs of roles.

Claims pause where executors may still run tasks of which the store has forgotten the claims (docs/decisions/07-no-claims-while-leases-may-be-forgotten.md): none may run twice at once.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from atf.errors import AtfError, Unavailable
from atf.log import get_logger
from atf.runtime import Runtime
from atf.task import US
from atf.times import length

if TYPE_CHECKING:
    from .store import Store

LOOK_S: Final = 1.0
"""Seconds between two looks whether claims are still paused; and until the first, by when all partitions of a server have met its restart."""

_log = get_logger(duty="claims")


class PauseCause(enum.StrEnum):
    """Why claims pause, as the store notes it."""

    RESTART = "restart"
    EMPTIED = "emptied"
    IMPORT = "import"


_SAID: Final = {
    PauseCause.RESTART: ("a server of the task store restarted or was replaced", "tasks whose claims it has forgotten"),
    PauseCause.EMPTIED: ("a server of the task store came back without its data", "tasks that it has forgotten"),
    PauseCause.IMPORT: ("tasks were imported into the task store", "them"),
}
"""What happened, and what executors may still run."""


class ClaimPause(NamedTuple):
    """No claims are given, in one partition or in several."""

    left_us: int  # for how long at least, unless answers end it sooner
    unseen: bool  # that is over, and no store consumer has seen it yet: it lasts until one has
    waits_for: int  # processes that give claims and have still to answer; once all have found theirs, it ends at once. 0: it does not end so
    cause: PauseCause
    partitions: int = 1  # in which it is so
    of: int = 1  # how many there are

    @classmethod
    def from_reply(cls, reply: Sequence[Any]) -> Self | None:
        """As a function of the store answers it; None: claims are given."""
        if not reply:
            return None
        left, unseen, waits_for, cause = reply
        return cls(int(left), bool(unseen), int(waits_for), PauseCause(cause.decode()))

    @classmethod
    def longest_of(cls, found: Sequence[ClaimPause | Unavailable | None]) -> ClaimPause | None:
        """What several partitions answer, as one: the pause that lasts longest."""
        paused = [each for each in found if isinstance(each, ClaimPause)]
        if not paused:
            return None
        longest = max(paused, key=lambda each: (each.unseen, each.left_us))
        return longest._replace(partitions=len(paused), of=len(found))

    @property
    def sentence(self) -> str:
        """The words for it, which begin in the middle of a sentence and end without a full stop: a length of time, why, and what ends it."""
        tasks = "no task" if self.partitions == self.of else f"no task in {self.partitions} of {self.of} partitions"
        happened, run = _SAID[self.cause]
        if self.unseen:
            return (
                f"{tasks} starts until a store consumer has seen the pause of claims go by, which began when {happened}. None runs, or the"
                " server's clock has jumped: then it takes one heartbeat_timeout"
            )
        left = length(-(-self.left_us // US) * US)
        how_long = f"another {left}" if self.waits_for else f"at least another {left}"
        said = (
            f"{tasks} starts for {how_long}: claims are paused, since {happened}. Executors may still run {run}, and no task may run twice at"
            " the same time"
        )
        if self.waits_for == 1:
            said += ". The pause ends sooner once the last heartbeat service has found that none of its claims was forgotten"
        elif self.waits_for:
            said += f". The pause ends sooner once {self.waits_for} heartbeat services have found that none of their claims was forgotten"
        return said


class PauseLog:
    """Says in the log once that claims are paused, and once that they are given again, where this process meets that.

    Nothing is looked at before a call of the store meets a pause (`Store.pause_met`); then the store is asked once a second until it is over.

    Args:
        store: whose claims.
        runtime: clocks.
    """

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._paused: set[int] = set()

    async def run(self) -> None:
        """Watches until cancelled."""
        while True:
            await self._store.pause_met.wait()
            met, said = self._runtime.monotonic(), False
            while True:
                await asyncio.sleep(LOOK_S)
                pause = await self._look()
                if not self._paused:
                    break
                if pause is not None and not said:
                    _log.warning("claims are paused", why=pause.sentence)
                    said = True
            self._store.pause_met.clear()
            if said:
                _log.info("claims are given again", paused_s=round(self._runtime.monotonic() - met, 1))

    async def _look(self) -> ClaimPause | None:
        """Notes which partitions are paused. One that can't be asked is as it was."""
        try:
            found = await self._store.claim_pauses()
        except AtfError:
            return None
        for partition, each in enumerate(found):
            if isinstance(each, ClaimPause):
                self._paused.add(partition)
            elif each is None:
                self._paused.discard(partition)
        return ClaimPause.longest_of(found)
