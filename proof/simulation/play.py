"""Plays one seed to its end, and judges it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final
from unittest.mock import patch

import atf.log
from atf.task import FINISHED, Status
from atf.testing.runtime import EPOCH_US
from atf.verify.events import Found
from atf.verify.history import check
from atf.verify.judgement import Breach, Finding
from tests.store.world import read, violations

from . import alive, audits, batches, jobs, lambdas, link, lists, mutants, starts, undelivered
from .chronicle import Logs
from .host import ExcusedAtKill
from .loop import Livelock
from .nemesis import DONE, FEWEST, HORIZON_S, Nemesis
from .service import SimService
from .store import SMALL_BYTES, small_answers, unfinished
from .world import World

START_S: Final = 1.0
QUIET_S: Final = 900.0
"""Seconds without faults in which everything must finish."""
FEWEST_TASKS: Final = 30
FEWEST_EXECUTORS: Final = 3
"""What a seed must have had to mean something, beside its faults and its time."""
AT_KILL: Final = "excused at the kill"
"""Of the overlaps that are excused those of workers that were frozen with their guards when these had to begin to kill, and no longer at
the lease's end."""
NO_FINDINGS: Final = frozenset({"BROKEN", "CRASHED", "MEAGRE"})
"""Breaches that say that something broke or was missing, and nothing about whether a checker sees anything."""


@dataclass
class Result:
    """What one seed came to.

    Attributes:
        wrong: the name of each breach, the task and a sentence.
        done: faults that the nemesis did, those of the network and of guards apart.
        executors: those that there were places for; each may have been started several times.
        digest: stands for everything that happened.
    """

    seed: int
    wrong: list[tuple[str, str, str]] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    tally: dict[str, int] = field(default_factory=dict)
    done: int = 0
    executors: int = 0
    virtual_s: float = 0.0
    digest: str = ""
    story: str = ""

    @property
    def found(self) -> list[tuple[str, str, str]]:
        """What checkers have found wrong."""
        return [each for each in self.wrong if each[0] not in NO_FINDINGS]

    @property
    def kinds(self) -> list[str]:
        """The breaches among it."""
        return sorted({breach for breach, *_ in self.found})

    def as_json(self) -> dict[str, Any]:
        """For another process."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_json(cls, made: dict[str, Any]) -> Result:
        """What as_json made."""
        return cls(**{**made, "wrong": [tuple(each) for each in made["wrong"]]})


def play(seed: int, mutant: str = "") -> Result:
    """Plays a seed.

    Args:
        seed: decides everything.
        mutant: a bug to switch on; see mutants.py.
    """
    world = World(seed, source=mutants.source(mutant))
    lambdas.here[:] = [world]
    asyncio.set_event_loop(world.loop)
    world.loop.set_exception_handler(lambda _loop, context: _odd(world, context))
    with contextlib.ExitStack() as stack:
        for each in stand_ins(world):
            stack.enter_context(each)
        stack.enter_context(mutants.switched_on(mutant))
        result = Result(seed)
        try:
            world.loop.run_until_complete(_whole(world))
        except Livelock as error:
            result.wrong.append(("STUCK", "", str(error)))
        except Exception as error:  # noqa: BLE001  a simulation that breaks is a finding too
            result.wrong.append(("BROKEN", "", repr(error)))
        judge_world(world, result)
    asyncio.set_event_loop(None)
    return result


def stand_ins(world: World) -> list[Any]:
    """What the world is put in place of, as patches that have not been entered."""
    small = [patch("atf.hsc.next_claims.MAX_CLAIM_BYTES", SMALL_BYTES)] if small_answers(world.seed) else []
    return [
        *small,
        patch("atf.store.store.fake_link", lambda _fake, _server=None: world.link()),
        patch("atf.store.store.listen", world.notifications.listen),
        patch("atf.store.queues.QueueVerbs.queues", link.queues),
        patch("atf.controller.host_state.process_name", alive.name),
        patch("atf.executor.output.events.wall_us", lambda: EPOCH_US + world.now_us()),
        patch.object(atf.log.output, "logger", Logs(world.chronicle, world.server.audits.logged)),
    ]


async def _whole(world: World) -> None:
    world.boot_all()
    await asyncio.sleep(START_S)
    starts.judge_reason(world)
    service = SimService(world)
    world.start("service", "host-service", service.run)
    await Nemesis(world).run()
    async with asyncio.timeout(QUIET_S):
        await service.done.wait()
    await _nothing_left(world)
    await undelivered.judge(world)
    await _nothing_left(world)
    await starts.end_of_reasons(world)
    await alive.judge(world)
    for judge in (lists.judge, audits.judge):
        await world.loop.start(world.processes["service"], judge(world))
    known = world.server.deleted | {task_id: state[0] for task_id, state in world.server.tasks().items()}
    for task_id in {*service.ids, *known}:
        status = known.get(task_id, "")
        world.chronicle.event(Found(world.now_us(), task_id, status, bool(status) and Status[status] in FINISHED))


async def _nothing_left(world: World) -> None:
    until = world.loop.time() + QUIET_S
    while True:
        while _busy(world) and world.loop.time() < until:
            await asyncio.sleep(1)
        await asyncio.sleep(5)  # what still travels arrives, and may be one task more
        if not _busy(world) or world.loop.time() >= until:
            return


def _busy(world: World) -> bool:
    return bool(unfinished(world.server.tasks())) or world.server.batch_goes_on()


def judge_world(world: World, result: Result) -> None:
    judgement, broke_off = check(world.chronicle.events), bool(result.wrong)
    for each in judgement.findings:
        if broke_off and each.breach is Breach.LOST:
            continue  # nobody has looked for it at the end
        result.wrong.append((each.breach.name, each.task_id, _sentence(each)))
    odd = [*world.chronicle.odd]
    result.wrong += [("RATE", "", each) for each in world.server.rates.wrong]
    result.wrong += [("ODD", _task_of(each), each) for each in odd]
    result.wrong += [("CRASHED", "", each) for each in world.chronicle.crashed]
    now_us = EPOCH_US + world.loop.now_us + world.server.offset_us
    result.wrong += [("INVARIANT", each.split(":")[0], each) for each in violations(read(world.server.client), now_us)]
    if batches.has_batch(world):
        found = batches.judge(read(world.server.client), world.server.ends)
        result.wrong += [("BATCH", "", each) for each in found]
    if jobs.has_job(world):
        result.wrong += [("JOB", "", each) for each in jobs.judge(world)]
    known = len(world.chronicle.odd)
    if not broke_off:
        world.chronicle.odd += world.server.lists.make_room(world.server)
    result.wrong += [("ODD", _task_of(each), each) for each in world.chronicle.odd[known:]]
    result.tally = {
        name: getattr(judgement, name)
        for name in ("attempted", "acknowledged", "recovered", "duplicated", "repeated", "forgiven", "excused")
    }
    past_end = [each for each in world.chronicle.events if not isinstance(each, ExcusedAtKill)]
    result.tally[AT_KILL] = judgement.excused - check(past_end).excused if judgement.excused else 0
    result.faults, result.moves, result.calls = world.chronicle.faults, world.chronicle.moves, world.chronicle.calls
    result.virtual_s = world.loop.time()
    result.done = sum(result.faults[kind] for kind in DONE)
    result.executors = sum("-e" in address for address in world.processes)
    result.wrong += [("MEAGRE", "", each) for each in missing_of(result)]
    result.digest = world.chronicle.digest
    result.story = world.chronicle.story(*tasks_about(result, world.server.tasks()))


def tasks_about(result: Result, tasks: Collection[str]) -> set[str]:
    """The tasks that a story is to tell of: those that what is wrong is about, or that its sentences name; else all."""
    named = set(re.split(r"[\s:,;()]+", " ".join(sentence for _, _, sentence in result.wrong)))
    return {task_id for _, task_id, _ in result.wrong if task_id} | named.intersection(tasks) or set(tasks)


def missing_of(result: Result) -> Iterator[str]:
    """What a seed had too little of to mean something."""
    if any(breach in {"BROKEN", "STUCK"} for breach, *_ in result.wrong):
        return  # it broke off
    for what, had, fewest in (
        ("faults", result.done, FEWEST),
        ("virtual seconds", result.virtual_s, HORIZON_S),
        ("tasks", result.tally["attempted"], FEWEST_TASKS),
        ("executors", result.executors, FEWEST_EXECUTORS),
    ):
        if had < fewest:
            yield f"{had:g} {what}: fewer than {fewest:g}"


def _task_of(sentence: str) -> str:
    """The task that a sentence begins with; "": it is about none."""
    return sentence.split(":", maxsplit=1)[0] if ": " in sentence else ""


def _sentence(finding: Finding) -> str:
    return f"at {finding.at_us / 1e6:.6f} s: {finding.breach.value}: {finding.text}"


def _odd(world: World, context: dict[str, Any]) -> None:
    world.chronicle.crashed.append(f"{context.get('message')}: {context.get('exception')!r}")
