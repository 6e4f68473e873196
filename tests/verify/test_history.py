"""The judge: each kind of breach is found, and what only looks like one is not."""

from __future__ import annotations

from collections import Counter

from atf.verify.events import (
    Accepted,
    Began,
    Called,
    Claimed,
    Ended,
    Event,
    Excused,
    Forgot,
    Found,
    Gone,
    Recorded,
    Rescheduled,
    SetBack,
)
from atf.verify.history import check
from atf.verify.judgement import Breach, Judgement

DUE = 1_000
END = 10_000


def lived(*between: Event, status: str = "SUCCESS", finished: bool = True) -> Judgement:
    """A task that was accepted, what happened to it, and how it was found."""
    return check([Called(0, "t"), Accepted(10, "t", DUE), *between, Found(END, "t", status, finished)])


def began(at: int, fence: int, process: str = "p", store: int = DUE) -> Began:
    return Began(at, "t", fence, process, store)


def ended(at: int, fence: int, process: str = "p", *, ok: bool = True) -> Ended:
    return Ended(at, "t", fence, process, ok)


def test_a_quiet_life_breaks_nothing() -> None:
    judged = lived(began(100, 1), ended(200, 1), Recorded(210, "t", 1))
    assert judged.findings == []
    assert (judged.attempted, judged.acknowledged, judged.repeated, judged.duplicated) == (1, 1, 0, 0)


def test_a_second_run_after_the_first_is_allowed_and_counted() -> None:
    judged = lived(began(100, 1), ended(200, 1), began(300, 2, "q"), ended(400, 2, "q"))
    assert (judged.counts, judged.repeated, judged.duplicated) == (Counter(), 1, 1)


def test_lost_and_stuck() -> None:
    assert lived(status="", finished=False).counts == {Breach.LOST: 1}
    assert lived(status="ENQUEUED", finished=False).counts == {Breach.STUCK: 1}


def test_what_the_store_forgot_is_forgiven_only_if_it_was_accepted_just_then() -> None:
    assert lived(Forgot(500, 5), status="", finished=False).forgiven == 1
    assert lived(Forgot(500, 11), status="", finished=False).counts == {Breach.LOST: 1}


def test_what_was_never_acknowledged_may_be_there_or_not() -> None:
    assert check([Called(0, "t"), Found(END, "t", "", False)]).findings == []
    judged = check([Called(0, "t"), Found(END, "t", "SUCCESS", True)])
    assert (judged.counts, judged.recovered) == (Counter(), 1)
    assert check([Called(0, "t"), Found(END, "t", "NEW", False)]).counts == {Breach.STUCK: 1}


def test_what_nobody_asked_for_is_unexpected() -> None:
    assert check([began(5, 1)]).counts == {Breach.UNEXPECTED: 1}
    assert check([Found(END, "t", "NEW", False)]).counts == {Breach.UNEXPECTED: 1}


def test_early_is_by_the_store_s_clock_also_if_the_acceptance_is_heard_of_late() -> None:
    assert lived(began(100, 1, store=DUE - 1)).counts[Breach.EARLY] == 1
    late: list[Event] = [
        Called(0, "t"),
        began(5, 1, store=DUE - 1),
        Accepted(10, "t", DUE),
        Found(END, "t", "SUCCESS", True),
    ]
    assert check(late).counts == {Breach.EARLY: 1}
    assert check([*late, Forgot(7, 6)]).findings == [], "it was stored twice, and forgotten in between"


def test_a_run_is_not_early_by_a_later_call_where_the_store_has_forgotten_the_one_that_it_was_claimed_by() -> None:
    def accepted(*between: Event) -> Counter[Breach]:
        run = Began(100, "t", 1, "p", DUE - 1, nonce="m")
        return check([Called(0, "t"), *between, run, Found(END, "t", "SUCCESS", True)]).counts

    claim, forgot = claimed(50, 1, "m"), Forgot(60, 0)
    for due in (Accepted(70, "t", DUE), Accepted(110, "t", DUE)):
        assert accepted(claim, forgot, due) == {}
        for told in ((claim, due), (forgot, due), (forgot, claimed(65, 1, "m"), due)):
            assert accepted(*told) == {Breach.EARLY: 1}


def test_a_run_before_the_backoff_is_over_is_early_unless_the_store_forgot_the_failure() -> None:
    failed = (began(100, 1), ended(200, 1, ok=False), Recorded(210, "t", 1, 5_000))
    assert lived(*failed, began(300, 2, store=4_999)).counts == {Breach.EARLY: 1}
    assert lived(*failed, began(300, 2, store=5_000)).findings == []
    assert lived(*failed, Forgot(250, 205), began(300, 2, store=2_000)).findings == []


def test_a_task_started_afresh_is_due_then() -> None:
    assert lived(Rescheduled(50, "t", 500), began(100, 1, store=600)).findings == []
    assert lived(Rescheduled(50, "t", 2_000), began(100, 1, store=1_999)).counts == {Breach.EARLY: 1}


def test_overlapping_runs_are_concurrent_until_their_process_is_gone() -> None:
    assert lived(began(100, 1), began(150, 2, "q"), ended(200, 1)).counts == {Breach.CONCURRENT: 1}
    assert lived(began(100, 1), Gone(140, "p"), began(150, 2, "q")).findings == []
    assert lived(began(100, 1), began(150, 2, "q"), Gone(160, "p")).counts == {Breach.CONCURRENT: 1}


def test_a_short_run_does_not_hide_a_long_one() -> None:
    runs = (began(100, 1), ended(900, 1), began(950, 2, "q"), ended(1_900, 2, "q"))
    assert lived(*runs).findings == []
    overlapped = (
        began(100, 1),
        began(200, 2, "q"),
        ended(210, 2, "q"),
        began(300, 3, "r"),
        ended(400, 3, "r"),
        ended(900, 1),
    )
    assert lived(*overlapped).counts == {Breach.CONCURRENT: 2}


def test_an_overlap_is_excused_only_within_its_bounds() -> None:
    overlap = (began(100, 1), began(150, 2, "q"), ended(200, 1))
    judged = lived(*overlap, Excused(120, "p", 200))
    assert (judged.counts, judged.excused) == (Counter(), 1)
    assert lived(*overlap, Excused(120, "p", 199)).counts == {Breach.CONCURRENT: 1}
    assert lived(*overlap, Excused(151, "p", 300)).counts == {Breach.CONCURRENT: 1}
    assert lived(*overlap, Excused(120, "q", 200)).counts == {Breach.CONCURRENT: 1}


def test_a_stale_result_is_one_accepted_after_a_younger_claim_ran() -> None:
    runs = (began(100, 1), Gone(140, "p"), began(150, 2, "q"))
    assert lived(*runs, Recorded(200, "t", 1)).counts == {Breach.STALE_RESULT_ACCEPTED: 1}
    assert lived(*runs, Recorded(200, "t", 2)).findings == []
    assert lived(began(100, 1), Recorded(120, "t", 1), Gone(140, "p"), began(150, 2, "q")).findings == []


def test_a_stale_result_is_also_one_accepted_after_a_younger_claim_was_given() -> None:
    given = (claimed(90, 5, "m"), Began(100, "t", 5, "p", DUE, nonce="m"), claimed(150, 7, "n"))
    result = Recorded(200, "t", 5, nonce="m")
    assert lived(*given, result).counts == {Breach.STALE_RESULT_ACCEPTED: 1}
    assert lived(*given, Forgot(160, 120), result).findings == []


def test_a_token_belongs_to_one_run() -> None:
    assert lived(began(100, 1), Gone(140, "p"), began(150, 1, "q")).counts == {Breach.TOKEN_REUSED: 1}


def claimed(at: int, fence: int, nonce: str, store: int = 0) -> Claimed:
    return Claimed(at, "t", fence, nonce, store)


def test_a_token_is_fence_and_nonce() -> None:
    def runs(*nonces: str) -> Judgement:
        one, other = (
            Began(at, "t", 1, process, DUE, nonce=nonce)
            for at, process, nonce in zip((100, 150), "pq", nonces, strict=True)
        )
        return lived(one, Gone(140, "p"), other)

    assert runs("m", "n").findings == []
    assert runs("n", "n").counts == {Breach.TOKEN_REUSED: 1}
    assert lived(claimed(90, 1, "m"), claimed(95, 2, "n")).findings == []
    assert lived(claimed(90, 1, "m"), claimed(95, 1, "m")).counts == {Breach.TOKEN_REUSED: 1}


def test_a_fence_may_shrink_only_where_a_claim_was_forgotten_and_the_clock_stands_before_it() -> None:
    one, other = claimed(100, 5, "m", 5), claimed(200, 5, "n", 5)
    forgot, back = Forgot(150, 90), SetBack(150)
    assert lived(one, forgot, back, other).findings == []
    assert lived(SetBack(50), one, forgot, claimed(200, 3, "n", 2)).findings == []  # it has not caught up
    for excuse in ((), (forgot,), (back,), (Forgot(150, 101), back)):
        assert lived(one, *excuse, other).counts == {Breach.FENCE_NOT_GROWN: 1}
    assert lived(one, forgot, back, claimed(200, 5, "n", 6)).counts == {Breach.FENCE_NOT_GROWN: 1}
    kept = claimed(80, 4, "k", 4)
    assert lived(kept, one, forgot, back, claimed(200, 4, "n", 4)).counts == {Breach.FENCE_NOT_GROWN: 1}


def test_a_late_copy_of_a_call_may_get_a_forgotten_claim_again_but_two_runs_have_not_one_token() -> None:
    again = (claimed(100, 5, "m", 5), Forgot(150, 90), SetBack(150), claimed(200, 5, "m", 5))
    runs = (Began(110, "t", 5, "p", DUE, nonce="m"), Gone(140, "p"), Began(210, "t", 5, "q", DUE, nonce="m"))
    assert lived(*again).findings == []
    assert lived(*again, *runs).counts == {Breach.TOKEN_REUSED: 1}


def test_a_stale_result_is_known_by_when_its_claim_was_given_where_fences_shrink() -> None:
    claims = (claimed(90, 5, "m"), Forgot(130, 80), SetBack(130), claimed(140, 3, "n"))
    runs = (Began(100, "t", 5, "p", DUE, nonce="m"), Gone(135, "p"), Began(150, "t", 3, "q", DUE, nonce="n"))
    assert lived(*claims, *runs, Recorded(200, "t", 3, nonce="n")).findings == []
    assert lived(*claims, *runs, Recorded(200, "t", 5, nonce="m")).counts == {Breach.STALE_RESULT_ACCEPTED: 1}


def test_a_result_is_not_stale_where_the_store_has_forgotten_the_younger_claim() -> None:
    older = (claimed(90, 5, "m"), Began(95, "t", 5, "p", DUE, nonce="m"), Gone(110, "p"))
    younger = (claimed(120, 6, "n"), Began(125, "t", 6, "q", DUE, nonce="n"), Gone(130, "q"))
    result = Recorded(200, "t", 5, nonce="m")
    assert lived(*older, *younger, Forgot(140, 100), result).findings == []
    for forgot in ((), (Forgot(140, 121),), (Forgot(210, 100),)):
        assert lived(*older, *younger, *forgot, result).counts == {Breach.STALE_RESULT_ACCEPTED: 1}


def test_more_of_one_lambda_at_once_than_may() -> None:
    def one(at: int, task: str, process: str = "p") -> Event:
        return Began(at, task, at, process, DUE, "steps", 2)

    def crowded(*events: Event) -> int:
        return check(events).counts[Breach.CROWDED]

    assert crowded(one(100, "a"), one(110, "b")) == 0
    assert crowded(one(100, "a"), one(110, "b"), one(120, "c")) == 1
    assert crowded(one(100, "a"), one(110, "b"), Ended(120, "a", 100, "p", True), one(120, "c")) == 0
    assert crowded(one(100, "a", "q"), one(110, "b"), Gone(115, "q"), one(120, "c")) == 0
    assert crowded(one(100, "a", "q"), one(110, "b"), Excused(115, "q", 130), one(120, "c")) == 0
