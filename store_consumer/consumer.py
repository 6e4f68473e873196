"""The store consumer: looks at every task when its next_timestamp has come.

1. A duty per partition makes passes: due tasks go to their queues, expired leases are lost, expired queue entries return.
2. It passes again at once while there is more, else sleeps until the next instant, a wake-up, or poll_interval.
3. The outbox that a pass tells of is delivered (outbox.py), ticks of jobs become tasks (jobs.py), and automatic gates
   close (gates.py).
4. Finished tasks beyond their retention are swept (sweeper.py).

It decides nothing about tasks: a pass is one function of the store, which any number of peers may call at any time.
It holds nothing either; all it remembers is what it believes of the store's clock (clock.py).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Final

from atf.calls.retry import Pauses, RetryPolicy, Trouble, retry
from atf.config.settings import StoreConsumerSettings, Timing
from atf.errors import AtfError
from atf.log import get_logger
from atf.metrics.table import CLOCK_STEPS, LEASES_LOST
from atf.runtime import Runtime, end, happens
from atf.store.servers.notifications import place_of
from atf.store.store import Store
from atf.store.values.passes import EnqueuePass
from atf.task import US

from .batches import KINDS, BatchOutbox
from .clock import StoreClock
from .gates import AutomaticGates
from .jobs import DueJobs
from .outbox import Outbox
from .run_log import RunLog
from .searched import SearchedArguments
from .sweeper import Sweeper

LISTEN_S: Final = 60.0
"""Seconds of one wait for a wake-up."""

_LOOK_AGAIN: Final = RetryPolicy(first=0.05, most=0.3, errors=(Exception,))  # a duty outlives whatever fails in it
_LISTEN_AGAIN: Final = RetryPolicy(first=0.1, most=5.0)
_FRUITLESS: Final = RetryPolicy(first=0.002, most=0.05)
_log = get_logger(duty="enqueue")


class Consumer:
    """One store consumer for all partitions.

    Attributes:
        partitions: how many there are.
    """

    def __init__(self, *, store: Store, settings: StoreConsumerSettings, timing: Timing, runtime: Runtime) -> None:
        self._store = store
        self._settings = settings
        self._runtime = runtime
        self.partitions = store.partitions
        self._partitions = range(store.partitions)
        self._clocks = [StoreClock(timing) for _ in self._partitions]
        self._due_at = [runtime.monotonic()] * store.partitions
        """When each partition is to be looked at, by the monotonic clock."""
        self._distrusted: set[int] = set()
        self._notifications = [asyncio.Event() for _ in self._partitions]
        self._outbox = Outbox(store=store, runtime=runtime)
        searched = SearchedArguments(store=store, runtime=runtime)
        self._batches = BatchOutbox(store=store, runtime=runtime, searched=searched)
        self._gates = AutomaticGates(store=store, runtime=runtime)
        self._jobs = DueJobs(
            store=store, runtime=runtime, searched=searched, more=lambda partition: self._notifications[partition].set()
        )
        self._run_log = RunLog(store=store, runtime=runtime)
        self._sweeper = Sweeper(store=store, settings=settings, runtime=runtime)
        self._trouble = Trouble(_log, "store")

    async def run(self) -> None:
        """Serves all partitions until cancelled. Whatever fails is tried again."""
        order = self._runtime.random.sample(self._partitions, len(self._partitions))
        duties = [self._runtime.spawn(self._watch(each), name=f"enqueue {each}") for each in order]
        duties.append(self._runtime.spawn(self._sweeper.run(), name="sweep"))
        if self._store.settings.wakeups:
            duties.append(self._runtime.spawn(self._listen(), name="listen"))
        try:
            await asyncio.gather(*duties)
        finally:
            await end(duties)

    async def poll(self, partitions: Sequence[int]) -> tuple[list[EnqueuePass], list[EnqueuePass]]:
        """One bounded pass over each partition, to its end: the outbox is delivered, and ticks that become tasks are pushed.

        Returns:
            All passes; and the last one over each partition.

        Raises:
            Unavailable: a partition could not be reached; the others have had their pass.
        """
        passes: list[EnqueuePass] = []
        last: list[EnqueuePass] = []
        away: AtfError | None = None
        for partition in partitions:
            try:
                made = await self.once(partition)
                passes.append(made)
                if made.jobs:
                    await self._jobs.idle()
                    made = await self.once(partition)
                    passes.append(made)
                last.append(made)
                await self._store.sweep(partition, self._settings.max_finished)
            except AtfError as error:
                away = error
        for each in (self._outbox, self._batches, self._gates, self._run_log):
            await each.idle()
        if away is not None:
            raise away
        return passes, last

    async def once(self, partition: int) -> EnqueuePass:
        """One pass over one partition.

        Raises:
            Unavailable: the store could not be reached, or takes no writes.
        """
        clock, asked = self._clocks[partition], self._runtime.monotonic()
        made = await self._store.enqueue(
            partition, clock.believed_us(asked), self._jobs.room(partition), step_back=clock.step_back
        )
        answered = self._runtime.monotonic()
        clock.observe(
            made.now_us,
            asked=asked,
            answered=answered,
            wall_us=self._runtime.wall_us(),
            step_back=made.step_back,
            stepped_over=made.stepped_over,
        )
        self._note(partition, made, answered)
        self._log_clock(partition, clock)
        self._batches.add(each for each in made.outbox if each.kind in KINDS)
        self._outbox.add(each for each in made.outbox if each.kind not in KINDS)
        self._gates.add(made.failing)
        self._jobs.add(partition, made.jobs, made.now_us)
        self._run_log.add(made)
        _log.debug(
            "enqueue",
            partition=partition,
            enqueued=made.enqueued,
            enqueued_again=made.enqueued_again,
            lost=made.lost,
            standing=made.standing,
            outbox=len(made.outbox),
        )
        return made

    def _note(self, partition: int, made: EnqueuePass, answered: float) -> None:
        """Notes for the metrics what a pass found."""
        metrics = self._store.metrics
        metrics.counter(LEASES_LOST).inc(made.lost)
        steps = metrics.counter(CLOCK_STEPS)  # partitions may be of one server, so each of them sees its steps
        steps.value = max(steps.value, self._clocks[partition].steps)
        if made.next_in_us is None:
            self._due_at[partition] = math.inf
        elif made.next_in_us or not made_progress(
            made
        ):  # what can't be pushed now, as into a full queue, is not late for this consumer
            self._due_at[partition] = answered + made.next_in_us / US
        else:
            self._due_at[partition] = answered - made.late_us / US

    @property
    def lag(self) -> float:
        """Seconds ago at which it should have looked at the partition that waits the longest."""
        return max(self._runtime.monotonic() - min(self._due_at), 0.0)

    # --- duties ------------------------------------------------------------------------------------------------------

    async def _watch(self, partition: int) -> None:
        fruitless = Pauses(_FRUITLESS, self._runtime)

        async def look() -> EnqueuePass:
            # Before the pass: what is notified during it counts for the next one.
            self._notifications[partition].clear()
            return await self.once(partition)

        while True:
            made = await retry(look, _LOOK_AGAIN, self._runtime, trouble=(self._trouble, partition))
            if made_progress(made):
                fruitless.reset()
            await self._sleep(partition, made, fruitless)

    async def _sleep(self, partition: int, made: EnqueuePass, fruitless: Pauses) -> None:
        """Sleeps until the partition should be looked at again."""
        settings = self._store.settings
        if made.next_in_us == 0 and made_progress(made):
            return
        wait = settings.poll_interval
        if settings.wakeups:
            wait *= 0.8 + 0.2 * self._runtime.random.random()  # peers spread out
            if made.next_in_us is not None:
                # Due at once, though this pass found nothing to do: nothing here may spin.
                wait = min(wait, made.next_in_us / US or fruitless.next())
        await happens(self._notifications[partition], wait)

    async def _listen(self) -> None:
        pauses = Pauses(_LISTEN_AGAIN, self._runtime)
        while True:
            try:
                async with self._store.listen("due", self._partitions) as notifications:
                    while True:
                        messages = await notifications.wait(LISTEN_S)
                        pauses.reset()
                        # No message: a notification may have been missed.
                        for partition in {place_of(each)[0] for each in messages} or self._partitions:
                            self._notifications[partition].set()
                        self._trouble.ended("listen")
            except Exception as error:  # noqa: BLE001  a duty outlives whatever fails in it; Trouble says what
                self._trouble.failed("listen", error)
                await asyncio.sleep(pauses.next())

    def _log_clock(self, partition: int, clock: StoreClock) -> None:
        """Says once, for all partitions, that clocks do not agree; that an answer was slow is no news."""
        if clock.is_doubted and partition not in self._distrusted:
            if not self._distrusted:
                _log.warning(
                    "store clock not believed: no lease expires for one heartbeat_timeout", partition=partition
                )
            self._distrusted.add(partition)
        elif clock.is_trusted and partition in self._distrusted:
            self._distrusted.remove(partition)
            if not self._distrusted:
                _log.info("store clock believed")


def made_progress(made: EnqueuePass) -> bool:
    """Whether a pass got on: what it looked at is not due again at once, and others may be due behind it.

    Also where tasks only stood in a queue that nobody empties.
    """
    return any((made.enqueued, made.enqueued_again, made.lost, made.outbox, made.jobs, made.gated, made.standing))
