"""A recurring job in some seeds: what the service does with it, and what must hold of its ticks.

Judged is what the store accepts of each tick: the instants of the schedule follow one another without a gap, each as one task or as
passed over for a reason that the job's policies know, however often the job is registered anew with other options. Its tasks are judged like
all others; where ticks wait for one another, also for that. None is given out after a call to delete the job was answered, no tick after one
to pause it was, until somebody has it go on.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from atf.client import AsyncClient
from atf.errors import AlreadyExists, AtfError, NotFound
from atf.rpc import frontend_pb2 as f
from atf.sdk.job import job_spec
from atf.sdk.option_kinds import JobOptions
from atf.task import US

from .caller import attempt
from .lambdas import ticked
from .net import LATEST_S

if TYPE_CHECKING:
    from .store import StoreServer
    from .world import World

JOB: Final = "sim/ticks"
PARTITIONS: Final = 2
EVERY_S: Final = 4
REPEATS: Final = 12
LONG_S: Final = 600.0
"""Several times what all that needs, faults included."""
LATE_US: Final = 5 * US
"""A tick that is dealt with within this must not be passed over for being late."""
_FIELDS: Final = 13
"""Arguments of each tick in a call of the store's function."""
_DUE_FIELDS: Final = 8
"""Words of each job that a pass of a store consumer finds due."""


class Told(NamedTuple):
    """What the store accepted of one tick."""

    decided_us: int
    """When, on the store's clock; or, where that has been set back since, when a store consumer was told that it is due."""
    due_us: int
    next_us: int | None
    passed_over: int
    why: str
    tick_us: int | None
    """Of the task that was made; None: none was."""
    task_id: str


def has_job(world: World) -> bool:
    """Whether a seed has one. A server that forgets may forget a tick, and the job tells it again."""
    return may_have_job(world.seed) and world.server.durable


def may_have_job(seed: int) -> bool:
    """Whether a seed has one where its server forgets nothing."""
    return seed % 5 == 3


def options_of(seed: int) -> dict[str, Any]:
    """The policies of a seed's job."""
    number = seed // 5
    return {
        "overlap": ("queue", "allow", "skip", "cancel_running")[number % 4],
        "misfire": ("all", "latest", "skip")[number % 3],
        "jitter": (0, 0, 2)[number // 4 % 3],
        "repeats": REPEATS,
    }


def alone(seed: int) -> bool:
    """Whether the tasks of a seed's job never run side by side."""
    return bool(options_of(seed)["overlap"] != "allow")


async def life(world: World, client: AsyncClient) -> None:
    """Makes the job, whatever it takes, perhaps pauses it for a while, perhaps registers it anew with other options, as deploys do, and waits
    until it has ended by itself, or deletes it when it has ticked.
    """
    chance = world.chance
    await asyncio.sleep(chance.uniform(0, 30))
    options = options_of(world.seed)
    if deletes := chance.random() < 0.5:
        del options["repeats"]
    task = ticked.prepare(
        *(chance.choice((1.0, 6.0)), 1) if deletes else (chance.choice((0.02, 1.0, 6.0)), chance.choice((0, 0, 1)))
    )
    await _make(world, lambda: client.schedule_job(JOB, task, f"@every {EVERY_S}s", **options))
    made_us = world.now_us()
    if chance.random() < 0.5:
        made_us = await _deploys(world, task, options)
    if chance.random() < 0.5:
        await asyncio.sleep(chance.uniform(5, 20))
        await _ticks_are(world, chance.choice((_WAITING, _RUNNING, _BETWEEN_RUNS, _BETWEEN_RUNS)))
        await _until_done(world, "pause job", lambda: client.pause_job(JOB))
        world.server.job_paused = True
        paused = world.now_us()
        await asyncio.sleep(chance.uniform(1, 20))
        world.server.job_paused = False
        await _until_done(world, "resume job", lambda: client.resume_job(JOB))
        await _outlive(world, paused)  # a copy of the call to pause
        await _until_done(world, "resume job", lambda: client.resume_job(JOB))
    until = world.loop.time() + LONG_S
    await _beside(world, client)
    while (made := world.server.made_ticks) < REPEATS:
        if world.loop.time() > until:
            world.chronicle.odd.append(f"the job ticks no more: {made} tasks of {REPEATS} in {LONG_S:g} s")
            return
        await asyncio.sleep(2)
    if deletes:
        await _outlive(world, made_us)  # a copy of a call that made it would make it anew
        await _ticks_are(world, chance.choice((_WAITING, _RUNNING)))
        await _until_done(world, "delete job", lambda: client.delete_job(JOB))
        world.server.job_deleted = True


async def _deploys(world: World, task: Any, options: dict[str, Any]) -> int:
    """Executors of two releases register the job in turns, more often than it ticks; when the last such call ended."""
    frontend = world.wire_frontend()
    for number in range(world.chance.randint(2, 6)):
        more = {"max_retries": 3 + number % 2, "grace": 3600 + number % 2}
        said = cast("JobOptions", {**options, **more})
        job = job_spec(JOB, task.request.spec, f"@every {EVERY_S * 1000}ms", said)
        job.code = f"release{number % 2}"
        request = f.ScheduleJobRequest(job=job, overwrite=True)
        await attempt(world, "register job", frontend.schedule_job(request, timeout=10))
        await asyncio.sleep(world.chance.uniform(0.5, EVERY_S - 0.5))
    return world.now_us()


_WAITING: Final = ("NEW", "ENQUEUED", "RETRIABLE_FAILURE")
_RUNNING: Final = ("CLAIMED", "PROCESSING")
_BETWEEN_RUNS: Final = ("RETRIABLE_FAILURE",)
"""For long enough to be met there, where most ticks that wait are given out within milliseconds."""
_PATIENCE_S: Final = 20.0


async def _ticks_are(world: World, statuses: Sequence[str]) -> None:
    """Waits until a tick is in one of some statuses, for a while: what happens to the job then concerns it."""
    until = world.loop.time() + _PATIENCE_S
    while world.loop.time() < until:
        tasks = world.server.tasks()
        found = [each for each in world.server.tick_numbers if each in tasks and tasks[each][0] in statuses]
        first = any(world.server.field(each, "a") is None for each in found)  # its first attempt: others may follow
        if first or (found and statuses is _BETWEEN_RUNS):
            return
        await asyncio.sleep(0.05)


def must_not_start(server: StoreServer, task_id: str) -> str:
    """Why a task that is being given out must not be; "": it may."""
    tick = task_id in server.tick_numbers
    if server.job_deleted and (tick or task_id in server.beside):
        return "of a job that was deleted"
    return "a tick of a job that is paused" if server.job_paused and tick else ""


async def _beside(world: World, client: AsyncClient) -> None:
    """Has tasks made of the job beside its ticks, and looks at it now and then."""
    calls = 0
    for _ in range(world.chance.randint(1, 3)):
        await asyncio.sleep(world.chance.uniform(0, 8))
        before = world.server.made_ticks
        told = await attempt(world, "get job", client.get_job(JOB))
        if told is not None and not before <= told.ticks <= world.server.made_ticks:
            world.chronicle.odd.append(
                f"the job was told to have made {told.ticks} ticks; it had made {before} or more"
            )
        calls += 1
        handle = await attempt(world, "run job", client.run_job_now(JOB))
        if handle is not None and handle.id not in world.server.beside:
            world.chronicle.odd.append(f"{handle.id}: the task of a job, and nobody has made it")
    if len(world.server.beside) > calls:
        world.chronicle.odd.append(f"{calls} calls have made {world.server.beside} of the job")


async def _outlive(world: World, since_us: int) -> None:
    """Waits until no copy of a call can be under way any more: neither of the client's nor of the one to the store that it leads to."""
    await asyncio.sleep(max(0.0, 2 * LATEST_S - (world.now_us() - since_us) / US))


async def _make(world: World, call: Any) -> None:
    """Makes the job once. A call that failed may have made it all the same, or a copy of it may; and another call makes it anew once it has ended."""
    made = False
    while not made:
        begun = world.now_us()
        if not (made := await attempt(world, "job", call()) is not None):
            await _outlive(world, begun)
            made = world.server.has_job(JOB)


async def _until_done(world: World, what: str, call: Any) -> None:
    while True:
        try:
            answer = await call()
        except (AlreadyExists, NotFound) as error:  # made by a call whose answer was lost; ended meanwhile
            answer = error
        except AtfError as error:
            world.chronicle.say(f"{what} failed: {error}")
            await asyncio.sleep(1)
            continue
        world.chronicle.say(f"{what} answered {answer}")
        return


def due(found: Sequence[Any]) -> Iterator[int]:
    """The ticks that a pass found due, by the jobs it answered with."""
    return map(int, found[2::_DUE_FIELDS])


def told(args: Sequence[Any], reply: Sequence[Any], now_us: int, found_us: Mapping[int, int]) -> Iterator[Told]:
    """The ticks that a call of `tick` dealt with; `found_us`: of each tick the latest instant at which a pass found it due."""
    for place, done in enumerate(reply):
        _, _, at, following, passed, why, _, tick, _, task_id, *_ = args[1 + _FIELDS * place :][:_FIELDS]
        if done == 1:
            next_us = int(following) if following != "" else None
            decided_us = max(now_us, found_us.get(int(at), 0))
            yield Told(decided_us, int(at), next_us, int(passed), why, int(tick) if task_id else None, task_id)


def judge(world: World) -> Iterator[str]:
    """What is wrong with the ticks of a seed's job."""
    ticks, options, every_us = world.server.ticks, options_of(world.seed), EVERY_S * US
    for before, each in zip([None, *ticks], ticks, strict=False):
        if before is not None and each.due_us != before.next_us:
            yield f"the tick of {each.due_us} follows one after which that of {before.next_us} was to come"
        if each.tick_us is not None and each.tick_us != each.due_us + each.passed_over * every_us:
            yield f"the tick of {each.due_us} became a task of {each.tick_us}, and {each.passed_over} were passed over"
        dealt_with = each.passed_over + (each.tick_us is not None)
        if each.next_us is not None and each.next_us != each.due_us + dealt_with * every_us:
            yield f"behind the tick of {each.due_us} comes {each.next_us}, and {dealt_with} were dealt with"
        if each.due_us > each.decided_us or (each.tick_us or 0) > each.decided_us:
            yield f"the tick of {each.due_us} was dealt with at {each.decided_us}, before its time"
        if each.passed_over and options["overlap"] != "skip":
            if options["misfire"] == "all":
                yield f"the tick of {each.due_us} was passed over ({each.why}), and the job wants all"
            elif each.decided_us - each.due_us <= LATE_US:
                yield f"the tick of {each.due_us} was passed over ({each.why}) at {each.decided_us}: it was not late"
    made = [each for each in ticks if each.tick_us is not None]
    if ticks and ticks[-1].next_us is None and len(made) != REPEATS:
        yield f"the job has ended with {len(made)} tasks of {REPEATS}"
    partition = f"{zlib.crc32(JOB.encode()) % PARTITIONS}-"
    numbers = sorted(world.server.tick_numbers.items())
    if strays := [task_id for task_id, _ in numbers if not task_id.startswith(partition)]:
        yield f"tasks of the job lie in another partition: {strays}"
    if sorted(number for _, number in numbers) != list(range(1, len(made) + 1)):
        yield f"the job made {len(made)} tasks, and their ticks are {numbers}"
    yield from _judge_firsts(world.server.firsts)


def _judge_firsts(firsts: Mapping[tuple[str, str], Sequence[bool]]) -> Iterator[str]:
    """A key belongs to one task, whose runs all hear so, and no run of another task does."""
    owners = Counter(key for (key, _), answers in firsts.items() if any(answers))
    if several := [key for key, tasks in owners.items() if tasks > 1]:
        yield f"more than one task was the first of {several}"
    if both := [task_id for (_, task_id), answers in firsts.items() if len(set(answers)) > 1]:
        yield f"runs of one task were told different things: {both}"
    if firsts and not owners:
        yield "nobody was the first of any key"
