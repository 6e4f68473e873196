"""A thousand random expressions, as another library reads them."""

from __future__ import annotations

import random

from .crosscheck import compare, theirs


def test_random_expressions_match_when_another_library_says() -> None:
    for number in range(1_000):
        found = compare(random.Random(f"suite {number}"))
        assert found.ours == found.theirs, found


def test_the_other_library_is_asked() -> None:
    found = compare(random.Random(0))
    assert found.ours == found.theirs != theirs("1 2 3 4 5 *", found.base)
