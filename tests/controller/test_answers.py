"""Which answers have arrived at an executor, and what a guard says of its end."""

from __future__ import annotations

import pytest

from atf.controller.answers import FORGET_S, Answers, Undelivered
from atf.controller.losses import parse_death
from atf.rpc import task_pb2 as t


def test_numbers_grow_and_only_a_lower_acknowledgement_frees_claims() -> None:
    answers, claims = Answers(), [t.Claim(task_id="0-a")]
    assert answers.called("e1", "def", 1, 0, 0.0, "n") == []
    assert answers.answer("e1", "def", claims) == 1
    assert answers.called("e1", "def", 2, 1, 0.0, "n") == []
    assert answers.answer("e1", "def", claims) == 2
    assert answers.called("e1", "def", 2, 1, 0.0, "n") is None, "a copy"
    assert answers.called("e1", "def", 3, 1, 0.0, "n") == claims
    assert answers.called("e1", "def", 4, 1, 0.0, "n") == [], "they are handed back once"


def test_an_executor_that_is_silent_for_long_is_forgotten_not_freed() -> None:
    answers = Answers()
    answers.called("e1", "def", 1, 0, 0.0, "n")
    answers.answer("e1", "def", [t.Claim(task_id="0-a")])
    answers.called("e2", "def", 1, 0, FORGET_S + 1, "n")
    assert answers.called("e1", "def", 1, 0, FORGET_S + 2, "n") == []


def test_of_a_dead_executor_the_last_answers_are_known_and_the_nonces_of_calls_without_one() -> None:
    answers, claims = Answers(), [t.Claim(task_id="0-a")]
    answers.called("e1", "def", 1, 0, 0.0, "answered")
    answers.answer("e1", "def", claims)
    answers.called("e1", "async", 1, 0, 0.0, "open")
    assert answers.died("e1", 1.0) == Undelivered(claims, ["open"])
    assert answers.died("e1", 2.0) == Undelivered([], [])
    assert answers.called("e1", "async", 2, 0, 3.0, "late") is None


# --- what a guard says ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change", [{"executor": None, "code": "x"}, {"held": [["0-a"]]}, {"timed_out": [["0-a", 1, "n"]]}, {"code": None}]
)
def test_an_account_of_a_death_in_another_form_is_refused(change: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        parse_death({"event": "dead", "executor": "e1", "code": 1, **change})
