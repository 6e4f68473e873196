"""first_time: a key belongs to the task that asked first, until it expires."""

from __future__ import annotations

from atf.store.values.claims import FirstTimeKey
from atf.task import US

from .world import World, dump


async def test_the_first_task_keeps_a_key_in_every_run_and_no_other_gets_it(world: World) -> None:
    assert await world.first("0-a")
    assert not await world.first("0-b")
    assert await world.first("0-a")
    assert not await world.first("1-a"), "another partition's task of that id is another task"


async def test_keys_of_two_namespaces_have_nothing_in_common(world: World) -> None:
    assert await world.first("0-a", namespace="shop")
    assert await world.first("0-b", namespace="mail")


async def test_a_key_is_free_when_its_time_is_over_whether_or_not_it_was_swept(world: World) -> None:
    for sweeps in (False, True):
        assert await world.first("0-a", seconds=60)
        world.clock.advance(59.999)
        assert not await world.first("0-b")
        assert await world.first("0-a", seconds=600), "that it asks again does not prolong it"
        world.clock.advance(0.001)
        if sweeps:
            for partition in range(world.store.partitions):
                await world.store.sweep(partition, 0)
            assert not [key for key in (await dump(world.store)).data if ":firsts" in key]
        assert await world.first("0-b", seconds=1)
        assert not await world.first("0-a")
        world.clock.advance(1)


async def test_a_sweep_takes_only_what_has_expired_and_no_more_than_a_batch_at_once(world: World) -> None:
    asked = [FirstTimeKey("0-a", "shop", f"k{number}", US) for number in range(700)]
    asked += [FirstTimeKey("0-a", "shop", f"long{number}", 60 * US) for number in range(9)]
    assert all(await world.store.first_time(asked))
    world.clock.advance(1)
    swept = []
    for partition in range(world.store.partitions):
        while batch := await world.store.sweep(partition, 1_000_000):
            swept.append(batch)
    assert sum(swept) == 700
    assert max(swept) <= 256
    left = await world.store.first_time([each._replace(task_id="0-b") for each in asked])
    assert left == [True] * 700 + [False] * 9


async def test_answers_come_in_the_order_of_the_questions(world: World) -> None:
    await world.first("0-b", "k3")
    asked = [FirstTimeKey("0-a", "shop", f"k{number}", US) for number in range(6)]
    assert await world.store.first_time([*asked, asked[0], asked[3]]) == [
        True,
        True,
        True,
        False,
        True,
        True,
        True,
        False,
    ]
