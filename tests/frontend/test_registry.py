"""The frontend's copy of the registry."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from atf.errors import Unavailable
from atf.store.types import LambdaRecord

from .conftest import Bench


async def test_a_registry_that_fails_too_late_for_every_call_is_no_unheard_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atf.frontend.lambdas._PATIENCE_S", 0)
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    await bench.schedule()
    loaded = asyncio.Event()

    async def lambdas() -> dict[str, LambdaRecord]:
        await loaded.wait()
        raise Unavailable("the task store is still loading its data")

    monkeypatch.setattr(bench.store, "lambdas", lambdas)
    for _ in range(2):  # the second reading takes the place of the first
        bench.clock.advance(1.1)
        await bench.schedule()
        loaded.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    gc.collect()
    assert unheard == []
