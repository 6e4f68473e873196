"""Losses whose guilty one can't be told: they count for nobody, and who was there runs alone from then on."""

from __future__ import annotations

from atf.store.values.claims import ClaimedTask
from atf.task import Status
from tests.store.world import World, held


async def lose(world: World, *ids: str, shared: bool = False) -> None:
    claims = await claim(world, *ids)
    await world.store.report_loss(held(claims), "killed", shared=shared)


async def claim(world: World, *ids: str) -> list[ClaimedTask]:
    await world.passes()
    await world.pop()
    return await world.claim(*ids)


async def test_a_shared_loss_counts_for_no_suspect_and_has_each_run_alone(world: World) -> None:
    ids = await world.schedule("a", "b", max_losses=3)
    await lose(world, *ids)
    await lose(world, *ids, shared=True)
    await world.check()
    for each in ids:
        record = await world.get(each)
        assert (record.status, record.losses, len(record.ended_runs)) == (Status.ENQUEUED, 1, 2)
        assert record.ended_runs[-1].why == "lost: killed (not counted)"
    assert [each.alone for each in await claim(world, *ids)] == [True, True]


async def test_what_runs_alone_is_charged_and_ends_as_a_dead_letter(world: World) -> None:
    (task_id,) = await world.schedule("a", max_losses=3)
    await lose(world, task_id)
    await lose(world, task_id, shared=True)
    await lose(world, task_id)
    assert (await world.get(task_id)).losses == 2
    await lose(world, task_id)
    record = await world.get(task_id)
    assert (record.status, record.losses) == (Status.FATAL_FAILURE, 3)
    await world.check()


async def test_a_first_loss_always_counts(world: World) -> None:
    """Else a task that is always lost in company would never be a suspect."""
    (task_id,) = await world.schedule("a")
    await lose(world, task_id, shared=True)
    assert (await world.get(task_id)).losses == 1
    assert [each.alone for each in await claim(world, task_id)] == [False]


async def test_a_retried_task_is_no_suspect(world: World) -> None:
    (task_id,) = await world.schedule("a", max_losses=2)
    await lose(world, task_id)
    await lose(world, task_id, shared=True)
    await lose(world, task_id)
    assert (await world.get(task_id)).status is Status.FATAL_FAILURE
    await world.store.retry_tasks([task_id])
    assert [(each.losses, each.alone) for each in await claim(world, task_id)] == [(0, False)]
