"""Registers and lists thousands of lambdas in several calls, each within a frontend's bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import fakeredis
import pytest

from atf.client.registration import AT_ONCE, BYTES_AT_ONCE, every_lambda, register_lambdas
from atf.config.settings import StoreSettings, Timing
from atf.errors import InvalidArgument
from atf.frontend.service import FrontendService
from atf.frontend.validate import MAX_REGISTERED_AT_ONCE
from atf.rpc import frontend_pb2 as f
from atf.rpc.api import Frontend
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.task import MAX_BATCH
from atf.testing.wiring import Wiring


class Calls:
    """A frontend that keeps what it is told."""

    def __init__(self) -> None:
        self.calls: list[f.RegisterLambdasRequest] = []

    async def register_lambdas(self, request: f.RegisterLambdasRequest) -> f.RegisterLambdasReply:
        self.calls.append(request)
        return f.RegisterLambdasReply(warnings=["a pool is nobody's", f"call {len(self.calls)}"])


class Pages:
    """A frontend whose pages are weighed."""

    def __init__(self, frontend: FrontendService) -> None:
        self._frontend = frontend
        self.sizes: list[int] = []

    async def list_lambdas(self, request: f.ListLambdasRequest) -> f.ListLambdasReply:
        reply = await self._frontend.list_lambdas(request)
        self.sizes.append(reply.ByteSize())
        return reply


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    made = await Store.open(StoreSettings(partitions=1), Timing(), SystemRuntime(), fake=fakeredis.FakeServer())
    yield made
    await made.close()


@pytest.fixture
def frontend(store: Store) -> FrontendService:
    return Wiring(SystemRuntime(), Timing()).frontend(store)


def specs(count: int, **fields: str) -> list[f.LambdaSpec]:
    return [f.LambdaSpec(name=f"many/w{number:04}", **fields) for number in range(count)]  # type: ignore[arg-type]


async def registered(given: list[f.LambdaSpec]) -> tuple[list[f.RegisterLambdasRequest], list[str]]:
    calls = Calls()
    warnings = await register_lambdas(cast("Frontend", calls), given)
    assert [spec for call in calls.calls for spec in call.lambdas] == given
    return calls.calls, warnings


async def test_lambdas_are_registered_so_many_a_call_and_each_warning_is_given_once() -> None:
    calls, warnings = await registered(specs(3_000))
    assert {len(each.lambdas) for each in calls} == {AT_ONCE}
    assert AT_ONCE <= MAX_REGISTERED_AT_ONCE
    assert warnings == ["a pool is nobody's", *(f"call {number}" for number in range(1, 3_000 // AT_ONCE + 1))]
    assert not (await registered([]))[0]


async def test_long_specs_are_registered_fewer_a_call() -> None:
    calls, _ = await registered(specs(1_000, signature="ä" * 10_000))
    assert max(each.ByteSize() for each in calls) < 2 * BYTES_AT_ONCE
    assert len(calls) > 1_000 // AT_ONCE


async def test_more_lambdas_than_one_call_takes_are_registered_and_listed(frontend: FrontendService) -> None:
    count = MAX_REGISTERED_AT_ONCE + 1
    await register_lambdas(frontend, specs(count))
    known = await every_lambda(frontend)
    assert [each.spec.name for each in known] == [each.name for each in specs(count)]


async def test_a_spec_that_breaks_a_rule_is_named_and_those_of_calls_before_stay(frontend: FrontendService) -> None:
    with pytest.raises(InvalidArgument, match="no slash"):
        await register_lambdas(frontend, [*specs(AT_ONCE), f.LambdaSpec(name="no slash")])
    assert len(await every_lambda(frontend)) == AT_ONCE


# --- the list ---------------------------------------------------------------------------------------------------------


async def test_a_list_of_lambdas_comes_page_by_page_by_name(frontend: FrontendService) -> None:
    await register_lambdas(frontend, specs(5))
    token = ""
    pages: list[list[str]] = []
    while not pages or token:
        reply = await frontend.list_lambdas(f.ListLambdasRequest(page_size=2, page_token=token))
        pages.append([each.spec.name[-1] for each in reply.lambdas])
        token = reply.next_page_token
    assert pages == [["0", "1"], ["2", "3"], ["4"]]
    with pytest.raises(InvalidArgument, match="page_token 'w1': give the next_page_token of the page before"):
        await frontend.list_lambdas(f.ListLambdasRequest(page_token="w1"))


async def test_lambdas_with_long_signatures_come_fewer_a_page_and_each_page_is_a_message(
    frontend: FrontendService,
) -> None:
    long = {"signature": "ä" * 1_900, "runbook": "x" * 1_900}
    await register_lambdas(frontend, specs(600, **long))
    calls = Pages(frontend)
    assert [each.spec.name for each in await every_lambda(calls)] == [each.name for each in specs(600)]
    assert len(calls.sizes) > 600 // MAX_BATCH + 1
    assert max(calls.sizes) < 4 << 20


async def test_pages_of_lambdas_share_one_reading_of_the_counts(store: Store, frontend: FrontendService) -> None:
    """A lambda that is asked for alone is counted alone, as it is now."""
    await register_lambdas(frontend, specs(3 * MAX_BATCH))
    counted: list[tuple[str, int]] = []
    call = store.link.call

    async def counting(verb: str, record: str, args: Sequence[Any], **more: Any) -> Any:
        if verb in {"count", "get_status"}:
            counted.append((verb, len(args)))
        return await call(verb, record, args, **more)

    store.link.call = counting  # type: ignore[method-assign, assignment]
    reply = f.ListLambdasReply()
    for _ in range(3):
        reply = await frontend.list_lambdas(f.ListLambdasRequest(page_token=reply.next_page_token))
        assert len(reply.lambdas) == MAX_BATCH
    assert sum(names - 2 for _, names in counted) == 3 * MAX_BATCH  # behind the instant and the time that is recent
    counted.clear()
    alone = f.ListLambdasRequest()
    setattr(alone, "lambda", reply.lambdas[0].spec.name)
    await frontend.list_lambdas(alone)
    assert [verb for verb, _ in counted] == ["count"]
