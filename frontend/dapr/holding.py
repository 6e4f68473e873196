"""Holds the claims of triggers that watchers have: renews their leases and records their ends, however often that fails.

Claims are never "started" for the store, so that one can be handed back and count nothing: what a watcher does with a trigger is not known
here. Where leases can't be renewed the store ends them, and whatever a watcher says of such a trigger afterwards changes nothing: its token is
an old one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from atf.calls.coalescing import CallLimits, KeyedCoalescer
from atf.calls.retry import RetryPolicy, Trouble, retry
from atf.config.settings import Timing
from atf.errors import Unavailable
from atf.log import get_logger
from atf.runtime import Runtime
from atf.store.store import Store
from atf.store.values.claims import ClaimRenewal, HeldClaim, Outcome, RunResult, Verdict
from atf.task import MAX_BATCH, partition_of

from .watchers import Trigger

MAX_HELD: Final = 16_384
"""Claims of one frontend: a heartbeat names all of them."""

_RECORD_AGAIN: Final = RetryPolicy(first=0.05, most=1.0, errors=(Exception,))  # whatever it is, it must be recorded
_TOGETHER: Final = CallLimits(size=MAX_BATCH)
_log = get_logger(duty="hold")

End = RunResult | HeldClaim
"""How a run ended; or a claim to hand back."""


class TriggerClaims:
    """All claims of one frontend.

    Args:
        owner: in whose name they are.
    """

    def __init__(self, *, store: Store, timing: Timing, runtime: Runtime, owner: str) -> None:
        self.owner = owner
        self._store = store
        self._timing = timing
        self._runtime = runtime
        self._held: dict[HeldClaim, Trigger] = {}
        self._ends: KeyedCoalescer[int, End, None] = KeyedCoalescer(
            self._record_ends, size=lambda _: 1, limits=_TOGETHER, runtime=runtime, name="record ends of triggers"
        )
        self._trouble = Trouble(_log, "store")

    @property
    def room(self) -> int:
        """Claims that may be added."""
        return MAX_HELD - len(self._held)

    def add(self, trigger: Trigger) -> None:
        """Renews its lease from now on."""
        self._held[trigger.held] = trigger

    def fresh(self, trigger: Trigger) -> bool:
        """Whether its lease can't have ended yet, so that nobody else has the trigger."""
        age_us = self._runtime.boottime_us() - trigger.leased_us
        return trigger.held in self._held and age_us < self._timing.heartbeat_timeout_us

    def finish(self, trigger: Trigger, outcome: Outcome, error: str = "") -> None:
        """Records how a run ended, soon."""
        self._held.pop(trigger.held, None)
        ran_us = max(self._runtime.boottime_us() - trigger.given_us, 0)
        retry_us = trigger.retry_us if outcome is Outcome.FAILED else 0
        self.record_ends(RunResult(trigger.held, outcome, error=error, retry_in_us=retry_us, ran_us=ran_us))

    def hand_back(self, triggers: Iterable[Trigger]) -> None:
        """Has others get them, soon; counts nothing."""
        for each in triggers:
            self._held.pop(each.held, None)
            self.record_ends(each.held)

    def record_ends(self, *ends: End) -> None:
        """Records ends, soon, however often that fails; each partition for itself."""
        for each in ends:
            self._ends.of(partition_of(_task_id(each), self._store.partitions)).add([each])

    async def close(self, seconds: float) -> None:
        """Waits until all ends are recorded, at most so long. What is not then ends with its lease."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for each in self._ends.all():
                    await each.idle()
        for each in self._ends.all():
            await each.close()

    # --- duties -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Renews leases until cancelled."""
        while True:
            await asyncio.sleep(self._timing.heartbeat_interval)
            if self._held:
                await self.heartbeat()

    async def heartbeat(self) -> None:
        """Renews all leases once."""
        held, sent_us = list(self._held.values()), self._runtime.boottime_us()
        try:
            async with asyncio.timeout(self._timing.rpc_deadline):
                beats = [ClaimRenewal(each.held, started=False) for each in held]
                verdicts = await self._store.heartbeat(beats)
        except Exception as error:  # noqa: BLE001  whatever it is, the leases were not renewed
            self._trouble.failed("beat", error)
            return
        self._trouble.ended("beat")
        for trigger, verdict in zip(held, verdicts, strict=True):
            # CANCEL: its job was deleted, or somebody cancelled it; it ends when the watcher is done with it, or is gone.
            if verdict in {Verdict.OK, Verdict.CANCEL}:
                trigger.leased_us = sent_us
            elif verdict is Verdict.LOST and trigger.held in self._held:
                del self._held[trigger.held]
                _log.warning("a trigger's lease has ended; it comes again", task=trigger.held.task_id)

    async def _record_ends(self, partition: int, ends: list[End], _until: float) -> list[None]:
        record = partial(self._record, ends)
        await retry(record, _RECORD_AGAIN, self._runtime, trouble=(self._trouble, partition))
        return [None] * len(ends)

    async def _record(self, batch: Sequence[End]) -> None:
        """One try; all of it may be tried again."""
        results = [each for each in batch if isinstance(each, RunResult)]
        if results:
            verdicts = await self._store.set_results(results)
            if Verdict.UNKNOWN in verdicts:
                raise Unavailable("the task store can't be reached")
            for result, verdict in zip(results, verdicts, strict=True):
                if verdict is Verdict.LOST:
                    _log.warning(
                        "what was said of a trigger whose lease has ended changes nothing", task=result.held.task_id
                    )
        backs = [each for each in batch if isinstance(each, HeldClaim)]
        if backs:
            await self._store.hand_back(backs)


def _task_id(each: End) -> str:
    return each.held.task_id if isinstance(each, RunResult) else each.task_id
