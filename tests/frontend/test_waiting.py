"""Waiting for tasks to finish: woken by a notification, by the net when none comes, and never later than asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import fakeredis
import pytest

from atf.config.settings import FrontendSettings, StoreSettings, Timing
from atf.errors import InvalidArgument, TaskNotFound
from atf.frontend.service import FrontendService
from atf.rpc import frontend_pb2 as f
from atf.runtime import end
from atf.store.store import Store
from atf.store.values.claims import Outcome
from atf.task import MAX_BATCH_BYTES, US, Status
from atf.testing.loop import VirtualLoop
from atf.testing.runtime import VirtualRuntime
from atf.testing.wiring import Wiring
from tests.claiming import claim_ids

from .conftest import Bench


class VirtualBench(Bench):
    """A bench on virtual time."""

    def __init__(self, store: Store, runtime: VirtualRuntime) -> None:
        self.runtime = runtime
        super().__init__(store, runtime)  # type: ignore[arg-type]
        self.clock = runtime  # type: ignore[assignment]

    def another_frontend(self, **settings: Any) -> FrontendService:
        return Wiring(self.runtime, Timing()).frontend(self.store, FrontendSettings(**settings))

    async def claim(self, *ids: str, owner: str = "executor-1") -> list[Any]:
        await self.enqueue()
        return (await claim_ids(self.store, owner, "", list(ids))).claims

    async def wait(self, *ids: str, seconds: float = 30, want_all: bool = False) -> tuple[list[str], float]:
        """The ids that finished, and the seconds the call took."""
        before = self.runtime.monotonic()
        asked = f.WaitTasksRequest(ids=ids, timeout_us=round(seconds * US), all=want_all)
        reply = await self.frontend.wait_tasks(asked)
        assert all(Status(task.status).finished for task in reply.tasks)
        return [task.id for task in reply.tasks], self.runtime.monotonic() - before


def virtually(body: Callable[[VirtualBench], Awaitable[None]], *, wakeups: bool = True) -> None:
    """Runs `body` on a loop where waiting takes no time."""
    loop = VirtualLoop()

    async def run() -> None:
        runtime = VirtualRuntime(loop)
        settings = StoreSettings(partitions=2, wakeups=wakeups)
        store = await Store.open(settings, Timing(), runtime, fake=fakeredis.FakeServer(version=(7, 4)))
        store.now = runtime.wall_us
        bench = VirtualBench(store, runtime)
        await bench.register()
        try:
            await body(bench)
        finally:
            bench.frontend.drain()
            await end(asyncio.all_tasks() - {asyncio.current_task()})
            await store.close()

    try:
        loop.run_until_complete(run())
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def later(seconds: float, work: Awaitable[None]) -> None:
    await asyncio.sleep(seconds)
    await work


def test_a_task_that_has_finished_is_answered_at_once() -> None:
    async def body(bench: VirtualBench) -> None:
        task_id = await bench.schedule("a")
        await bench.finish(task_id)
        assert await bench.wait(task_id) == ([task_id], 0)

    virtually(body)


def test_a_notification_wakes_whoever_waits_at_the_very_end() -> None:
    async def body(bench: VirtualBench) -> None:
        ids = [await bench.schedule(name) for name in "ab"]
        end = asyncio.create_task(later(0.25, bench.finish(ids[1])))
        found, seconds = await bench.wait(*ids)
        assert found == [ids[1]]
        assert seconds == pytest.approx(0.25, abs=0.02)  # far less than poll_interval: a notification, not the net
        await end

    virtually(body)


def test_without_wakeups_the_net_finds_the_end_within_an_interval() -> None:
    async def body(bench: VirtualBench) -> None:
        task_id = await bench.schedule("a")
        end = asyncio.create_task(later(5.3, bench.finish(task_id)))
        found, seconds = await bench.wait(task_id)
        assert found == [task_id]
        assert 5.3 < seconds <= 6.31
        await end

    virtually(body, wakeups=False)


def test_all_waits_for_the_last() -> None:
    async def body(bench: VirtualBench) -> None:
        ids = [await bench.schedule(name) for name in "ab"]
        ends = [asyncio.create_task(later(n + 1, bench.finish(task_id))) for n, task_id in enumerate(ids)]
        found, seconds = await bench.wait(*ids, want_all=True)
        assert found == ids
        assert seconds == pytest.approx(2, abs=0.02)
        await asyncio.gather(*ends)

    virtually(body)


def test_every_way_of_ending_counts() -> None:
    async def body(bench: VirtualBench) -> None:
        failed, cancelled = await bench.schedule("a"), await bench.schedule("b", delay_us=60 * US)
        ends = asyncio.gather(
            later(1, bench.finish(failed, Outcome.FAILED_FATAL)),
            later(2, _cancel(bench, cancelled)),
        )
        found, seconds = await bench.wait(failed, cancelled, want_all=True)
        assert found == [failed, cancelled]
        assert seconds == pytest.approx(2, abs=0.02)
        await ends

    async def _cancel(bench: VirtualBench, task_id: str) -> None:
        await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=[task_id]))

    virtually(body)


@pytest.mark.parametrize(("asked", "waited"), [(0, 0), (2.5, 2.5), (3600, 60)])
def test_the_timeout_is_kept_and_never_more_than_a_minute(asked: float, waited: float) -> None:
    async def body(bench: VirtualBench) -> None:
        done, open_one = await bench.schedule("a"), await bench.schedule("b", delay_us=3600 * US)
        await bench.finish(done)
        found, seconds = await bench.wait(done, open_one, seconds=asked, want_all=True)
        assert found == [done]
        assert seconds == pytest.approx(waited, abs=0.001)

    virtually(body)


def test_a_task_that_does_not_exist_is_an_error_not_an_endless_wait() -> None:
    async def body(bench: VirtualBench) -> None:
        task_id = await bench.schedule("a")
        with pytest.raises(TaskNotFound, match="no task '1-nobody'"):
            await bench.wait(task_id, "1-nobody")
        with pytest.raises(InvalidArgument, match="at least one"):
            await bench.wait()
        with pytest.raises(InvalidArgument, match="timeout_us -"):
            await bench.wait(task_id, seconds=-1)

    virtually(body)


def test_draining_answers_who_waits_and_who_comes_after() -> None:
    async def body(bench: VirtualBench) -> None:
        task_id = await bench.schedule("a")
        waiting = asyncio.create_task(bench.wait(task_id))
        await asyncio.sleep(1.5)
        bench.frontend.drain()
        assert await waiting == ([], 1.5)
        assert await bench.wait(task_id) == ([], 0)

    virtually(body)


@pytest.mark.parametrize("wakeups", [True, False])
def test_many_who_wait_share_one_look_per_interval(wakeups: bool) -> None:
    async def body(bench: VirtualBench) -> None:
        ids = [await bench.schedule(f"t{n}") for n in range(40)]
        waits = [asyncio.create_task(bench.wait(task_id, seconds=10.5)) for task_id in ids]
        await asyncio.sleep(0.5)
        looks = 0
        watch = bench.store.watch_tasks

        async def counted(some: Any) -> Any:
            nonlocal looks
            looks += 1
            return await watch(some)

        bench.store.watch_tasks = counted  # type: ignore[method-assign, assignment]
        assert [await wait for wait in waits] == [([], 10.5)] * 40
        assert 9 <= looks <= 11

    virtually(body, wakeups=wakeups)


def test_the_listener_ends_when_nobody_has_waited_for_a_while_and_comes_back() -> None:
    async def body(bench: VirtualBench) -> None:
        task_id = await bench.schedule("a")
        await bench.wait(task_id, seconds=1)
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert {"wait for ends", "notifications done"} <= names
        await asyncio.sleep(30)
        assert not {"wait for ends", "notifications done"} & {task.get_name() for task in asyncio.all_tasks()}
        end = asyncio.create_task(later(0.25, bench.finish(task_id)))
        found, seconds = await bench.wait(task_id)
        assert found == [task_id]
        assert seconds == pytest.approx(0.25, abs=0.02)
        await end

    virtually(body)


def test_an_answer_of_large_results_stays_below_a_messages_bound() -> None:
    async def body(bench: VirtualBench) -> None:
        ids = [await bench.schedule(f"t{n}") for n in range(100)]
        for claim in await bench.claim(*ids):
            await bench.end(claim, result=b"x" * 65_536)
        missing = list(ids)
        while missing:
            reply = await bench.frontend.wait_tasks(f.WaitTasksRequest(ids=missing, timeout_us=US, all=True))
            assert reply.ByteSize() < MAX_BATCH_BYTES
            assert reply.tasks
            missing = [each for each in missing if each not in {task.id for task in reply.tasks}]

    virtually(body)
