"""The row about cores: its judge finds a rotation that is wrong or left out, and a run on another core than its lambda's."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from atf.client.capacity import CapacityInfo, CoreInfo
from proof.chaos import cored
from proof.chaos.rows.isolation_cores import (
    BETWEEN,
    LOOKAHEAD,
    PAUSE_S,
    ROTATION_S,
    ROTATIONS,
    SLACK_S,
    WITHIN_S,
    CoreRunBegan,
    Seen,
    calm,
    judge_claims,
    judge_cores,
    judge_first,
    judge_owner,
    judge_places,
    judge_rotations,
    judge_turns,
    turns_of,
)

_US = 1_000_000
BEGAN_S = 1_800_000_000


def pool(k: int, n: int = 4) -> CapacityInfo:
    """As it is at the k-th rotation; the executor of group g has the guard g."""
    cores = [CoreInfo(core, "free", "", core == 0, (core - k) % n, None, None, "", "") for core in range(n)]
    groups = [[f"host-{group}-abc"] for group in range(n)]
    following = datetime.fromtimestamp(BEGAN_S + (k + 1) * ROTATION_S, UTC)
    return CapacityInfo("", cores, groups, [], [], {"cored/l0": 1}, 3, k, following, rotation_interval=ROTATION_S)


def seen(k: int) -> Seen:
    return Seen(round((BEGAN_S + k * ROTATION_S + 0.1) * _US), pool(k))


def run(k: float, guard: int) -> cored.CoredRun:
    return cored.CoredRun(round((BEGAN_S + k * ROTATION_S) * _US), 0, guard)


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


def first_runs(**after_s: float) -> list[cored.CoredRun]:
    """A run of each lambda half a second after its tasks were stored, and one more later, but of those given: their only one so late."""
    named = {int(name[1:]): seconds for name, seconds in after_s.items()}
    runs = [cored.CoredRun(round(each * _US), number, 1) for number in range(cored.LAMBDAS) for each in (0.5, 30.0)]
    late = [cored.CoredRun(round(seconds * _US), number, 1) for number, seconds in named.items()]
    return sorted([each for each in runs if each.number not in named] + late)


def test_a_first_turn_that_comes_late_or_never_is_said() -> None:
    assert judge_first(first_runs(l4=WITHIN_S), 0) == (WITHIN_S, [])
    took, (late,) = judge_first(first_runs(l4=WITHIN_S + 0.1), 0)
    assert (took, "cored/l4 had its first turn after 7.1 s" in late) == (WITHIN_S + 0.1, True)
    never = [each for each in first_runs() if each.number != 7]
    assert [each.partition(":")[0] for each in judge_first(never, 0)[1]] == ["cored/l7 had its first turn never"]


def on_all_cores(k: float, *lambdas: str) -> Seen:
    """A look with a lambda on each core."""
    found = pool(int(k))
    cores = [replace(core, lambda_name=name) for core, name in zip(found.cores, lambdas, strict=True)]
    return Seen(round((BEGAN_S + k * ROTATION_S) * _US), replace(found, cores=cores))


def of_lambda(number: int, k: float, core: int, *, rotated: int = 0) -> cored.CoredRun:
    """A run on a core, in the group that was there so many rotations ago."""
    return cored.CoredRun(round((BEGAN_S + k * ROTATION_S) * _US), number, (core - int(k) + rotated) % 4)


def test_runs_on_every_core_are_in_its_group_or_elsewhere() -> None:
    lambdas = [f"cored/l{number}" for number in range(4)]
    looks = [on_all_cores(5 + tenth / 10, *lambdas) for tenth in range(10)]
    right = [of_lambda(number, 5.65, number) for number in range(4)]
    assert judge_cores(right, looks) == (4, 0)
    before_rotation = [of_lambda(number, 5.25, number, rotated=1) for number in range(4)]
    assert judge_cores(before_rotation, looks) == (4, 0), "handed over before the rotation"
    assert judge_cores([of_lambda(number, 5.65, number, rotated=1) for number in range(4)], looks) == (0, 4)
    assert judge_cores([of_lambda(number, 5.65, (number + 1) % 4) for number in range(4)], looks) == (0, 4)
    assert judge_cores([of_lambda(9, 5.65, 2)], looks) == (0, 1), "a lambda without a core"
    assert judge_cores([of_lambda(2, 5.95, 2), of_lambda(2, 7.0, 2)], looks) == (0, 0), "nobody has looked since"


def test_a_run_counts_on_a_core_whose_turn_has_just_ended_or_begun_and_not_long_after() -> None:
    looks = [on_all_cores(5 + tenth / 10, "", "cored/l1" if tenth < 3 else "cored/l2", "", "") for tenth in range(10)]
    assert judge_cores([of_lambda(1, 5.55, 1)], looks) == (1, 0), "handed over before its turn ended"
    assert judge_cores([of_lambda(2, 5.25, 1)], looks) == (1, 0), "begun between two looks"
    assert judge_cores([of_lambda(1, 5.75, 1)], looks) == (0, 1)


def test_an_instant_just_after_a_change_is_not_calm() -> None:
    changed_us, after_us = 1_000, round(4 * SLACK_S * _US)
    instants = (changed_us - 1, changed_us, changed_us + after_us // 2, changed_us + after_us)
    assert [calm(each, [changed_us, 9 * _US]) for each in instants] == [True, False, False, True]


def test_turns_are_told_apart_by_their_lambdas_and_by_when_they_were_handed_over() -> None:
    def look(at_s: float, name: str, state: str, since_s: float) -> Seen:
        since = datetime.fromtimestamp(BEGAN_S + since_s, UTC)
        own = CoreInfo(0, "occupied", "cored/l0", True, 0, since, None, "", "")
        shared = CoreInfo(1, state, name, False, 1, since if name else None, None, "", "")
        return Seen(round((BEGAN_S + at_s) * _US), replace(pool(0), cores=[own, shared]))

    looks = [look(0, "a", "scheduled", 0), look(0.1, "a", "occupied", 0.05), look(0.2, "a", "occupied", 0.05)]
    looks += [look(0.3, "a", "occupied", 0.25), look(0.4, "", "free", 0), look(0.5, "b", "scheduled", 0.45)]
    assert [(each.lambda_name, each.at_us - BEGAN_S * _US) for each in turns_of(looks)] == [
        ("a", 0),
        ("a", 250_000),
        ("b", 450_000),
    ]


def test_a_lambda_between_whose_turns_too_many_lie_is_said_and_one_that_has_none() -> None:
    def begun(names: str) -> list[CoreRunBegan]:
        return [CoreRunBegan(at, 1, name) for at, name in enumerate(names)]

    others = "b" * BETWEEN
    assert judge_turns(begun(f"a{others}a"), ["a"]) == ([], [BETWEEN])
    assert "between two of a" in judge_turns(begun(f"a{others}ba"), ["a"])[0][0]
    assert "between two of a" in judge_turns(begun(f"a{others}b"), ["a"])[0][0]
    assert "between two of c" in judge_turns(begun(f"a{others}a"), ["c"])[0][0]


def test_a_claim_that_more_turns_than_lookahead_pass_by_is_said() -> None:
    def look(at_s: int, *queue: tuple[str, int]) -> Seen:
        return Seen(at_s * _US, replace(pool(0), queue=list(queue)))

    begun = [CoreRunBegan(at_s * _US, 1, "b") for at_s in range(20)]
    stands = [look(at_s, ("a", 1)) for at_s in range(LOOKAHEAD + 1)]
    assert judge_claims(stands, begun) == []
    assert judge_claims([*stands, look(LOOKAHEAD + 1), look(LOOKAHEAD + 2, ("a", 1))], begun) == [], "another claim"
    assert judge_claims([*stands, look(LOOKAHEAD + 1, ("a", 2))], begun) == []
    came = sorted([*begun, CoreRunBegan(_US, 2, "a")])
    assert judge_claims([*stands, look(LOOKAHEAD + 1, ("a", 1))], came) == [], "its turn came"
    assert "a stood in the line of core 1" in judge_claims([*stands, look(LOOKAHEAD + 1, ("a", 1))], begun)[0]


def test_a_pause_of_the_owner_is_said_at_the_ends_too() -> None:
    pause = round(PAUSE_S * _US)
    assert judge_owner([0, pause, 2 * pause], 0, 3 * pause) == []
    assert judge_owner([0, pause - 1, 2 * pause], 0, 3 * pause) != []
    assert judge_owner([], 0, pause + 1) != []
