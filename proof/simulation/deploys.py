"""Rolling deploys in some seeds: one lambda whose parameters differ from release to release, on hosts that run now this release, now that.

What waits fits one release, two, or none. Judged at every move is that a payload that does not fit counts nothing while it may wait, that no
executor gets it twice for the same signature, that its time of grace lasts as long as it should, and that it is over for no task that an
executor was there for all the time. That none of them waits for ever is judged by the history, as of all tasks.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import atf
from atf.client import AsyncClient
from atf.rpc.task_pb2 import JSON, TaskSpec
from atf.sdk.lambdas import Lambda
from atf.store.values.claims import Outcome
from atf.task import US

from .caller import schedule, stored_id

if TYPE_CHECKING:
    from .loop import SimProcess
    from .world import World

NAME: Final = "sim/painted"
GRACE_US: Final = 40_000_000
MOST_WAIT_S: Final = 30
PAYLOADS: Final[tuple[dict[str, str], ...]] = ({"color": "red"}, {"colour": "red"}, {"tint": "red"})
"""Of the first release, of the second, and of one that nobody runs."""
TASKS: Final = 8
DEPLOYS: Final = 5
_EVERY: Final = 4
_FINISH: Final = 11
"""Arguments of one run."""
_HELD: Final = frozenset({"CLAIMED", "PROCESSING"})
_WAITING: Final = frozenset({"NEW", "RETRIABLE_FAILURE"})


def has_deploys(seed: int) -> bool:
    """Whether a seed has them."""
    return seed % _EVERY == 2


def releases() -> tuple[Lambda[..., Any], ...]:
    """The lambda as each release has it: the old name, the new one, and the new one that still reads the old one."""
    from .lambdas import painted

    def first(ctx: atf.Context, color: str) -> Any:
        return painted(ctx, color)

    def second(ctx: atf.Context, colour: str) -> Any:
        return painted(ctx, colour)

    options: dict[str, Any] = {"name": "painted", "max_attempts": 2, "backoff": atf.Backoff(1)}
    made = [
        atf.App("sim").task(**options)(_async(first)),
        atf.App("sim").task(**options)(_async(second)),
        atf.App("sim").task(**options, aliases={"color": "colour"})(_async(second)),
    ]
    return tuple(made)


def _async(handler: Callable[..., Any]) -> Callable[..., Any]:
    """The handler as an `async def`, since the simulation has no threads; its parameters stay."""
    import functools

    @functools.wraps(handler)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return await handler(*args, **kwargs)

    return run


RELEASES: Final[list[tuple[Lambda[..., Any], ...]]] = []


def release(number: int) -> Lambda[..., Any]:
    """The lambda of a release."""
    if not RELEASES:
        RELEASES.append(releases())
    return RELEASES[0][number]


async def life(world: World, client: AsyncClient) -> None:
    """Schedules the tasks, and deploys releases, host by host, while they wait and run."""
    chance = random.Random(world.seed)  # not the world's: what happens in the other seeds stays as it was
    beside = asyncio.create_task(_deploy(world, chance))
    for number in range(TASKS):
        await asyncio.sleep(chance.expovariate(TASKS / 60))
        payload, key = chance.choice((*PAYLOADS, *PAYLOADS[:2])), f"painted-{number}"
        from atf.sdk.schedulable import named

        await schedule(world, client, named(NAME, payload, {"key": key}), stored_id(key, key))
    await beside


async def _deploy(world: World, chance: random.Random) -> None:
    for _ in range(DEPLOYS):
        await asyncio.sleep(chance.uniform(5, 30))
        host = chance.choice(world.hosts)
        host.release = chance.randrange(3)
        world.chronicle.say(f"release {host.release} is deployed on {host.name}")
        world.terminate(f"{host.name}-ctl")


@dataclass
class Met:
    """What one task has met."""

    digests: set[str] = field(default_factory=set)  # that it does not fit
    since_us: int | None = None  # by the store's clock, when it began not to fit; None: it was read since
    seen_us: int = 0  # the same by the observer's
    attempts: int = 0
    looks: int = 0  # in which nobody was found that it might fit
    looked_us: int = 0


class Deploys:
    """Holds what the store makes of misfits against what it should.

    Attributes:
        known: the executors that have registered, each with the digest that it runs, when it did, its process, and since when its controller is
            awake, who speaks for it: the store can't know of one whose controller is frozen for long.
    """

    def __init__(self) -> None:
        self.met: dict[str, Met] = {}
        self.known: dict[str, tuple[str, int, SimProcess, Callable[[], int]]] = {}

    def registered(self, process: SimProcess, number: int, now_us: int, spoken_for: Callable[[], int]) -> None:
        """An executor has made its lambdas known, and asks for tasks of a release from now on: before that nobody can know what it runs."""
        self.known[process.name] = release(number).digest, now_us, process, spoken_for

    def keep(self) -> dict[str, Met]:
        """What `forgot` takes."""
        return copy.deepcopy(self.met)

    def forgot(self, kept: Mapping[str, Met]) -> None:
        """The store is as it was when these were kept."""
        self.met = copy.deepcopy(dict(kept))

    def look(
        self,
        verb: str,
        args: Sequence[Any],
        reply: Any,
        before: Mapping[str, tuple[str, int]],
        after: Mapping[str, tuple[str, int]],
        told: Callable[[str, str], str | None],
        instants: tuple[int, int],
    ) -> Iterator[str]:
        """What is odd about a call. See counts.py for most of the arguments.

        Args:
            told: reads a field of a task.
            instants: the store's time of the call, and the observer's.
        """
        mine = [task_id for task_id in after if (told(task_id, "q") or "").startswith(NAME)]
        for task_id in mine:
            if task_id not in before or before[task_id][0] in {"FATAL_FAILURE", "CANCELLED"}:
                self.met[task_id] = Met()
        if verb == "set_results":
            yield from self._finished(args[1:], reply, before, after, instants)
        for task_id in mine:
            met, was, status = self.met[task_id], before.get(task_id, ("",))[0], after[task_id][0]
            if was == "ENQUEUED" and status == "CLAIMED":
                owner = (told(task_id, "c") or "").split(" ")[-1]
                digest = self.known[owner][0]
                if digest in met.digests:
                    yield f"{task_id}: given to {owner}, which runs {digest}, again"
            attempts, unread = int(told(task_id, "a") or 0), (told(task_id, "mf") or "0 ")[:2] != "0 "
            # Those have gone that it might have fitted: while it stood in a queue or ran they were there.
            began = unread and (met.since_us is None or (was not in _WAITING and status in _WAITING))
            if began:
                met.since_us, met.seen_us = instants
                met.looks = 0
            if verb == "enqueue" and was in _WAITING and attempts > met.attempts:
                yield from self._failed(task_id, told, instants)
            elif verb == "enqueue" and was == status and was in _WAITING and unread and not began:
                yield from self._looked(task_id, instants[0])
            met.attempts = attempts

    def _finished(
        self,
        args: Sequence[Any],
        reply: Sequence[int],
        before: Mapping[str, tuple[str, int]],
        after: Mapping[str, tuple[str, int]],
        _instants: tuple[int, int],
    ) -> Iterator[str]:
        for number, verdict in enumerate(reply[: len(args) // _FINISH]):
            each = args[number * _FINISH : (number + 1) * _FINISH]
            met = self.met.get(each[0])
            if met is None or verdict != 1 or before.get(each[0], ("",))[0] not in _HELD:
                continue
            if Outcome(int(each[3])) is not Outcome.MISFIT:
                met.since_us, met.looks = None, 0
                continue
            met.digests.add(bytes(each[4]).decode().partition(" ")[0])
            if after.get(each[0], ("",))[0] not in {"NEW", "CANCELLED"}:
                yield f"{each[0]}: it does not fit, and is {after.get(each[0])}"

    def _looked(self, task_id: str, now_us: int) -> Iterator[str]:
        """The store has looked at a task, and it waits on, each time at least twice as long. How long at first, the end of its run has decided."""
        met = self.met[task_id]
        least_us = min(2 ** (met.looks - 1), MOST_WAIT_S) * US
        if met.looks and now_us - met.looked_us < least_us:
            yield f"{task_id}: look {met.looks + 1} comes {now_us - met.looked_us} µs after the one before it"
        met.looks, met.looked_us = met.looks + 1, now_us

    def _failed(self, task_id: str, told: Callable[[str, str], str | None], instants: tuple[int, int]) -> Iterator[str]:
        """A task that was not run has an attempt more."""
        met, (now_us, seen_us) = self.met[task_id], instants
        assert met.since_us is not None
        if now_us - met.since_us < GRACE_US:
            yield f"{task_id}: an attempt is counted after {now_us - met.since_us} µs in which it fitted nobody"
        spec = TaskSpec.FromString((told(task_id, "spec") or "").encode("latin-1"))
        for name, (digest, since_us, process, spoken_for) in self.known.items():
            fits = any(_reads(each, spec.payload) for each in RELEASES[0] if each.digest == digest)
            there_us = max(since_us, spoken_for())
            if fits and process.running and there_us <= met.seen_us and seen_us - met.seen_us >= GRACE_US:
                yield f"{task_id}: an attempt is counted, and {name}, which it fits, was there all the time"


def _reads(of: Lambda[..., Any], payload: bytes) -> bool:
    try:
        of.decode(payload, JSON)
    except atf.errors.InvalidArgument:
        return False
    return True
