from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import atf
from atf.rpc import task_pb2 as t
from tests.sdk.fakes import FakeFrontend, World, faked, world
from tests.virtual import virtual

app = atf.App("h")


@dataclass
class Size:
    width: int


@app.task
def measure(path: str) -> Size:
    return Size(len(path))


@virtual(world)
async def test_a_result_comes_in_the_handlers_return_type(w: World) -> None:
    handle = await w.client.schedule(measure.prepare("x"))
    w.frontend.tasks[handle.id] = t.Task(id=handle.id, status=t.SUCCESS, result=b'{"width":5}')
    assert await handle.result_async() == Size(5)
    assert await w.client.handle(handle.id).result_async() == {"width": 5}


@virtual(world)
async def test_how_safe_a_task_is_is_asked_for_and_told(w: World) -> None:
    handle = await w.client.schedule(measure.options(durability="replicated").prepare("x"))
    assert w.frontend.requests[handle.id].durability == t.REPLICATED
    assert handle.durability == "replicated"
    (many,) = await w.client.schedule_many([measure.options(durability="disk").prepare("x")])
    assert many.durability == "disk"
    assert w.client.handle(handle.id).durability == ""
    with pytest.raises(atf.InvalidArgument, match="use relaxed, disk or replicated"):
        measure.options(durability="always")


@virtual(world)
async def test_a_result_is_waited_for_in_long_polls(w: World) -> None:
    handle = await w.client.schedule(measure.prepare("x"))

    async def finish() -> None:
        await asyncio.sleep(110)
        w.frontend.tasks[handle.id] = t.Task(id=handle.id, status=t.SUCCESS, result=b'{"width":5}')

    w.runtime.spawn(finish(), name="finish")
    assert await handle.result_async() == Size(5)
    assert len(w.frontend.polls) == 6


@virtual(world)
async def test_a_task_that_does_not_finish_in_time_is_a_builtin_timeout(w: World) -> None:
    handle = await w.client.schedule(measure.prepare("x"))
    begun = w.runtime.monotonic()
    with pytest.raises(TimeoutError, match=f"task {handle.id} has not finished within 45 s"):
        await handle.result_async(timeout=45)
    assert 45 <= w.runtime.monotonic() - begun < 46


@pytest.mark.parametrize(
    ("task", "raises", "says"),
    [
        (t.Task(status=t.FATAL_FAILURE, error="ValueError: no such file"), atf.TaskFailed, "ValueError: no such file"),
        (t.Task(status=t.CANCELLED), atf.TaskCancelled, "0-x was cancelled"),
    ],
)
def test_a_task_without_a_result_raises_what_became_of_it(task: t.Task, raises: type[Exception], says: str) -> None:
    @virtual(world)
    async def story(w: World) -> None:
        w.frontend.tasks["0-x"] = t.Task(id="0-x", status=task.status, error=task.error)
        with pytest.raises(raises, match=says):
            await w.client.handle("0-x").result_async()

    story()


@virtual(world)
async def test_status_cancel_and_retry_ask_about_this_task(w: World) -> None:
    w.frontend.tasks["0-new"] = t.Task(id="0-new", status=t.NEW)
    w.frontend.tasks["0-off"] = t.Task(id="0-off", status=t.CANCELLED)
    new, off, gone = (w.client.handle(each) for each in ("0-new", "0-off", "0-gone"))
    assert await new.status_async() is atf.Status.NEW
    assert (await new.cancel_async(), await off.cancel_async()) == (True, False)
    assert (await new.retry_async(), await off.retry_async()) == (False, True)
    for ask in (gone.status_async, gone.cancel_async, gone.retry_async):
        with pytest.raises(atf.TaskNotFound, match="0-gone"):
            await ask()


@virtual(world)
async def test_waiting_for_many_or_for_the_first(w: World) -> None:
    w.frontend.tasks["0-a"] = t.Task(id="0-a", status=t.SUCCESS)
    handles: list[str | atf.Handle[Any]] = [w.client.handle("0-a"), "0-b"]
    assert [each.id for each in await w.client.wait(handles, first=True)] == ["0-a"]
    assert [each.id for each in await w.client.wait(handles, timeout=3)] == ["0-a"]
    with pytest.raises(atf.InvalidArgument, match="first of 257"):
        await w.client.wait([f"0-{each}" for each in range(257)], first=True)


@virtual(world)
async def test_a_handle_of_an_async_client_does_not_block(w: World) -> None:
    with pytest.raises(RuntimeError, match="AsyncClient does not block"):
        w.client.handle("0-a").status()


# --- the blocking face ------------------------------------------------------------------------------------------------


@pytest.fixture
def frontend() -> FakeFrontend:
    return FakeFrontend()


@pytest.fixture
def client(frontend: FakeFrontend) -> Iterator[atf.Client]:
    with atf.Client(frontend=faked(frontend)) as client, atf.use_client(client):
        yield client


@pytest.mark.usefixtures("client")
def test_a_lambda_schedules_by_itself_from_any_thread(frontend: FakeFrontend) -> None:
    handles: list[atf.Handle[Size]] = []
    threads = [threading.Thread(target=lambda: handles.append(measure.schedule("x"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.id for each in handles} == set(frontend.requests)
    assert len(handles) == 20
    assert len(frontend.calls) < 20


@pytest.mark.usefixtures("client")
async def test_a_lambda_schedules_by_itself_from_any_loop(frontend: FakeFrontend) -> None:
    handle = await measure.schedule_async("x")
    frontend.tasks[handle.id] = t.Task(id=handle.id, status=t.SUCCESS, result=b'{"width":5}')
    assert await handle.result_async(timeout=0.1) == Size(5)
    assert await handle.status_async() is atf.Status.SUCCESS
    assert await asyncio.to_thread(lambda: asyncio.run(handle.result_async(timeout=0.1))) == Size(5)


def test_the_blocking_client_asks_what_the_async_one_does(client: atf.Client, frontend: FakeFrontend) -> None:
    handles = client.schedule_many([measure.prepare("x"), measure.options(key="k").prepare("y")])
    frontend.tasks = {each.id: t.Task(id=each.id, status=t.SUCCESS, result=b'{"width":5}') for each in handles}
    assert handles[1].id == "3-k"
    assert [each.status() for each in handles] == [atf.Status.SUCCESS] * 2
    assert client.get("3-k").result == {"width": 5}
    assert len(client.wait(handles, timeout=0.1)) == 2
    assert client.handle("3-k").result(timeout=0.1) == {"width": 5}
    assert client.schedule("h/measure", {"path": "z"}).id in frontend.requests
    assert client.cancel("3-k") is False
    with pytest.raises(atf.TaskNotFound):
        client.get("3-none")


def test_a_closed_client_says_so(frontend: FakeFrontend) -> None:
    client = atf.Client(frontend=faked(frontend))
    client.close()
    with pytest.raises(atf.Unavailable, match="the client is closed"):
        client.get("0-a")
    client.close()


async def test_blocking_the_clients_own_loop_is_refused(client: atf.Client, frontend: FakeFrontend) -> None:
    async def schedule_within(request: object, *, timeout: float = 10) -> object:
        client.get("0-a")
        raise AssertionError("not reached")

    frontend.get_task = schedule_within  # type: ignore[method-assign,assignment]
    with pytest.raises(RuntimeError, match="blocks the very thread"):
        await client.handle("0-a").status_async()
