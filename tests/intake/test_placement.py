"""Two hosts, and lambdas whose tasks go to whichever asks first, or prefer one of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from atf.intake.intake import Intake
from atf.intake.takes import LEFT_S
from atf.runtime import end
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.tasks import NewTask
from atf.task import US
from tests.virtual import virtual

from .world import World, world


class Host:
    """A host with one executor, which runs each task for a while. `ran`: when, and the task's name."""

    def __init__(self, w: World, name: str, seconds: float = 0.01, of: Intake | None = None) -> None:
        self.w, self.name, self.seconds, self.of = w, name, seconds, of
        self.ran: list[tuple[float, str]] = []
        self.duties = [w.runtime.spawn(each, name=name) for each in (self._serve(), self._executor())]

    async def _serve(self) -> None:
        """Its HSC says to the store that it is there."""
        while True:
            await self.w.store.serve("", 30, self.name, None, ["shop/mail"], executors=1)
            await asyncio.sleep(10)

    async def _executor(self) -> None:
        while True:
            answer = await self.w.ask(self.name, wait=30, room=1, host=self.name, of=self.of)
            for each in answer.claims:
                self.ran.append((self.w.runtime.monotonic(), each.task_id[2:]))
                await asyncio.sleep(self.seconds)
            await self.w.finish(answer)

    async def die(self) -> None:
        """Vanishes without a word."""
        await end(self.duties)

    def names(self) -> list[str]:
        return [name for _, name in self.ran]


@contextlib.asynccontextmanager
async def hosts(w: World, placement: str, seconds: float = 0.01, *, apart: bool = False) -> AsyncIterator[list[Host]]:
    """Two hosts, which ask one HSC or, `apart`, two."""
    settings = f"placement={placement}" if placement else ""
    await w.store.register_lambdas([LambdaRecord("shop/mail", b"", 1000, 10 * US, paused=False, settings=settings)])
    second = Intake(store=w.store, ageing=1.0, runtime=w.runtime)
    of = [w.intake, second if apart else w.intake]
    duties = [w.runtime.spawn(each.run(), name="intake") for each in dict.fromkeys(of)]
    both = [Host(w, "one", seconds, of[0]), Host(w, "two", seconds, of[1])]
    await asyncio.sleep(1)
    yield both
    for each in both:
        await each.die()
    await end(duties)


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
    await sticky_keys(w, apart=False)


@virtual(world(running=False))
async def test_tasks_of_a_key_run_on_one_host_and_move_when_it_is_gone_at_two_hscs(w: World) -> None:
    await sticky_keys(w, apart=True)


async def sticky_keys(w: World, *, apart: bool) -> None:
    async with hosts(w, "sticky", apart=apart) as (one, two):
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
    await spread_tasks(w, apart=False)


@virtual(world(running=False))
async def test_tasks_of_a_lambda_that_is_spread_go_evenly_over_its_hosts_at_two_hscs(w: World) -> None:
    await spread_tasks(w, apart=True)


async def spread_tasks(w: World, *, apart: bool) -> None:
    async with hosts(w, "spread", apart=apart) as (one, two):
        for number in range(10):
            await schedule(w, f"t{number}")
            await asyncio.sleep(0.3)
        assert len(one.ran) == len(two.ran) == 5
