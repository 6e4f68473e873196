"""What is odd about the list of controllers that are alive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from atf.task import US

from . import alive
from .loop import SimProcess
from .world import World


@pytest.fixture
def world() -> Iterator[World]:
    made = World(1)
    with closing(made.loop):
        made.processes["h1-ctl"] = SimProcess("h1-ctl.2", "h1")
        yield made


def list_for(world: World, name: str, seconds: float) -> None:
    world.server.client.zadd("atf:{0}:roles", {f"controller 1.0 {name}": world.server.now_us() + int(seconds * US)})


def judged(world: World) -> list[str]:
    world.loop.run_until_complete(alive.judge(world))
    return world.chronicle.odd


def test_a_controller_that_runs_and_is_listed_is_as_it_should_be(world: World) -> None:
    list_for(world, "h1-ctl.2", 3600)
    assert judged(world) == []


def test_one_that_runs_and_is_not_listed_is_odd(world: World) -> None:
    assert judged(world) == ["controllers that run: ['h1-ctl.2'], and these are listed: []"]


def test_one_that_is_listed_for_a_moment_only_is_odd(world: World) -> None:
    list_for(world, "h1-ctl.2", alive.LOOKS / 2)
    assert judged(world) == ["controllers that run: ['h1-ctl.2'], and these are listed: []"]


def test_one_that_has_ended_may_be_listed_for_a_while(world: World) -> None:
    list_for(world, "h1-ctl.2", 3600)
    list_for(world, "h1-ctl.1", alive.SETTLED_S / 2)
    assert judged(world) == []


def test_one_that_has_ended_and_stays_listed_is_odd(world: World) -> None:
    list_for(world, "h1-ctl.2", 3600)
    list_for(world, "h1-ctl.1", 3600)
    assert judged(world) == ["controllers that run: ['h1-ctl.2'], and these are listed: ['h1-ctl.1', 'h1-ctl.2']"]
