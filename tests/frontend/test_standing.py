"""How often a frontend has all tasks counted, by how long that takes."""

from __future__ import annotations

from typing import Any

import pytest

from atf.errors import Unavailable
from atf.store.status import StoreStatus
from frontend.standing import StandingReads


class SlowStore:
    """Its clock goes on by how long a reading takes; each says a later instant."""

    def __init__(self, took_s: float) -> None:
        self.took_s, self.now_s, self.readings, self.fails = took_s, 100.0, 0, False

    def monotonic(self) -> float:
        return self.now_s

    def all(self) -> list[Any]:
        return []

    async def get_status(self, _names: list[str], _recent_us: int) -> StoreStatus:
        self.now_s += self.took_s
        if self.fails:
            raise Unavailable("away")
        self.readings += 1
        return StoreStatus(self.readings, {}, 0, 0)


@pytest.mark.parametrize(("took_s", "used_s"), [(0.0, 1.0), (0.02, 1.0), (0.1, 4.0), (3.0, 10.0)])
async def test_a_reading_is_used_for_a_second_and_one_that_takes_long_for_longer(took_s: float, used_s: float) -> None:
    store: Any = SlowStore(took_s)
    read, begun_s = StandingReads(store, store, store), store.now_s
    assert (await read()).now_us == 1
    store.now_s = begun_s + used_s - 0.001
    assert (await read()).now_us == 1
    assert (await read(5)).now_us == 2, "of another time: anew"
    store.now_s = begun_s + used_s
    assert (await read()).now_us == 3


async def test_a_reading_that_fails_is_not_used() -> None:
    store: Any = SlowStore(0.0)
    read = StandingReads(store, store, store)
    store.fails = True
    with pytest.raises(Unavailable):
        await read()
    store.fails = False
    assert (await read()).now_us == 1
