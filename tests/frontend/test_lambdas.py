"""The frontend's copy of the registry while the store is away."""

from __future__ import annotations

import asyncio
import difflib
from typing import Any, NoReturn

import pytest

from atf.errors import Unavailable
from atf.frontend.lambdas import KnownLambda, Lambdas
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.store.values.lambdas import LambdaRecord

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

    monkeypatch.setattr(bench.store, "list_lambdas", away)

    async def call(number: int) -> str:
        for _ in range(number % 7):
            await asyncio.sleep(
                0
            )  # so that one starts a refresh just when another learns that the one before has failed
        for _ in range(20):
            await lambdas.load([NAME])
        return lambdas.get(NAME).record.name

    assert await asyncio.gather(*map(call, range(20))) == [NAME] * 20


def test_options_are_filled_in_once_and_what_is_kept_of_them_is_bounded() -> None:
    known = KnownLambda(
        LambdaRecord(NAME, b"", 1, 1, paused=False), f.LambdaSpec(options=t.TaskOptions(max_attempts=7))
    )

    first = known.options(t.TaskOptions(priority=2))
    assert known.options(t.TaskOptions(priority=2)) is first
    assert (first.priority, first.max_attempts) == (2, 7)
    assert known.options(t.TaskOptions(priority=3)).priority == 3

    large = t.TaskOptions.FromString(b"\xa2\x06" + bytes([0xE8, 0x07]) + b"x" * 1000)  # a field that nobody knows
    for number in range(1000):
        assert known.options(t.TaskOptions(timeout_us=number)).timeout_us == number
        assert known.options(large) == known.options(t.TaskOptions())
    asked = [*(t.TaskOptions(timeout_us=number) for number in range(1000)), t.TaskOptions(priority=2)]
    asked += [t.TaskOptions(priority=3), t.TaskOptions()]
    assert sum(known.options(each) is known.options(each) for each in asked) == 256
    assert known.options(large) is not known.options(large)


async def test_a_call_that_names_a_thousand_unknown_lambdas_is_told_the_nearest_of_a_few(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes milliseconds on the loop that all others wait for."""
    compared: list[int] = []
    near = difflib.get_close_matches

    def counted(word: str, names: list[str], **more: Any) -> list[str]:
        compared.append(len(names))
        return near(word, names, **more)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    names = [f"photos/resize{each:03}" for each in range(300)]
    await bench.frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name=each) for each in names]))
    lambdas = Lambdas(bench.store, bench.clock)
    await lambdas.load(names[:1])
    for _ in range(2):
        said = [str(lambdas.unknown(f"photos/resise{each:03}")) for each in range(1000)]
        assert ["Did you mean photos/resize" in each for each in said] == [True] * 10 + [False] * 990
        bench.clock.advance(1.1)
    assert compared == [200] * 20
