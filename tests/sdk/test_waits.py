"""Waits outlast the frontend: they go on until the caller's own time is over, whatever becomes of the process that answers them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from itertools import pairwise
from typing import Any, cast

import pytest

import atf
from atf.client.loop_bridge import OwnLoop
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.rpc.api import Frontend
from atf.testing.loop import VirtualLoop
from atf.testing.runtime import VirtualRuntime

app = atf.App("photos")


@app.task
def thumbnail(path: str) -> int:
    return len(path)


def _thumbnail(path: str) -> None: ...


class Restarting:
    """A frontend of one task and one batch of one item, which end at an instant; away at times.

    Args:
        ends_at: seconds.
        away: from and until when it can't be reached; calls that are under way break off.
        frozen: whether it takes calls then, and never answers them.
    """

    def __init__(self, ends_at: float, away: list[tuple[float, float]], *, frozen: bool = False) -> None:
        self._ends_at = ends_at
        self._away = away
        self._frozen = frozen
        self.calls: list[tuple[float, str]] = []

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def _ended(self) -> bool:
        return self._now >= self._ends_at

    async def _hold(self, name: str, timeout: float, seconds: float = 0.0) -> None:
        """Lets so many seconds go by, unless something happens before."""
        self.calls.append((self._now, name))
        over_at = self._now + timeout
        instants = [self._now + seconds, *(each for each, _ in self._away if each > self._now)]
        if not self._ended:
            instants.append(self._ends_at)
        if not self._is_away():
            await asyncio.sleep(max(0.0, min(*instants, over_at) - self._now))
        if self._is_away() and self._frozen:
            await asyncio.sleep(over_at - self._now)
        if self._now >= over_at:
            raise atf.DeadlineExceeded(f"{name}: no answer from a:1 within {timeout:g} s")
        if self._is_away():
            raise atf.Unavailable(f"{name}: can't reach a:1 (Connection refused)")

    def _is_away(self) -> bool:
        return any(begin <= self._now < end for begin, end in self._away)

    async def wait_tasks(self, request: f.WaitTasksRequest, *, timeout: float) -> f.WaitTasksReply:
        assert timeout > request.timeout_us / 1e6
        await self._hold("wait", timeout, 0 if self._ended else request.timeout_us / 1e6)
        found = [t.Task(id=each, status=t.SUCCESS, result=b"5") for each in request.ids] if self._ended else []
        return f.WaitTasksReply(tasks=found)

    async def get_task(self, request: f.GetTaskRequest, *, timeout: float) -> t.Task:
        await self._hold("get", timeout, min(timeout - 0.001, 9.0))
        return t.Task(id=request.id, status=t.NEW)

    async def schedule_many(self, request: f.ScheduleManyRequest, *, timeout: float) -> f.ScheduleManyReply:
        await self._hold("schedule", timeout)
        return f.ScheduleManyReply(
            results=[f.ScheduleResult(reply=f.ScheduleReply(id="0-a")) for _ in request.requests]
        )

    def _batch(self, batch_id: str) -> b.Batch:
        made = b.Batch(id=batch_id, status=b.BATCH_IN_PROGRESS, items=1, sealed=True, round=1, prefix=1)
        if self._ended:
            made.MergeFrom(b.Batch(done=1, status=b.BATCH_DONE, ended_at_us=1))
        return made

    async def get_batch(self, request: b.GetBatchRequest, *, timeout: float) -> b.Batch:
        await self._hold("get batch", timeout)
        return self._batch(request.id)

    async def watch_batch(self, request: b.WatchBatchRequest, *, timeout: float) -> AsyncIterator[b.Batch]:
        over_at = self._now + timeout
        await self._hold("watch", timeout)
        yield self._batch(request.id)
        while not self._ended:
            await self._hold("watch", over_at - self._now, 1e6)
        yield self._batch(request.id)

    async def list_batch_items(self, request: b.ListBatchItemsRequest, *, timeout: float) -> b.ListBatchItemsReply:
        await self._hold("items", timeout)
        if request.first:
            return b.ListBatchItemsReply()
        status = b.ITEM_DONE if self._ended else b.ITEM_IN_PROGRESS
        return b.ListBatchItemsReply(items=[b.Item(task_id="0-a", status=status, result=b"5")])


Wait = Callable[[atf.AsyncClient, float | None], Coroutine[Any, Any, Any]]


async def _results(client: atf.AsyncClient, timeout: float | None) -> Any:
    batch: atf.Batch[int] = client.batch_handle("b", thumbnail)
    return [each async for each in batch.results_async(timeout=timeout)]


async def _watch(client: atf.AsyncClient, timeout: float | None) -> Any:
    async with asyncio.timeout(timeout):
        return [each.ended async for each in client.batch_handle("b").watch_async()]


def _chain(client: atf.AsyncClient, links: int) -> atf.ChainHandle[Any]:
    return atf.ChainHandle(client, OwnLoop(), "b", links, lambda result, _: int(result), single=links == 0)


WAITS: dict[str, tuple[Wait, Any]] = {
    "handle.result": (lambda client, timeout: client.handle("0-a").result_async(timeout=timeout), 5),
    "client.wait": (lambda client, timeout: client.wait(["0-a", "0-b"], timeout=timeout), None),
    "client.wait, the first": (lambda client, timeout: client.wait(["0-a", "0-b"], timeout=timeout, first=True), None),
    "batch.wait": (lambda client, timeout: client.batch_handle("b").wait_async(timeout=timeout), None),
    "batch.watch": (_watch, None),
    "batch.results": (_results, [5]),
    "chain.wait": (lambda client, timeout: _chain(client, 1).wait_async(timeout=timeout), None),
    "chain.result": (lambda client, timeout: _chain(client, 0).result_async(timeout=timeout), 5),
}
every_wait = pytest.mark.parametrize("wait", WAITS)


def play(frontend: Restarting, story: Callable[[atf.AsyncClient], Coroutine[Any, Any, Any]]) -> tuple[Any, float]:
    """What a story came to, and when."""
    loop = VirtualLoop()
    try:
        client = atf.AsyncClient("a:1", frontend=cast("Frontend", frontend), runtime=VirtualRuntime(loop))
        came: Any
        try:
            came = loop.run_until_complete(story(client))
        except (TimeoutError, atf.AtfError) as error:
            came = error
        return came, loop.time()
    finally:
        loop.close()


@every_wait
@pytest.mark.parametrize("timeout", [80, None])
@pytest.mark.parametrize("away", [(3, 5), (15, 17), (15, 40), (35, 37)], ids=str)
def test_a_frontend_that_is_replaced_ends_no_wait(wait: str, timeout: float | None, away: tuple[float, float]) -> None:
    ask, gives = WAITS[wait]
    came, at = play(Restarting(50, [away]), lambda client: ask(client, timeout))
    assert not isinstance(came, Exception), came
    assert gives is None or came == gives
    assert 50 <= at < 53


@every_wait
def test_without_a_timeout_a_wait_lasts_for_ever(wait: str) -> None:
    ask, _ = WAITS[wait]
    came, at = play(Restarting(10, [(5, 3_600)]), lambda client: ask(client, None))
    assert not isinstance(came, Exception), came
    assert 3_600 <= at < 3_603


@every_wait
@pytest.mark.parametrize("begin", [0, 30])
def test_a_wait_whose_time_is_over_while_the_frontend_is_away_says_both(wait: str, begin: float) -> None:
    ask, _ = WAITS[wait]
    came, at = play(Restarting(1e5, [(begin, 1e6)]), lambda client: ask(client, 60))
    assert type(came) is TimeoutError
    assert at == 60
    if wait != "batch.watch":  # whose time its caller keeps
        assert "the frontend is away" in str(came)
        assert "Connection refused" in str(came)
        assert isinstance(came.__cause__, atf.Unavailable)
        assert "60 s" in str(came) or "time of the wait" in str(came)


@every_wait
@pytest.mark.parametrize("timeout", [0.5, 5, 60])
@pytest.mark.parametrize("begin", [0, 0.3])
def test_a_frontend_that_never_answers_holds_no_wait_much_longer_than_its_time(
    wait: str, timeout: float, begin: float
) -> None:
    ask, _ = WAITS[wait]
    came, at = play(Restarting(1e5, [(begin, 1e6)], frozen=True), lambda client: ask(client, timeout))
    assert type(came) is TimeoutError
    assert timeout <= at <= timeout + 2.001


@every_wait
@pytest.mark.parametrize("timeout", [80, None])
def test_a_frontend_that_freezes_for_a_while_ends_no_wait(wait: str, timeout: float | None) -> None:
    ask, gives = WAITS[wait]
    came, at = play(Restarting(35, [(3, 30)], frozen=True), lambda client: ask(client, timeout))
    assert not isinstance(came, Exception), came
    assert gives is None or came == gives
    assert at < 75


@every_wait
def test_a_frontend_that_is_back_just_before_the_time_is_over_is_asked_once_more(wait: str) -> None:
    ask, _ = WAITS[wait]
    came, at = play(Restarting(1, [(0, 59.99)]), lambda client: ask(client, 60))
    if wait == "batch.watch":  # whose time its caller keeps
        return
    assert not isinstance(came, Exception), came
    assert 59.99 <= at <= 60


@every_wait
def test_a_wait_of_no_time_finds_what_has_ended(wait: str) -> None:
    ask, gives = WAITS[wait]
    came, at = play(Restarting(0, []), lambda client: ask(client, 0))
    if wait == "batch.watch":  # whose time its caller keeps
        return
    assert not isinstance(came, Exception), came
    assert gives is None or came == gives
    assert at == 0


def test_a_quiet_batch_is_asked_for_anew_and_told_once() -> None:
    async def story(client: atf.AsyncClient) -> Any:
        return [each.ended async for each in client.batch_handle("b").watch_async()]

    frontend = Restarting(100, [])
    came, at = play(frontend, story)
    assert came == [False, True]
    assert at == 100
    assert max(later - earlier for (earlier, _), (later, _) in pairwise(frontend.calls)) < 21


def test_a_wait_that_finds_nothing_says_nothing_of_the_frontend() -> None:
    came, at = play(Restarting(1e5, [(10, 20)]), lambda client: client.handle("0-a").result_async(timeout=45))
    assert str(came) == "task 0-a has not finished within 45 s"
    assert at == 45


@pytest.mark.parametrize("frozen", [False, True], ids=["refused", "never answered"])
@pytest.mark.parametrize("call", ["get", "schedule", "schedule_many", "batch"])
def test_a_frontend_that_is_down_fails_a_call_within_the_timeout(call: str, frozen: bool) -> None:
    """Of a batch too, whose items may take minutes to send."""
    thumbnail = atf.App("photos").task(name="thumbnail")(_thumbnail)

    async def story(client: atf.AsyncClient) -> Any:
        match call:
            case "get":
                return await client.get("0-a")
            case "schedule":
                return await client.schedule(thumbnail.prepare("a"))
            case "schedule_many":
                return await client.schedule_many([thumbnail.prepare("a")])
        return await client.batch(thumbnail, ["a"])

    came, at = play(Restarting(1e5, [(0, 1e5)], frozen=frozen), story)
    assert isinstance(came, atf.Unavailable | atf.DeadlineExceeded)
    assert 7 < at <= 10


def test_a_call_whose_first_try_leads_nowhere_has_time_for_another_one() -> None:
    came, at = play(Restarting(1e5, [(0, 5)], frozen=True), lambda client: client.get("0-a"))
    assert isinstance(came, atf.TaskInfo)
    assert 5 < at <= 10


def test_the_timeout_is_an_argument_a_variable_or_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATF_TIMEOUT", raising=False)
    assert atf.AsyncClient().timeout == 10
    monkeypatch.setenv("ATF_TIMEOUT", "1500ms")
    assert atf.AsyncClient().timeout == 1.5
    assert atf.AsyncClient(timeout="3s").timeout == 3
    for bad in ("soon", "0", "-1"):
        monkeypatch.setenv("ATF_TIMEOUT", bad)
        with pytest.raises(atf.InvalidArgument, match=f"ATF_TIMEOUT '{bad}': give"):
            atf.Client()


def test_a_client_that_is_closed_ends_its_waits() -> None:
    async def story(client: atf.AsyncClient) -> Any:
        waiting = asyncio.ensure_future(client.handle("0-a").result_async())
        await asyncio.sleep(30)
        await client.close()
        return await waiting

    came, at = play(Restarting(1e5, [(10, 1e6)]), story)
    assert isinstance(came, atf.Unavailable)
    assert at < 35


@pytest.mark.parametrize("away", [[], [(4, 1e6)]], ids=["there", "away"])
def test_a_chain_whose_next_link_is_never_made_is_not_waited_for_by_its_cancellation(
    away: list[tuple[float, float]],
) -> None:
    """It is no wait: the client's timeout counts."""
    frontend = Restarting(0, away)
    known = frontend.get_batch

    async def get_batch(request: b.GetBatchRequest, *, timeout: float) -> b.Batch:
        found = await known(request, timeout=timeout)
        if request.id != "b":
            raise atf.NotFound(f"no batch {request.id}")
        return found

    frontend.get_batch = get_batch  # type: ignore[method-assign]
    came, at = play(frontend, lambda client: _chain(client, 1).cancel_async())
    assert isinstance(came, atf.Unavailable if away else TimeoutError)
    assert 9 <= at < 16
