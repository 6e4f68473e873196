"""The frontend's copy of the registry while the store is away."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from atf.errors import Unavailable
from atf.frontend.lambdas import Lambdas

from .conftest import Bench

NAME = "photos/thumbnail"


async def test_calls_that_share_failing_refreshes_go_on_with_the_older_copy(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.register(NAME)
    lambdas = Lambdas(bench.store, bench.clock)
    await lambdas.load([NAME])
    bench.clock.advance(5)

    async def away() -> NoReturn:
        await asyncio.sleep(0)
        raise Unavailable("the store is away")

    monkeypatch.setattr(bench.store, "lambdas", away)

    async def call(number: int) -> str:
        for _ in range(number % 7):
            await asyncio.sleep(
                0
            )  # so that one starts a refresh just when another learns that the one before has failed
        for _ in range(20):
            await lambdas.load([NAME])
        return lambdas.get(NAME).record.name

    assert await asyncio.gather(*map(call, range(20))) == [NAME] * 20
