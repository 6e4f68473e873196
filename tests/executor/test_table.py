"""The table of what an executor holds, as its guard will read it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from atf.executor.table import HEADER_BYTES, SLOT_BYTES, SlotState, Table, TableEntry, memory_file


def test_what_is_filled_is_read_back() -> None:
    table = Table.in_memory(3)
    table.fill(0, "0-a", 7, "n1")
    table.fill(2, "16383-" + "x" * 64, (1 << 62) + 1, "n" * 64)
    table.mark(2, SlotState.STARTED)
    assert table.entries() == [
        TableEntry(SlotState.HELD, "0-a", 7, "n1", 0, ""),
        TableEntry(SlotState.STARTED, "16383-" + "x" * 64, (1 << 62) + 1, "n" * 64, 0, ""),
    ]
    table.free(0)
    assert [each.counter for each in table.entries()] == [(1 << 62) + 1]


def test_a_slot_used_again_shows_nothing_of_its_last_task() -> None:
    table = Table.in_memory(1)
    table.fill(0, "0-a-long-name", 7, "a-long-nonce")
    table.overrun(0, SlotState.TIMED_OUT, "it did not end", 5_000_000)
    assert table.entries() == [
        TableEntry(SlotState.TIMED_OUT, "0-a-long-name", 7, "a-long-nonce", 5_000_000, "it did not end")
    ]
    table.free(0)
    table.fill(0, "0-b", 8, "n")
    assert table.entries() == [TableEntry(SlotState.HELD, "0-b", 8, "n", 0, "")]


def test_a_long_error_is_cut_between_characters() -> None:
    table = Table.in_memory(1)
    table.fill(0, "0-a", 1, "n")
    table.overrun(0, SlotState.STOPPED, "é" * 1000)
    [entry] = table.entries()
    assert 100 < len(entry.error) < 1000
    assert set(entry.error) == {"é"}


def test_what_does_not_fit_leaves_the_slot_free() -> None:
    table = Table.in_memory(1)
    with pytest.raises(ValueError, match="at most"):
        table.fill(0, "0-a", 1, "n" * 65)
    assert table.entries() == []


def test_the_state_is_written_last() -> None:
    """A worker killed while it fills a slot leaves a free one."""
    writes: list[bool] = []

    class Watched(bytearray):
        def __setitem__(self, at: Any, value: Any) -> None:
            if at == HEADER_BYTES:
                copy = bytearray(self)
                writes.append(Table(copy).entries() == [] and copy.find(b"0-a") > 0)
            super().__setitem__(at, value)

    table = Table(Watched(HEADER_BYTES + SLOT_BYTES))
    table.fill(0, "0-a", 1, "n")
    assert writes == [True]
    assert len(table.entries()) == 1


def test_another_mapping_of_the_same_memory_sees_it() -> None:
    memory = memory_file(4)
    try:
        worker, guard = Table.mapped(memory), Table.mapped(memory)
        assert guard.slots == 4
        assert guard.oldest_lease_us == 0
        worker.oldest_lease_us = 1 << 50
        worker.fill(3, "0-a", 1, "n")
        assert guard.oldest_lease_us == 1 << 50
        assert [each.task_id for each in guard.entries()] == ["0-a"]
    finally:
        os.close(memory)
