"""Executors run the lambdas whose turn it is on the cores of their groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from atf.cores.pool import CorePool, CoreSettings
from atf.errors import Unavailable
from atf.hsc.cores import STALE_S, STAY_S
from atf.hsc.present import HERE_S
from atf.hsc.service import HscService
from atf.rpc import frontend_pb2 as f
from atf.runtime import end
from atf.store.values.lambdas import LambdaRecord
from atf.task import US, Status
from tests.virtual import virtual

from .world import Host, World, ids_of, sets, until, world

NAMES = ("shop/a", "shop/b", "shop/c", "shop/d")


async def set_cores(w: World, cores: int, **settings: Any) -> None:
    for name in NAMES:
        await w.store.register_lambdas([LambdaRecord(name, b"", 1000, 10 * US, paused=False)])
    pool = CorePool.make(CoreSettings(cores=cores, **settings).check(), w.runtime.wall_us())
    assert await w.store.set_capacity("", 0, pool.encode(), deal_anew=True)


async def pool_of(w: World) -> CorePool:
    record = await w.store.get_capacity("")
    assert record is not None
    return CorePool.decode(record.state)


class Executor:
    """Asks, runs each task for a while, and notes when it was given tasks of which lambda. It is the only one of its host."""

    def __init__(self, w: World, name: str, seconds: float, of: HscService | None = None, most: int = 1) -> None:
        self.w, self.name, self.seconds, self.of, self.most = w, name, seconds, of, most
        self.given: list[tuple[float, str]] = []
        self.takes: dict[str, float] = {}  # seconds, of lambdas whose tasks take another time than `seconds`
        self._lambdas: Sequence[str] = NAMES
        self.host = Host(w, name, sets([name], *NAMES), of=of)
        self.duty = w.runtime.spawn(self._run(), name=name)

    def runs(self, *lambdas: str) -> None:
        """From now on."""
        self._lambdas = lambdas
        self.host.change(sets([self.name], *lambdas))

    async def _run(self) -> None:
        while True:
            reply = await self.w.ask(self.name, wait=30, lambdas=self._lambdas, most=self.most, of=self.of)
            names = [(await self.w.record(each.task_id)).lambda_name for each in reply.claims]
            self.given += [(self.w.runtime.monotonic(), name) for name in names]
            await asyncio.sleep(max((self.takes.get(name, self.seconds) for name in names), default=self.seconds))
            await self.w.finish(reply)


async def stop(*executors: Executor) -> None:
    await end([duty for each in executors for duty in (each.duty, each.host.duty)])


@virtual(world(partitions=2))
async def test_without_cores_every_executor_runs_whatever_comes_and_the_record_is_looked_for_seldom(w: World) -> None:
    calls = []
    direct = w.store.get_capacity

    async def counted(*args: Any, **fields: Any) -> Any:
        calls.append(args)
        return await direct(*args, **fields)

    w.store.get_capacity = counted  # type: ignore[method-assign]
    executor = Executor(w, "e1", 0.01)
    for name in NAMES:
        await w.enqueue(3, name)
    await asyncio.sleep(5)
    await stop(executor)
    assert sorted(name for _, name in executor.given) == sorted(NAMES * 3)
    assert len(calls) <= 7


@virtual(world(partitions=2))
async def test_a_reserved_core_runs_its_lambda_and_nothing_else(w: World) -> None:
    await set_cores(w, 2, reserved={"shop/a": 1}, rotation_us=3600 * US)
    executors = [Executor(w, f"e{number}", 0.05) for number in range(4)]
    await asyncio.sleep(1)
    for name in NAMES:
        await w.enqueue(8, name)
    await asyncio.sleep(10)
    await stop(*executors)
    record = await w.store.get_capacity("")
    assert record is not None
    groups = record.groups
    assert groups is not None
    assert sorted(map(len, groups)) == [2, 2]
    ran = {each.name: {name for _, name in each.given} for each in executors}
    rotation = (await pool_of(w)).rotation.at(record.now_us)
    assert rotation == 0
    assert all(ran[each] <= {"shop/a"} for each in groups[0])
    assert all("shop/a" not in ran[each] for each in groups[1])
    assert set.union(*ran.values()) == set(NAMES)
    assert sum(len(each.given) for each in executors) == 32


@virtual(world(partitions=2))
async def test_a_reserved_core_is_scheduled_again_once_its_lambdas_tasks_have_ended(w: World) -> None:
    await set_cores(w, 2, reserved={"shop/a": 1}, rotation_us=3600 * US)
    executors = [Executor(w, f"e{number}", 3.0) for number in range(2)]
    await asyncio.sleep(1)
    await w.enqueue(1, "shop/a")
    await asyncio.sleep(1.5)
    turn = (await pool_of(w)).turns[0]
    assert turn is not None
    assert turn.occupied
    first = turn.number
    await asyncio.sleep(4)
    record = await w.store.get_capacity("")
    pool = await pool_of(w)
    turn = pool.turns[0]
    assert turn is not None
    assert (turn.lambda_name, turn.number > first, turn.occupied) == ("shop/a", True, False)
    assert pool.timed_out == 0
    await asyncio.sleep(10)
    after = await w.store.get_capacity("")
    assert record is not None
    assert after is not None
    assert after.version == record.version  # nobody writes while it waits
    await stop(*executors)


@virtual(world(partitions=2))
async def test_lambdas_take_turns_while_one_floods(w: World) -> None:
    await set_cores(w, 1, multiplexed_timeout_us=US)
    executors = [Executor(w, f"e{number}", 0.1) for number in range(2)]
    await asyncio.sleep(1)
    await w.enqueue(400, "shop/a")
    await asyncio.sleep(2)
    began = w.runtime.monotonic()
    for name in NAMES[1:]:
        await w.enqueue(2, name)
    await asyncio.sleep(6)
    await stop(*executors)
    first = {name: at for each in executors for at, name in reversed(each.given) if name != "shop/a"}
    assert set(first) == set(NAMES[1:])
    assert max(first.values()) - began < 2.5  # the flood's turn, and then three short ones
    assert sum(name == "shop/a" for each in executors for _, name in each.given) > 80


@virtual(world(partitions=2))
async def test_a_lambda_alone_takes_every_core(w: World) -> None:
    await set_cores(w, 4, multiplexed_timeout_us=10 * US)
    executors = [Executor(w, f"e{number}", 0.1) for number in range(4)]
    await asyncio.sleep(1)
    await w.enqueue(200, "shop/a")
    await asyncio.sleep(3)
    await stop(*executors)
    assert min(len(each.given) for each in executors) >= 15


@virtual(world(partitions=2))
async def test_a_task_that_comes_to_idle_cores_starts_at_once(w: World) -> None:
    await set_cores(w, 3)
    executors = [Executor(w, f"e{number}", 0.01) for number in range(3)]
    await asyncio.sleep(5.3)
    for name in NAMES:
        began = w.runtime.monotonic()
        await w.enqueue(1, name)
        await asyncio.sleep(1.7)
        ((at, _),) = [given for each in executors for given in each.given if given[1] == name]
        assert at - began < 0.1
    await stop(*executors)


@virtual(world(partitions=1))
async def test_groups_rotate_over_the_cores(w: World) -> None:
    await set_cores(w, 2, reserved={"shop/a": 1}, rotation_us=2 * US)
    executors = [Executor(w, f"e{number}", 0.05) for number in range(2)]
    await asyncio.sleep(0.5)
    await w.enqueue(150, "shop/a")
    await asyncio.sleep(9)
    await stop(*executors)
    record = await w.store.get_capacity("")
    assert record is not None
    assert record.groups is not None
    for number, group in enumerate(record.groups):
        (executor,) = [each for each in executors if [each.name] == group]
        assert len(executor.given) > 20
        for at, _ in executor.given:
            k = int(at // 2)  # the pool was made at instant 0
            late = at % 2 < 0.1
            assert (number + k) % 2 == 0 or late, (number, at)


@virtual(world(partitions=1))
async def test_a_group_that_does_not_know_the_lambda_hands_the_turn_on(w: World) -> None:
    await set_cores(w, 2, hand_over_us=US // 2)
    one, other = Executor(w, "e0", 0.05), Executor(w, "e1", 0.05)
    one.runs("shop/b")
    await asyncio.sleep(1)
    await w.enqueue(5, "shop/a")
    await asyncio.sleep(5)
    await stop(one, other)
    assert [name for _, name in other.given] == ["shop/a"] * 5


@virtual(world(partitions=1))
async def test_a_group_that_does_not_know_the_owner_of_its_core_leaves_it_idle_until_the_next_rotation(
    w: World,
) -> None:
    rotation = 5
    await set_cores(w, 2, reserved={"shop/a": 1}, rotation_us=rotation * US)
    one, other = Executor(w, "e0", 0.05), Executor(w, "e1", 0.05)
    one.runs("shop/b")
    await asyncio.sleep(0.5)
    for _ in range(20):
        await w.enqueue(1, "shop/a")
        await asyncio.sleep(1)
    await asyncio.sleep(rotation)
    await stop(one, other)
    record = await w.store.get_capacity("")
    assert record is not None
    assert record.groups is not None
    group = record.groups.index(["e1"])
    at = [at for each in (one, other) for at, name in each.given if name == "shop/a"]
    assert len(at) == 20
    assert {(group + int(each // rotation)) % 2 for each in at} == {0}  # the pool was made at instant 0
    assert (await pool_of(w)).dropped == 0


async def beside_long_tasks(w: World, rotation: float, longest: float) -> list[tuple[float, float]]:
    """When each task of the lambda that has a core of its own became due, and how long it waited, beside another's long tasks."""
    await set_cores(w, 2, reserved={"shop/a": 1}, rotation_us=round(rotation * US))
    executors = [Executor(w, f"e{number}", 0.01) for number in range(2)]
    for each in executors:
        each.takes["shop/b"] = longest
    await asyncio.sleep(0.5)
    await w.enqueue(100, "shop/b")
    due = []
    for _ in range(90):
        due.append(w.runtime.monotonic())
        await w.enqueue(1, "shop/a")
        await asyncio.sleep(0.5)
    await asyncio.sleep(2 * longest + 2 * rotation)
    await stop(*executors)
    at = sorted(at for each in executors for at, name in each.given if name == "shop/a")
    return [(one, began - one) for one, began in zip(due, at, strict=True)]


@virtual(world(partitions=1))
async def test_a_reserved_core_is_free_but_for_what_its_group_has_brought_from_a_shared_one(w: World) -> None:
    rotation, longest = 20.0, 3.0
    waited = await beside_long_tasks(w, rotation, longest)
    assert max(seconds for _, seconds in waited) < longest + 0.1
    assert max(seconds for at, seconds in waited if at % rotation > longest) < 0.1  # the pool was made at instant 0
    assert max(seconds for at, seconds in waited if at > rotation and at % rotation < 1) > 1


@virtual(world(partitions=1))
async def test_where_groups_rotate_while_one_task_runs_a_reserved_core_is_busy_with_others_tasks(w: World) -> None:
    waited = await beside_long_tasks(w, 1.0, 3.0)
    assert sum(seconds > 0.5 for _, seconds in waited) > len(waited) / 3


async def members(w: World) -> list[str]:
    record = await w.store.get_capacity("")
    assert record is not None
    return sorted(each for group in record.groups or [] for each in group)


@virtual(world(partitions=1))
async def test_groups_are_dealt_anew_when_executors_come_leave_and_die(w: World) -> None:
    await set_cores(w, 2)
    second = w.another_hsc()
    duty = w.runtime.spawn(second.run(), name="second")
    mine, others = Executor(w, "e0", 0.05), Executor(w, "e1", 0.05, of=second)
    await asyncio.sleep(1)
    assert await members(w) == ["e0", "e1"]
    third = Executor(w, "e2", 0.05)
    await asyncio.sleep(0.2)
    assert await members(w) == ["e0", "e1", "e2"]
    await end([others.duty])
    await others.host.leave()
    await asyncio.sleep(0.2)
    assert await members(w) == ["e0", "e2"]
    await end([third.duty])
    third.host.change({})  # it has died
    await asyncio.sleep(0.2)
    assert await members(w) == ["e0"]
    await stop(mine, others, third)
    await end([duty])


@virtual(world(partitions=1))
async def test_a_host_that_vanishes_is_missed_within_seconds(w: World) -> None:
    await set_cores(w, 1)
    mine, others = Executor(w, "e0", 0.05), Executor(w, "e1", 0.05)
    await asyncio.sleep(1)
    assert (await pool_of(w)).members == 2
    await stop(others)
    await asyncio.sleep(HERE_S + STAY_S + 1.5)
    assert (await pool_of(w)).members == 1
    await stop(mine)


@virtual(world(partitions=1))
async def test_a_host_that_goes_over_to_another_hsc_stays_a_member(w: World) -> None:
    await set_cores(w, 2)
    second = w.another_hsc()
    duty = w.runtime.spawn(second.run(), name="second")
    stays, moves = Executor(w, "e0", 0.05), Executor(w, "e1", 0.05)
    await asyncio.sleep(1)
    record = await w.store.get_capacity("")
    assert record is not None
    for of in (second, w.hsc, second):
        moves.of = of
        moves.host.change(moves.host.executors, of=of)
        await asyncio.sleep(HERE_S + STAY_S + 1.5)
        assert await members(w) == ["e0", "e1"]
        now = await w.store.get_capacity("")
        assert now is not None
        assert now.deal == record.deal, "they are not dealt anew"
    await stop(stays, moves)
    await end([duty])


@virtual(world(partitions=1))
async def test_an_executor_that_its_host_names_is_a_member_however_long_it_has_no_room(w: World) -> None:
    await set_cores(w, 1)
    executor = Executor(w, "e0", 200)
    await asyncio.sleep(1)
    await w.enqueue(1, "shop/a")
    await asyncio.sleep(100)
    assert executor.given
    assert await members(w) == ["e0"]
    await stop(executor)


@virtual(world(partitions=1))
async def test_a_lambda_counts_as_run_while_the_executors_that_run_it_have_no_room(w: World) -> None:
    await w.store.register_lambdas([LambdaRecord(name, b"", 1000, 10 * US, paused=False) for name in NAMES])
    executor = Executor(w, "e0", 1000)
    executor.runs("shop/a")
    (of_a, _), (of_b,) = [await w.enqueue(count, name) for count, name in ((2, "shop/a"), (1, "shop/b"))]
    for seconds in (40, 240):
        await asyncio.sleep(seconds)
        told = [await w.store.explain_task(each) for each in (of_a, of_b)]
        assert [each and each.not_run for each in told] == [False, True]
    await stop(executor)


@virtual(world(partitions=1))
async def test_where_the_record_cannot_be_read_everything_runs(w: World) -> None:
    await set_cores(w, 2, reserved={"shop/a": 1})
    executor = Executor(w, "e0", 0.05)
    await asyncio.sleep(1)
    direct = w.store.get_capacity

    async def away(*_: Any, **__: Any) -> Any:
        raise Unavailable("gone")

    w.store.get_capacity = away  # type: ignore[method-assign]
    for name in NAMES:
        await w.enqueue(1, name)
    await asyncio.sleep(STALE_S + 3)
    assert {name for _, name in executor.given} == set(NAMES)
    w.store.get_capacity = direct  # type: ignore[method-assign]
    await asyncio.sleep(3)
    await stop(executor)
    assert (await pool_of(w)).members == 1


@virtual(world(partitions=1))
async def test_when_its_cores_are_taken_away_a_pool_runs_whatever_comes(w: World) -> None:
    await set_cores(w, 2, reserved={"shop/a": 1})
    executor = Executor(w, "e0", 0.05)
    await asyncio.sleep(0.5)
    record = await w.store.get_capacity("")
    assert record is not None
    await w.store.set_capacity("", record.version, b"")
    await asyncio.sleep(0.1)
    for name in NAMES:
        await w.enqueue(1, name)
    await asyncio.sleep(1)
    await stop(executor)
    assert sorted(name for _, name in executor.given) == sorted(NAMES)


@virtual(world(partitions=2))
async def test_fewer_cores_than_run_kill_nothing_and_lose_nothing(w: World) -> None:
    frontend = w.wiring.frontend(w.store)
    await frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name=name) for name in NAMES]))
    executors = [Executor(w, f"e{number}", 3.0) for number in range(4)]
    await asyncio.sleep(0.1)
    await frontend.set_capacity(f.SetCapacityRequest(cores=4))
    await asyncio.sleep(1)
    ids = [each for name in NAMES for partition in range(2) for each in await w.enqueue(2, name, partition=partition)]
    await asyncio.sleep(2)

    async def running() -> dict[str, str]:
        records = [await w.record(each) for each in ids]
        return {each.id: each.owner for each in records if each.status is Status.CLAIMED}

    async def done() -> bool:
        for partition in range(2):
            await w.consume(partition)
        return {(await w.record(each)).status for each in ids} == {Status.SUCCESS}

    before = await running()
    assert sorted(before.values()) == ["e0", "e1", "e2", "e3"]
    await frontend.set_capacity(f.SetCapacityRequest(cores=1))
    await asyncio.sleep(0.5)
    assert await running() == before
    await until(done)
    await stop(*executors)
    records = [await w.record(each) for each in ids]
    assert {(each.attempts, each.losses) for each in records} == {(1, 0)}
    assert sum(len(each.given) for each in executors) == len(ids)


@virtual(world(partitions=1))
async def test_claims_of_lambdas_that_are_not_registered_are_pruned(w: World) -> None:
    await set_cores(w, 1)
    pool = await pool_of(w)
    pool.claim("gone/one", w.runtime.wall_us())
    record = await w.store.get_capacity("")
    assert record is not None
    await w.store.set_capacity("", record.version, pool.encode(), deal_anew=True)
    executor = Executor(w, "e0", 0.05)
    await asyncio.sleep(2)
    await stop(executor)
    assert (await pool_of(w)).names() == set()


@virtual(world(partitions=1, wakeups=False))
async def test_without_wake_ups_turns_change_hands_all_the_same(w: World) -> None:
    await set_cores(w, 1)
    executor = Executor(w, "e0", 0.05)
    await asyncio.sleep(1.5)
    for name in NAMES:
        await w.enqueue(1, name)
    await asyncio.sleep(10)
    await stop(executor)
    assert sorted(name for _, name in executor.given) == sorted(NAMES)


@virtual(world(partitions=1))
async def test_an_answer_carries_only_the_lambda_whose_turn_it_is(w: World) -> None:
    await set_cores(w, 1)
    await w.ask("e0", wait=0.2, lambdas=NAMES)
    for name in NAMES:
        await w.enqueue(1, name)
    reply = await w.ask("e0", wait=5, lambdas=NAMES)
    assert len(ids_of(reply)) == 1
