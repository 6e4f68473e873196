"""The judge of what runs count, on calls that a test makes up; and that tasks whose runs end in every way are in the seeds."""

from __future__ import annotations

from typing import Any, Final

from atf.store.values.claims import Outcome

from . import stops
from .counts import Counts, Tally

ID: Final = "0-a"
TOKEN: Final = (ID, 7, "n")
HELD: Final = {ID: ("PROCESSING", 7)}
QUEUED: Final = {ID: ("ENQUEUED", 7)}


def counts(**tally: Any) -> Counts:
    made = Counts()
    made.tallies[ID] = Tally(**tally)
    return made


def found(judge: Counts, verb: str, *args: Any, before: Any = HELD, after: Any = QUEUED, **record: int) -> list[str]:
    """What is odd where the store then has this record."""
    reply = [1, b"9"] if verb == "heartbeat" else [1]  # behind the verdict the call's number on the roster
    return list(judge.look(verb, ["", *args], reply, before, after, lambda _, name: str(record.get(name, 0))))


def finish(judge: Counts, outcome: Outcome, ran: Any = 5, **record: int) -> list[str]:
    return found(judge, "set_results", *TOKEN, int(outcome), b"", 0, "", 0, ran, 0, b"", **record)


def lapse(judge: Counts, before: Any = HELD, **record: int) -> list[str]:
    return found(judge, "enqueue", before=before, **record)


def test_what_counts_otherwise_than_the_store_has_it_is_odd() -> None:
    assert finish(counts(), Outcome.FAILED, a=1) == []
    assert finish(counts(), Outcome.HANDED_BACK) == []
    said = ["0-a: set_results has it at 1 attempts, 0 losses; its runs come to 0 and 0"]
    assert finish(counts(), Outcome.HANDED_BACK, a=1) == said
    assert finish(counts(), Outcome.FAILED, a=1, z=1) == [
        "0-a: set_results has it at 1 attempts, 0 losses, alone; its runs come to 1 and 0"
    ]


def test_leases_of_executors_that_drain_count_nothing_three_times_in_a_row() -> None:
    judge = counts(marked=7)
    assert [lapse(judge) for _ in range(3)] == [[]] * 3
    assert lapse(judge, l=1) == []
    assert [lapse(judge, l=1) for _ in range(3)] == [[]] * 3
    assert lapse(judge, l=1) == ["0-a: enqueue has it at 0 attempts, 1 losses; its runs come to 0 and 2"]


def test_leases_of_runs_that_had_not_started_count_nothing_twice_in_a_row() -> None:
    claimed, judge = {ID: ("CLAIMED", 7)}, counts()
    assert [lapse(judge, claimed) for _ in range(2)] == [[]] * 2
    assert lapse(judge, claimed, l=1, z=1) == []
    assert lapse(judge, HELD, l=2, z=1) == [], "it had started"


def test_a_heartbeat_marks_the_claim_that_it_names() -> None:
    judge = counts()
    assert found(judge, "heartbeat", "hsc-1", 16, 1, *TOKEN, 1, "", b"", after=HELD) == []
    assert lapse(judge) == []
    assert lapse(judge, before={ID: ("PROCESSING", 8)}, l=1) == []


def test_a_run_is_what_became_of_its_process() -> None:
    for end, handed_back, lost in (
        ("crashes", ["0-a: claim 7 was handed back, and its process crashes"], []),
        ("is killed", ["0-a: claim 7 was handed back, and its process is killed"], []),
        ("is killed by its guard: it did not drain within 10 s", [], None),
        ("ends by itself", [], None),
    ):
        judges = [counts(), counts()]
        for each in judges:
            each.began(TOKEN, "h1-e1.1")
            each.gone("h1-e1.1", 76, end)
        assert finish(judges[0], Outcome.HANDED_BACK) == handed_back
        said = found(judges[1], "report_loss", "why", 0, *TOKEN, l=1)
        assert bool(said) is (lost is None), said


def test_a_run_that_is_said_never_to_have_begun_has_not() -> None:
    assert finish(counts(), Outcome.STOPPED, "") == []
    assert finish(counts(), Outcome.STOPPED, 5, a=1) == [
        "0-a: claim 7 was said to be a run that ended, and that is not so"
    ]
    judge = counts()
    judge.began(TOKEN, "h1-e1.1")
    assert finish(judge, Outcome.STOPPED, "") == [
        "0-a: claim 7 was said to be a run that never began, and that is not so"
    ]


def test_a_task_that_is_started_afresh_and_a_store_that_forgets_begin_anew() -> None:
    judge = counts(attempts=3, losses=2)
    kept = judge.keep()
    assert found(judge, "retry_tasks", before={ID: ("FATAL_FAILURE", 7)}, after={ID: ("NEW", 7)}) == []
    assert judge.tallies[ID] == Tally()
    judge.forgot(kept)
    assert judge.tallies[ID] == Tally(attempts=3, losses=2)


def test_every_letter_of_a_plan_is_a_way_to_end() -> None:
    letters = {letter for plan in stops.PLANS for letter in plan}
    assert letters == set("muhckxsbwf.") | {stops.CANCELLED}
    assert stops.step_of("ab", 1) + stops.step_of("ab", 2) + stops.step_of("ab", 3) == "ab."
