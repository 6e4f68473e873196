"""A thousand random expressions, as another library reads them; ATF_CROSSCHECK=n for another number."""

from __future__ import annotations

import os
import random

from .crosscheck import compare, theirs


def test_random_expressions_match_when_another_library_says() -> None:
    for number in range(int(os.environ.get("ATF_CROSSCHECK", "1000"))):
        found = compare(random.Random(f"suite {number}"))
        assert found.ours == found.theirs, found


def test_the_other_library_is_asked() -> None:
    found = compare(random.Random(0))
    assert found.ours == found.theirs != theirs("1 2 3 4 5 *", found.base)
