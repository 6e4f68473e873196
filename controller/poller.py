"""Moves ids from the store's queues to the open calls of NextWork, and nothing beyond what they ask for.

One loop: for what calls wait for, choose a pop (backlog.py), make it, deal out what it found (demand.py). Calls that may be given
the same share a pop; those that may be given something else have one of their own beside it, so that a quiet lambda does not
wait until a busy one's tasks are popped. The loop sleeps while no call waits, while the HSC does not answer claims, while pops
are under way, and while all queues are empty: then until one is notified, or poll_interval.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from atf.calls.retry import Pauses, RetryPolicy, Trouble
from atf.config.settings import ControllerSettings
from atf.log import get_logger
from atf.runtime import Runtime, end, happens
from atf.store.servers.notifications import place_of
from atf.store.store import Store
from atf.task import MAX_BATCH

from .backlog import Backlog, Backlogs, PopRequest
from .buffer import Buffer
from .demand import Call, Demand, Lambdas, Serves, lambda_of
from .floods import FLOODS, Floods

LISTEN_S: Final = 60.0
"""Seconds of one wait for a notification."""
MIN_WAIT_S: Final = 0.05
"""Seconds a call waits at least: less is not enough to look into the queues once."""
MOST_BESIDE: Final = 16
"""Tasks of a small pop for each call at most."""
RESTS: Final = 6.0
"""Times as long as the pop took, which follows what store and processors have to do just now."""
MOST_REST_S: Final = 0.03
"""Seconds of a rest at most: a store that was slow once holds up nobody."""

MOST_POPS: Final = 8
"""Pops under way at once: where executors run many different sets of lambdas, the store gets those of one host bit by bit."""

_log = get_logger(duty="pop")


@dataclass(kw_only=True, eq=False)
class Poller:
    """The one who pops."""

    store: Store
    """Where the queues are."""
    host: str
    """By what name others know this host; "": by none."""
    settings: ControllerSettings
    """The controller's."""
    runtime: Runtime
    """Clocks and chance."""
    may_pop: asyncio.Event
    """Cleared while popped ids could not be claimed."""
    give_back: Callable[[Sequence[str]], None]
    """Takes ids that nobody here wants any more."""
    may_run: Callable[[str, Lambdas], Lambdas]
    """Of its lambdas, those that an executor may be given tasks of now."""
    heard: Callable[[str], None]
    """Told of each notification: the queue that has entries; "%" and a pool whose cores were written; "&" and a host that drains or goes on."""

    def __post_init__(self) -> None:
        self._demand = Demand()
        self._buffer = Buffer()
        self._backlogs = Backlogs(self.runtime, self._backlog)
        self._stir = asyncio.Event()
        self._under_way: dict[Serves, asyncio.Task[None]] = {}
        self._error: BaseException | None = None
        """What no pop should end with."""
        self._closed = False
        self._turn = 0
        self._floods = Floods(self.runtime)
        self._rests_until: dict[Serves, float] = {}
        self._pauses = [Pauses(RetryPolicy(first=0.1, most=5.0), self.runtime) for _ in range(self.store.partitions)]
        self._trouble = Trouble(_log, "store")

    # --- for calls ---------------------------------------------------------------------------------------------------

    async def fill(self, call: Call, until: float) -> None:
        """Waits until the call was given ids, is dismissed, or the monotonic clock reaches `until`.

        A call that is cancelled meanwhile leaves what it was given to the others.
        """
        if self._closed or call.dismissed.is_set():
            return
        call.serves = self._serves(call)
        self._demand.open(call)
        self._stir.set()
        try:
            await happens(call.answered, max(until - self.runtime.monotonic(), MIN_WAIT_S))
        except asyncio.CancelledError:
            self.put_back(call.ids)
            raise
        finally:
            self._demand.close(call)
            call.answered.clear()
        if call.dismissed.is_set():
            self.put_back(call.ids)
            call.ids = {}

    def rearrange(self) -> None:
        """What executors may run has changed."""
        if self._demand.rearrange(self._serves):
            self._stir.set()

    def waits(self, lambda_name: str) -> bool:
        """Whether an executor that may run a lambda waits for work."""
        return self._demand.waits(lambda_name)

    def _serves(self, call: Call) -> Serves:
        serves = Serves(self.may_run(call.executor_id, call.lambdas), call.signed)
        self._backlogs.used(serves)
        return serves

    def _backlog(self, serves: Serves) -> Backlog:
        partitions, poll_interval = self.store.partitions, self.store.settings.poll_interval
        times = {"ageing": self.settings.ageing, "poll_interval": poll_interval}
        return Backlog(serves.lambdas, signatures=serves.signatures, partitions=partitions, **times)

    def put_back(self, ids: dict[str, str]) -> None:
        """Ids (with their queues) that were popped for a call and not claimed: the next call gets them."""
        if self._closed:
            self.give_back(list(ids))
            return
        self._buffer.put([(queue, [task_id]) for task_id, queue in ids.items()], self.runtime.monotonic())
        self._stir.set()

    async def close(self) -> None:
        """Pops no more, sends all waiting calls away, and gives back what is held."""
        self._closed = True
        self._demand.dismiss_all()
        if self._under_way:  # what the last pops bring goes back too
            await asyncio.wait(set(self._under_way.values()))
        self.give_back(self._buffer.drain())

    # --- the loop ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serves the calls until cancelled."""
        listener = self.runtime.spawn(self._listen(), name="listen ready") if self.store.settings.wakeups else None
        try:
            while True:
                await self.may_pop.wait()
                self._stir.clear()
                self._begin()
                await self._rest()
                if self._error is not None:
                    raise self._error
        finally:
            await end([*self._under_way.values(), *([listener] if listener is not None else [])])

    def _begin(self) -> None:
        """Begins a pop for all that calls wait for and that none is under way for."""
        stale = self._buffer.stale(self.runtime.monotonic())
        if stale:
            self.give_back(stale)
        needs = [] if self._closed else self._needs()
        self._turn += 1
        for number in range(len(needs)):
            if len(self._under_way) < MOST_POPS:
                self._serve(needs[(self._turn + number) % len(needs)])

    def _needs(self) -> list[Serves]:
        """What some call waits for and a pop may begin for now."""
        if len(self._under_way) >= MOST_POPS:
            return []
        now = self.runtime.monotonic()
        if self._rests_until:
            self._rests_until = {serves: until for serves, until in self._rests_until.items() if until > now}
        return [each for each in self._demand.needs() if each not in self._rests_until and each not in self._under_way]

    def _serve(self, serves: Serves) -> None:
        """Gives calls what is held for them, and begins a pop for what they want beyond that."""
        now = self.runtime.monotonic()
        wanted = self._demand.wanted(serves, MOST_BESIDE if self._floods.beside_quiet() else MAX_BATCH)
        held, backlog = self._buffer.count(serves), self._backlogs.of(serves)
        ask = backlog.choose(min(wanted - held, MAX_BATCH), now) if held < wanted else None
        if ask is None:
            self._deal(serves, [])
            return
        work = self.runtime.spawn(self._fetch(serves, backlog, ask), name="pop")
        self._under_way[serves] = work
        work.add_done_callback(lambda _: self._fetched(serves, work))

    def _fetched(self, serves: Serves, work: asyncio.Task[None]) -> None:
        del self._under_way[serves]
        self._error = self._error or (None if work.cancelled() else work.exception())
        self._stir.set()

    async def _fetch(self, serves: Serves, backlog: Backlog, ask: PopRequest) -> None:
        """One pop, and what follows from it."""
        began = self.runtime.monotonic()
        found = await self._pop(backlog, ask)
        now = self.runtime.monotonic()
        if self._floods.brought(ask.want, found) >= FLOODS and self._floods.beside_quiet():
            self._rests_until[serves] = now + min(RESTS * (now - began), MOST_REST_S)
        self._deal(serves, found)

    def _deal(self, serves: Serves, found: list[tuple[str, list[str]]]) -> None:
        """Gives calls what is held and what was found; the rest is held."""
        found = self._buffer.take(serves, self._demand.wanted(serves, MAX_BATCH)) + found
        if found:
            self._buffer.put(self._demand.give(serves, found), self.runtime.monotonic())

    async def _pop(self, backlog: Backlog, ask: PopRequest) -> list[tuple[str, list[str]]]:
        try:
            found = await self.store.pop(
                ask.partition, ask.groups, ask.want, self.settings.pool, self.host, backlog.signatures
            )
        except Exception as error:  # noqa: BLE001  a duty outlives whatever fails in it; Trouble says what
            self._trouble.failed(ask.partition, error)
            backlog.failed(ask)
            self._backlogs.shut(ask.partition, self.runtime.monotonic() + self._pauses[ask.partition].next())
            return []
        self._trouble.ended(ask.partition)
        self._pauses[ask.partition].reset()
        backlog.popped(ask, found, self.runtime.monotonic())
        if found:
            _log.debug("pop", partition=ask.partition, ids=sum(len(ids) for _, ids in found), want=ask.want)
        return found

    async def _rest(self) -> None:
        """Sleeps until a call comes, a pop has ended, a queue is notified, or the next look is due."""
        looks = [self._backlogs.of(each).next_look() for each in self._needs() if each in self._backlogs]
        looks.extend(self._rests_until.values())
        stale_at = self._buffer.stale_at()
        if stale_at is not None:
            looks.append(stale_at)
        wait = min(looks) - self.runtime.monotonic() if looks else None
        await happens(self._stir, None if wait is None else max(wait, 0.0))

    async def _listen(self) -> None:
        async with self.store.listen("ready", range(self.store.partitions)) as notifications:
            while True:
                messages = await notifications.wait(LISTEN_S)
                now = self.runtime.monotonic()
                for message in messages:
                    name = place_of(message)[1]
                    self.heard(name)
                    if name[:1] not in {"%", "&"}:
                        self._floods.notified(lambda_of(name))
                for backlog in self._backlogs:
                    if not messages:  # one may have been missed
                        backlog.missed()
                        self._stir.set()
                    for message in messages:
                        if backlog.notified(*place_of(message), now):
                            self._stir.set()
