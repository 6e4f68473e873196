"""Export and import: every live task, with what it had been through, into another store with another number of partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fakeredis
import msgspec
import pytest

from atf.config.settings import StoreSettings, Timing
from atf.cores.pool import CorePool, CoreSettings
from atf.errors import InvalidArgument
from atf.runtime import SystemRuntime
from atf.store import keys, library
from atf.store.backup.export_lines import encode
from atf.store.backup.export_records import ExportedJob
from atf.store.backup.exporting import export_tasks
from atf.store.backup.importing import import_tasks
from atf.store.store import Store
from atf.store.values.batches import BatchAnswer
from atf.store.values.claims import Outcome
from atf.store.values.keys import KeyAnswer
from atf.store.values.lambdas import GateAction, LambdaRecord, NewGate
from atf.store.values.tasks import NewTask, TaskRecord
from atf.task import DEFAULT_RETENTION_US, US, Status
from tests.known import know

from .world import BACKOFF_US, ENQUEUE_TIMEOUT_US, LAMBDA, Clock, World, held

PARTITIONS = 3


async def another_store(clock: Clock, partitions: int = PARTITIONS) -> Store:
    settings = StoreSettings(partitions=partitions, push_when_scheduled=False)
    store = await Store.open(settings, Timing(), SystemRuntime(), fake=fakeredis.FakeServer(version=(7, 4)))
    store.now = clock
    return store


async def populate(world: World) -> None:
    """Live and finished tasks, placed as the frontend does it."""
    store = world.store
    await store.register_lambdas([LambdaRecord(LAMBDA, b"\x00spec", 7, ENQUEUE_TIMEOUT_US, paused=False)])
    await store.register_lambdas([LambdaRecord("shop/paused", b"p", 7, ENQUEUE_TIMEOUT_US, paused=False)])
    await store.pause_lambda("shop/paused")
    for name in ("lost", "failed", "running", "done", "dead"):
        partition = store.partition_for(name)
        (claim,) = await world.run(name, partition=partition, max_losses=9, spec=name.encode(), priority=3)
        match name:
            case "lost":
                await store.report_loss([claim], "killed")
            case "failed":
                await world.fail(claim)
            case "done":
                await world.finish(Outcome.SUCCEEDED, claim)
            case "dead":
                await world.finish(Outcome.FAILED_FATAL, claim)
    await world.schedule("later", partition=store.partition_for("later"), delay_us=3600 * US, labels="team=web a%20b=")
    await world.schedule("quiet", partition=store.partition_for("quiet"), lambda_name="shop/paused")
    key = store.partition_for("key")
    await world.schedule("z-first", "m-second", "a-third", partition=key, ordering_key="key", lambda_name="shop/orders")


async def live(store: Store) -> dict[str, TaskRecord]:
    """Every live task by the id that its client gave it."""
    found: dict[str, TaskRecord] = {}
    cursor = ""
    while True:
        cursor, records = await store.scan(cursor)
        found |= {record.id.partition("-")[2]: record for record in records}
        if not cursor:
            return found


async def test_live_tasks_arrive_with_what_they_had_been_through(world: World, clock: Clock, tmp_path: Path) -> None:
    await populate(world)
    before = await live(world.store)
    file = tmp_path / "tasks.jsonl"
    assert await export_tasks(world.store, file) == len(before) == 8
    target = await another_store(clock)
    done = await import_tasks(target, file)
    assert (done.stored, done.present) == (8, 0)
    after = await live(target)
    assert (
        set(after) == set(before) == {"lost", "failed", "running", "later", "quiet", "z-first", "m-second", "a-third"}
    )
    for name, record in after.items():
        old = before[name]
        assert record.id == f"{target.partition_for(old.ordering_key or name)}-{name}"
        for part in (
            "lambda_name",
            "priority",
            "spec",
            "digest",
            "limits",
            "labels",
            "ordering_key",
            "scheduled_at_us",
        ):
            assert getattr(record, part) == getattr(old, part), (name, part)
        assert (record.attempts, record.losses, record.runs, record.fence) == (
            old.attempts,
            old.losses,
            old.runs,
            old.fence,
        )
    assert (after["failed"].status, after["failed"].next_at_us) == (
        Status.RETRIABLE_FAILURE,
        before["failed"].next_at_us,
    )
    assert after["failed"].error == "it rained"
    assert after["later"].next_at_us == clock.us + 3600 * US
    assert after["running"].next_at_us == clock.us  # it runs again
    await World(target, clock).check()
    await target.close()


async def test_lambdas_arrive_paused_or_not_and_those_that_are_known_are_left_alone(
    world: World, clock: Clock, tmp_path: Path
) -> None:
    await populate(world)
    file = tmp_path / "tasks.jsonl"
    await export_tasks(world.store, file)
    target = await another_store(clock)
    await target.register_lambdas([LambdaRecord(LAMBDA, b"newer", 99, ENQUEUE_TIMEOUT_US, paused=False)])
    await import_tasks(target, file)
    assert await target.list_lambdas() == {
        LAMBDA: LambdaRecord(LAMBDA, b"newer", 99, ENQUEUE_TIMEOUT_US, paused=False),
        "shop/paused": LambdaRecord("shop/paused", b"p", 7, ENQUEUE_TIMEOUT_US, paused=True, gated=True),
    }
    there = World(target, clock)
    for partition in range(PARTITIONS):
        await there.passes(partition)
    assert (await live(target))["quiet"].status is Status.NEW
    await target.close()


async def test_as_many_gates_as_a_lambda_may_have_arrive_and_the_pause_of_it_beside_them(
    world: World, clock: Clock, tmp_path: Path
) -> None:
    await world.store.register_lambdas([LambdaRecord("shop/many", b"", 7, ENQUEUE_TIMEOUT_US, paused=False)])
    for number in range(library.MAX_GATES):
        await world.store.set_gate(NewGate("shop/many", GateAction.DROP, {"n": str(number)}))
    await world.store.pause_lambda("shop/many")
    file = tmp_path / "tasks.jsonl"
    await export_tasks(world.store, file)
    target = await another_store(clock)
    await import_tasks(target, file)
    assert len(await target.list_gates("shop/many")) == library.MAX_GATES + 1
    assert (await target.list_lambdas())["shop/many"].paused
    await target.close()


async def test_gates_arrive_with_their_ends_and_what_was_said_and_not_those_that_are_over(
    world: World, clock: Clock, tmp_path: Path
) -> None:
    names = ("shop/long", "shop/short")
    for name, seconds in zip(names, (100, 10), strict=True):
        await world.store.register_lambdas([LambdaRecord(name, b"", 7, ENQUEUE_TIMEOUT_US, paused=False)])
        await world.store.set_gate(NewGate(name, GateAction.PAUSE, {}, for_us=seconds * US, who="ada", why="rain"))
        labels = {"team": "web"}
        await world.store.set_gate(
            NewGate(name, GateAction.DELAY, labels, amount=2 * US, for_us=seconds * US, automatic=True)
        )
    until_us = clock.us + 100 * US
    file = tmp_path / "tasks.jsonl"
    await export_tasks(world.store, file)
    clock.advance(20)
    target = await another_store(clock)
    await import_tasks(target, file)
    assert {name: each.paused for name, each in (await target.list_lambdas()).items() if name in names} == {
        "shop/long": True,
        "shop/short": False,
    }
    assert await target.list_gates("shop/short") == []
    found = [(each.action, each.labels, each.amount, each.until_us) for each in await target.list_gates("shop/long")]
    assert found == [(GateAction.PAUSE, {}, 0, until_us), (GateAction.DELAY, {"team": "web"}, 2 * US, until_us)]
    assert [(each.who, each.why, each.automatic) for each in await target.list_gates("shop/long")] == [
        ("ada", "rain", False),
        ("", "", True),
    ]
    await target.close()


async def test_a_pause_that_is_over_by_the_time_of_the_export_does_not_arrive(
    world: World, clock: Clock, tmp_path: Path
) -> None:
    await world.store.register_lambdas([LambdaRecord("shop/short", b"", 7, ENQUEUE_TIMEOUT_US, paused=False)])
    await world.store.set_gate(NewGate("shop/short", GateAction.PAUSE, {}, for_us=10 * US))
    clock.advance(20)
    file = tmp_path / "tasks.jsonl"
    await export_tasks(world.store, file)
    target = await another_store(clock)
    await import_tasks(target, file)
    assert not (await target.list_lambdas())["shop/short"].paused
    await target.close()


async def test_ordered_tasks_keep_their_order(world: World, clock: Clock, tmp_path: Path) -> None:
    await populate(world)
    file = tmp_path / "tasks.jsonl"
    await export_tasks(world.store, file)
    target = await another_store(clock)
    await import_tasks(target, file, pause_claims=False)
    await know(target, "shop/orders")
    there = World(target, clock)
    partition = target.partition_for("key")
    order = []
    for _ in range(3):
        await there.passes(partition)
        (task_id,) = await there.pop("shop/orders:1", partition=partition)
        order.append(task_id.partition("-")[2])
        await there.finish(Outcome.SUCCEEDED, *held(await there.claim(task_id)))
    assert order == ["z-first", "m-second", "a-third"]
    await target.close()


STOPPING = LambdaRecord("shop/orders", b"", 7, ENQUEUE_TIMEOUT_US, paused=False, settings="stop=1")


async def test_an_ordering_key_that_has_stopped_stops_again(world: World, clock: Clock, tmp_path: Path) -> None:
    await world.store.register_lambdas([STOPPING])
    place: dict[str, Any] = {"lambda_name": "shop/orders", "ordering_key": "key"}
    (claim,) = await world.run("bad", partition=world.store.partition_for("key"), **place)
    await world.schedule("next", partition=world.store.partition_for("key"), **place)
    clock.advance(5)
    await world.finish(Outcome.FAILED_FATAL, claim, error="no")
    before = await world.store.get_key("shop/orders", "key")
    file = tmp_path / "tasks.jsonl"
    clock.advance(5)
    assert await export_tasks(world.store, file) == 1, "the one that failed is no live task"
    target = await another_store(clock)
    for _ in range(2):  # an import may be run again
        await import_tasks(target, file, pause_claims=False)
    there, partition = World(target, clock), target.partition_for("key")
    await there.schedule("later", partition=partition, **place)
    found = await target.get_key("shop/orders", "key")
    assert before is not None
    assert found == before._replace(task_id=f"{partition}-bad", unfinished=2)
    await there.passes(partition)
    assert await there.pop("shop/orders:1", partition=partition) == []
    await there.check()
    assert (await target.resume_key("shop/orders", "key")).mended is KeyAnswer.DONE
    await there.passes(partition)
    assert await there.pop("shop/orders:1", partition=partition) == [f"{partition}-bad"], "it runs again first"
    await import_tasks(target, file, pause_claims=False)
    assert (await target.get_key("shop/orders", "key")).stopped_at_us == 0  # type: ignore[union-attr]
    await target.close()


async def test_a_key_that_stopped_at_a_task_whose_record_is_gone_stops_again(
    world: World, clock: Clock, tmp_path: Path
) -> None:
    await world.store.register_lambdas([STOPPING])
    partition = world.store.partition_for("key")
    place: dict[str, Any] = {"lambda_name": "shop/orders", "ordering_key": "key", "partition": partition}
    (claim,) = await world.run("bad", **place, retention_us=US)
    await world.schedule("next", **place)
    await world.finish(Outcome.FAILED_FATAL, claim, error="no")
    clock.advance(1000)
    await world.store.sweep(partition, 1000)
    file = tmp_path / "tasks.jsonl"
    await export_tasks(world.store, file)
    target = await another_store(clock)
    await import_tasks(target, file, pause_claims=False)
    there, partition = World(target, clock), target.partition_for("key")
    await there.passes(partition)
    assert await there.pop("shop/orders:1", partition=partition) == []
    assert (await target.skip_key("shop/orders", "key")).task_id == f"{partition}-bad"
    await there.passes(partition)
    assert await there.pop("shop/orders:1", partition=partition) == [f"{partition}-next"]
    await target.close()


async def test_windows_of_unique_keys_stay_open(world: World, clock: Clock, tmp_path: Path) -> None:
    def once(store: Store, name: str, key: str, policy: int = 0) -> NewTask:
        unique = keys.unique(LAMBDA, key, 60 * US, policy)
        return world.task(name, partition=store.partition_for(key), unique=unique)

    old = world.store
    await old.schedule([once(old, "short", "short")])
    clock.advance(50)
    await old.schedule([once(old, f"first{n}", f"key{n}") for n in range(300)] + [once(old, "calm", "calm", 1)])
    await old.cancel_tasks([f"{old.partition_for('key0')}-first0"])
    clock.advance(20)  # the window of `short` has ended
    file = tmp_path / "tasks.jsonl"
    await export_tasks(old, file)
    target = await another_store(clock)
    for _ in range(2):
        await import_tasks(target, file, pause_claims=False)
    await World(target, clock).check()
    names = ("key0", "key1", "key299", "calm", "short")
    again = await target.schedule([once(target, f"again-{key}", key, int(key == "calm")) for key in names])
    stands = ["again-key0", "first1", "first299", "calm", "again-short"]
    assert [each.id for each in again] == [
        f"{target.partition_for(key)}-{name}" for key, name in zip(names, stands, strict=True)
    ]
    assert again[3].scheduled_at_us == clock.us + 60 * US, "it is put off"
    clock.advance(41)
    (over,) = await target.schedule([once(target, "new", "key1")])
    assert over.id.endswith("-new")
    await target.close()


async def test_keys_of_any_characters_arrive_as_they_were(world: World, clock: Clock, tmp_path: Path) -> None:
    odd = ("order:2024/17.3", "anna müller {1}", "日" * 255)
    for number, key in enumerate(odd):
        partition = world.store.partition_for(key)
        await world.schedule(f"o{number}", partition=partition, ordering_key=key)
        await world.schedule(f"c{number}", partition=partition, concurrency=keys.concurrency(LAMBDA, key, 2, 0))
        unique = keys.unique(LAMBDA, key, 60 * US, 0)
        await world.store.schedule([world.task(f"u{number}", partition=partition, unique=unique)])
    file = tmp_path / "tasks.jsonl"
    await export_tasks(world.store, file)
    target = await another_store(clock)
    await import_tasks(target, file, pause_claims=False)
    there = World(target, clock)
    await there.check()
    for number, key in enumerate(odd):
        partition = target.partition_for(key)
        assert (await there.get(f"{partition}-o{number}")).ordering_key == key
        assert keys.key_of((await there.get(f"{partition}-c{number}")).concurrency) == key
        unique = keys.unique(LAMBDA, key, 60 * US, 0)
        (again,) = await target.schedule([there.task(f"again{number}", partition=partition, unique=unique)])
        assert again.id == f"{partition}-u{number}"
    await target.close()


async def test_cores_of_pools_arrive_where_the_pool_has_none(world: World, clock: Clock, tmp_path: Path) -> None:
    settings = CoreSettings(4, {LAMBDA: 1}, lookahead=5, rotation_us=3 * US)
    for pool in ("gpu", ""):
        await world.store.set_capacity(pool, 0, CorePool.make(settings, clock.us).encode())
    file = tmp_path / "tasks.jsonl"
    await export_tasks(world.store, file)
    target = await another_store(clock)
    known = CorePool.make(CoreSettings(2), clock.us).encode()
    await target.set_capacity("gpu", 0, known)
    await import_tasks(target, file)
    assert await target.list_capacity() == ["", "gpu"]
    kept, brought = await target.get_capacity("gpu"), await target.get_capacity("")
    assert kept is not None
    assert brought is not None
    assert kept.state == known
    assert CorePool.decode(brought.state).settings == settings
    assert brought.to_deal == [], "its groups are dealt as soon as executors come"
    await target.close()


async def test_one_behind_another_does_not_start_early_where_that_one_stays_behind(
    world: World, clock: Clock, tmp_path: Path
) -> None:
    """The head of an ordering key is cancelled while the export is under way: the next one keeps its own instant."""
    await world.schedule("head", ordering_key="key", partition=world.store.partition_for("key"))
    await world.schedule("next", ordering_key="key", partition=world.store.partition_for("key"), delay_us=3600 * US)
    file = tmp_path / "tasks.jsonl"
    await export_tasks(world.store, file)
    kept = [line for line in file.read_bytes().splitlines(keepends=True) if b"-head" not in line]
    file.write_bytes(b"".join(kept))
    target = await another_store(clock)
    await import_tasks(target, file)
    assert (await live(target))["next"].next_at_us == clock.us + 3600 * US
    await target.close()


async def test_an_import_may_be_run_again(world: World, clock: Clock, tmp_path: Path) -> None:
    await populate(world)
    file = tmp_path / "tasks.jsonl"
    await export_tasks(world.store, file)
    target = await another_store(clock)
    await import_tasks(target, file)
    there = World(target, clock)
    partition = target.partition_for("failed")
    clock.advance(BACKOFF_US / US)
    await there.passes(partition)
    done = await import_tasks(target, file)
    assert (done.stored, done.present) == (0, 8)
    assert (await live(target))["failed"].status is Status.ENQUEUED  # what has moved on since is left alone
    await there.check()
    await target.close()


@pytest.mark.parametrize("cut", [0.15, 0.4, 0.75, 0.95, 0.999])
async def test_an_interrupted_export_goes_on(world: World, clock: Clock, tmp_path: Path, cut: float) -> None:
    await populate(world)
    file = tmp_path / "tasks.jsonl"
    await export_tasks(world.store, file)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * cut)])
    target = await another_store(clock)
    with pytest.raises(InvalidArgument, match=r"line|interrupted"):
        await import_tasks(target, file)
    await export_tasks(world.store, file)
    await import_tasks(target, file)
    assert set(await live(target)) == set(await live(world.store))
    await World(target, clock).check()
    await target.close()


async def test_a_complete_export_is_not_written_again(world: World, tmp_path: Path) -> None:
    await populate(world)
    file = tmp_path / "tasks.jsonl"
    await export_tasks(world.store, file)
    before = file.read_bytes()
    await world.schedule("new", partition=world.store.partition_for("new"))
    with pytest.raises(InvalidArgument, match="is a complete export already: give another name, or --overwrite"):
        await export_tasks(world.store, file)
    assert file.read_bytes() == before
    assert await export_tasks(world.store, file, overwrite=True) == 9
    assert file.read_bytes() != before
    assert not file.with_name("tasks.jsonl.unfinished").exists()


async def test_many_tasks_with_progress(world: World, clock: Clock, tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(600)]
    await world.store.schedule([world.task(name, partition=world.store.partition_for(name)) for name in names])
    file = tmp_path / "tasks.jsonl"
    told: list[int] = []
    assert await export_tasks(world.store, file, told.append) >= 600
    assert told == sorted(told)
    target = await another_store(clock, 5)
    told.clear()
    done = await import_tasks(target, file, told.append)
    assert done.stored == 600
    assert told[-1] >= 600
    assert (await target.counts(LAMBDA))[Status.NEW] == 600
    await target.close()


@pytest.mark.usefixtures("open_store")
async def test_a_file_of_somebody_elses_is_refused_and_left_alone(world: World, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("my notes\n")
    for call in (export_tasks, import_tasks):
        with pytest.raises(InvalidArgument, match=r"notes\.txt"):
            await call(world.store, file)
    assert file.read_text() == "my notes\n"


async def test_an_export_of_another_store_or_release_is_refused(world: World, clock: Clock, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    await export_tasks(world.store, file)
    other = await another_store(clock)
    with pytest.raises(InvalidArgument, match="another store"):
        await export_tasks(other, file)
    header = msgspec.json.decode(file.read_bytes().splitlines()[0])
    file.write_bytes(msgspec.json.encode(header | {"format": 99}) + b"\n")
    with pytest.raises(InvalidArgument, match="format 99"):
        await import_tasks(other, file)
    await other.close()


async def test_a_damaged_line_is_named(world: World, clock: Clock, tmp_path: Path) -> None:
    await populate(world)
    file = tmp_path / "tasks.jsonl"
    await export_tasks(world.store, file)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4][:20] + b"\n"
    file.write_bytes(b"".join(lines))
    target = await another_store(clock)
    with pytest.raises(InvalidArgument, match="line 5"):
        await import_tasks(target, file)
    await target.close()


async def test_jobs_arrive_where_they_stood(world: World, clock: Clock, tmp_path: Path) -> None:
    await world.jobs()
    await export_tasks(world.store, tmp_path / "export")
    other = await another_store(clock)
    done = await import_tasks(other, tmp_path / "export", pause_claims=False)
    assert done.jobs == 3, "one has ended, one was deleted"
    (ticks, paused, ended) = await other.get_jobs(["shop/ticks", "shop/paused", "shop/ends"])
    (before, _, _) = await world.store.get_jobs(["shop/ticks", "shop/paused", "shop/ends"])
    assert ticks is not None
    assert before is not None
    assert (ticks.spec, ticks.next_us, ticks.ticks, ticks.overlap) == (b"spec", before.next_us, 1, "queue")
    assert paused is not None
    assert paused.paused
    assert ended is None
    assert (ticks.base_us, ticks.rhythm) == (before.base_us, before.rhythm)
    assert (await import_tasks(other, tmp_path / "export", pause_claims=False)).jobs == 0, "an import may be run again"
    await other.close()


async def test_the_live_tasks_of_jobs_are_theirs_also_in_a_store_of_other_partitions(
    world: World, clock: Clock, tmp_path: Path
) -> None:
    await world.jobs()
    names = ["shop/held", "shop/paused", "shop/ticks"]
    (before,) = await world.store.get_jobs(["shop/ticks"])
    assert before is not None
    await world.passes(world.store.job_partition("shop/ticks"))
    await world.pop(partition=world.store.job_partition("shop/ticks"))
    await world.claim(before.running)
    await world.store.delete_jobs(["shop/ticks"])  # its tick runs on, for the last time
    await world.store.run_job_now("shop/paused", world.task("beside"))
    await export_tasks(world.store, tmp_path / "export")
    other = await another_store(clock, partitions=5)
    await import_tasks(other, tmp_path / "export", pause_claims=False)
    moved = {each: other.job_partition(each) for each in names}
    there = World(other, clock)
    await there.check()
    (held,) = await other.get_tasks([f"{moved['shop/held']}-of-held"])
    (ran,) = await other.get_tasks([f"{moved['shop/ticks']}-of-ticks"])
    assert held is not None
    assert ran is not None
    assert (held.held, ran.status) == (True, Status.CANCELLED)
    assert await other.delete_jobs(["shop/held", "shop/paused"]) == [True, True]
    assert (await other.counts(LAMBDA))[Status.CANCELLED] == 3
    await there.check()
    await other.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("name", ""), ("name", "a b/c"), ("overlap", "never"), ("next_us", -1), ("ticks", -1)],
        *[("base_us", -1), ("base_us", 1 << 54), ("rhythm", "x" * 201)],
    ],
)
async def test_a_job_that_none_can_be_is_refused(
    world: World, clock: Clock, tmp_path: Path, field: str, value: object
) -> None:
    file = tmp_path / "export"
    await export_tasks(world.store, file)
    header, *rest = file.read_bytes().splitlines(keepends=True)
    good = ExportedJob("a/b", b"", "queue", next_us=1, ticks=0, paused=False, base_us=0, rhythm="")
    other = await another_store(clock)
    file.write_bytes(b"".join([header, encode(good), *rest]))
    assert (await import_tasks(other, file, pause_claims=False)).jobs == 1
    file.write_bytes(b"".join([header, encode(msgspec.structs.replace(good, **{field: value})), *rest]))
    with pytest.raises(InvalidArgument, match=f"line 2: .*{'job' if field == 'name' else field}"):
        await import_tasks(other, file, pause_claims=False)
    await other.close()


async def test_items_of_batches_arrive_as_tasks_of_their_own(world: World, clock: Clock, tmp_path: Path) -> None:
    assert (await world.store.open_batch("crawl", b"d", b"", "shop/items", US)).found is BatchAnswer.NEW
    await world.items("crawl", 0, 1, ordering_key="crawl.site")
    assert await export_tasks(world.store, tmp_path / "file") == 2
    target = await another_store(clock)
    for _ in range(2):
        await import_tasks(target, tmp_path / "file")
    arrived = await live(target)
    assert set(arrived) == {f"crawl-{0:032x}", f"crawl-{0:032x}-1"}
    assert {each.limits for each in arrived.values()} == {library.limits(2, 3, DEFAULT_RETENTION_US)}
    assert await target.get_batch("crawl") is None
    assert sorted(each.next_at_us > 0 for each in arrived.values()) == [False, True], "one after the other, as before"
    await World(target, clock).check()
