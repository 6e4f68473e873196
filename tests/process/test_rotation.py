"""Certificates and the token are replaced under load: see `make rotation`, of which this is the short form."""

from __future__ import annotations

from pathlib import Path

import pytest

from atf.embedded import find_binary
from proof.rotation.calls import rotate_under_load
from proof.rotation.secured import secured_frontend
from tests.store.servers import running


@pytest.mark.timeout(60)
async def test_no_call_fails_while_certificates_and_token_are_replaced(tmp_path: Path) -> None:
    with running(str(find_binary().path)) as server:
        async with secured_frontend(server.url, tmp_path) as (secured, authority):
            tally = await rotate_under_load(secured, authority, seconds=5, every=1.5, rate=100)
    assert tally.errors == []
    assert (tally.failed, tally.rotations) == (0, 3)
    assert tally.calls > 400
