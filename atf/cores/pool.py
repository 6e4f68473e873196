"""Keeps the record of a pool's cores: which lambda may use which share of its executors, and who comes next. Pure: no I/O, no clock.

A core is an equal share of a pool's executors, that of one group (groups.py). Some cores are *reserved*: they belong to one
lambda, whose turns there follow one another. The others are *multiplexed*: lambdas take turns on them, and ask for one by a *core claim*.

    claim ──▶ queue, dealt to a core in turn ──▶ scheduled ──handed over──▶ occupied ──concluded──▶ free
                 ▲                                   │ hand-over fails: retries + 1    │ times out: counts nothing
                 └───────────────────────────────────┴─────────────────────────────────┘

- A lambda has one claim at most that has not been handed over. It may hold several cores while nobody else wants them.
- Of one core at most `lookahead` claims wait. What is beyond that for all cores stands behind, in order, and is not dealt yet.
- A claim is dealt to a core in advance, to one that stands idle before others. A core that would stand idle takes the first claim
  of another core: that one's turn comes sooner than was known, never later.
- A core whose group is empty is given no claims while others are not.

One Pool is the whole state, kept in the store as text; whoever changes it writes it back only if nobody else did meanwhile. Every
method may be repeated: what has been done already changes nothing.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from atf.errors import Internal, InvalidArgument
from atf.task import US
from atf.times import length

from .groups import CoreRotation, core_of, group_on

MAX_CORES: Final = 64
MAX_LOOKAHEAD: Final = 16
MAX_RETRIES: Final = 100
MIN_TIME_US: Final = US // 100
MAX_TIME_US: Final = 24 * 3600 * US
MAX_BEYOND: Final = 256
"""Claims behind the queue; a lambda that comes after them asks again when there is room."""


class CoreSettings(msgspec.Struct, frozen=True):
    """What an operator sets of a pool's cores. Durations are in µs."""

    cores: int
    reserved: dict[str, int] = {}  # lambda -> how many of the cores are its own
    lookahead: int = 3
    """Claims that may wait for one core."""
    max_retries: int = 3
    """Hand-overs of one claim that may fail, beyond the first."""
    hand_over_us: int = US
    """How long a group has to take the first task of a lambda whose turn it is."""
    reserved_timeout_us: int = 60 * US
    """After how long a turn on a reserved core counts as timed out; the next one is its owner's, too."""
    multiplexed_timeout_us: int = US
    """How long a turn lasts at most; what was started in it goes on."""
    rotation_us: int = 10 * US

    def check(self) -> CoreSettings:
        """Itself.

        Raises:
            InvalidArgument: a value breaks a rule.
        """
        _within("cores", self.cores, 1, MAX_CORES)
        _within("lookahead", self.lookahead, 1, MAX_LOOKAHEAD)
        _within("max_retries", self.max_retries, 0, MAX_RETRIES)
        for name in ("hand_over", "reserved_timeout", "multiplexed_timeout", "rotation"):
            _within(name, getattr(self, f"{name}_us"), MIN_TIME_US, MAX_TIME_US, length)
        for name, count in self.reserved.items():
            _within(f"reserved cores of {name}", count, 1, MAX_CORES)
        if self.first_multiplexed >= self.cores:
            raise InvalidArgument(
                f"{self.first_multiplexed} of {self.cores} cores reserved: leave at least one to take turns on, or lambdas"
                " without a reservation would never run; raise cores, or reserve fewer"
            )
        return self

    @property
    def owners(self) -> list[str]:
        """Of the reserved cores, which are the first ones."""
        return [name for name in sorted(self.reserved) for _ in range(self.reserved[name])]

    @property
    def first_multiplexed(self) -> int:
        """How many cores are reserved."""
        return sum(self.reserved.values())

    def timeout_us(self, core: int) -> int:
        """How long a turn on a core lasts at most."""
        return self.reserved_timeout_us if core < self.first_multiplexed else self.multiplexed_timeout_us


class CoreClaim(msgspec.Struct):
    """A lambda waits for a turn."""

    lambda_name: str
    core: int = -1  # that it was dealt to; -1: to none yet
    retries: int = 0  # hand-overs that failed


class CoreTurn(msgspec.Struct):
    """A lambda has a core: scheduled until its first task there is handed over, then occupied."""

    lambda_name: str
    number: int  # no two turns of a pool have the same
    since_us: int  # of the present state
    occupied: bool = False
    retries: int = 0


class CorePool(msgspec.Struct):
    """The cores of a pool and who has them."""

    settings: CoreSettings
    rotation: CoreRotation
    members: int = 0  # executors in its groups
    turns: list[CoreTurn | None] = []  # by core
    queue: list[CoreClaim] = []
    beyond: list[CoreClaim] = []  # behind the queue
    next_core: int = 0  # that a claim is dealt to
    number: int = 0  # of the last turn
    dropped: int = 0  # claims whose hand-overs failed too often
    timed_out: int = 0  # turns

    @classmethod
    def make(cls, settings: CoreSettings, now_us: int) -> CorePool:
        """A pool whose cores nobody has used yet."""
        pool = cls(settings, CoreRotation(now_us, settings.rotation_us), turns=[None] * settings.cores)
        pool._fill(now_us)
        return pool

    @classmethod
    def decode(cls, text: bytes) -> CorePool:
        """The pool that `encode` wrote.

        Raises:
            Internal: somebody else has written there.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Internal(f"the cores of a pool, as the store has them, can't be read: {error}") from None

    def encode(self) -> bytes:
        """As text, for the store."""
        return msgspec.json.encode(self)

    # --- what happens --------------------------------------------------------------------------------------------------

    def claim(self, lambda_name: str, now_us: int) -> None:
        """A lambda has tasks that wait."""
        if not self.has_claim(lambda_name) and lambda_name not in self.settings.reserved:
            self._put(CoreClaim(lambda_name), now_us)
            self._fill(now_us)

    def handed_over(self, core: int, number: int, now_us: int) -> None:
        """The group on a core has taken the first task of this turn."""
        turn = self._turn(core, number)
        if turn is not None and not turn.occupied:
            turn.occupied, turn.since_us = True, now_us

    def conclude(self, core: int, number: int, now_us: int) -> None:
        """What a turn was given has ended, and nothing of its lambda waits: the core is free."""
        if self._turn(core, number) is not None:
            self.turns[core] = None
            self._fill(now_us)

    def pass_time(self, now_us: int) -> None:
        """Ends what is over by now, and fills what is free."""
        for core, turn in enumerate(self.turns):
            if turn is not None and now_us >= self._ends_us(core, turn):
                if turn.occupied:
                    self.timed_out += 1
                    self._end_turn(core, turn.retries, now_us)
                else:
                    self._end_turn(core, turn.retries + 1, now_us)
        self._fill(now_us)

    def prune(self, unregistered: Collection[str], now_us: int) -> None:
        """Drops the claims of lambdas that are not registered any more; what was handed over goes on."""
        self.queue = [each for each in self.queue if each.lambda_name not in unregistered]
        self.beyond = [each for each in self.beyond if each.lambda_name not in unregistered]
        for core, turn in enumerate(self.turns):
            if turn is not None and not turn.occupied and turn.lambda_name in unregistered and not self._reserved(core):
                self.turns[core] = None
        self._fill(now_us)

    def change(self, settings: CoreSettings, now_us: int) -> None:
        """Other settings: every claim is kept, and all are dealt anew, evenly. Turns on cores that are what they were go on."""
        old, new = self.settings, settings
        self.settings, self.rotation = new, self.rotation.changed(new.rotation_us, now_us)
        if (old.cores, old.owners, old.lookahead) == (new.cores, new.owners, new.lookahead):
            return
        was, claims = self.turns, []
        self.turns = [None] * new.cores
        for core, turn in enumerate(was):
            if turn is None:
                continue
            if core < new.cores and _owner(old, core) == _owner(new, core):
                self.turns[core] = turn
            elif core >= old.first_multiplexed:
                claims.append(CoreClaim(turn.lambda_name, retries=turn.retries))
        claims += self.queue + self.beyond
        self.queue, self.beyond, self.next_core = [], [], new.first_multiplexed
        for each in claims:
            self._requeue(each.lambda_name, each.retries, now_us, evenly=True)
        self._fill(now_us)

    def staff(self, members: int, now_us: int) -> None:
        """Its groups have been dealt anew, with so many executors in all."""
        self.members = members
        self._fill(now_us)

    # --- what is asked -------------------------------------------------------------------------------------------------

    def lambda_for(self, group: int, now_us: int) -> str | None:
        """The lambda that a group may run now; one whose turn is over by now is none, even if nobody has ended it."""
        core = core_of(group, self.rotation.at(now_us), self.settings.cores)
        turn = self.turns[core]
        if turn is None or (turn.occupied and not self._reserved(core) and now_us >= self._ends_us(core, turn)):
            return None
        return turn.lambda_name

    def next_up_on_available(self, core: int, now_us: int) -> str | None:
        """The lambda that has a core next, should the present turn conclude now."""
        after, turn = copy.deepcopy(self), self.turns[core]
        if turn is not None:
            after.conclude(core, turn.number, now_us)
        return after._next(core)

    def next_up_on_time_out(self, core: int, now_us: int) -> str | None:
        """The lambda that has a core next, should the present turn time out now; where it is scheduled, its hand-over fails."""
        after, turn = copy.deepcopy(self), self.turns[core]
        if turn is not None:
            after._end_turn(core, turn.retries + (not turn.occupied), now_us)
            after._fill(now_us)
        return after._next(core)

    def staffed(self, core: int, now_us: int) -> bool:
        """Whether the group on a core has members."""
        return group_on(core, self.rotation.at(now_us), self.settings.cores) < self.members

    def due_us(self, core: int) -> int | None:
        """The instant at which the turn on a core ends, or its hand-over has failed; None: it has none, or a reserved one that waits."""
        turn = self.turns[core]
        if turn is None or (not turn.occupied and self._reserved(core)):
            return None
        return self._ends_us(core, turn)

    def has_turn(self, lambda_name: str) -> bool:
        """Whether it has a core, scheduled or occupied."""
        return any(_lambda_of(turn) == lambda_name for turn in self.turns)

    def has_claim(self, lambda_name: str) -> bool:
        """Whether it has a claim that has not been handed over."""
        scheduled = any(turn and not turn.occupied and turn.lambda_name == lambda_name for turn in self.turns)
        return scheduled or any(each.lambda_name == lambda_name for each in (*self.queue, *self.beyond))

    def waits(self) -> bool:
        """Whether some claim waits for a core."""
        return bool(self.queue)

    def names(self) -> set[str]:
        """Every lambda that has a claim or a turn."""
        turns = [turn.lambda_name for turn in self.turns if turn is not None]
        return {*turns, *(each.lambda_name for each in self.queue), *(each.lambda_name for each in self.beyond)}

    # --- steps ---------------------------------------------------------------------------------------------------------

    def _reserved(self, core: int) -> bool:
        return core < self.settings.first_multiplexed

    def _turn(self, core: int, number: int) -> CoreTurn | None:
        turn = self.turns[core] if core < len(self.turns) else None
        return turn if turn is not None and turn.number == number else None

    def _ends_us(self, core: int, turn: CoreTurn) -> int:
        if turn.occupied:
            return turn.since_us + self.settings.timeout_us(core)
        return _NEVER if self._reserved(core) else turn.since_us + self.settings.hand_over_us

    def _next(self, core: int) -> str | None:
        dealt = next((each.lambda_name for each in self.queue if each.core == core), None)  # nobody is there to take it
        return _lambda_of(self.turns[core]) or dealt

    def _end_turn(self, core: int, retries: int, now_us: int) -> None:
        turn = self.turns[core]
        assert turn is not None
        self.turns[core] = None
        if self._reserved(core):
            return
        if retries > self.settings.max_retries:
            self.dropped += 1
        else:
            self._requeue(turn.lambda_name, retries, now_us)

    def _requeue(self, lambda_name: str, retries: int, now_us: int, *, evenly: bool = False) -> None:
        if not self.has_claim(lambda_name) and lambda_name not in self.settings.reserved:
            self._put(CoreClaim(lambda_name, retries=retries), now_us, again=True, evenly=evenly)

    def _put(self, claim: CoreClaim, now_us: int, *, again: bool = False, evenly: bool = False) -> None:
        if self._room() and not self.beyond:
            self._deal(claim, now_us, evenly=evenly)
        elif again or len(self.beyond) < MAX_BEYOND:
            self.beyond.append(claim)

    def _room(self) -> bool:
        multiplexed = self.settings.cores - self.settings.first_multiplexed
        return len(self.queue) < self.settings.lookahead * multiplexed

    def _deal(self, claim: CoreClaim, now_us: int, *, evenly: bool = False) -> None:
        """Gives a claim the core whose turn it is, passing over those with `lookahead` claims; idle ones first, empty groups last."""
        first, cores = self.settings.first_multiplexed, self.settings.cores
        waiting = Counter(each.core for each in self.queue)
        start = self.next_core if first <= self.next_core < cores else first
        in_turn = [first + (start - first + step) % (cores - first) for step in range(cores - first)]
        in_turn = [core for core in in_turn if waiting[core] < self.settings.lookahead]
        if not evenly:
            in_turn.sort(
                key=lambda core: (not self.staffed(core, now_us), self.turns[core] is not None or waiting[core] > 0)
            )
        claim.core, self.next_core = in_turn[0], in_turn[0] + 1
        self.queue.append(claim)

    def _fill(self, now_us: int) -> None:
        """Gives every free core the lambda that comes next."""
        for core, owner in enumerate(self.settings.owners):
            if self.turns[core] is None:
                self._begin(core, CoreClaim(owner), now_us)
        open_cores = [
            core
            for core in range(self.settings.first_multiplexed, self.settings.cores)
            if self.turns[core] is None and self.staffed(core, now_us)
        ]
        for core in open_cores:
            self._take(core, [each for each in self.queue if each.core == core], now_us)
        while self.beyond and self._room():
            self._deal(self.beyond.pop(0), now_us)
        for core in open_cores:  # what would stand idle takes what waits for others
            if self.turns[core] is None:
                self._take(core, self.queue, now_us)
        while self.beyond and self._room():
            self._deal(self.beyond.pop(0), now_us)

    def _take(self, core: int, claims: list[CoreClaim], now_us: int) -> None:
        if claims:
            claim = claims[0]
            self.queue = [each for each in self.queue if each is not claim]
            self._begin(core, claim, now_us)

    def _begin(self, core: int, claim: CoreClaim, now_us: int) -> None:
        self.number = max(
            self.number + 1, now_us
        )  # so that a store that has forgotten turns gives no number of theirs again
        self.turns[core] = CoreTurn(claim.lambda_name, self.number, now_us, retries=claim.retries)


_NEVER: Final = 1 << 62


def _owner(settings: CoreSettings, core: int) -> str | None:
    owners = settings.owners
    return owners[core] if core < len(owners) else None


def _lambda_of(turn: CoreTurn | None) -> str | None:
    return turn.lambda_name if turn is not None else None


def _within(name: str, value: int, least: int, most: int, said: Callable[[int], str] = str) -> None:
    if not least <= value <= most:
        raise InvalidArgument(f"{name} {said(value)}: use {said(least)} to {said(most)}")
