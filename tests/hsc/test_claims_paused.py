"""A pause of claims: the HSC says so in its log once, and once that it is over."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator

import pytest

from atf import log
from atf.config.settings import LogSettings
from tests.virtual import virtual

from .world import World, ids_of, world

_written = io.StringIO()


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    _written.seek(0)
    _written.truncate()
    before = log.output.logger, log.output.debug
    log.setup(LogSettings(log_format="json"), "hsc", stream=_written)
    yield
    log.output.logger, log.output.debug = before


def events() -> list[str]:
    return [json.loads(line)["event"] for line in _written.getvalue().splitlines()]


@virtual(world(partitions=2))
async def test_it_is_said_once_when_tasks_wait_and_once_when_they_start_again(w: World) -> None:
    await w.store.pause_claims()
    asking = w.asking(wait=60)
    await asyncio.sleep(3)
    assert events() == [], "nothing waits"
    (task_id,) = await w.enqueue(1)
    await asyncio.sleep(8)
    assert events() == ["claims are paused"]
    assert not asking.done()
    await asyncio.sleep(6)
    await w.consume()
    await w.consume(1)
    assert ids_of(await asking) == [task_id]
    await asyncio.sleep(2)
    assert events() == ["claims are paused", "claims are given again"]
