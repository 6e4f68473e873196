"""Has the executors that ask here run the lambdas whose turn it is on the cores of their groups.

Which lambda that is, is in the pool's record in the store (atf/cores/pool.py): this module reads it, says what each executor may run,
and writes down what it sees happen: a lambda that waits, a hand-over, a turn whose tasks have ended or whose time is up.
All HSCs that executors of the pool ask do so, each for its own. Whoever comes second finds it done.

A pool without cores costs one small call a poll_interval. Where the record can't be read for STALE_S, everything may run anywhere:
shares of capacity are no reason to stand still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from atf.calls.retry import Pauses, RetryPolicy, Trouble
from atf.cores.groups import core_of, deal
from atf.cores.pool import CorePool
from atf.errors import Unavailable
from atf.hsc.present import PresentExecutors
from atf.intake.asks import Lambdas
from atf.log import get_logger
from atf.runtime import Runtime, happens
from atf.store.capacity import CapacityRecord, KnownCapacity, WaitingTasks
from atf.store.store import Store
from atf.task import US

ATTEND_S: Final = 1.0
"""Seconds after which the executors that are here are named again."""
STAY_S: Final = 5.0
"""Seconds that they are members without it."""
STALE_S: Final = 5.0
LOOK_S: Final = 0.05
"""Seconds between two looks at whether a turn has come to its end while others wait for it."""
GRACE_S: Final = 0.3
"""Seconds by which what is over on others' cores is left to them."""
SPREAD_S: Final = 0.005
"""Seconds within which HSCs that heard the same notification write it down, so that most find it done."""
SEED_BYTES: Final = 16
_TRIES: Final = 20

_log = get_logger(duty="cores")


@dataclass(kw_only=True, eq=False)
class Cores:
    """An HSC's part in the cores of one pool.

    Attributes:
        here: the executors of the pool that ask here.
    """

    store: Store
    """Where the record is."""
    name: str
    """The pool's name."""
    runtime: Runtime
    """Clocks and chance."""
    rearrange: Callable[[Collection[str]], None]
    """Called with the executors of which has changed what they may run."""
    hungry: Callable[[str], bool]
    """Whether some executor waits for tasks of a lambda and gets none."""

    def __post_init__(self) -> None:
        self.here = PresentExecutors(self.runtime)
        self._settled = False
        """Whether the record was read, or could not be."""
        self._only: dict[str, Lambdas | None] = {}
        """What was said last of each executor here."""
        self._unsaid: set[str] = set()
        """Executors of which something else was answered meanwhile, as at the end of a turn."""
        self._pool: CorePool | None = None
        self._known = KnownCapacity()
        self._now_us = 0
        """The store's time when the record was read last, which was at:"""
        self._read_at = 0.0
        self._groups: dict[str, int] = {}
        self._attend_at = 0.0
        self._survey_at = 0.0
        self._look_at = 0.0
        self._wanted: set[str] = set()
        self._handed: set[tuple[int, int]] = set()
        self._over: set[tuple[int, int]] = set()
        self._unregistered: set[str] = set()
        self._idle: set[int] = set()
        """Numbers of scheduled turns for which nothing was there at the last look."""
        self._stir = asyncio.Event()
        self._trouble = Trouble(_log, "store")
        self._pauses = Pauses(RetryPolicy(first=0.1, most=2.0), self.runtime)

    # --- what the HSC sees ---------------------------------------------------------------------------------------------

    def came(self) -> None:
        """Some executors are new here."""
        self._attend_at = 0.0
        self._stir.set()

    def left(self) -> None:
        """Some executors are no more."""
        self._stir.set()

    def notified(self, lambda_name: str) -> None:
        """Tasks of a lambda wait in some queue."""
        pool = self._pool
        if pool is not None and not pool.has_turn(lambda_name) and lambda_name not in self._wanted:
            self._want(pool, lambda_name)

    def handed_over(self, executor_id: str, lambdas: Iterable[str], *, full: bool) -> None:
        """An executor was given tasks; `full`, as many as it would take: there may be more."""
        pool, group = self._pool, self._groups.get(executor_id)
        if pool is None or group is None:
            return
        core = core_of(group, pool.rotation.at(self._store_us()), pool.settings.cores)
        turn = pool.turns[core]
        for each in lambdas:
            if turn is not None and turn.lambda_name == each and not turn.occupied:
                self._handed.add((core, turn.number))
                self._stir.set()
            if full:
                self._want(pool, each)

    def changed(self) -> None:
        """Somebody has written the record."""
        self._stir.set()

    def _want(self, pool: CorePool, lambda_name: str) -> None:
        if not pool.has_claim(lambda_name) and lambda_name not in pool.settings.reserved:
            self._wanted.add(lambda_name)
            self._stir.set()

    # --- what executors may run ----------------------------------------------------------------------------------------

    def only(self, executor_id: str) -> Lambdas | None:
        """Of which lambdas alone an executor may be given tasks now; None: of all."""
        found = self._only_now(executor_id)
        if found != self._only.get(executor_id, frozenset()):
            self._unsaid.add(executor_id)
        return found

    def _only_now(self, executor_id: str) -> Lambdas | None:
        if not self._settled:
            return frozenset()
        if self._pool is None or self.runtime.monotonic() - self._read_at > STALE_S:
            return None
        group = self._groups.get(executor_id)
        return frozenset() if group is None else self._only_of(self._pool, group)

    def _only_of(self, pool: CorePool, group: int) -> Lambdas:
        name = pool.lambda_for(group, self._store_us())
        return frozenset() if name is None else frozenset((name,))

    def _tell(self) -> None:
        """Says of which executors has changed what they may run."""
        before, pool, here = self._only, self._pool, self.here.ids()
        if pool is None or self.runtime.monotonic() - self._read_at > STALE_S:
            self._only = dict.fromkeys(here)
        else:
            of_group = {each: self._only_of(pool, each) for each in {*self._groups.values()}}
            self._only = {each: of_group.get(self._groups.get(each, -1), frozenset()) for each in here}
        changed = {each for each, only in self._only.items() if only != before.get(each, frozenset())}
        if changed or self._unsaid:
            changed, self._unsaid = changed | self._unsaid, set()
            self.rearrange(changed)

    def _store_us(self) -> int:
        return self._now_us + round((self.runtime.monotonic() - self._read_at) * US)

    # --- the duty ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keeps up with the record until cancelled."""
        while True:
            wait: float | None = None
            try:
                self.here.forget_silent()
                if self.here or self.here.gone:
                    wait = await self.once()
                self._trouble.ended(self)
                self._pauses.reset()
            except Exception as error:  # noqa: BLE001  a duty outlives whatever fails in it; Trouble says what
                self._trouble.failed(self, error)
                wait = self._pauses.next()
            self._settled = True
            self._tell()
            await self._rest(wait)
            others = self._pool is not None and len(self.here.ids()) < self._pool.members
            if self._stir.is_set() and self._wanted and others:
                await asyncio.sleep(self.runtime.random.uniform(0, SPREAD_S))
            self._stir.clear()

    async def _rest(self, seconds: float | None) -> None:
        """Sleeps until something has to be done. While others wait for turns of executors here, it looks up now and then whether
        these have run out of work: that costs nothing but the look.
        """
        until = None if seconds is None else self.runtime.monotonic() + seconds
        while not self._stir.is_set():
            left = None if until is None else until - self.runtime.monotonic()
            if left is not None and left <= 0:
                return
            ticking = self._pool is not None and self._may_end(self._pool)
            await happens(self._stir, LOOK_S if ticking and (left is None or left > LOOK_S) else left)
            if ticking and self._ending():
                return

    async def once(self) -> float:
        """Reads the record, and writes down what has happened. Returns for how many seconds nothing more is to be done."""
        for _ in range(_TRIES):
            record = await self._read()
            if record is None:
                return self.store.settings.poll_interval
            if self.runtime.monotonic() >= self._next_look():
                await self._look()
            if await self._write(record):
                return max(self._next_at() - self.runtime.monotonic(), 0.001)
        raise Unavailable(f"others write the cores of pool {self.name!r} all the time")

    async def _read(self) -> CapacityRecord | None:
        now, gone = self.runtime.monotonic(), set(self.here.gone)
        attend = now >= self._attend_at and self._pool is not None  # most pools have no cores
        record = await self.store.get_capacity(
            self.name,
            self._known,
            here=sorted(self.here.ids()) if attend else (),
            gone=sorted(gone),
            stay_us=round(STAY_S * US),
        )
        self.here.gone -= gone
        if attend:
            self._attend_at = now + ATTEND_S
        if record is None:
            self._forget()
            return None
        self._now_us, self._read_at = record.now_us, self.runtime.monotonic()
        if record.state:
            self._pool = CorePool.decode(record.state)
        if record.groups is not None:
            self._groups = {each: number for number, group in enumerate(record.groups) for each in group}
        self._known = KnownCapacity(record.version, record.deal)
        return record

    def _forget(self) -> None:
        self._pool, self._known = None, KnownCapacity()
        self._groups = {}
        for each in (self._wanted, self._handed, self._over, self._unregistered, self._idle):
            each.clear()
        self._attend_at = self._survey_at = 0.0

    async def _write(self, record: CapacityRecord) -> bool:
        """Makes of the record what it has to be now. Returns whether it is; else somebody else has written it meanwhile."""
        assert self._pool is not None
        before, now = self._pool.encode(), self._store_us()
        pool = CorePool.decode(before)
        wanted, handed, over = set(self._wanted), set(self._handed), set(self._over)
        unregistered = set(self._unregistered)
        for core, number in handed:
            pool.handed_over(core, number, now)
        for core, number in over:
            pool.conclude(core, number, now)
        if unregistered:
            pool.prune(unregistered, now)
        if self._overdue(pool, now):
            pool.pass_time(now)
        for each in sorted(wanted):
            pool.claim(each, now)
        dealt = None
        if record.to_deal is not None:
            seed = self.runtime.random.randbytes(SEED_BYTES)
            groups = deal(record.to_deal, pool.settings.cores, seed)
            pool.staff(len(record.to_deal), now)
            dealt = groups, record.membership
        after = pool.encode()
        if after != before or dealt is not None:
            version = await self.store.set_capacity(self.name, record.version, after, dealt)
            if version == 0:
                return False
            self._pool = pool
            self._known = KnownCapacity(version, version if dealt else self._known.deal)
            if dealt is not None:
                self._groups = {each: number for number, group in enumerate(dealt[0]) for each in group}
        self._wanted -= wanted
        self._handed -= handed
        self._over -= over
        self._unregistered -= unregistered
        return True

    # --- when ----------------------------------------------------------------------------------------------------------

    def _own(self, pool: CorePool, now_us: int) -> set[int]:
        """The cores that executors here work on."""
        rotation, cores = pool.rotation.at(now_us), pool.settings.cores
        return {core_of(self._groups[each], rotation, cores) for each in self.here.ids() if each in self._groups}

    def _overdue(self, pool: CorePool, now_us: int) -> bool:
        short = pool.members < pool.settings.cores  # then a rotation gives cores to groups that have members
        return short or any(due_us <= now_us for due_us in self._due(pool, now_us))

    def _due(self, pool: CorePool, now_us: int) -> list[int]:
        """When each core's turn is to be changed from here; of cores of other hosts a little later, for they look after them first."""
        own, grace_us = self._own(pool, now_us), round(GRACE_S * US)
        dues = ((core, pool.due_us(core)) for core in range(pool.settings.cores))
        return [due_us + (0 if core in own else grace_us) for core, due_us in dues if due_us is not None]

    def _next_at(self) -> float:
        """The monotonic instant at which something is to be done by itself."""
        assert self._pool is not None
        pool, now_us = self._pool, self._store_us()
        instants = [pool.rotation.next_us(now_us), *self._due(pool, now_us)]
        at = self._read_at + (min(instants) - self._now_us) / US
        return min(at, self._attend_at, self._next_look())

    def _next_look(self) -> float:
        """The monotonic instant of the next look into the queues."""
        return min(self._survey_at, self._look_at) if self._ending() else self._survey_at

    def _may_end(self, pool: CorePool) -> dict[int, str]:
        """The multiplexed cores with turns, and their lambdas, that end as soon as executors here have nothing to do."""
        found = {}
        for core in self._own(pool, self._store_us()):
            turn = pool.turns[core]
            if turn is not None and core >= pool.settings.first_multiplexed and (pool.waits() or not turn.occupied):
                found[core] = turn.lambda_name
        return found

    def _ending(self) -> dict[int, str]:
        """Those among them for which an executor waits and gets nothing."""
        assert self._pool is not None
        return {core: name for core, name in self._may_end(self._pool).items() if self.hungry(name)}

    async def _look(self) -> None:
        """Finds out which lambdas wait and which turns are over: of all lambdas now and then, of those that may be ending often."""
        assert self._pool is not None
        pool, now, ending = self._pool, self.runtime.monotonic(), self._ending()
        survey = now >= self._survey_at
        names = set(ending.values())
        if survey:
            names |= pool.names() | self.here.lambdas()
            self._survey_at = now + self.store.settings.poll_interval
        self._look_at = now + LOOK_S
        states = await self.store.waiting_tasks(self.name, sorted(names))
        self._find_over(pool, range(pool.settings.cores) if survey else ending, states)
        if survey:
            self._unregistered |= {each for each, state in states.items() if state == WaitingTasks.UNKNOWN}
            for each, state in states.items():
                if state == WaitingTasks.QUEUED:
                    self._want(pool, each)

    def _find_over(self, pool: CorePool, cores: Iterable[int], states: Mapping[str, int]) -> None:
        """Which of the turns on these cores are over, by what the store has of their lambdas."""
        idle = set()
        for core in cores:
            turn = pool.turns[core]
            state = states.get(turn.lambda_name) if turn is not None else None
            if turn is None or state is None or state == WaitingTasks.QUEUED:
                continue
            if core < pool.settings.first_multiplexed:  # it stays its owner's, whose next turn is scheduled
                if turn.occupied and state == WaitingTasks.NOTHING:
                    self._over.add((core, turn.number))
            elif state == WaitingTasks.NOTHING or (turn.number in self._idle and not turn.occupied):
                self._over.add((core, turn.number))
            elif not turn.occupied:  # all that it has is under way: perhaps to this very turn
                idle.add(turn.number)
        self._idle = idle
