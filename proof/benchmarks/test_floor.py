"""The benchmark of the store's functions alone, with today's and with the foundation's."""

from __future__ import annotations

import pytest

from proof.benchmarks.floor import Floor

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("foundation", [False, True], ids=["today's", "the foundation's"])
async def test_tasks_pass_through_all_their_moves(foundation: bool) -> None:
    async with Floor.running(foundation=foundation) as floor:
        for batch in (1, 8):
            assert (await floor.lives(24, batch)).ended == 24
