"""Dead letters that failed alike are of one group, while they are dead letters."""

from __future__ import annotations

from typing import Any

import pytest

from atf.store.values.claims import Outcome
from atf.store.values.lists import FailureGroupRecord, ListedTask, TaskQuery
from atf.task import DEFAULT_RETENTION_US, US, Status
from tests.store.world import LAMBDA, World, dump, held

APP = '  File "/srv/releases/7/shop/till.py", line 41, in pay\n    charge()\n'
LIBRARY = '  File "/venv/lib/python3.11/site-packages/requests/api.py", line 9, in get\n    return x\n'
STDLIB = '  File "/usr/lib/python3.11/json/decoder.py", line 355, in decode\n    raise\n'


def error(*frames: str, kind: str = "KeyError", message: str = "1", more: str = "") -> str:
    return f"{kind}: {message}\nTraceback (most recent call last):\n{''.join(frames)}{more}"


async def groups(world: World, *errors: str, name: str = LAMBDA, partition: int = 0) -> list[str]:
    """The groups of tasks that fail with these errors."""
    world.clock.advance(1)
    names = [f"t{world.clock.us}-{number}" for number in range(len(errors))]
    for each, said in zip(await world.run(*names, lambda_name=name, partition=partition), errors, strict=True):
        await world.finish(Outcome.FAILED_FATAL, each, error=said)
    return [(await world.get(f"{partition}-{each}")).failure_group for each in names]


ALIKE = [
    (error(APP), error(APP, message="another\nmessage")),
    (error(APP), error(APP.replace("41", "43").replace("/7/", "/8/"))),
    (error(APP), error(APP, LIBRARY, STDLIB)),
    (error(APP), error(APP, more="Caused by: OSError: no\n" + APP.replace("pay", "open"))),
    (error(LIBRARY), error(LIBRARY, STDLIB)),
    ("timed out after 5 s", "timed out after 7.5 s"),
]
UNLIKE = [
    (error(APP), error(APP, kind="ValueError")),
    (error(APP), error(APP.replace("pay", "refund"))),
    (error(APP), error(APP, APP.replace("till", "bank"))),
    ("timed out after 5 s", "cancelled"),
]


@pytest.mark.parametrize(("pairs", "alike"), [(ALIKE, True), (UNLIKE, False)])
async def test_a_group_is_what_failed_by_one_type_in_one_function_of_the_user_s(
    world: World, pairs: list[tuple[str, str]], alike: bool
) -> None:
    for one, other in pairs:
        first, second = await groups(world, one, other)
        assert (first == second) is alike, (one, other)
        assert len(first) == 12


async def test_the_group_of_one_lambda_is_no_other_s(world: World) -> None:
    assert await groups(world, error(APP)) != await groups(world, error(APP), name="shop/ring")


async def test_a_dead_letter_stands_in_its_group_until_it_is_retried_or_its_record_goes(world: World) -> None:
    first, second = await world.run("a", "b", max_attempts=1)
    await world.fail(first)
    world.clock.advance(1)
    await world.fail(second)
    group = (await world.get("0-a")).failure_group
    key = f"atf:{{0}}:x:{LAMBDA}:!{group}"
    ended = {"0-b": float(world.clock.us), "0-a": float(world.clock.us - US)}
    assert (await dump(world.store)).zset(key) == ended
    await world.store.retry_tasks(["0-a"])
    assert (await world.get("0-a")).failure_group == ""
    found = await dump(world.store)
    assert list(found.zset(key)) == ["0-b"]
    assert found.zset("atf:{0}:groups") == {f"{LAMBDA}:!{group}": float(world.clock.us)}
    world.clock.advance(DEFAULT_RETENTION_US / US + 1)
    await world.store.sweep(0, 1000)
    found = await dump(world.store)
    assert found.zset(key) == found.zset("atf:{0}:groups") == {}


async def test_a_group_is_as_new_as_the_newest_that_is_left_in_it(world: World) -> None:
    (first, second), at = await world.run("a", "b", max_attempts=1), world.clock.us
    await world.fail(first)
    world.clock.advance(1)
    await world.fail(second)
    await world.store.retry_tasks(["0-b"])
    assert list((await dump(world.store)).zset("atf:{0}:groups").values()) == [float(at)]


async def test_a_dead_letter_keeps_its_entries_of_the_index(world: World) -> None:
    ids = [each.id for each in await world.store.schedule([world.task("a", entries="n=1")])]
    await world.passes(0)
    await world.pop(f"{LAMBDA}:1")
    await world.finish(Outcome.FAILED_FATAL, *held(await world.claim(*ids)), error=error(APP))
    task = await world.get(ids[0])
    assert (task.entries, len(task.failure_group)) == ("n=1", 12)
    await world.store.retry_tasks(ids)
    task = await world.get(ids[0])
    assert (task.entries, task.failure_group) == ("n=1", "")


async def test_what_was_lost_too_often_is_of_a_group_too(world: World) -> None:
    claims = await world.run("a", "b", max_losses=1)
    await world.store.report_loss(claims, "killed")
    found = [(await world.get(each)).failure_group for each in ("0-a", "0-b")]
    assert found[0] == found[1] != ""


async def test_groups_come_newest_first_with_what_all_partitions_have_of_them(world: World) -> None:
    began = world.clock.us
    await groups(world, error(APP), error(APP, message="2"))
    await groups(world, error(APP, kind="ValueError"))
    await groups(world, error(APP, message="of the first group"), partition=1)
    await groups(world, error(APP), name="shop/ring")
    page = await world.store.list_failures("", 0, 10)
    assert [(each.lambda_name, each.dead, each.place) for each in page.groups] == [
        ("shop/ring", 1, "shop/till.py:pay"),
        (LAMBDA, 3, "shop/till.py:pay"),
        (LAMBDA, 1, "shop/till.py:pay"),
    ]
    wide = page.groups[1]
    assert (wide.first_us, wide.last_us, wide.task_id) == (began + US, began + 3 * US, f"1-t{began + 3 * US}-0")
    assert page.next is None

    found: list[FailureGroupRecord] = []
    behind: ListedTask | None = None
    for _ in range(5):
        one = await world.store.list_failures("", 0, 1, behind)
        found += one.groups
        behind = one.next
        if behind is None:
            break
    assert found == page.groups
    assert [each.lambda_name for each in (await world.store.list_failures("shop/ring:", 0, 10)).groups] == ["shop/ring"]
    since = await world.store.list_failures("shop/", began + 2 * US, 10)
    assert since.groups == [page.groups[0], wide._replace(dead=1, first_us=wide.last_us), page.groups[2]]


@pytest.mark.parametrize("others", [0, 600])
async def test_dead_letters_by_their_error_s_type_are_found_by_their_groups(others: int, world: World) -> None:
    """Of very many groups none is looked at, but every dead letter."""
    await groups(world, error(APP), error(APP, message="2"), error(APP, kind="ValueError"))
    await groups(world, error(APP, kind="KeyErrors"), "E404: gone", "E405: gone", "gone", partition=1)
    await groups(world, error(APP), name="shop/ring")
    for partition in (0, 1) if others else ():
        key = f"atf:{{{partition}}}:groups"
        pairs = [each for number in range(others) for each in (0, f"shop/ring:!{number:012x}")]
        await world.store.link.command("ZADD", key, *pairs, key=key)

    async def found(error_type: str, **asked: Any) -> list[tuple[str, str]]:
        """The first lines of their errors, and their lambdas."""
        query = TaskQuery(statuses=(Status.FATAL_FAILURE,), error_type=error_type, **asked)
        page = await world.store.list_tasks(query, 9, count=True)
        records = [await world.get(each.id) for each in page.tasks]
        assert page.next is None
        assert page.looked_at == page.of, "and to count them is to look at as many"
        assert others or page.looked_at <= len(records) + 1
        return [(each.error.split("\n")[0], each.lambda_name) for each in records]

    keyed = [("KeyError: 1", "shop/ring"), ("KeyError: 2", LAMBDA), ("KeyError: 1", LAMBDA)]
    assert await found("KeyError") == keyed
    assert await found("KeyError", oldest_first=True) == [keyed[2], keyed[1], keyed[0]]
    assert await found("KeyError", lambda_name="shop/ring") == keyed[:1]
    assert await found("KeyError", since_us=world.clock.us) == keyed[:1]
    assert await found("KeyErrors") == [("KeyErrors: 1", LAMBDA)]
    assert await found("E405") == [("E405: gone", LAMBDA)], "another one of its group is not meant"
    assert await found("OSError") == []
