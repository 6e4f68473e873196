"""The frontend's copy of the registry."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from atf.errors import Unavailable
from atf.rpc import frontend_pb2 as f
from atf.store.values.lambdas import LambdaRecord

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

    monkeypatch.setattr(bench.store, "list_lambdas", lambdas)
    for _ in range(2):  # the second reading takes the place of the first
        bench.clock.advance(1.1)
        await bench.schedule()
        loaded.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    gc.collect()
    assert unheard == []


@pytest.mark.parametrize("changed", [0, 1])
async def test_a_registration_that_the_store_has_forgotten_at_once_is_not_acknowledged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, changed: int
) -> None:
    async def forgetful(_records: object) -> int:
        return changed

    with monkeypatch.context() as patched:
        patched.setattr(bench.store, "register_lambdas", forgetful)
        with pytest.raises(Unavailable, match=r"has forgotten what was just registered \(photos/other\).*Try again"):
            await bench.register("photos/other")
    await bench.register("photos/other")
    await bench.schedule(**{"lambda": "photos/other"})


async def warned(bench: Bench, **pools: str) -> list[str]:
    """What comes of registering lambdas with these pools."""
    specs = [f.LambdaSpec(name=f"photos/{name}", pool=pool) for name, pool in pools.items()]
    return list((await bench.frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=specs))).warnings)


async def test_a_pool_that_nobody_belongs_to_is_accepted_with_a_warning_that_names_the_nearest(bench: Bench) -> None:
    await bench.store.serve("gpu", 30)
    await bench.store.serve("", 30)
    says = (
        "photos/a runs in the pool 'gpuu', which has no cores, and to which no live controller belongs: until one does, tasks wait."
        " Did you mean gpu? atf worker --pool gpuu starts one"
    )
    assert await warned(bench, a="gpuu") == [says]
    assert await warned(bench, a="gpuu", b="gpu", c="") == [says], "also where it is known by now that the code says so"
    many = await warned(bench, **dict.fromkeys("abcde", "mainframe"))
    assert many[0] == (
        "photos/a, photos/b, photos/c and 2 more run in the pool 'mainframe', which has no cores, and to which no live controller"
        " belongs: until one does, tasks wait. atf worker --pool mainframe starts one"
    )
    await bench.store.serve("mainframe", 30)
    assert await warned(bench, a="mainframe") == []


async def test_no_warning_where_an_operator_moved_the_lambda_or_the_pool_has_cores(bench: Bench) -> None:
    await bench.store.serve("gpu", 30)
    assert len(await warned(bench, a="gpuu")) == 1
    await bench.frontend.set_lambda(f.SetLambdaRequest(**{"lambda": "photos/a"}, set={"pool": "gpu"}))
    assert await warned(bench, a="gpuu") == []
    await bench.frontend.set_capacity(f.SetCapacityRequest(pool="gpuu", cores=2))
    assert await warned(bench, b="gpuu") == []


async def test_pools_that_cannot_be_read_keep_nobody_from_registering(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live_pools() -> list[str]:
        raise Unavailable("the task store is away")

    monkeypatch.setattr(bench.store, "live_pools", live_pools)
    assert await warned(bench, a="gpuu") == []
    assert (await bench.store.list_lambdas())["photos/a"]
