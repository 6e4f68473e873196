"""Which queue next: what was notified, the urgent before the others, and none for ever behind them."""

from __future__ import annotations

from atf.intake.backlog import MAX_QUEUES, Backlog, TakeRequest

MAIL, BILL = "shop/mail", "shop/bill"
OPEN = frozenset[int]()


def backlog(*lambdas: str, partitions: int = 1) -> Backlog:
    return Backlog(frozenset(lambdas or (MAIL, BILL)), partitions=partitions, ageing=1.0)


def chosen(built: Backlog, now: float) -> TakeRequest:
    request = built.choose(now, OPEN)
    assert request is not None
    return request


def test_nothing_is_asked_for_before_something_is_notified() -> None:
    assert backlog().choose(50.0, OPEN) is None


def test_only_what_was_notified_is_asked_for_and_only_once_if_it_is_empty() -> None:
    built = backlog(partitions=3)
    assert built.notified(2, f"{MAIL}:1", 1.0)
    request = chosen(built, 1.0)
    assert (request.partition, request.groups) == (2, [[f"{MAIL}:1"]])
    built.taken(request, {f"{MAIL}:1": 1}, [], 1.0)
    assert built.choose(1.0, OPEN) is None


def test_a_notification_of_somebody_else_s_lambda_is_none_of_ours() -> None:
    built = backlog()
    assert not built.notified(0, "shop/pack:1", 1.0)
    assert built.choose(1.0, OPEN) is None


def test_a_notification_during_the_call_that_finds_the_queue_empty_is_not_lost() -> None:
    built = backlog()
    built.notified(0, f"{MAIL}:1", 1.0)
    request = chosen(built, 1.0)
    built.notified(0, f"{MAIL}:1", 1.1)
    built.taken(request, {}, [], 1.2)
    assert chosen(built, 1.2).groups == [[f"{MAIL}:1"]]


def test_a_full_answer_leaves_what_it_did_not_reach_waiting() -> None:
    built = backlog()
    for queue in (f"{MAIL}:0", f"{MAIL}:1", f"{BILL}:1", f"{BILL}:2"):
        built.notified(0, queue, 1.0)
    request = chosen(built, 1.0)
    assert request.groups == [[f"{MAIL}:0"], [f"{MAIL}:1", f"{BILL}:1"], [f"{BILL}:2"]]
    built.taken(request, {f"{BILL}:1": 2}, [f"{BILL}:1", f"{BILL}:2", f"{MAIL}:1"], 1.5)
    # mail:0 is not named: it was empty; mail:1 waits longer than bill:1, which was served
    assert chosen(built, 1.5).groups == [[f"{MAIL}:1", f"{BILL}:1"], [f"{BILL}:2"]]


def test_a_queue_that_is_not_served_rises_and_falls_back_once_it_is() -> None:
    built = backlog()
    built.notified(0, f"{BILL}:2", 0.0)
    both = [f"{BILL}:2", f"{MAIL}:0"]
    for step in range(4):
        built.notified(0, f"{MAIL}:0", 0.0)
        request = chosen(built, step * 0.5)
        assert request.groups == [[f"{MAIL}:0"], [f"{BILL}:2"]]
        built.taken(request, {f"{MAIL}:0": 1}, both, step * 0.5)
    request = chosen(built, 2.0)
    assert request.groups == [[f"{BILL}:2", f"{MAIL}:0"]]
    built.taken(request, {f"{BILL}:2": 1}, both, 2.0)
    assert chosen(built, 2.0).groups == [[f"{MAIL}:0"], [f"{BILL}:2"]]


def test_the_partition_with_the_most_urgent_queue_comes_first_then_the_one_that_waits_longest() -> None:
    built = backlog(partitions=4)
    built.notified(0, f"{MAIL}:2", 1.0)
    built.notified(1, f"{MAIL}:1", 1.2)
    built.notified(2, f"{MAIL}:1", 1.1)
    built.notified(3, f"{MAIL}:0", 1.1)
    order = []
    while (request := built.choose(1.3, {3})) is not None:
        order.append(request.partition)
    assert order == [2, 1, 0], "and none of a partition that is closed"
    assert chosen(built, 1.3).partition == 3


def test_a_call_of_very_many_queues_takes_some_of_them() -> None:
    names = [f"shop/l{number}" for number in range(600)]
    built = backlog(*names)
    for name in names:
        built.notified(0, f"{name}:1", 1.0)
    asked: list[str] = []
    while (request := built.choose(1.0, OPEN)) is not None:
        assert len(request.since) <= MAX_QUEUES
        asked += request.since
        built.taken(request, {}, [], 1.0)
    assert asked == [f"{name}:1" for name in names]


def test_a_call_that_failed_forgets_nothing() -> None:
    built = backlog()
    built.notified(0, f"{MAIL}:1", 1.0)
    built.failed(chosen(built, 1.0))
    assert chosen(built, 3.0).since == {f"{MAIL}:1": 1.0}
