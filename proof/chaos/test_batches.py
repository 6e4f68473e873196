"""What the row about batches takes for broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from atf.cli.local.ports import ROLES
from atf.rpc import batch_pb2 as b
from atf.sdk.batch import ItemStatus
from atf.sdk.batch_info import BatchProgress, ItemInfo

from .rows.batches import STRUCK, judge

AT_END = BatchProgress.from_proto(
    b.Batch(id="b", status=b.BATCH_DONE, items=2, done=2, sealed=True, round=1, ended_at_us=1)
)
ITEMS = [
    ItemInfo.from_proto(b.Item(number=number, status=b.ITEM_DONE), lambda *_, number=number: [number, 70 + number])
    for number in range(2)
]
TOLD: list[list[Any]] = [
    ["item", "b", 0, 70],
    ["item", "b", 1, 61],  # its executor was killed before it had reported that
    ["item", "b", 1, 71],
    ["callback", "b", "0-cb", {"done": 2}],
]


def test_a_batch_that_came_to_its_end_is_good() -> None:
    assert judge(AT_END, ITEMS, TOLD, 2) == {"failures": [], "items": 2, "runs": 3, "repeated": 1}


@pytest.mark.parametrize(
    ("at_end", "items", "told", "says"),
    [
        (replace(AT_END, items=1, done=1), ITEMS[:1], TOLD, "1 items lack in the record"),
        (AT_END, [*ITEMS, ITEMS[0]], TOLD, "1 items are there twice"),
        (AT_END, [replace(ITEMS[0], status=ItemStatus.FAILED), ITEMS[1]], TOLD, "1 items did not end well"),
        (AT_END, [replace(ITEMS[0], result=[1, 71]), ITEMS[1]], TOLD, "1 items have the result of another one"),
        (AT_END, [replace(ITEMS[0], result=[0, 99]), ITEMS[1]], TOLD, "1 items have the result of another one"),
        (AT_END, ITEMS, TOLD[:3], "1 callback runs too many or too few"),
        (AT_END, ITEMS, [*TOLD, TOLD[3]], "1 callback runs too many or too few"),
        (AT_END, ITEMS, [*TOLD[:3], ["callback", "b", "0-cb", {"done": 1}]], "told something else"),
        (AT_END, ITEMS, [*TOLD, ["item", "b", 2, 80]], "1 runs are of no item"),
        (replace(AT_END, round=2), ITEMS, TOLD, "the batch ended with"),
    ],
)
def test_what_is_wrong_is_said(at_end: BatchProgress, items: list[ItemInfo], told: list[list[Any]], says: str) -> None:
    assert any(says in each for each in judge(at_end, items, told, 2)["failures"])


def test_no_process_is_spared() -> None:
    assert {*STRUCK} == {*ROLES, "store"}  # beside executors and the client, which are struck in other ways
