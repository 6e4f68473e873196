"""Long values of a task's record lie apart from it, whatever is in them, and go with it. `World.check` holds that none is left in a record
or behind one.
"""

from __future__ import annotations

import pytest

from atf.store import library
from atf.store.values.claims import Outcome
from atf.store.values.tasks import RestoredTask
from atf.task import TOMBSTONE_US, US, Status
from tests.store.test_retention import sweep

from .world import World, held

LONG = 10 * library.RECORD_INLINE_BYTES


async def apart(world: World) -> dict[str, str]:
    """What lies apart, by task and field."""
    found = (await world.check()).data
    return {key.partition(":v:")[2]: value for key, (kind, value) in found.items() if kind == "string" and ":v:" in key}


@pytest.mark.parametrize("size", [library.RECORD_INLINE_BYTES, library.RECORD_INLINE_BYTES + 1])
async def test_only_what_is_long_lies_apart(world: World, size: int) -> None:
    await world.schedule("a", spec=b"s" * size)
    assert list(await apart(world)) == (["0-a:spec"] if size > library.RECORD_INLINE_BYTES else [])
    assert (await world.get("0-a")).spec == b"s" * size


async def test_a_whole_life_keeps_its_long_values_and_takes_them_along(world: World) -> None:
    spec, result, said = b"s" * LONG, b"r" * LONG, "p" * LONG
    (claim,) = await world.run("a", spec=spec, retention_us=TOMBSTONE_US)
    await world.beat(claim, progress=said)
    await world.finish(Outcome.FAILED, claim, error="e" * LONG)
    await world.passes()
    await world.pop()
    (again,) = await world.claim("0-a")
    assert again.spec == spec
    await world.store.report_loss(held([again]), "killed " * 20)
    await world.passes()
    await world.pop()
    (last,) = await world.claim("0-a")
    await world.finish(Outcome.SUCCEEDED, *held([last]), result=result)
    task = await world.get("0-a")
    assert (task.spec, task.result, task.error, task.progress) == (spec, result, "e" * LONG, said)
    assert [run.why[:10] for run in task.ended_runs] == ["failed: ee", "lost: kill", "succeeded"]
    assert sorted(await apart(world)) == [f"0-a:{field}" for field in ("R", "err", "p", "res", "spec")]
    world.clock.advance(TOMBSTONE_US // US)
    await sweep(world)
    assert not await apart(world)
    assert await world.store.get_tasks(["0-a"]) == [None]


async def test_a_short_value_takes_the_place_of_a_long_one(world: World) -> None:
    (claim,) = await world.run("a")
    await world.beat(claim, progress="p" * LONG)
    await world.beat(claim, progress="half")
    assert (await world.get("0-a")).progress == "half"
    await world.beat(claim, progress="q" * LONG)
    assert (await world.get("0-a")).progress == "q" * LONG


@pytest.mark.parametrize("value", [b"\0", b"\1", b"\2", b"\1\0", b""])
async def test_values_that_look_like_marks_come_back_as_they_are(world: World, value: bytes) -> None:
    (claim,) = await world.run("a", spec=value)
    await world.finish(Outcome.SUCCEEDED, claim, result=value)
    task = await world.get("0-a")
    assert (task.spec, task.result) == (value, value)


async def test_a_retried_dead_letter_has_lost_what_lay_apart_of_its_failure(world: World) -> None:
    (claim,) = await world.run("a", spec=b"s" * LONG)
    await world.beat(claim, progress="p" * LONG)
    await world.finish(Outcome.FAILED_FATAL, claim, error="e" * LONG)
    await world.store.retry_tasks(["0-a"])
    task = await world.get("0-a")
    assert (task.status, task.error, task.progress, task.spec) == (Status.NEW, "", "", b"s" * LONG)


async def test_a_restored_task_has_its_long_values(world: World) -> None:
    task = RestoredTask("a", "photos/thumbnail", 1, b"s" * LONG, b"", 0, 0, "", "", 1, 0, 1, 1, "e" * LONG)
    assert await world.store.restore([task]) == [1]
    (partition,) = {name.partition("-")[0] for name in await apart(world)}
    (record,) = await world.store.get_tasks([f"{partition}-a"])
    assert record is not None
    assert (record.spec, record.error) == (b"s" * LONG, "e" * LONG)


async def test_a_result_that_is_null_is_not_kept_and_read_as_null(world: World) -> None:
    nothing, one = await world.run("nothing", "one")
    await world.finish(Outcome.SUCCEEDED, nothing, result=b"null")
    await world.finish(Outcome.SUCCEEDED, one, result=b"1")
    found = (await world.check()).tasks()
    assert ["res" in found[each.task_id] for each in (nothing, one)] == [False, True]
    assert [(await world.get(each.task_id)).result for each in (nothing, one)] == [b"null", b"1"]
