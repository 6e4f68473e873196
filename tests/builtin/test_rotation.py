"""Addresses in turn, and set aside for a growing while; by a clock of the test's."""

from __future__ import annotations

from atf.builtin.rotation import MOST_KEPT, AddressRotation


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_each_run_begins_with_the_next_address() -> None:
    rotation = AddressRotation(Clock())
    assert [rotation.order(["a", "b", "c"]) for _ in range(4)] == [
        ["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"],
    ]  # fmt: skip
    assert rotation.order(["x", "y"]) == ["x", "y"]  # a target of its own


def test_an_address_that_failed_is_left_out_for_a_second_and_each_time_for_twice_as_long() -> None:
    clock = Clock()
    rotation = AddressRotation(clock)
    for pause in [1, 2, 4, 8, 16, 32, 60, 60]:
        rotation.failed("a")
        clock.now += pause - 0.01
        assert rotation.order(["a", "b"]) == ["b"]
        clock.now += 0.02
        assert sorted(rotation.order(["a", "b"])) == ["a", "b"]


def test_an_address_that_works_again_begins_afresh() -> None:
    clock = Clock()
    rotation = AddressRotation(clock)
    rotation.failed("a")
    clock.now += 1
    rotation.failed("a")
    rotation.worked("a")
    assert "a" in rotation.order(["a", "b"])
    rotation.failed("a")
    clock.now += 1.01
    assert "a" in rotation.order(["a", "b"])


def test_of_addresses_that_are_all_set_aside_the_first_to_come_back_is_tried() -> None:
    clock = Clock()
    rotation = AddressRotation(clock)
    rotation.failed("a")
    clock.now += 0.5
    rotation.failed("b")
    assert [rotation.order(["b", "a"]) for _ in range(2)] == [["a"], ["a"]]
    assert rotation.order(["b"]) == ["b"]


def test_many_runs_that_meet_one_failure_count_as_one() -> None:
    clock = Clock()
    rotation = AddressRotation(clock)
    for _ in range(50):
        rotation.failed("a")
    clock.now += 1.01
    assert "a" in rotation.order(["a", "b"])


def test_an_address_that_names_a_time_stays_away_for_that_but_for_no_longer_than_a_minute() -> None:
    clock = Clock()
    rotation = AddressRotation(clock)
    rotation.failed("a", 30)
    rotation.failed("a", 3)
    clock.now += 29.9
    assert rotation.order(["a", "b"]) == ["b"]
    clock.now += 0.2
    rotation.failed("a", 1e9)
    clock.now += 60.01
    assert "a" in rotation.order(["a", "b"])


def test_it_remembers_only_so_many() -> None:
    rotation = AddressRotation(Clock())
    for number in range(2 * MOST_KEPT):
        rotation.order([f"a{number}", f"b{number}"])
        rotation.failed(f"a{number}")
    left = [rotation.order([f"a{number}", f"b{number}"]) for number in reversed(range(2 * MOST_KEPT))]
    assert [len(each) for each in left] == [1] * MOST_KEPT + [2] * MOST_KEPT, "which are aside"
    assert [each[0][0] for each in left] == ["b"] * MOST_KEPT + ["a"] * MOST_KEPT, "whose turn it is"
