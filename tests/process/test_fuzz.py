"""Damaged tokens, metadata and cookies let nobody in: see `make fuzz-doors`, of which this is the short form."""

from __future__ import annotations

import pytest

from atf.embedded import find_binary
from proof.fuzz.doors import DOORS
from proof.fuzz.trials import fuzz, fuzzed_server
from tests.store.servers import running


@pytest.mark.timeout(60)
async def test_what_is_not_valid_lets_nobody_in_and_ends_nothing() -> None:
    with running(str(find_binary().path)) as server:
        async with fuzzed_server(server.url, seed=1) as doors:
            tally = await fuzz(doors, 300, seed=1)
    assert tally.findings == []
    assert (tally.tries, tally.served) == (300, 4)
    assert all(sum(tally.answers[name].values()) > 20 for name in DOORS)
