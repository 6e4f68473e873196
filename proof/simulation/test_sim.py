"""The simulation itself: its loop, its network, and that a seed plays the same way again."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import lupa.lua51
import pytest

from atf.errors import DeadlineExceeded, Unavailable
from tests.quick_fakeredis import direct, interpreter, plans

from .apart import play_all
from .chronicle import Chronicle
from .loop import Livelock, SimLoop, SimProcess
from .mutants import MUTANTS, QUICK, Mutant, markers, source
from .net import Net, Weather
from .play import Result, stand_ins
from .world import World

ROOT: Final = Path(__file__).parents[2]
WITH_BATCH: Final = 37
WITH_JOB: Final = 38
"""Two seeds, the one after the other; the second one's second store consumer is polled."""
_OPEN: Final = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
"""Parameters that take any number."""
pinned = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="seeds replay under Python 3.11")


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    with contextlib.closing(SimLoop(random.Random(1))) as made:
        yield made


def processes(*names: str) -> list[SimProcess]:
    return [SimProcess(f"{name}.1", f"host-{name}") for name in names]


def after(loop: SimLoop, seconds: float) -> None:
    loop.advance_to(loop.now_us + round(seconds * 1e6))


def test_a_killed_process_does_nothing_more_not_even_its_finally(loop: SimLoop) -> None:
    (process,) = processes("a")
    did: list[str] = []

    async def work() -> None:
        try:
            while True:
                did.append("worked")
                await asyncio.sleep(1)
        finally:
            did.append("cleaned up")

    loop.start(process, work())
    after(loop, 1.5)
    process.alive = False
    after(loop, 10)
    assert did == ["worked", "worked"]


def test_a_frozen_process_goes_on_where_it_was(loop: SimLoop) -> None:
    (process,) = processes("a")
    at: list[float] = []

    async def work() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            at.append(loop.time())

    loop.start(process, work())
    after(loop, 1.5)
    process.frozen = 1
    after(loop, 5)
    loop.thaw(process)
    after(loop, 5)
    assert at == [1.0, 6.5, 7.5]


def test_what_a_lambda_starts_in_an_empty_context_is_its_process_s(loop: SimLoop) -> None:
    (process,) = processes("a")
    did: list[str] = []

    async def body() -> None:
        await asyncio.sleep(1)
        did.append("ended")

    async def work() -> None:
        asyncio.get_running_loop().create_task(body(), context=contextvars.Context())

    loop.start(process, work())
    after(loop, 0.5)
    process.alive = False
    after(loop, 5)
    assert did == []


def test_the_order_of_processes_depends_on_the_seed_alone_and_each_keeps_its_own() -> None:
    def order(seed: int) -> list[str]:
        said: list[str] = []

        async def work(name: str) -> None:
            for number in range(4):
                said.append(f"{name}{number}")
                await asyncio.sleep(0)

        with contextlib.closing(SimLoop(random.Random(seed))) as loop:
            for each in processes("a", "b", "c"):
                loop.start(each, work(each.name[0]))
            after(loop, 1)
        return said

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(10)}) > 5
    for name in "abc":
        assert [each for each in order(3) if each[0] == name] == [f"{name}{number}" for number in range(4)]


@pytest.mark.parametrize("pause", [0, 0.0001])
def test_going_round_in_circles_is_noticed_also_where_a_little_time_passes(loop: SimLoop, pause: float) -> None:
    async def spin() -> None:
        while True:
            await asyncio.sleep(pause)

    with pytest.raises(Livelock):
        loop.run_until_complete(spin())


# --- the network ------------------------------------------------------------------------------------------------------


class Wired:
    """A caller, a server, and the network between them."""

    def __init__(self, loop: SimLoop, weather: Weather) -> None:
        self.loop = loop
        self.chronicle = Chronicle(lambda: loop.now_us)
        self.net = Net(loop, random.Random(5), self.chronicle)
        self.net.weather = weather
        self.caller, self.server = processes("caller", "server")
        self.net.serve("server", self.server)
        self.done = 0

    def call(self) -> object:
        async def perform() -> str:
            self.done += 1
            return "answer"

        outcomes: list[object] = []

        async def ask() -> None:
            try:
                outcomes.append(await self.net.call("server", "call", perform, 5.0))
            except (Unavailable, DeadlineExceeded) as error:
                outcomes.append(type(error))

        self.loop.start(self.caller, ask())
        after(self.loop, 50)
        return outcomes[0] if outcomes else None


def test_a_call_is_carried(loop: SimLoop) -> None:
    wired = Wired(loop, Weather())
    assert (wired.call(), wired.done) == ("answer", 1)


def test_a_lost_packet_is_a_call_not_done_or_done_and_not_answered(loop: SimLoop) -> None:
    wired = Wired(loop, Weather(lost=0.5))
    outcomes = [(wired.call(), wired.done) for _ in range(40)]
    failed = [done for outcome, done in outcomes if outcome is DeadlineExceeded]
    assert wired.chronicle.faults["rpc lost"] > 0
    assert wired.chronicle.faults["rpc answer lost"] > 0
    assert len(failed) == wired.chronicle.faults["rpc lost"] + wired.chronicle.faults["rpc answer lost"]
    assert wired.done == 40 - wired.chronicle.faults["rpc lost"]


def test_a_doubled_packet_is_a_call_done_twice(loop: SimLoop) -> None:
    wired = Wired(loop, Weather(doubled=1.0))
    assert (wired.call(), wired.done) == ("answer", 2)


def test_a_late_packet_arrives_after_its_caller_has_given_up(loop: SimLoop) -> None:
    wired = Wired(loop, Weather(late=1.0))
    outcomes = [wired.call() for _ in range(10)]
    assert DeadlineExceeded in outcomes
    assert wired.done == 10


def test_a_process_that_is_down_refuses_and_one_that_is_cut_off_is_silent(loop: SimLoop) -> None:
    wired = Wired(loop, Weather())
    wired.net.cut.add(frozenset({"host-caller", "host-server"}))
    assert (wired.call(), wired.done) == (DeadlineExceeded, 0)
    wired.net.cut.clear()
    wired.server.alive = False
    assert (wired.call(), wired.done) == (Unavailable, 0)


# --- whole seeds ------------------------------------------------------------------------------------------------------


def simulation(*arguments: str) -> subprocess.Popen[str]:
    """A process of its own, with hashes and addresses of its own: what says so to `make sim` is not passed on."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    command = [sys.executable, "-P", "-m", "proof.simulation", "--jobs", "1", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**environment, "PYTHONPATH": str(ROOT)}
    )


@pinned
def test_a_seed_plays_the_same_way_in_any_process_whatever_was_played_there_before() -> None:
    alone = [simulation("seed", str(seed), "--story") for seed in (WITH_BATCH, WITH_JOB)]
    one_by_one = simulation("run", "--lines", "--base", str(WITH_BATCH), "--seeds", "2")
    told = [each.communicate(timeout=120)[0] for each in alone]
    results = [Result.from_json(json.loads(line)) for line in one_by_one.communicate(timeout=120)[0].splitlines()]
    assert [each.seed for each in results] == [WITH_BATCH, WITH_JOB]
    assert "the batch: round" in results[0].story
    assert "job answered" in results[1].story
    assert "poll answered" in results[1].story
    for text, result in zip(told, results, strict=True):
        assert text.startswith(result.story)
        assert f"; digest {result.digest}\n" in text
        assert result.wrong == []


@pinned
def test_a_story_is_the_same_wherever_the_project_lies() -> None:
    chronicle = Chronicle(lambda: 0)
    chronicle.say(f'File "{__file__}", line 1')
    assert chronicle.lines[0].text == 'File "proof/simulation/test_sim.py", line 1'


@pytest.mark.long
def test_commands_called_the_short_way_do_what_fakeredis_does(monkeypatch: pytest.MonkeyPatch) -> None:
    ((_, short),) = play_all([(7, "")], 1)
    monkeypatch.setattr(plans, "_plan", lambda *_args: None)
    monkeypatch.setattr(plans, "_plans", {})
    monkeypatch.setattr(direct, "put_before", lambda *_args: None)
    monkeypatch.setattr(interpreter, "_shared", {})
    monkeypatch.setattr(interpreter, "_loaded", {})
    ((_, ordinary),) = play_all([(7, "")], 1)
    assert short.digest == ordinary.digest


def test_each_marker_stands_once_and_serves_a_mutant() -> None:
    found = markers(source(""))
    assert len(found) == len(set(found))
    assert {marker for mutant in MUTANTS.values() for marker in mutant.lua} == set(found)


def test_every_mutant_changes_the_functions_or_a_method() -> None:
    lua = lupa.lua51.LuaRuntime()
    for name, mutant in MUTANTS.items():
        assert mutant.lua or mutant.patches(), name
        assert (source(name) != source("")) == bool(mutant.lua), name
        lua.compile(source(name).split("\n", 1)[1])  # raises where it is no Lua any more
    assert len(MUTANTS) >= 15
    assert set(QUICK) <= set(MUTANTS)


def outdated(replaced: Any) -> list[str]:
    """What can't be called as that can in whose place it is to stand."""
    plain, new = inspect.getattr_static(replaced.getter(), replaced.attribute), replaced.new
    name = f"{replaced.getter()}.{replaced.attribute}"
    if isinstance(plain, property) or not callable(plain):
        return [] if type(plain) is type(new) or not callable(plain) else [f"{name} is no {type(new)}"]
    taken = [each for each in inspect.signature(plain).parameters.values() if each.kind not in _OPEN]
    needed = [each for each in taken if each.default is each.empty]
    for some in (taken, needed):
        named = {each.name: None for each in some if each.kind is each.KEYWORD_ONLY}
        try:
            inspect.signature(new).bind(*[None] * (len(some) - len(named)), **named)
        except TypeError as error:
            return [f"{name}{inspect.signature(plain)}, and in its place {inspect.signature(new)}: {error}"]
    return []


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.patches()])
def test_what_a_mutant_puts_in_place_of_a_method_takes_what_that_takes(name: str) -> None:
    assert [wrong for each in MUTANTS[name].patches() for wrong in outdated(each)] == []


def test_what_stands_in_for_the_store_s_connections_takes_what_these_take() -> None:
    world = World(1)
    with contextlib.closing(world.loop):
        assert [wrong for each in stand_ins(world) for wrong in outdated(each)] == []


class Clerk:
    """Has a method that mutants would replace."""

    def note(self, text: str, at: int = 0, *, twice: bool = False) -> None:
        """Does nothing."""


@pytest.mark.parametrize(
    "stand_in",
    [
        lambda _self, _text: None,
        lambda _self, _text, _at, **_more: None,
        lambda _self, _text, _at=0: None,
        lambda _self: None,
    ],
)
def test_a_stand_in_of_another_form_is_found(stand_in: Callable[..., None]) -> None:
    assert outdated(patch.object(Clerk, "note", lambda _self, _text, _at=0, **_more: None)) == []
    (said,) = outdated(patch.object(Clerk, "note", stand_in))
    assert "Clerk'>.note" in said


def test_a_mutant_names_a_marker_of_the_library() -> None:
    odd = {"odd": Mutant("of nowhere", {"nowhere": "now = 0"})}
    with patch.dict(MUTANTS, odd), pytest.raises(ValueError, match="the library has 0 lines marked nowhere"):
        source("odd")
