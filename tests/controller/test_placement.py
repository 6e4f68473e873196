"""Two hosts, and lambdas whose tasks go to whichever asks first, or prefer one of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from atf.controller.backlog import LEFT_S, Backlog
from atf.runtime import end
from atf.store.values.claims import HeldClaim, Outcome, RunResult
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.tasks import NewTask
from atf.task import US
from tests.virtual import virtual

from .world import World, world


class Host:
    """A controller with one executor, which runs each task for a while. `ran`: when, and the task's name."""

    def __init__(self, w: World, name: str, seconds: float = 0.01) -> None:
        self.w, self.name, self.seconds = w, name, seconds
        self.ran: list[tuple[float, str]] = []
        self.controller = w.another_controller(host=name)
        self.duties = [w.runtime.spawn(each, name=name) for each in (self.controller.run(), self._executor())]

    async def _executor(self) -> None:
        number = 0
        while True:
            reply = await self.w.ask(self.name, ack=number, wait=30, most=1, of=self.controller)
            number = max(number, reply.number)
            for each in reply.claims:
                self.ran.append((self.w.runtime.monotonic(), each.task_id[2:]))
                await asyncio.sleep(self.seconds)
                held = HeldClaim(each.task_id, each.token.counter, each.token.nonce)
                await self.w.store.set_results([RunResult(held, Outcome.SUCCEEDED)])

    async def die(self) -> None:
        """Vanishes without a word."""
        await end(self.duties)

    def names(self) -> list[str]:
        return [name for _, name in self.ran]


@contextlib.asynccontextmanager
async def hosts(w: World, placement: str, seconds: float = 0.01) -> AsyncIterator[list[Host]]:
    settings = f"placement={placement}" if placement else ""
    await w.store.register_lambdas([LambdaRecord("shop/mail", b"", 1000, 10 * US, paused=False, settings=settings)])
    both = [Host(w, "one", seconds), Host(w, "two", seconds)]
    await asyncio.sleep(1)
    yield both
    for each in both:
        await each.die()


async def schedule(w: World, *names: str) -> None:
    """Tasks whose affinity keys are the first letters of their names."""
    tasks = [NewTask(name, 0, "shop/mail", 1, b"", b"d", None, 0, 3, 3, 3600 * US, affinity=name[0]) for name in names]
    await w.store.schedule(tasks)
    await w.consume()


@virtual(world(running=False))
async def test_without_a_placement_the_host_that_has_nothing_to_do_takes_what_comes_while_another_is_busy(
    w: World,
) -> None:
    async with hosts(w, "", seconds=5.0) as (one, two):
        await schedule(w, "a0")
        await asyncio.sleep(0.1)
        busy, idle = (one, two) if one.ran else (two, one)
        idle.seconds = 0.01
        for number in range(1, 9):
            began = w.runtime.monotonic()
            await schedule(w, f"a{number}")
            await asyncio.sleep(0.3)
            assert idle.ran[-1][1] == f"a{number}"
            assert idle.ran[-1][0] - began < 0.05
        assert busy.names() == ["a0"]
        idle.seconds = 5.0
        await schedule(w, "b0")
        await asyncio.sleep(3)  # now the first one has ended its task, and the other one has not
        await schedule(w, "b1")
        await asyncio.sleep(0.3)
        assert (busy.names(), idle.names()[-1]) == (["a0", "b1"], "b0")


@virtual(world(running=False))
async def test_tasks_of_a_key_run_on_one_host_and_move_when_it_is_gone(w: World) -> None:
    async with hosts(w, "sticky") as (one, two):
        for number in range(4):
            await schedule(w, *(f"{key}{number}" for key in "abcdef"))
            await asyncio.sleep(0.5)
        assert len(one.ran) + len(two.ran) == 24
        keys = [{name[0] for name in host.names()} for host in (one, two)]
        assert all(keys)
        assert not keys[0] & keys[1]
        await one.die()
        began = w.runtime.monotonic()
        await schedule(w, *(f"{key}x" for key in "abcdef"))
        await asyncio.sleep(2)
        late = {name[0]: at - began for at, name in two.ran if "x" in name}
        assert set(late) == set("abcdef")
        assert max(late.values()) <= 2 * LEFT_S + 0.1


@virtual(world(running=False))
async def test_a_key_moves_when_its_host_is_busy(w: World) -> None:
    async with hosts(w, "sticky", seconds=3.0) as (one, two):
        await schedule(w, "a0")
        await asyncio.sleep(0.1)
        first, other = (one, two) if one.ran else (two, one)
        await schedule(w, "a1")
        await asyncio.sleep(2 * LEFT_S + 0.1)
        assert other.names() == ["a1"]
        await asyncio.sleep(5)
        await schedule(w, "a2")
        await asyncio.sleep(1)
        assert other.names() == ["a1", "a2"], "its cache is there now"
        assert first.names() == ["a0"]


@virtual(world(running=False))
async def test_tasks_of_a_lambda_that_is_spread_go_evenly_over_its_hosts(w: World) -> None:
    async with hosts(w, "spread") as (one, two):
        for number in range(10):
            await schedule(w, f"t{number}")
            await asyncio.sleep(0.3)
        assert len(one.ran) == len(two.ran) == 5


def test_a_partition_in_which_something_was_left_is_looked_at_again_soon() -> None:
    backlog = Backlog(["shop/mail"], partitions=1, ageing=1.0, poll_interval=10.0)
    scan = backlog.choose(5, 100.0)
    assert scan is not None
    backlog.popped(scan, [("shop/mail:1", [])], 100.0)
    ask = backlog.choose(5, 100.0)
    assert ask is not None
    backlog.popped(ask, [("shop/mail:1", ["0-a"]), ("shop/mail:1", [])], 100.0)
    assert backlog.choose(5, 100.0) is None
    assert backlog.next_look() == 100.0 + LEFT_S
