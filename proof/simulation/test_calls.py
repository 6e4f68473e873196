"""What the simulation knows of the calls there are, and what it says of their answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import pytest

from atf.errors import Unavailable
from atf.process.role import Process as Frame
from atf.rpc import api
from atf.store import library
from tests.store.test_keys import CREATING

from . import calls
from .answers import UNKNOWN, UNSAID, RunAnswers
from .link import SimLink
from .loop import SimProcess
from .net import Weather
from .unique import Windows
from .world import World

# --- which calls there are --------------------------------------------------------------------------------------------


def test_every_function_of_the_store_is_a_call_or_excepted() -> None:
    named = {each.removeprefix("store ") for each in (*calls.CALLS, *calls.EXCEPTED) if each.startswith("store ")}
    assert named == set(library.verbs()) | set(calls.COMMANDS)


def test_every_rpc_is_a_call_by_the_name_that_python_calls_it_or_excepted() -> None:
    interfaces = (api.Frontend, api.Controller, api.StoreConsumer, api.HSC)
    methods = {name for each in interfaces for name in vars(each) if not name.startswith("_")}
    assert {each.removeprefix("rpc ") for each in (*calls.CALLS, *calls.EXCEPTED) if each.startswith("rpc ")} == methods


def test_exceptions_are_of_calls_that_there_are_and_have_a_reason() -> None:
    for each, why in calls.EXCEPTED.items():
        carried, _, name = each.partition(" ")
        assert name in (calls.METHODS if carried == "rpc" else calls.FLAGS)
        assert len(why) > 20


def test_what_a_full_store_refuses_is_what_its_functions_say() -> None:
    assert calls.CREATES == CREATING
    assert not calls.CREATES & calls.READS


def test_calls_that_never_occurred_count_0() -> None:
    ways = {"rpc get_task slow": 2, "rpc get_task answer lost": 1, "store get_tasks lost": 4}
    found = calls.disturbed(ways)
    assert set(found) == set(calls.CALLS)
    assert +found == {"rpc get_task": 3, "store get_tasks": 4}
    assert set(ways) <= set(calls.WAYS)


@pytest.mark.parametrize(
    ("kind", "how", "way"),
    [
        ("rpc", "doubled", "rpc heartbeat doubled"),
        ("rpc answer", "lost", "rpc heartbeat answer lost"),
        ("store answer", "late", "store heartbeat late"),
        ("store", "lost", "store heartbeat lost"),
    ],
)
def test_a_call_and_a_function_of_one_name_are_counted_apart(kind: str, how: str, way: str) -> None:
    assert calls.way(kind, how, "heartbeat") == way
    assert way in calls.WAYS


# --- how they are carried ---------------------------------------------------------------------------------------------


def carried(work: Callable[[SimLink, World], Awaitable[Any]]) -> tuple[Any, World]:
    """What a process's work with its link to the store comes to."""
    world, found = World(1), list[Any]()
    with closing(world.loop):
        world.boot_store()

        async def body(_frame: Frame, _process: SimProcess) -> int:
            found.append(await work(world.link(), world))
            return 0

        world.start("hsc-1", "host-hsc-1", body)
        world.loop.advance_to(60_000_000)
    assert world.chronicle.crashed == []
    return found[0], world


def test_a_store_that_has_lost_everything_has_no_functions_until_a_role_loads_them() -> None:
    async def work(link: SimLink, world: World) -> list[int]:
        sent = world.net.made
        before = await link.call("list_outbox", "atf:{0}", ["", 1])
        counts = [sent["store", "FUNCTION"]]
        world.server.keep_nothing()
        world.server.restarted(forgetting=True)
        for _ in range(2):
            assert await link.call("list_outbox", "atf:{0}", ["", 1]) == before
            counts.append(sent["store", "FUNCTION"])
        return counts

    assert carried(work)[0] == [0, 2, 2]  # it is looked for, then loaded


def test_a_store_that_comes_back_with_something_has_its_functions() -> None:
    async def work(link: SimLink, world: World) -> int:
        await link.call("open_partition", "atf:{0}", ["", "2", "1", "16000000", "1"], server=True)
        world.server.keep()
        world.server.restarted(forgetting=True)
        await link.call("list_outbox", "atf:{0}", ["", 1])
        return world.net.made["store", "FUNCTION"]

    assert carried(work)[0] == 0


def test_what_rq_reads_goes_over_the_network() -> None:
    async def work(link: SimLink, world: World) -> tuple[int, str]:
        found = await link.read_by_rq(lambda: 5)
        world.net.weather = Weather(lost=1.0)
        try:
            await link.read_by_rq(lambda: 6)
        except Unavailable as error:
            return found, str(error)
        return found, ""

    (found, said), world = carried(work)
    assert found == 5
    assert said == "SMEMBERS: no answer from store within 5 s"
    assert calls.disturbed(world.chronicle.calls)["store SMEMBERS"] == 1


# --- answers ----------------------------------------------------------------------------------------------------------


def known() -> RunAnswers:
    """A task that was made at 10, ran, and succeeded at 30 by claim 7, which returned 5."""
    made = RunAnswers()
    for at_us, status in ((10, "NEW"), (20, "PROCESSING"), (30, "SUCCESS")):
        made.saw(at_us, "0-k", status)
    made.returned("0-k", 7, 5)
    made.returned("0-k", 8, 6)
    made.succeeded(30, "0-k", 7)
    return made


@pytest.mark.parametrize(
    ("told", "result", "since_us", "now_us"),
    [
        (UNKNOWN, None, 1, 9),
        (UNKNOWN, None, 9, 15),
        ("NEW", None, 9, 15),
        ("NEW", None, 12, 15),
        ("PROCESSING", None, 12, 25),
        ("SUCCESS", 5, 25, 35),
        ("SUCCESS", UNSAID, 25, 35),
        ("SUCCESS", 5, 35, 40),
    ],
)
def test_what_a_task_was_while_it_was_asked_for_is_right(told: str, result: Any, since_us: int, now_us: int) -> None:
    assert list(known().check("0-k", told, result, since_us, now_us)) == []


@pytest.mark.parametrize(
    ("told", "result", "since_us", "now_us", "words"),
    [
        (UNKNOWN, None, 12, 15, "told that there is none"),
        ("NEW", None, 22, 25, "told NEW"),
        ("SUCCESS", 5, 12, 25, "told SUCCESS"),
        ("CANCELLED", None, 1, 99, "told CANCELLED"),
        ("SUCCESS", 6, 35, 40, "that it returned 6"),
        ("SUCCESS", None, 35, 40, "that it returned None"),
    ],
)
def test_anything_else_is_told(told: str, result: Any, since_us: int, now_us: int, words: str) -> None:
    (said,) = known().check("0-k", told, result, since_us, now_us)
    assert words in said


def test_a_success_that_the_store_has_forgotten_is_none_any_more() -> None:
    answers = known()
    answers.forgot(40, 25)
    answers.saw(40, "0-k", "PROCESSING")
    assert list(answers.check("0-k", "SUCCESS", 5, 35, 45)) == []  # it was read before that
    answers.saw(50, "0-k", "SUCCESS")
    answers.succeeded(50, "0-k", 8)
    assert list(answers.check("0-k", "SUCCESS", 6, 55, 60)) == []
    (said,) = answers.check("0-k", "SUCCESS", 5, 55, 60)
    assert "accepted was [6]" in said


# --- unique keys ------------------------------------------------------------------------------------------------------


class ScheduledCall:
    """Calls of the store's schedule with one unique key, one after the other; and what is said of them."""

    def __init__(self, policy: str) -> None:
        self.windows = Windows()
        self.fields = {"s": "NEW", "at": "0"}
        self.put_off: list[tuple[str, int]] = []
        self.shown_us = 0
        self._unique = f"sim/step:u 100 {policy}"

    def __call__(self, now_us: int, task_id: str, what: int, at_us: int, stands_for: str = "") -> str:
        args = ["", task_id, "q", "spec", "d", "", "0", "2", "uk", self._unique]
        reply = [[what, str(at_us).encode(), stands_for.encode()]]
        said = self.windows.look(
            now_us, args, reply, lambda _, name: self.fields.get(name), self._note, 0, lambda _: self.shown_us
        )
        return "; ".join(said)

    def afresh(self, now_us: int, task_id: str) -> str:
        key = self._unique.split()[0]
        return "; ".join(self.windows.afresh(now_us, task_id, key, lambda _, name: self.fields.get(name)))

    def _note(self, task_id: str, due_us: int) -> None:
        self.put_off.append((task_id, due_us))


def test_a_window_gives_one_task_and_the_next_one_another() -> None:
    schedule = ScheduledCall("0")
    assert schedule(1000, "1-a", 0, 1000) == ""
    assert schedule(1050, "1-b", 1, 1000, "1-a") == ""
    assert schedule(1100, "1-c", 0, 1100) == ""
    assert "made within the window" in schedule(1150, "1-d", 0, 1150)
    assert (schedule.windows.found, schedule.put_off) == (1, [])


def test_a_window_that_was_over_before_the_clock_was_set_back_may_have_gone() -> None:
    schedule = ScheduledCall("0")
    schedule(1000, "1-a", 0, 1000)
    schedule.shown_us = 1100
    assert schedule(1050, "1-b", 0, 1050) == ""


@pytest.mark.parametrize(("ran_us", "holds"), [("", False), ("0", True), ("17", True)])
def test_a_window_ends_where_its_task_was_cancelled_and_never_ran(ran_us: str, holds: bool) -> None:
    schedule = ScheduledCall("0")
    schedule(1000, "1-a", 0, 1000)
    schedule.fields.update(s="CANCELLED", R=f"e1\t1010\t{ran_us}\t1\tlost: its lease expired\n")
    assert ("made within the window" in schedule(1050, "1-b", 0, 1050)) == holds


def test_a_task_that_is_started_afresh_has_the_window_of_its_key() -> None:
    schedule = ScheduledCall("0")
    schedule(1000, "1-a", 0, 1000)
    schedule.fields["s"] = "CANCELLED"
    schedule(1010, "1-b", 0, 1010)
    assert schedule.afresh(1020, "1-a") == ""
    schedule.fields["s"] = "NEW"
    assert schedule(1050, "1-c", 1, 1010, "1-a") == ""
    assert "answered with 1-b" in schedule(1060, "1-d", 1, 1010, "1-b")


def test_no_task_is_started_afresh_beside_the_one_that_has_its_key() -> None:
    schedule = ScheduledCall("0")
    schedule(1000, "1-a", 0, 1000)
    assert schedule.afresh(1020, "1-a") == ""
    assert "started afresh within the window" in schedule.afresh(1020, "1-b")
    assert schedule.afresh(1200, "1-c") == ""


def test_a_repeated_call_says_nothing_new() -> None:
    schedule = ScheduledCall("0")
    schedule(1000, "1-a", 0, 1000)
    schedule(1050, "1-b", 1, 1000, "1-a")
    schedule(1200, "1-c", 0, 1200)
    assert schedule(1250, "1-b", 1, 1000, "1-a") == ""
    assert "answered with 1-a" in schedule(1250, "1-d", 1, 1000, "1-a")


def test_a_task_is_put_off_while_it_waits_for_its_instant_and_no_longer() -> None:
    schedule = ScheduledCall("1")
    schedule(1000, "1-a", 0, 1100)
    schedule.fields["at"] = "1100"
    assert schedule(1050, "1-b", 1, 1150, "1-a") == ""
    assert schedule.put_off == [("1-a", 1150)]
    assert schedule.windows.due_us["1-a"] == 1150
    schedule.fields["at"] = "1150"
    assert "made within the window" in schedule(1140, "1-c", 0, 1240)
    schedule.fields["s"] = "CANCELLED"
    assert schedule(1150, "1-d", 0, 1250) == ""
