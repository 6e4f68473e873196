"""One world for all the tests of a module that must leave nothing behind: to open one costs as much as a hundred refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from .world import World, opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def settled() -> AsyncIterator[World]:
    """Not for tests: they take `untouched`."""
    async with opened() as world:
        yield world


@pytest.fixture
def untouched(settled: World) -> Iterator[World]:
    """The module's world, for a test that leaves the store as it was, which is looked at; it runs on the module's loop."""
    settled.known = {}
    before = _but_the_roster(settled.stored())
    yield settled
    assert _but_the_roster(settled.stored()) == before, "the next test would begin with another store"


def _but_the_roster(stored: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Where the HSC is noted as one that may hold leases, whenever it is asked for one first; and as whose hosts are members of a pool."""
    return {key: value for key, value in stored.items() if not key.endswith(b":roster") and b":c:" not in key}
