"""A revoked token is refused everywhere: see `make revocation`, of which this is the quick form."""

from __future__ import annotations

import pytest

from atf.embedded import find_binary
from proof.rotation.revoked import QUICK, revoked_everywhere
from tests.store.servers import running


@pytest.mark.timeout(60)
async def test_a_revoked_token_opens_nothing_any_more() -> None:
    with running(str(find_binary().path)) as server:
        found = await revoked_everywhere(server.url, 3.0, QUICK)
    assert len(found) == 8
    assert {name: seconds for name, seconds in found.items() if seconds > 2.5} == {}
