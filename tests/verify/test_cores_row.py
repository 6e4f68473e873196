"""The row about cores: its judge finds a rotation that is wrong or left out, and a run on another core than its lambda's."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from atf.client.capacity import CapacityInfo, CoreInfo
from tests.chaos import cored
from tests.chaos.rows.isolation_cores import ROTATION_S, ROTATIONS, Seen, judge_places, judge_rotations

_US = 1_000_000
BEGAN_S = 1_800_000_000


def pool(k: int, n: int = 4) -> CapacityInfo:
    """As it is at the k-th rotation; the executor of group g has the guard g."""
    cores = [CoreInfo(core, "free", "", core == 0, (core - k) % n, None, None, "", "") for core in range(n)]
    groups = [[f"host-{group}-abc"] for group in range(n)]
    following = datetime.fromtimestamp(BEGAN_S + (k + 1) * ROTATION_S, UTC)
    return CapacityInfo("", cores, groups, [], [], {"cored/l0": 1}, 3, k, following)


def seen(k: int) -> Seen:
    return Seen(round((BEGAN_S + k * ROTATION_S + 0.1) * _US), pool(k))


def run(k: float, guard: int) -> cored.Ran:
    return cored.Ran(round((BEGAN_S + k * ROTATION_S) * _US), 0, guard)


def test_right_rotations_are_right_with_any_number_of_cores() -> None:
    assert judge_rotations([pool(k, 3 + k % 3) for k in range(ROTATIONS + 1)], 0) == []


def test_a_group_on_a_wrong_core_and_a_rotation_left_out_are_said() -> None:
    wrong = replace(pool(5), rotation=6)
    assert "another group than" in judge_rotations([pool(k) if k != 6 else wrong for k in range(ROTATIONS)], 0)[0]
    assert "[7]" in judge_rotations([pool(k) for k in range(ROTATIONS) if k != 7], 0)[0]
    uneven = replace(pool(3), groups=[["a-1-x", "b-2-x"], [], ["c-3-x"], ["d-4-x"]])
    assert "groups of [2, 0, 1, 1]" in judge_rotations([uneven, *[pool(k) for k in range(ROTATIONS)]], 0)[0]


def test_runs_are_inside_on_the_owners_core_and_just_after_a_rotation() -> None:
    looks = [seen(k) for k in range(8)]
    assert judge_places([run(5.15, (0 - 5) % 4)], looks) == (1, 0)
    assert judge_places([run(5.15, (0 - 4) % 4)], looks) == (1, 0)  # handed over before the rotation
    assert judge_places([run(5.15, (0 - 7) % 4)], looks) == (0, 1)
    assert judge_places([run(5.9, (0 - 7) % 4)], looks) == (0, 0)  # nobody has looked at that time
