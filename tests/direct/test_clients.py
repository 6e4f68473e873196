"""Clients that are given a task store's address: the same calls, limits and errors, on loops and threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import atf
from atf.client.own_frontend import refuse_direct
from atf.config.store_urls import is_store_url, shown_url
from atf.direct.own_frontend import OwnFrontend
from atf.rpc.connection import check_address
from atf.rpc.listen_address import split_address

from .conftest import URL, DirectWorld, bounded, echo

WAITING = (atf.Status.NEW, atf.Status.ENQUEUED)


def waiting(counts: Mapping[str, Mapping[atf.Status, int]]) -> int:
    return sum(counts["direct/echo"][each] for each in WAITING)


async def test_schedules_and_reads_on_the_loop_of_the_caller(world: DirectWorld) -> None:
    async with atf.AsyncClient(URL) as client:
        handles = await asyncio.gather(*(client.schedule(echo.prepare(str(each))) for each in range(20)))
        assert len({each.id for each in handles}) == 20
        assert (await client.get(handles[0].id)).status in WAITING
        assert waiting(await client.count("direct/echo")) == 20
        batch = await client.batch(echo, ["a", "b"])
        async for seen in batch.watch_async():
            assert seen.items == 2
            break
    assert len(world.opened) == 1


def test_a_thread_that_blocks_has_a_frontend_that_blocks(world: DirectWorld) -> None:
    with atf.Client(URL, timeout=6) as client:
        threads = threading.active_count()
        handle = client.schedule(echo.prepare("a"))
        assert (
            client.schedule(
                echo.prepare("a"),
            ).id
            != handle.id
        )
        assert threading.active_count() == threads
        assert world.blocking == [3.0]
        assert handle.status() in WAITING  # by the loop
        assert world.blocking == [3.0, 0.0]


def test_threads_share_it(world: DirectWorld) -> None:
    with atf.Client(URL) as client, ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(lambda each: client.schedule(echo.prepare(str(each))), range(40)))
        assert len({each.id for each in handles}) == 40
        assert waiting(client.count("direct/echo")) == 40
    assert len(world.opened) == 2


@pytest.mark.usefixtures("world")
async def test_a_call_that_blocks_may_come_from_a_coroutine() -> None:
    with atf.Client(URL) as client:
        assert client.schedule(echo.prepare("a")).id
        assert asyncio.get_running_loop().is_running()
        assert (await client.schedule_async(echo.prepare("a"))).id


def test_the_address_may_stand_in_the_environment(world: DirectWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATF_FRONTEND", URL)
    with atf.Client() as client:
        client.schedule(echo.prepare("a"))
    assert len(world.opened) == 1


def test_behind_sentinels_and_on_a_cluster_the_loop_does_it(world: DirectWorld) -> None:
    for url in ("redis+sentinel://a:1,b:2/master", "rediss+cluster://a:1"):
        with atf.Client(url) as client:
            client.schedule(echo.prepare("a"))
    assert world.blocking == [0.0, 0.0]


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.usefixtures("world")
def test_refusals_are_those_of_a_frontend(*, blocks: bool) -> None:
    def schedule(*args: Any, **options: Any) -> Any:
        with atf.Client(URL) as client:
            if blocks:
                return client.schedule(*args, **options)
            return asyncio.run(client.schedule_async(*args, **options))

    with pytest.raises(atf.UnknownLambda, match="Did you mean direct/echo"):
        schedule("direct/eccho", {})
    with pytest.raises(atf.InvalidArgument, match="priority"):
        schedule("direct/echo", {"text": "a"}, priority=77)
    schedule("direct/echo", {"text": "a"}, key="one")
    with pytest.raises(atf.AlreadyExists):
        schedule("direct/echo", {"text": "b"}, key="one")


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.usefixtures("world")
def test_a_bug_is_internal_and_a_client_that_is_closed_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, blocks: bool
) -> None:
    client = atf.Client(URL)

    def call() -> Any:
        return client.schedule(echo.prepare("a")) if blocks else client.count("direct/echo")

    async def broken(_request: Any) -> Any:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(OwnFrontend, "method", lambda *_: broken)
        with pytest.raises(atf.Internal, match=r"failed inside the client's own frontend; the log has the details"):
            call()
    assert "ZeroDivisionError: a bug" in capsys.readouterr().err
    call()
    client.close()
    with pytest.raises(atf.Unavailable, match="the client is closed"):
        call()


@pytest.mark.usefixtures("world")
async def test_a_call_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_request: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(OwnFrontend, "method", lambda *_: never)
    async with atf.AsyncClient(URL, timeout=0.01) as client:
        with pytest.raises(atf.DeadlineExceeded, match=r"the task store did not answer within 0\.01 s"):
            await client.count("direct/echo")


@pytest.mark.usefixtures("world")
async def test_closing_ends_what_waits() -> None:
    client = atf.AsyncClient(URL)
    handle = await client.schedule(echo.prepare("a"))
    waiting = asyncio.ensure_future(handle.result_async())
    watching = asyncio.ensure_future(anext(aiter((await client.batch(echo, ["a"])).results_async())))
    for _ in range(50):  # until both wait
        await asyncio.sleep(0)
    await client.close()
    for each in (waiting, watching):
        with pytest.raises(atf.Unavailable):
            await each


def test_each_loop_has_its_own(world: DirectWorld) -> None:
    client = atf.AsyncClient(URL)
    for _ in range(2):
        asyncio.run(client.count("direct/echo"))
    assert len(world.opened) == 2
    asyncio.run(client.close())


@pytest.mark.parametrize("blocks", [True, False])
def test_a_store_takes_direct_clients_only_once_its_operator_has_said_so(world: DirectWorld, *, blocks: bool) -> None:
    world.allows = False
    with atf.Client(URL) as client:
        with pytest.raises(atf.FailedPrecondition, match=r"takes no direct clients: .* atf store direct --allow$"):
            client.schedule(echo.prepare("a")) if blocks else client.count("direct/echo")
        world.allows = True
        client.schedule(echo.prepare("a"))


def test_an_executor_refuses_it(world: DirectWorld) -> None:
    refuse_direct()
    with atf.Client(URL) as client:
        for call in (lambda: client.schedule(echo.prepare("a")), lambda: client.count("direct/echo")):
            with pytest.raises(atf.FailedPrecondition, match="this process is an executor's"):
                call()
    assert not world.blocking


@pytest.mark.usefixtures("world")
def test_many_clients_in_turns_exceed_a_bound_by_nothing() -> None:
    """Each counts anew for each task here. Frontends would count only when each had let in two of the 64, and exceed it by up to 14."""
    clients = [atf.Client(URL) for _ in range(8)]
    stored = 0
    for each in range(80):
        try:
            clients[each % 8].schedule(bounded.prepare("a"))
            stored += 1
        except atf.TooManyPending:
            pass
    assert stored == 64
    for client in clients:
        client.close()


def test_an_address_tells_a_store_from_a_frontend_and_is_shown_without_its_password() -> None:
    stores = ("redis://h", "rediss://h:1", "unix:///s", "redis+sentinel://h/m", "rediss+cluster://h")
    assert [is_store_url(each) for each in stores] == [True] * 5
    assert not any(map(is_store_url, ("h:1", "[::1]:7401", "unix:/s", "dns:///h:1", "http://h")))
    assert shown_url("redis://u:p@h:1/0?ssl_keyfile=k") == "redis://h:1/0"
    assert atf.AsyncClient(URL).address == atf.Client(URL).address == "redis://stores:6379"
    assert shown_url("h:1?x") == "h:1?x"


def test_who_takes_no_store_never_shows_the_password() -> None:
    for refuse in (check_address, split_address):
        with pytest.raises(atf.InvalidArgument, match="redis://stores:6379") as refused:
            refuse(f"{URL}/0?ssl_password=secret")
        assert "secret" not in str(refused.value)
