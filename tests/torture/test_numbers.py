"""Each number of each request, and how many of a thing it may have: a bound that is tested, or the reason why there is none."""

from __future__ import annotations

import ast
from pathlib import Path as File
from typing import Any, Final

import pytest
from google.protobuf.descriptor import MethodDescriptor

from atf.runtime import SystemRuntime

from . import bounds, bounds_of_jobs, test_batches, test_watch
from .bounds import Bound
from .numbers import amounts_of, numbers_of
from .world import METHODS, World

TESTS: Final = File(__file__).parents[1]
EVERY: Final[dict[str, MethodDescriptor]] = METHODS | test_batches.METHODS | test_watch.METHODS
_LIMITS: Final = "torture/test_limits.py::"
_ITEMS: Final = "torture/test_batches.py::test_items_are_bounded"
_WATCH: Final = "torture/test_watch.py::"
_REPORTS: Final = "controller/test_run_metrics.py::test_a_report_that_is_malformed_counts_nothing"
_ASKS: Final = "hsc/test_next_claims.py::test_a_call_that_breaks_a_rule_is_refused_with_the_rule"
_HSC: Final = "hsc/test_hsc.py::test_nobody_who_counts_on_longer_leases_than_there_are_gets_one"

PLACES: Final = {
    f"{method} {'.'.join(path)}" for method, found in EVERY.items() for path, _ in numbers_of(found.input_type)
}
"""Where a request has a number, or several of a thing: "<service>.<method> <path>"."""

SAME: Final = {
    "Frontend.ScheduleMany requests": "Frontend.Schedule",
    "Frontend.RegisterLambdas lambdas.options": "Frontend.Schedule spec.options",
    "Frontend.ScheduleJob job.task": "Frontend.Schedule spec",
    "Frontend.ScheduleJobs requests": "Frontend.ScheduleJob",
    "Frontend.PreviewSchedule job": "Frontend.ScheduleJob job",
    "Frontend.ScheduleBatch header.spec.options": "Frontend.Schedule spec.options",
    "Frontend.ScheduleBatch header.spec.callbacks.task": "Frontend.Schedule spec",
}
"""What is in a message that one function checks, or that is left unread, wherever it stands: its bounds are tested at the other place."""
TESTED: Final = {
    "Frontend.Schedule at_us": _LIMITS + "test_instants_are_at_most_ten_years_ahead",
    "Frontend.Schedule durability": _LIMITS + "test_a_durability_is_one_of_those_there_are",
    "Frontend.WaitTasks timeout_us": _LIMITS + "test_waits_are_cut_and_not_refused_where_the_frontend_answers_them",
    "Frontend.SetGate until_at_us": _LIMITS + "test_instants_are_at_most_ten_years_ahead",
    "Frontend.SetGate share": _LIMITS + "test_a_gate_admits_some_and_not_all",
    "Frontend.ScheduleBatch header.first": "torture/test_batches.py::test_numbers_of_items_are_bounded",
    "Frontend.ScheduleBatch items.items": _ITEMS,
    "Frontend.ScheduleBatch items.items.arguments": _ITEMS,
    "Frontend.ScheduleBatch end.items": "torture/test_batches.py::test_messages_in_another_order_seal_no_batch",
    "Frontend.WatchBatch at_most_every_us": "torture/test_batches.py::test_a_watcher_s_interval_is_bounded",
    "HSC.NextClaims heartbeat_timeout_us": _HSC,
    "HSC.NextClaims max_bytes": _ASKS,
    "HSC.NextClaims wait_us": _ASKS,
    "HSC.NextClaims waited_us": _ASKS,
    "HSC.NextClaims signatures": _ASKS,
    "HSC.ReportHost wait_us": "hsc/test_hosts.py::test_a_report_that_breaks_a_rule_is_refused_with_the_rule",
    "HSC.ReportHost sets.signatures": "hsc/test_hosts.py::test_a_report_that_breaks_a_rule_is_refused_with_the_rule",
    "HSC.Heartbeat heartbeat_timeout_us": _HSC,
    "HSC.Heartbeat claims.log": _LIMITS + "test_the_numbers_of_a_log_are_cut",
    "HSC.SetResults results.log": _LIMITS + "test_the_numbers_of_a_log_are_cut",
    "HSC.SetResults results.retry_in_us": _LIMITS + "test_the_times_of_a_run_are_cut",
    "HSC.SetResults results.ran_us": _LIMITS + "test_the_times_of_a_run_are_cut",
    "HSC.SetResults results.ended_ago_us": _LIMITS + "test_the_times_of_a_run_are_cut",
    "Controller.NextWork wait_us": _LIMITS + "test_waits_are_cut_and_not_refused_where_the_frontend_answers_them",
    "Controller.NextWork heartbeat_timeout_us": "controller/test_requests.py::test_an_executor_that_counts_on_other_leases_is_refused",
    "Controller.ReportRuns runs.outcomes": _REPORTS,
    "Controller.ReportRuns runs.start_delays": _REPORTS,
    "Controller.ReportRuns runs.start_delays_us": _REPORTS,
    "Controller.ReportRuns runs.run_times": _REPORTS,
    "Controller.ReportRuns runs.run_times_us": _REPORTS,
    "Scheduler.WatchJobs initial.concurrency_limits.max_concurrent": _WATCH + "test_a_limit_is_bounded",
    "Scheduler.WatchJobs result": _WATCH + "test_messages_in_no_order_that_makes_sense_end_the_stream",
}
"""What a test of its own bounds, as it is no plain number of its request; or cuts, as it must not be refused."""
_NOT_THEIRS: Final = "a caller that sets it is refused whole: test_fields.py"
_CLAIM: Final = "of a claim that nobody gave: its verdict is LOST"
UNBOUNDED: Final = {
    "Frontend.Schedule spec.tick": _NOT_THEIRS,
    "Frontend.Schedule spec.traced_at_us": _NOT_THEIRS,
    "Frontend.Schedule spec.batch": _NOT_THEIRS,
    "Frontend.SetLambda set": "by name, and any that is no setting is refused",
    "Frontend.SetLambda unset": "any that is no setting is refused, and one that is named twice is as one",
    "Frontend.SetCapacity reserve": "each has a core at least, of those that the pool has",
    "Frontend.ScheduleBatch header.spec.traced_at_us": "a caller that sets it is refused: frontend/test_traces.py",
    "Frontend.ScheduleBatch header.spec.callbacks.then": "counts with the callbacks in all, which test_batches.py bounds",
    "Frontend.ScheduleJob job.base_at_us": "the frontend writes its own over it",
    "HSC.Heartbeat claims.claim.token": _CLAIM,
    "HSC.SetResults results.claim.token": _CLAIM,
    "HSC.HandBack claims.token": _CLAIM,
    "HSC.ReportLoss claims.token": _CLAIM,
    "Controller.NextWork call": "the executor's own count, which is compared and not kept beyond its next call",
    "Dapr.ScheduleJob job.failure_policy.constant.interval.nanos": "added to the seconds, and the sum is bounded",
    "Scheduler.ScheduleJob job.failure_policy.constant.interval.nanos": "added to the seconds, and the sum is bounded",
    "Scheduler.WatchJobs initial.actor_types": "a watcher has as many as fit into its message; frontends look into so many queues a second",
    "Scheduler.WatchJobs initial.accept_job_types": "asked for by membership alone",
    "Scheduler.WatchJobs initial.concurrency_limits": "each is checked, and none is in force",
}
"""By the method and the path, or the beginning of one: why there is no bound."""


def beginnings(place: str) -> list[str]:
    """The places that a place lies within, the request among them."""
    method, _, path = place.partition(" ")
    parts = path.split(".")
    return [method, *(f"{method} {'.'.join(parts[:end])}" for end in range(1, len(parts)))]


def has_its_reason(place: str) -> bool:
    """Whether it stands above by itself, or in a message that does; of what there may be several of, each is looked at for itself."""
    within = beginnings(place)
    told = [place, *(each for each in within if each not in PLACES)]
    return any(each in SAME for each in within) or any(each in TESTED or each in UNBOUNDED for each in told)


def type_at(name: str) -> Any:
    """The type of the message at a place; of a method alone that of its request."""
    method, _, path = name.partition(" ")
    found: Any = EVERY[method].input_type
    for each in path.split(".") if path else ():
        found = found.fields_by_name[each].message_type
    return found


def covered(method: str, bound: Bound) -> set[str]:
    """The places whose number, or number of things, is the amount of a bound at each of its ends."""
    nobody: Any = None
    world = World(nobody, nobody, nobody, SystemRuntime())
    amounts = {bound.least, bound.most} if bound.least < bound.most else {bound.least, bound.most + 1}
    found = [(amount, amounts_of(bound.request(world, amount))) for amount in sorted(amounts)]
    return {
        f"{method} {'.'.join(path)}" for path in found[0][1] if all(amount in at.get(path, ()) for amount, at in found)
    }


@pytest.fixture(scope="module")
def bounded() -> set[str]:
    """The places that have a bound."""
    every = [*bounds.BOUNDS.values(), *bounds_of_jobs.BOUNDS.values()]
    streamed = [
        Bound("Frontend.ScheduleBatch", lambda _, n, made=make: made(n), least, most, says)  # type: ignore[misc]
        for make, least, most, says in test_batches.HEADERS.values()
    ]
    return {place for each in (*every, *streamed) for place in covered(each.full_method, each)}


@pytest.mark.parametrize("method", EVERY)
def test_every_number_that_a_caller_can_send_has_a_bound_or_a_reason(method: str, bounded: set[str]) -> None:
    places = {each for each in PLACES if each.partition(" ")[0] == method}
    left = {each for each in places - bounded if not has_its_reason(each)}
    assert left == set(), "a new field needs a Bound (bounds.py), or its place in TESTED or UNBOUNDED"


@pytest.mark.parametrize("name", [*TESTED, *UNBOUNDED])
def test_no_reason_is_given_for_what_is_bounded_or_gone(name: str, bounded: set[str]) -> None:
    within = {each for each in PLACES if name in (each, *beginnings(each))}
    assert within, "it is gone"
    assert within - bounded, "it has a bound"


@pytest.mark.parametrize("here", SAME)
def test_what_is_bounded_at_another_place_is_of_its_type(here: str) -> None:
    assert type_at(here) is type_at(SAME[here])


@pytest.mark.parametrize("test", sorted(set(TESTED.values())))
def test_the_tests_that_are_named_are_there(test: str) -> None:
    file, _, name = test.partition("::")
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
