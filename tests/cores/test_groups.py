"""Groups of executors: how they are dealt, and where they are at each rotation."""

from __future__ import annotations

import pytest

from atf.cores.groups import CoreRotation, core_of, deal, group_on
from atf.task import US

MEMBERS = [f"executor-{number}" for number in range(23)]


@pytest.mark.parametrize("groups", [1, 2, 4, 7, 23, 40])
def test_sizes_differ_by_one_at_most_and_everybody_is_in_one_group(groups: int) -> None:
    dealt = deal(MEMBERS, groups, b"seed")
    sizes = [len(each) for each in dealt]
    assert len(dealt) == groups
    assert max(sizes) - min(sizes) <= 1
    assert sorted(member for group in dealt for member in group) == sorted(MEMBERS)


def test_the_seed_decides_and_the_order_of_names_does_not() -> None:
    assert deal(MEMBERS, 4, b"seed") == deal(reversed([*MEMBERS, MEMBERS[0]]), 4, b"seed")
    assert deal(MEMBERS, 4, b"seed") != deal(MEMBERS, 4, b"other")


def test_group_i_is_on_core_i_plus_k_mod_n_over_a_hundred_rotations_with_cores_added_and_removed() -> None:
    now, cores, every = 1_000 * US, 4, 10 * US
    clock = CoreRotation(now, every)
    for k in range(100):
        cores = {10: 5, 30: 7, 55: 3, 80: 4}.get(k, cores)
        if k == 60:  # an interval that is changed in the middle of one loses no rotation
            clock, every = clock.changed(3 * US, now), 3 * US
        assert clock.at(now) == k
        assert [core_of(group, clock.at(now), cores) for group in range(cores)] == [
            (group + k) % cores for group in range(cores)
        ]
        assert all(group_on(core_of(group, k, cores), k, cores) == group for group in range(cores))
        assert clock.at(clock.next_us(now) - 1) == k
        now = clock.next_us(now)


def test_a_clock_that_steps_back_rotates_nobody_backwards_past_the_start() -> None:
    clock = CoreRotation(1_000 * US, 10 * US, first=7)
    assert clock.at(0) == 7
