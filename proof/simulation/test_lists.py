"""What the judges of lists and of the audit log find, and what they let pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import msgspec
import pytest

from atf.rpc import frontend_pb2 as f
from atf.store.values.audit import AuditEntry
from atf.task import DEFAULT_RETENTION_US, Status

from .audits import EVENT, NOT_TAKEN, Audits
from .lists import ListTimes
from .loop import SimProcess
from .store import StoreServer
from .world import World

MADE_US: Final = 1_000
ENDED_US: Final = 2_000
RECORD: Final = "atf:{0}"
ENDED: Final = f"{RECORD}:f:sim/step:SUCCESS:{DEFAULT_RETENTION_US}"


@pytest.fixture
def server() -> Iterator[StoreServer]:
    """One that has a task which has ended, and stands where it should."""
    world = World(1)
    with closing(world.loop):
        found = world.server
        task = {"s": "SUCCESS", "q": "sim/step:1", "spec": "\0", "ap": "spec", "ix": "fails=0"}
        for name, value in task.items():
            found.command("HSET", f"{RECORD}:t:0-a", name, value)
        found.command("SET", f"{RECORD}:v:0-a:spec", "long")
        found.command("ZADD", f"{RECORD}:n:sim/step", MADE_US, "0-a")
        found.command("ZADD", f"{RECORD}:x:sim/step:fails=0", MADE_US, "0-a")
        found.command("ZADD", ENDED, ENDED_US, "0-a")
        found.lists.moved(MADE_US, "0-a", None, Status.NEW, None)
        found.lists.moved(ENDED_US, "0-a", Status.CLAIMED, Status.SUCCESS, None)
        yield found


def test_a_task_that_stands_in_its_lists_is_as_it_should_be(server: StoreServer) -> None:
    assert list(server.lists.standing(server)) == []
    assert server.lists.in_order(server.tasks()) == server.lists.in_order(server.tasks(), "SUCCESS") == ["0-a"]
    assert server.lists.in_order(server.tasks(), "CANCELLED") == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("ZREM", f"{RECORD}:n:sim/step", "0-a"), "0-a: in atf:{0}:n:sim/step at None, and should be at 1000"),
        (("ZADD", f"{RECORD}:n:sim/step", 7, "0-a"), "at 7, and should be at 1000"),
        (("ZREM", ENDED, "0-a"), "0-a: in atf:{0}:f:sim/step:SUCCESS at None, and should be at 2000"),
        (("ZADD", f"{RECORD}:f:sim/step:CANCELLED:9", 7, "0-a"), "f:sim/step:CANCELLED at 7, and should be at None"),
        (("ZREM", f"{RECORD}:x:sim/step:fails=0", "0-a"), "x:sim/step:fails=0 at None, and should be at 1000"),
        (("ZADD", f"{RECORD}:x:sim/step:fails=0", 7, "0-gone"), "0-gone: in atf:{0}:x:sim/step:fails=0 at 7"),
        (("SET", f"{RECORD}:v:0-gone:log", "long"), "0-gone: its log lies apart, and no record has it"),
    ],
)
def test_what_stands_wrong_in_the_lists_is_found(server: StoreServer, command: tuple[object, ...], said: str) -> None:
    server.command(*command)
    (found,) = server.lists.standing(server)
    assert said in found


def test_a_record_may_go_when_its_task_has_ended_and_its_time_is_over() -> None:
    lists = ListTimes()
    lists.moved(MADE_US, "0-a", None, Status.NEW, "3 3 500")
    (unended,) = lists.swept(9_000, "0-a", "CLAIMED", early=False)
    lists.moved(ENDED_US, "0-a", Status.CLAIMED, Status.SUCCESS, "3 3 500")
    (too_early,) = lists.swept(2_400, "0-a", "SUCCESS", early=False)
    assert (unended, too_early) == (
        "0-a: its record has gone, and it was CLAIMED",
        "0-a: its record has gone 100 µs before its time",
    )
    assert list(lists.swept(2_400, "0-a", "SUCCESS", early=True)) == []
    assert list(lists.swept(2_500, "0-a", "SUCCESS", early=False)) == []


def test_a_store_that_forgets_has_the_lists_of_before() -> None:
    lists = ListTimes()
    lists.moved(MADE_US, "0-a", None, Status.NEW, None)
    kept = lists.keep()
    lists.moved(7_000, "0-a", None, Status.NEW, None)
    lists.forgot(kept)
    assert lists.made == {"0-a": MADE_US}
    lists.forgot(())
    assert lists.made == {}


# --- the audit log ----------------------------------------------------------------------------------------------------


class Log:
    """An audit log, and those who write it."""

    def __init__(self) -> None:
        self.audits = Audits()
        self.process = SimProcess("frontend-1.1", "host")

    def does(self, why: str, *, logged: bool = True, stored: bool = True, full: bool = False) -> f.AuditEntry:
        """A frontend does something, and notes it."""
        entry = AuditEntry("cancel_tasks", "sim/step", {}, "s", why, tasks=["0-a"], task_count=1)
        if logged:
            self.audits.logged(self.process, EVENT, entry.logged())
        if stored:
            self.audits.stored([msgspec.json.encode(entry)], full=full)
        told = f.AuditEntry(what="cancel_tasks", who="s", why=why, tasks=["0-a"], task_count=1, outcome="done")
        setattr(told, "lambda", "sim/step")
        return told


def test_what_is_answered_logged_and_told_of_newest_first_is_as_it_should_be() -> None:
    log = Log()
    signed = [log.audits.signed("cancel")["why"] for _ in range(2)]
    told = [log.does(why) for why in signed]
    for why in signed:
        log.audits.answered(why)
    assert signed == ["cancel 1", "cancel 2"]
    assert log.audits.wrong(told[::-1]) == []
    (found,) = log.audits.wrong(told)
    assert found == "the audit log has 2 entries, and other 2 were told"


def test_a_call_that_no_log_tells_of_is_found() -> None:
    log = Log()
    log.does("cancel 1", logged=False, stored=False)
    log.audits.answered("cancel 1")
    assert log.audits.wrong([]) == ["the call cancel 1 was answered, and no log says so"]


def test_a_line_that_the_store_was_not_given_is_found_unless_there_is_a_reason() -> None:
    log = Log()
    log.does("cancel 1", stored=False)
    said = ["frontend-1.1 has the call cancel 1 in its log, and the store was given no such entry"]
    assert log.audits.wrong([]) == said
    log.process.alive = False
    assert log.audits.wrong([]) == []
    log.process.alive = True
    log.audits.logged(log.process, NOT_TAKEN, {})
    assert log.audits.wrong([]) == []


def test_a_full_store_has_the_newest_entry_in_the_place_of_the_oldest() -> None:
    log = Log()
    told = [log.does("1"), log.does("2"), log.does("3", full=True)]
    assert log.audits.wrong([told[2], told[1]]) == []


def test_a_store_that_forgets_has_the_entries_of_before() -> None:
    log = Log()
    first, kept = log.does("1"), log.audits.keep()
    log.does("2")
    log.audits.forgot(kept)
    assert log.audits.wrong([first]) == []
