"""The opt-in index: what a lambda may declare, and what of a payload stands in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from atf import App
from atf.errors import InvalidArgument
from atf.rpc import task_pb2 as t
from atf.sdk.search import as_searched, searched_values


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"search": "order"}, 'give a list of parameters, such as \\["order_id"\\]'),
        ({"search": ["ordre"]}, "did you mean 'order'"),
        ({"search": ["order"], "redact": ["order"]}, "'order' is redacted"),
    ],
)
def test_what_can_not_be_searched_is_refused(options: Any, message: str) -> None:
    def bill(order: int) -> None: ...

    with pytest.raises(InvalidArgument, match=message):
        App("shop").task(**options)(bill)


def test_a_lambda_says_what_it_declares() -> None:
    @App("shop").task(search=["user", "order", "user"])
    def bill(order: int, user: str) -> None: ...

    assert list(bill.spec().search) == ["order", "user"]


def test_values_stand_there_as_text() -> None:
    given = {
        "a": 7,
        "b": "x y",
        "c": 1.5,
        "d": True,
        "e": None,
        "f": [1],
        "g": {},
        "h": "l" * 65,
        "i": "x" * 64,
        "j": "7",
    }
    found = searched_values([*given, "other"], json.dumps(given).encode(), t.JSON)
    assert found == {
        "a": "7", "b": "x y", "c": "1.5", "d": "true", "e": "null", "h": as_searched("l" * 65), "i": "x" * 64, "j": "7"
    }  # fmt: skip
    assert len(found["h"]) == 33
    assert found["h"].startswith("#")


@pytest.mark.parametrize("payload", [b"", b"[1]", b"7", b"{", b'{"a": }', b"\xff"])
def test_what_is_no_object_has_no_entries(payload: bytes) -> None:
    assert searched_values(["a"], payload, t.JSON) == {}
    assert searched_values(["a"], b'{"a": 1}', t.RAW) == {}
