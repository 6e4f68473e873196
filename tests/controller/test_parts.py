"""The controller's pure parts: which queue next, which ids are held, which answers arrived, what a guard said."""

from __future__ import annotations

import pytest

from atf.controller.answers import FORGET_S, Answers
from atf.controller.backlog import MAX_QUEUES, Backlog, PopRequest
from atf.controller.buffer import KEEP_S, Buffer
from atf.controller.demand import Call, Demand, Serves
from atf.controller.losses import parse_death
from atf.rpc import task_pb2 as t

MAIL, BILL = "shop/mail", "shop/bill"


def backlog(*lambdas: str, partitions: int = 1) -> Backlog:
    """A backlog whose first scans are done and found nothing."""
    built = Backlog(lambdas or (MAIL, BILL), partitions=partitions, ageing=1.0, poll_interval=100.0)
    for _ in range(partitions):
        built.popped(taken(built, 10, 0.0), [], 0.0)
    return built


def taken(built: Backlog, want: int, now: float) -> PopRequest:
    ask = built.choose(want, now)
    assert ask is not None
    return ask


# --- which queue next -------------------------------------------------------------------------------------------------


def test_nothing_is_asked_for_before_something_rings() -> None:
    built = backlog()
    assert built.choose(10, 50.0) is None
    assert built.next_look() == 100.0


def test_only_what_rang_is_asked_for_and_only_once_if_it_is_empty() -> None:
    built = backlog(partitions=3)
    assert built.notified(2, f"{MAIL}:1", 1.0)
    ask = taken(built, 10, 1.0)
    assert (ask.partition, ask.groups, ask.want) == (2, [[f"{MAIL}:1"]], 10)
    built.popped(ask, [(f"{MAIL}:1", ["a"])], 1.0)
    assert built.choose(10, 1.0) is None


def test_a_ring_of_somebody_else_s_lambda_is_none_of_ours() -> None:
    built = backlog()
    assert not built.notified(0, "shop/pack:1", 1.0)
    assert built.choose(10, 1.0) is None


def test_a_ring_during_the_pop_that_finds_the_queue_empty_is_not_lost() -> None:
    built = backlog()
    built.notified(0, f"{MAIL}:1", 1.0)
    ask = taken(built, 10, 1.0)
    built.notified(0, f"{MAIL}:1", 1.1)
    built.popped(ask, [], 1.2)
    assert taken(built, 10, 1.2).groups == [[f"{MAIL}:1"]]


def test_a_full_answer_leaves_what_it_did_not_reach_waiting() -> None:
    built = backlog()
    for queue in (f"{MAIL}:0", f"{MAIL}:1", f"{BILL}:1", f"{BILL}:2"):
        built.notified(0, queue, 1.0)
    ask = taken(built, 2, 1.0)
    assert ask.groups == [[f"{MAIL}:0"], [f"{MAIL}:1", f"{BILL}:1"], [f"{BILL}:2"]]
    built.popped(ask, [(f"{BILL}:2", []), (f"{MAIL}:1", []), (f"{BILL}:1", ["a", "b"])], 1.5)
    # mail:0 is not named: it was empty; mail:1 waits longer than bill:1, which was served
    assert taken(built, 2, 1.5).groups == [[f"{MAIL}:1", f"{BILL}:1"], [f"{BILL}:2"]]


def test_a_queue_that_stood_back_for_a_less_urgent_one_goes_on_waiting() -> None:
    built = backlog()
    for queue in (f"{MAIL}:0", f"{MAIL}:1", f"{BILL}:1", f"{MAIL}:2"):
        built.notified(0, queue, 1.0)
    built.popped(taken(built, 1, 1.0), [(f"{BILL}:1", []), (f"{MAIL}:0", []), (f"{MAIL}:2", ["a"])], 1.5)
    assert taken(built, 1, 1.5).groups == [[f"{MAIL}:0"], [f"{BILL}:1"], [f"{MAIL}:2"]]


def test_a_queue_that_is_not_served_rises_and_falls_back_once_it_is() -> None:
    built = backlog()
    built.notified(0, f"{BILL}:2", 0.0)
    for step in range(4):
        built.notified(0, f"{MAIL}:0", 0.0)
        ask = taken(built, 1, step * 0.5)
        assert ask.groups == [[f"{MAIL}:0"], [f"{BILL}:2"]]
        built.popped(ask, [(f"{BILL}:2", []), (f"{MAIL}:0", [f"m{step}"])], step * 0.5)
    ask = taken(built, 1, 2.0)
    assert ask.groups == [[f"{BILL}:2", f"{MAIL}:0"]]
    built.popped(ask, [(f"{BILL}:2", ["b"]), (f"{MAIL}:0", [])], 2.0)
    assert taken(built, 1, 2.0).groups == [[f"{MAIL}:0"], [f"{BILL}:2"]]


def test_the_partition_with_the_most_urgent_queue_comes_first_then_the_one_that_waits_longest() -> None:
    built = backlog(partitions=3)
    built.notified(0, f"{MAIL}:2", 1.0)
    built.notified(1, f"{MAIL}:1", 1.2)
    built.notified(2, f"{MAIL}:1", 1.1)
    order = []
    for _ in range(3):
        ask = taken(built, 10, 1.3)
        order.append(ask.partition)
        built.popped(ask, [], 1.3)
    assert order == [2, 1, 0]


def test_a_scan_asks_for_no_queue_and_what_it_names_waits_from_then_on() -> None:
    built = backlog(MAIL, partitions=2)
    built.notified(1, f"{MAIL}:0", 99.0)
    ask = taken(built, 10, 100.0)
    assert (ask.partition, ask.groups, ask.scan) == (0, [], True)
    built.popped(ask, [(f"{MAIL}:3", []), (f"{BILL}:0", []), (f"{MAIL}:5", ["misfit"])], 100.0)
    built.popped(taken(built, 10, 100.0), [(f"{MAIL}:0", [])], 100.0)
    asked = [taken(built, 10, 100.0), taken(built, 10, 100.0)]
    assert [(each.partition, each.since) for each in asked] == [(1, {f"{MAIL}:0": 99.0}), (0, {f"{MAIL}:3": 100.0})]
    assert built.next_look() == 200.0


def test_a_scan_is_one_pop_however_many_lambdas_there_are_and_a_pop_asks_for_those_alone_that_wait() -> None:
    names = [f"shop/l{number}" for number in range(3_000)]
    built = Backlog(names, partitions=1, ageing=1.0, poll_interval=1.0)
    ask = taken(built, 10, 5.0)
    built.popped(ask, [(f"{name}:1", []) for name in names[:2]], 5.0)
    assert ask.groups == []
    assert taken(built, 10, 5.0).groups == [[f"{name}:1" for name in names[:2]]]
    assert built.choose(10, 5.5) is None
    assert built.next_look() == 6.0


def test_a_pop_of_very_many_queues_takes_some_of_them() -> None:
    names = [f"shop/l{number}" for number in range(600)]
    built = backlog(*names)
    for name in names:
        built.notified(0, f"{name}:1", 1.0)
    asked: list[str] = []
    while (ask := built.choose(10, 1.0)) is not None:
        assert len(ask.since) <= MAX_QUEUES
        asked += ask.since
        built.popped(ask, [], 1.0)
    assert sorted(asked) == sorted(f"{name}:1" for name in names)


def test_a_partition_that_failed_is_left_alone_and_forgets_nothing() -> None:
    built = backlog(partitions=2)
    built.notified(0, f"{MAIL}:1", 1.0)
    built.failed(taken(built, 10, 1.0))
    built.shut(0, until=3.0)
    assert built.choose(10, 2.9) is None
    assert taken(built, 10, 3.0).groups == [[f"{MAIL}:1"]]


# --- sharing out ------------------------------------------------------------------------------------------------------


def test_ids_are_dealt_evenly_within_the_room_of_each_call_and_the_rest_stays() -> None:
    demand, need = Demand(), Serves(frozenset([MAIL]))
    small, large = (Call(name, "def", need.lambdas, room) for name, room in (("e1", 1), ("e2", 3)))
    demand.open(small)
    demand.open(large)
    assert demand.wanted(need, 256) == 4
    assert demand.wanted(need, 1) == 2
    left = demand.give(need, [(f"{MAIL}:0", ["a", "b"]), (f"{MAIL}:1", ["c", "d", "e"])])
    assert (list(small.ids), list(large.ids)) == (["a"], ["b", "c", "d"])
    assert left == [(f"{MAIL}:1", ["e"])]
    assert not demand, "calls that were given something wait no longer"


def test_the_buffer_gives_the_most_urgent_ids_first_and_lets_go_of_old_ones() -> None:
    buffer = Buffer()
    buffer.put([(f"{MAIL}:2", ["a"]), (f"{BILL}:0", ["b"])], 0.0)
    buffer.put([(f"{MAIL}:0", ["c"])], 0.5)
    mail = Serves(frozenset([MAIL]))
    assert buffer.count(mail) == 2
    assert buffer.take(mail, 1) == [(f"{MAIL}:0", ["c"])]
    assert buffer.stale(KEEP_S - 0.1) == []
    assert buffer.stale_at() == KEEP_S
    assert buffer.stale(KEEP_S) == ["a", "b"]
    assert buffer.drain() == []


# --- answers ----------------------------------------------------------------------------------------------------------


def test_numbers_grow_and_only_a_lower_acknowledgement_frees_claims() -> None:
    answers, claims = Answers(), [t.Claim(task_id="0-a")]
    assert answers.called("e1", "def", 1, 0, 0.0) == []
    assert answers.answer("e1", "def", claims) == 1
    assert answers.called("e1", "def", 2, 1, 0.0) == []
    assert answers.answer("e1", "def", claims) == 2
    assert answers.called("e1", "def", 2, 1, 0.0) is None, "a copy"
    assert answers.called("e1", "def", 3, 1, 0.0) == claims
    assert answers.called("e1", "def", 4, 1, 0.0) == [], "they are handed back once"


def test_an_executor_that_is_silent_for_long_is_forgotten_not_freed() -> None:
    answers = Answers()
    answers.called("e1", "def", 1, 0, 0.0)
    answers.answer("e1", "def", [t.Claim(task_id="0-a")])
    answers.called("e2", "def", 1, 0, FORGET_S + 1)
    assert answers.called("e1", "def", 1, 0, FORGET_S + 2) == []


# --- what a guard says ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change", [{"executor": None, "code": "x"}, {"held": [["0-a"]]}, {"timed_out": [["0-a", 1, "n"]]}, {"code": None}]
)
def test_an_account_of_a_death_in_another_form_is_refused(change: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        parse_death({"event": "dead", "executor": "e1", "code": 1, **change})
