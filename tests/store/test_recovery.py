"""A store that is lost and brought back from an export: all that is due runs, and what may have run since is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from atf.errors import ClaimsPaused
from atf.store.backup.exporting import export_tasks
from atf.store.backup.importing import HasRun, Imported, MayHaveRun, WhyMayHaveRun, import_tasks
from atf.store.store import Store
from atf.store.values.claims import Outcome, Verdict
from atf.store.values.lambdas import LambdaRecord
from atf.task import US, Status
from tests.claiming import claim_ids
from tests.known import know

from .conftest import OpenStore
from .test_transfer import PARTITIONS, another_store, live
from .world import LAMBDA, LEASE_US, QUEUE, Clock, World, held

MINUTE = 60


async def scheduled(world: World, name: str, **options: int) -> str:
    """A task where the frontend would put it."""
    (task_id,) = await world.schedule(name, partition=world.store.partition_for(name), **options)
    return task_id


async def running(world: World, name: str) -> None:
    await world.run(name, partition=world.store.partition_for(name))


async def restored(
    file: Path, clock: Clock, *, old: Store | None = None, pause_claims: bool = True
) -> tuple[Store, Imported, dict[str, MayHaveRun]]:
    """Another store that the export was brought to, what the import did, and its suspects by the names of their tasks."""
    store = await another_store(clock)
    suspects: list[MayHaveRun] = []
    done = await import_tasks(store, file, report=suspects.append, old=old, pause_claims=pause_claims)
    await know(store, LAMBDA)
    return store, done, {each.id.partition("-")[2]: each for each in suspects}


async def all_that_is_due(world: World) -> set[str]:
    """Starts and ends all that is due, and answers its names."""
    found = set()
    for partition in range(world.store.partitions):
        await world.passes(partition)
        ids = await world.pop(QUEUE, partition=partition)
        await world.finish(Outcome.SUCCEEDED, *held(await world.claim(*ids)))
        found |= {task_id.partition("-")[2] for task_id in ids}
    return found


async def test_all_that_is_due_runs_and_what_may_have_run_is_told(world: World, clock: Clock, tmp_path: Path) -> None:
    await running(world, "was-running")
    await scheduled(world, "was-due")
    await scheduled(world, "due-since", delay_us=MINUTE * US)
    await scheduled(world, "later", delay_us=3600 * US)
    begun = clock.us
    await export_tasks(world.store, tmp_path / "x")
    clock.advance(2 * MINUTE)
    store, done, suspects = await restored(tmp_path / "x", clock)
    assert (done.stored, done.present, done.ended, done.may_have_run, done.begun_us) == (4, 0, 0, 3, begun)
    assert {name: (each.why, each.ran, each.runs, each.due_at_us) for name, each in suspects.items()} == {
        "was-running": (WhyMayHaveRun.HELD, HasRun.MAYBE, 1, 0),
        "was-due": (WhyMayHaveRun.DUE, HasRun.MAYBE, 0, begun),
        "due-since": (WhyMayHaveRun.DUE, HasRun.MAYBE, 0, begun + MINUTE * US),
    }
    assert {each.id for each in suspects.values()} <= {record.id for record in (await live(store)).values()}
    clock.advance(LEASE_US / US)
    assert await all_that_is_due(World(store, clock)) == {"was-running", "was-due", "due-since"}
    clock.advance(3600)
    assert await all_that_is_due(World(store, clock)) == {"later"}
    await World(store, clock).check()
    await store.close()


async def test_the_old_store_knows_what_has_run(world: World, clock: Clock, tmp_path: Path) -> None:
    for name in ("done", "dead", "begun", "quiet", "swept"):
        await scheduled(world, name)
    await scheduled(world, "later", delay_us=3600 * US)
    await export_tasks(world.store, tmp_path / "x")
    ids = {name: f"{world.store.partition_for(name)}-{name}" for name in ("done", "dead", "begun", "quiet")}
    for partition in range(world.store.partitions):
        await world.passes(partition)
    claims = {each.task_id: each for each in held(await world.claim(ids["done"], ids["dead"], ids["begun"]))}
    await world.finish(Outcome.SUCCEEDED, claims[ids["done"]])
    await world.finish(Outcome.FAILED_FATAL, claims[ids["dead"]])
    record = f"atf:{{{world.store.partition_for('swept')}}}:t:{world.store.partition_for('swept')}-swept"
    await world.store.link.command("DEL", record, key=record)
    store, done, suspects = await restored(tmp_path / "x", clock, old=world.store)
    assert (done.stored, done.ended, done.may_have_run) == (4, 2, 2)
    assert {name: (each.ran, each.status) for name, each in suspects.items()} == {
        "done": (HasRun.ENDED, Status.SUCCESS),
        "dead": (HasRun.ENDED, Status.FATAL_FAILURE),
        "begun": (HasRun.YES, Status.CLAIMED),
        "swept": (HasRun.MAYBE, None),
    }
    assert set(await live(store)) == {"begun", "quiet", "later", "swept"}
    await store.close()


async def test_no_task_starts_while_its_old_executor_may_run_it(world: World, clock: Clock, tmp_path: Path) -> None:
    await running(world, "a")
    await export_tasks(world.store, tmp_path / "x")
    store, done, _ = await restored(tmp_path / "x", clock)
    there = World(store, clock)
    task_id = f"{store.partition_for('a')}-a"
    await there.passes(store.partition_for("a"))
    assert done.claims_from_us == clock.us + LEASE_US
    with pytest.raises(ClaimsPaused):
        await claim_ids(store, "executor-2", "n", [task_id])
    clock.advance(LEASE_US / US)
    await there.passes(store.partition_for("a"))
    (claim,) = await there.claim(task_id)
    assert claim.run == 2
    await store.close()


async def test_where_all_executors_have_been_stopped_tasks_start_at_once(
    world: World, clock: Clock, tmp_path: Path
) -> None:
    await scheduled(world, "a")
    await export_tasks(world.store, tmp_path / "x")
    store, done, _ = await restored(tmp_path / "x", clock, pause_claims=False)
    assert done.claims_from_us == 0
    assert await all_that_is_due(World(store, clock)) == {"a"}
    await store.close()


async def test_an_old_claim_changes_nothing_in_the_restored_store(world: World, clock: Clock, tmp_path: Path) -> None:
    """Its token is older than any that is given from now on."""
    (claim,) = await world.run("a", partition=world.store.partition_for("a"))
    await export_tasks(world.store, tmp_path / "x")
    clock.advance(1)
    store, _, _ = await restored(tmp_path / "x", clock, pause_claims=False)
    there = World(store, clock)
    old = claim._replace(task_id=f"{store.partition_for('a')}-a")
    assert await there.beat(old) == [Verdict.LOST]
    await there.passes(store.partition_for("a"))
    (new,) = held(await there.claim(old.task_id))
    assert new.counter > old.counter
    assert await there.finish(Outcome.SUCCEEDED, old) == [Verdict.LOST]
    assert await there.finish(Outcome.SUCCEEDED, new) == [Verdict.OK]
    await store.close()


async def test_a_task_that_was_to_be_stopped_is_cancelled(world: World, clock: Clock, tmp_path: Path) -> None:
    await running(world, "a")
    await world.store.cancel_tasks([f"{world.store.partition_for('a')}-a"])
    await export_tasks(world.store, tmp_path / "x")
    store, done, suspects = await restored(tmp_path / "x", clock)
    assert (done.stored, suspects) == (1, {})
    assert await World(store, clock).statuses([f"{store.partition_for('a')}-a"]) == ["CANCELLED"]
    await store.close()


async def test_a_second_import_tells_of_each_task_again(world: World, clock: Clock, tmp_path: Path) -> None:
    """The first one may have been cut off between what it stored and what it told."""
    await scheduled(world, "a")
    await running(world, "b")
    await scheduled(world, "later", delay_us=3600 * US)
    await export_tasks(world.store, tmp_path / "x")
    store, done, suspects = await restored(tmp_path / "x", clock)
    again: list[MayHaveRun] = []
    second = await import_tasks(store, tmp_path / "x", report=again.append)
    assert (second.stored, second.present, second.may_have_run) == (0, 3, done.may_have_run)
    assert {each.id: each for each in again} == {each.id: each for each in suspects.values()}
    assert set(suspects) == {"a", "b"}
    await store.close()


async def test_a_second_import_leaves_a_cancelled_task_alone_that_was_retried(
    world: World, clock: Clock, tmp_path: Path
) -> None:
    await running(world, "a")
    await world.store.cancel_tasks([f"{world.store.partition_for('a')}-a"])
    await export_tasks(world.store, tmp_path / "x")
    store, _, _ = await restored(tmp_path / "x", clock)
    task_id = f"{store.partition_for('a')}-a"
    assert [each.retried for each in await store.retry_tasks([task_id])] == [True]
    assert (await import_tasks(store, tmp_path / "x")).present == 1
    assert await World(store, clock).statuses([task_id]) == ["NEW"]
    await World(store, clock).check()
    await store.close()


async def test_a_task_behind_a_cancelled_one_runs(world: World, clock: Clock, tmp_path: Path) -> None:
    """The cancelled head of an ordering key lets the next one go when it is restored; one further behind leaves its place."""
    partition = world.store.partition_for("k")
    ids = await world.schedule("a", "b", "c", partition=partition, ordering_key="k")
    await world.passes(partition)
    await world.pop(QUEUE, partition=partition)
    await world.claim(ids[0])
    await world.store.cancel_tasks(ids[:1])
    await export_tasks(world.store, tmp_path / "x")
    store, done, suspects = await restored(tmp_path / "x", clock, pause_claims=False)
    there = World(store, clock)
    assert (done.stored, done.may_have_run, set(suspects)) == (3, 2, {"b", "c"})
    assert await there.statuses([f"{store.partition_for('k')}-{name}" for name in "abc"]) == ["CANCELLED", "NEW", "NEW"]
    await there.check()
    assert await all_that_is_due(there) == {"b"}
    assert await all_that_is_due(there) == {"c"}
    await there.check()
    await store.close()


async def test_the_lambdas_are_read_once(
    world: World, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"shop/l{number}" for number in range(5)]
    await world.store.register_lambdas([LambdaRecord(name, b"x", 10, US, paused=False) for name in names])
    await world.store.pause_lambda("shop/l3")
    await export_tasks(world.store, tmp_path / "x")
    reads = 0
    direct = Store.list_lambdas

    async def lambdas(store: Store) -> Mapping[str, LambdaRecord]:
        nonlocal reads
        reads += 1
        return await direct(store)

    monkeypatch.setattr(Store, "list_lambdas", lambdas)
    store, _, _ = await restored(tmp_path / "x", clock)
    assert reads == 1
    found = await store.list_lambdas()
    assert {name for name in names if found[name].paused} == {"shop/l3"}
    assert set(found) >= set(names)
    await store.close()


async def test_a_service_finds_its_task_when_it_schedules_it_again(world: World, clock: Clock, tmp_path: Path) -> None:
    """So it may send all that it is not sure of, under the same ids."""
    await scheduled(world, "a", delay_us=US)
    await export_tasks(world.store, tmp_path / "x")
    store, _, _ = await restored(tmp_path / "x", clock)
    (answer,) = await store.schedule([World(store, clock).task("a", partition=store.partition_for("a"), delay_us=US)])
    assert (answer.existed, answer.conflict) == (True, False)
    assert (await store.counts(LAMBDA))[Status.NEW] == 1
    assert store.partitions == PARTITIONS
    await store.close()


async def test_the_deleted_store_is_filled_again(open_store: OpenStore, clock: Clock, tmp_path: Path) -> None:
    """The same server, emptied; its roles find their store and their functions again."""
    store = await open_store()
    world = World(store, clock)
    await scheduled(world, "a")
    await export_tasks(store, tmp_path / "x")
    await store.link.command("FLUSHALL")
    await store.link.command("FUNCTION", "FLUSH")
    opened = await open_store()
    await import_tasks(opened, tmp_path / "x")
    clock.advance(LEASE_US / US)
    assert await all_that_is_due(world) == {"a"}
    await world.check()
