"""The plan of strikes comes from its seed, and the store of others is never struck."""

from __future__ import annotations

from typing import Any

import pytest

from atf.errors import InvalidArgument
from atf.verify.outcome import Recovery, Strike
from atf.verify.run import Course, kinds
from atf.verify.strikes import ROLES, STORE, plan


def test_a_seed_makes_the_same_plan() -> None:
    assert plan(7, 40, 60, ROLES) == plan(7, 40, 60, ROLES)
    assert plan(7, 40, 60, ROLES) != plan(8, 40, 60, ROLES)


def test_strikes_come_in_order_within_the_load_and_at_every_role() -> None:
    found = plan(1, 100, 60, ROLES)
    assert [each.at_s for each in found] == sorted(each.at_s for each in found)
    assert found[0].at_s > 0
    assert found[-1].at_s < 0.9 * 60
    assert {role: sum(each.role == role for each in found) for role in ROLES} == dict.fromkeys(ROLES, 20)
    assert {each.what for each in found} == {"kill", "freeze"}
    turns = [tuple(each.role for each in found[start : start + len(ROLES)]) for start in range(0, 100, len(ROLES))]
    assert len(set(turns)) > 10, "the order is by chance"
    assert plan(1, 0, 60, ROLES) == []


def course(**more: Any) -> Course:
    given: dict[str, Any] = {"roles": [], "redis_url": "", **more}
    return Course(rate=1, seconds=1, strikes=1, seed=1, executors=1, settings={}, **given)


def test_the_store_is_struck_only_if_it_is_our_own() -> None:
    assert course().targets() == [*ROLES, STORE]
    assert course(redis_url="redis://x").targets() == list(ROLES)
    assert course(roles=["hsc", "hsc"]).targets() == ["hsc"]
    with pytest.raises(InvalidArgument, match="was not started here"):
        course(redis_url="redis://x", roles=[STORE]).targets()


def test_recoveries_are_told_by_kind() -> None:
    killed, frozen = Strike("kill", "hsc", 1, 0), Strike("freeze", "hsc", 1, 0)
    found = kinds(
        [
            Recovery(killed, 1.0, None, 4.0),
            Recovery(killed, 3.0, 2.5, 1.0),
            Recovery(frozen, None, None, None),
        ]
    )
    assert [each.strike for each in found] == ["freeze hsc", "kill hsc"]
    assert found[0][1:] == (1, None, None, None, None)
    assert found[1][1:] == (2, 1.0, 3.0, 2.5, 4.0)
