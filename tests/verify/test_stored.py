from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from atf.errors import Unavailable, UnknownLambda
from atf.task import Status
from atf.verify.stored import StoredTasks

COUNTS = {"a/one": {Status.NEW: 2, Status.SUCCESS: 5}, "a/two": {Status.PROCESSING: 1}}


class Client:
    """Answers as a client of a frontend does: numbers of now for a lambda alone, older ones of all."""

    async def lambdas(self, name: str = "") -> list[Any]:
        if name == "a/away":
            raise Unavailable("away")
        if name and name not in COUNTS:
            raise UnknownLambda(name)
        return [
            SimpleNamespace(name=each, counts=Counter(of if name else {}))
            for each, of in COUNTS.items()
            if name in {each, ""}
        ]


@pytest.mark.parametrize(
    ("names", "left"),
    [(["a/one"], 2), (["a/one", "a/two"], 3), (["a/none", "a/two"], 1), (["a/away"], 1), (["a/none"], 0)],
)
async def test_what_is_left_is_what_is_left_now(names: list[str], left: int) -> None:
    assert await StoredTasks(Client(), names).left() == left  # type: ignore[arg-type]
