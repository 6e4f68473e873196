"""Claims triggers that stand in the store's queues for the watchers that have room, and deals them out.

One loop per partition: one that is away holds up no other. A queue is *worth a look* once it was notified, was not emptied, or somebody new watches
it; and, as the net for a lost notification, every so often. It is looked into when a watcher of its lambda has room, and for no more than that.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from google.protobuf.message import DecodeError

from atf.calls.retry import RetryPolicy, Trouble, retry
from atf.config.settings import Timing
from atf.errors import ClaimsPaused, Unavailable
from atf.log import get_logger
from atf.rpc import dapr_scheduler_pb2 as d, task_pb2 as t
from atf.runtime import Runtime, end, happens, new_id
from atf.store.servers.notifications import place_of
from atf.store.store import Store
from atf.store.values.claims import ClaimedTask, HeldClaim, Outcome, RunResult, Taker
from atf.task import MAX_BATCH

from .holding import TriggerClaims
from .watchers import Trigger, Watcher, Watchers

PRIORITY: Final = 1
"""Of all triggers."""
LISTEN_S: Final = 60.0
"""Seconds of one wait for a wake-up."""
LOOKS_PER_S: Final = 500
"""Looks into queues, as the net for lost notifications, that one frontend makes at most, however many lambdas its watchers have."""
CLOSE_S: Final = 2.0
"""Seconds that calls under way have to be done when the process ends."""
PAUSED_S: Final = 1.0
"""Seconds until a queue is looked into again while claims are paused."""

_LOOK_AGAIN: Final = RetryPolicy(first=0.1, most=5.0, errors=(Exception,))  # a duty outlives whatever fails in it
_CLAIM_AGAIN: Final = RetryPolicy(first=0.05, most=1.0, errors=(Unavailable,))
_log = get_logger(duty="triggers")


class TriggerIntake:
    """The loops of one frontend."""

    def __init__(
        self, *, store: Store, watchers: Watchers, holding: TriggerClaims, timing: Timing, runtime: Runtime
    ) -> None:
        self._store = store
        self._watchers = watchers
        self._holding = holding
        self._timing = timing
        self._runtime = runtime
        self._partitions = range(store.partitions)
        self._may_hold: list[dict[str, None]] = [{} for _ in self._partitions]
        self._notifications = [asyncio.Event() for _ in self._partitions]
        self._loops: list[asyncio.Task[None]] = []
        self._closed = False
        self._ids = itertools.count(1)
        self._trouble = Trouble(_log, "store")

    def look(self, lambdas: Iterable[str]) -> None:
        """The queues of these lambdas are worth a look, in every partition."""
        for worth, event in zip(self._may_hold, self._notifications, strict=True):
            worth.update(dict.fromkeys(lambdas))
            event.set()

    def freed(self, lambdas: frozenset[str]) -> None:
        """A watcher of these has room again."""
        for worth, event in zip(self._may_hold, self._notifications, strict=True):
            if not lambdas.isdisjoint(worth):
                event.set()

    async def run(self) -> None:
        """Serves the watchers until cancelled."""
        self._loops = [self._runtime.spawn(self._serve(each), name=f"triggers {each}") for each in self._partitions]
        duties = [*self._loops, self._runtime.spawn(self._look_again(), name="look for triggers")]
        if self._store.settings.wakeups:
            duties.append(self._runtime.spawn(self._listen(), name="listen for triggers"))
        try:
            await asyncio.gather(*duties)
        finally:
            await end(duties)

    async def close(self) -> None:
        """Takes no more, and waits for what is under way. Claims that come now are handed back, since no watcher is left."""
        self._closed = True
        for event in self._notifications:
            event.set()
        if self._loops:
            await asyncio.wait(self._loops, timeout=CLOSE_S)

    async def _listen(self) -> None:
        async with self._store.listen("ready", self._partitions) as notifications:
            while True:
                messages = await notifications.wait(LISTEN_S)
                watched = self._watchers.lambdas
                if not messages:  # one may have been missed
                    self.look(watched)
                for partition, queue in map(place_of, messages):
                    lambda_name = queue.rpartition(":")[0]
                    if lambda_name in watched:
                        self._may_hold[partition][lambda_name] = None
                        self._notifications[partition].set()

    async def _look_again(self) -> None:
        while True:
            looks = len(self._watchers.lambdas) * len(self._partitions)
            await asyncio.sleep(max(self._store.settings.poll_interval, looks / LOOKS_PER_S))
            self.look(self._watchers.lambdas)

    async def _serve(self, partition: int) -> None:
        async def empty() -> None:
            self._notifications[partition].clear()
            while await self.once(partition):
                pass

        while not self._closed:
            await retry(empty, _LOOK_AGAIN, self._runtime, trouble=(self._trouble, partition))
            await happens(self._notifications[partition], None)

    async def once(self, partition: int) -> bool:
        """Looks into each queue that is worth it and for which there is room. Returns whether one may hold more."""
        worth, more = self._may_hold[partition], False
        for lambda_name in list(worth):
            if self._closed:
                return False
            seats = self._watchers.seats(lambda_name, min(MAX_BATCH, self._holding.room))
            if seats:
                del worth[lambda_name]  # before the call: a notification that comes in between puts it back
                if await self._take(partition, lambda_name, seats):
                    worth[lambda_name] = None
                    more = True
            elif lambda_name not in self._watchers.lambdas:
                del worth[lambda_name]
        return more

    async def _take(self, partition: int, lambda_name: str, seats: Counter[Watcher]) -> bool:
        """Takes tasks and deals them. Returns whether the queue may hold more."""
        sent_us = self._runtime.boottime_us()  # the leases count from here, whichever repeat is answered
        try:
            claims, more = await self._ask(partition, f"{lambda_name}:{PRIORITY}", seats.total())
            self._deal(lambda_name, claims, seats, sent_us)
            return more
        except BaseException:
            self._may_hold[partition][lambda_name] = None
            raise
        finally:
            for watcher, unused in seats.items():
                watcher.release(lambda_name, unused)
            self.freed(frozenset[str]().union(*(watcher.lambdas for watcher in seats)))

    async def _ask(self, partition: int, queue: str, wanted: int) -> tuple[list[ClaimedTask], bool]:
        """What a queue holds, and whether it may hold more. While the outcome is unknown it is asked again, which answers the same."""
        taker = Taker(self._holding.owner, new_id(self._runtime.random), wanted)
        give_up = self._runtime.monotonic() + self._timing.heartbeat_timeout
        take = partial(self._store.next_claims, partition, [[queue]], [taker], want=wanted)

        def failed(error: Exception) -> None:
            if self._closed:
                raise error  # what it may have got comes again when its lease has ended

        trouble = self._trouble, partition
        try:
            taken = await retry(take, _CLAIM_AGAIN, self._runtime, until=give_up, failed=failed, trouble=trouble)
        except ClaimsPaused:
            await asyncio.sleep(PAUSED_S)
            return [], True
        return taken.claims[taker.nonce], bool(taken.filled)

    def _deal(self, lambda_name: str, claims: Sequence[ClaimedTask], seats: Counter[Watcher], sent_us: int) -> None:
        """Gives triggers to watchers with seats, evenly. What none can take goes back."""
        age_us = self._runtime.boottime_us() - sent_us
        late = 2 * age_us > self._timing.heartbeat_timeout_us  # too much of the leases has gone to give them to anybody
        for each in claims:
            held = HeldClaim(each.task_id, each.counter, each.nonce)
            watcher = min((one for one in seats if not one.closed), key=lambda one: len(one.given), default=None)
            if late or watcher is None:
                self._holding.record_ends(held)
            elif (trigger := self._trigger(lambda_name, each, held, sent_us)) is not None:
                self._holding.add(trigger)
                watcher.give(trigger)
                seats.subtract([watcher])
                if not seats[watcher]:
                    del seats[watcher]

    def _trigger(self, lambda_name: str, claimed: ClaimedTask, held: HeldClaim, sent_us: int) -> Trigger | None:
        """A claimed task as a trigger; None, and failed for good, where it is none."""
        try:
            spec = t.TaskSpec.FromString(claimed.spec)
            response = d.WatchJobsResponse.FromString(spec.payload)
        except DecodeError as error:
            why = f"it is no trigger of a job of Dapr's scheduler service: {error}"
            self._holding.record_ends(RunResult(held, Outcome.FAILED_FATAL, error=why))
            return None
        response.id = next(self._ids)
        return Trigger(
            id=response.id,
            held=held,
            lambda_name=lambda_name,
            response=response,
            retry_us=spec.options.backoff.base_us,
            given_us=self._runtime.boottime_us(),
            leased_us=sent_us,
        )
