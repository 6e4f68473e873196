"""Triggers of Dapr's scheduler service: who gets which, how often, and what becomes of those that nobody acknowledges."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atf.errors import InvalidArgument, Unavailable
from atf.frontend.dapr import watch
from atf.rpc import dapr_runtime_pb2 as r, dapr_scheduler_pb2 as d
from atf.task import Status
from tests.virtual import virtual

from .world import TIMING, Watcher, World, actor, app, world

RETRY_ONCE = r.JobFailurePolicy(constant=r.JobFailurePolicyConstant(max_retries=1))
RETRY_ONCE.constant.interval.FromSeconds(7)


@virtual(world())
async def test_a_trigger_says_what_its_job_says_and_an_acknowledged_one_is_done(w: World) -> None:
    job: dict[str, Any] = {"due_time": "3s", "data": {"type_url": "x", "value": b"\x00y"}}
    metadata = app()
    metadata.concurrency_key = "k"
    await w.schedule(of=metadata, **job)
    watcher = w.watch()
    began = w.runtime.monotonic()
    trigger = await watcher.next()
    assert w.runtime.monotonic() - began == pytest.approx(3, abs=0.01)
    assert trigger.id > 0
    assert (trigger.name, trigger.metadata, trigger.data) == ("backup", metadata, d.Job(**job).data)
    watcher.says(trigger)
    await asyncio.sleep(0.1)
    assert (await w.task()).status is Status.SUCCESS
    await asyncio.sleep(60)
    assert watcher.triggers == []


@virtual(world())
async def test_without_a_watcher_a_trigger_is_held_and_costs_neither_a_try_nor_a_repeat(w: World) -> None:
    await w.schedule(schedule="@every 10s", repeats=2)
    other = w.watch(app_id="shipping")
    await asyncio.sleep(300)
    task, job = await w.task(), await w.job()
    assert (task.status, task.attempts, task.losses, task.runs, job.ticks) == (Status.ENQUEUED, 0, 0, 0, 1)
    watcher = w.watch()
    for _ in range(2):
        watcher.says(await watcher.next())
    await asyncio.sleep(60)
    assert (await w.job()).next_us is None
    assert watcher.triggers == other.triggers == []


@virtual(world())
async def test_what_a_broken_stream_left_goes_to_another_watcher_at_once_and_counts_nothing(w: World) -> None:
    await w.schedule()
    first = w.watch()
    left = await first.next()
    second = w.watch()
    await asyncio.sleep(1)
    assert second.triggers == []
    await first.leave()
    before = w.runtime.monotonic()
    again = await second.next()
    assert w.runtime.monotonic() - before < 0.5
    assert (again.name, again.metadata) == (left.name, left.metadata)
    task = await w.task()
    assert (task.attempts, task.losses, task.runs) == (0, 0, 1)
    second.says(again)
    await asyncio.sleep(0.1)
    assert (await w.task()).status is Status.SUCCESS


@virtual(world())
async def test_a_watcher_that_has_said_all_it_has_to_say_is_gone(w: World) -> None:
    await w.schedule()
    first = w.watch()
    await first.next()
    first.sends(None)
    assert (await w.watch().next()).name == "backup"
    assert first.stream.done()


@virtual(world())
async def test_a_reminder_goes_to_a_watcher_that_announced_its_type_and_to_no_other(w: World) -> None:
    dog = w.watch(actor_types=["Dog"])
    jobs = w.watch(actor_types=["Cat"], accept_job_types=[d.JOB_TARGET_TYPE_JOB])
    elsewhere = w.watch(namespace="test", actor_types=["Cat"])
    await w.schedule("wake", actor("Cat", "7"))
    await w.schedule("backup")
    await asyncio.sleep(60)
    for each in dog.triggers + jobs.triggers:
        assert each.name == "backup"
    another_app = w.watch(app_id="zoo", actor_types=["Dog", "Cat"], accept_job_types=[d.JOB_TARGET_TYPE_ACTOR_REMINDER])
    trigger = await another_app.next()
    assert (trigger.name, trigger.metadata) == ("wake", actor("Cat", "7"))
    assert elsewhere.triggers == []


@virtual(world())
async def test_a_failed_trigger_is_tried_again_by_the_policy_and_then_the_next_tick_comes(w: World) -> None:
    await w.schedule(schedule="@every 60s", failure_policy=RETRY_ONCE)
    watcher = w.watch()
    times = []
    for _ in range(3):
        trigger = await watcher.next()
        times.append(round(w.runtime.monotonic()))
        watcher.says(trigger, d.FAILED)
    assert times == [60, 67, 120]
    job = await w.job()
    assert job.ticks == 2


@virtual(world())
async def test_by_default_three_retries_a_second_apart(w: World) -> None:
    await w.schedule()
    watcher = w.watch()
    times = []
    for _ in range(4):
        trigger = await watcher.next()
        times.append(round(w.runtime.monotonic()))
        watcher.says(trigger, d.FAILED)
    assert times == [0, 1, 2, 3]
    await asyncio.sleep(60)
    assert watcher.triggers == []
    assert (await w.task()).status is Status.FATAL_FAILURE


@virtual(world(partitions=3))
async def test_a_watcher_has_no_more_at_a_time_than_its_limits_say(w: World) -> None:
    for number in range(8):
        await w.schedule(f"job{number}")
        await w.schedule(f"wake{number}", actor("Cat"))
        await w.schedule(f"wake{number}", actor("Dog"))
    limits = [
        d.ConcurrencyLimit(max_concurrent=5),
        d.ConcurrencyLimit(max_concurrent=2, actor=d.ConcurrencyLimitActor(type="Cat")),
        d.ConcurrencyLimit(max_concurrent=1, name="of a key"),
        d.ConcurrencyLimit(max_concurrent=0),
    ]
    watcher = w.watch(actor_types=["Cat", "Dog"], concurrency_limits=limits)
    most = most_cats = 0
    for _ in range(24):
        await asyncio.sleep(0.1)
        cats = sum(each.metadata.target.actor.type == "Cat" for each in watcher.triggers)
        most, most_cats = max(most, len(watcher.triggers)), max(most_cats, cats)
        watcher.says(watcher.triggers.pop(0))
    await asyncio.sleep(0.1)
    assert (most, most_cats) == (5, 2)
    records = [await w.task(f"dapr-scheduler.prod/job:billing:job{number}") for number in range(8)]
    records += [await w.task(f"dapr-scheduler.prod/actor:Cat:7:wake{number}") for number in range(8)]
    assert {each.status for each in records} == {Status.SUCCESS}


@virtual(world())
async def test_triggers_of_one_app_are_dealt_among_its_watchers(w: World) -> None:
    watchers = [w.watch() for _ in range(3)]
    await asyncio.sleep(0.1)
    for number in range(9):
        await w.schedule(f"job{number}", due_time="1s")
    await asyncio.sleep(5)
    assert sorted(len(each.triggers) for each in watchers) == [3, 3, 3]


@virtual(world(2))
async def test_a_slow_watcher_keeps_its_trigger_for_much_longer_than_a_lease(w: World) -> None:
    await w.schedule()
    slow = w.watch()
    trigger = await slow.next()
    other = w.watch(1)
    await asyncio.sleep(4 * TIMING.heartbeat_timeout)
    assert other.triggers == slow.triggers == []
    slow.says(trigger)
    await asyncio.sleep(0.1)
    assert ((await w.task()).status, (await w.task()).losses) == (Status.SUCCESS, 0)


@virtual(world())
async def test_what_a_slow_stream_has_not_taken_yet_is_kept_for_it(w: World) -> None:
    for name in ("one", "two"):
        await w.schedule(name)
    said: asyncio.Queue[d.WatchJobsRequest] = asyncio.Queue()
    said.put_nowait(
        d.WatchJobsRequest(initial=d.WatchJobsRequestInitial(app_id="billing", namespace="prod")),
    )

    async def requests() -> Any:
        while True:
            yield await said.get()

    stream = w.scheduler.watch_jobs(requests())
    first = await anext(stream)
    await asyncio.sleep(3 * TIMING.heartbeat_timeout)
    assert (await anext(stream)).id == 3 - first.id
    await stream.aclose()


@virtual(world(2, partitions=3))
async def test_watchers_of_two_frontends_share_triggers_and_none_is_with_both(w: World) -> None:
    limit = [d.ConcurrencyLimit(max_concurrent=4)]
    watchers = [w.watch(0, concurrency_limits=limit), w.watch(1, concurrency_limits=limit)]
    await asyncio.sleep(0.1)
    for each in range(40):
        await w.schedule(f"job{each}")
    seen: list[str] = []
    shares = [0, 0]
    for _ in range(100):
        await asyncio.sleep(0.05)
        for number, watcher in enumerate(watchers):
            while watcher.triggers:
                trigger = watcher.triggers.pop(0)
                seen.append(trigger.name)
                shares[number] += 1
                watcher.says(trigger)
    await asyncio.sleep(30)
    assert (len(seen), len(set(seen))) == (40, 40)
    assert [each.triggers for each in watchers] == [[], []]
    assert min(shares) > 0


@virtual(world(2))
async def test_a_frontend_that_ends_waits_for_acknowledgements_and_hands_the_rest_back(w: World) -> None:
    await w.schedule("quick")
    await w.schedule("slow")
    idle = w.watch(app_id="shipping")
    watcher = w.watch()
    one, two = await watcher.next(), await watcher.next()
    quick, _slow = (one, two) if one.name == "quick" else (two, one)
    began = w.runtime.monotonic()
    w.scheduler.drain()
    late = w.watch()
    await asyncio.sleep(0.01)
    assert idle.stream.done()
    assert isinstance(late.stream.exception(), Unavailable)
    assert not watcher.stream.done()
    await w.schedule("new")
    await asyncio.sleep(1)
    assert watcher.triggers == []
    watcher.says(quick)
    await asyncio.wait([watcher.stream])
    assert w.runtime.monotonic() - began == pytest.approx(watch.LAST_S, abs=0.1)
    assert watcher.stream.exception() is None
    await w.scheduler.close()
    other = w.watch(1)
    assert {(await other.next()).name, (await other.next()).name} == {"slow", "new"}
    assert (await w.task("dapr-scheduler.prod/job:billing:quick")).status is Status.SUCCESS
    await asyncio.sleep(60)
    assert other.triggers == []


@virtual(world())
async def test_a_stream_whose_last_trigger_is_acknowledged_ends_with_its_frontend_at_once(w: World) -> None:
    await w.schedule()
    watcher = w.watch()
    trigger = await watcher.next()
    w.scheduler.drain()
    watcher.says(trigger)
    await asyncio.sleep(0.01)
    assert watcher.stream.done()


@virtual(world())
async def test_an_acknowledgement_of_what_a_watcher_does_not_have_changes_nothing(w: World) -> None:
    await w.schedule()
    watcher, other = w.watch(), w.watch(app_id="shipping")
    trigger = await watcher.next()
    watcher.says(4711)
    other.says(trigger)
    await asyncio.sleep(1)
    assert (await w.task()).status is Status.CLAIMED
    assert not watcher.stream.done()
    assert not other.stream.done()


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (d.WatchJobsRequest(), "initial"),
        (d.WatchJobsRequest(result=d.WatchJobsRequestResult(id=1)), "initial"),
        (d.WatchJobsRequest(initial=d.WatchJobsRequestInitial(namespace="prod")), "app_id"),
        (d.WatchJobsRequest(initial=d.WatchJobsRequestInitial(app_id="billing")), "namespace"),
        (
            d.WatchJobsRequest(
                initial=d.WatchJobsRequestInitial(
                    app_id="billing", namespace="prod", concurrency_limits=[d.ConcurrencyLimit(max_concurrent=-1)]
                )
            ),
            "max_concurrent -1",
        ),
    ],
)
def test_a_stream_that_begins_with_something_else_is_refused(first: d.WatchJobsRequest, says: str) -> None:
    @virtual(world())
    async def story(w: World) -> None:
        watcher = Watcher(w.scheduler, w.runtime, first)
        await asyncio.sleep(0.1)
        with pytest.raises(InvalidArgument, match=says):
            watcher.stream.result()

    story()


@virtual(world())
async def test_a_second_first_message_ends_the_stream(w: World) -> None:
    await w.schedule()
    watcher = w.watch()
    await watcher.next()
    watcher.sends(d.WatchJobsRequest())
    await asyncio.sleep(0.01)
    assert isinstance(watcher.stream.exception(), InvalidArgument)
    assert (await w.watch().next()).name == "backup"


@virtual(world())
async def test_a_task_that_is_no_trigger_fails_for_good_and_the_others_come(w: World) -> None:
    from atf.rpc import frontend_pb2 as f, task_pb2 as t

    await w.schedule()
    spec = t.TaskSpec(**{"lambda": "dapr-scheduler.prod/job.billing", "payload": b"\xff"})  # type: ignore[arg-type]
    made = await w.frontends[0].schedule(f.ScheduleRequest(spec=spec))
    watcher = w.watch()
    assert (await watcher.next()).name == "backup"
    await asyncio.sleep(1)
    (task,) = await w.stores[0].get_tasks([made.id])
    assert task is not None
    assert (task.status, "no trigger" in task.error) == (Status.FATAL_FAILURE, True)


@virtual(world())
async def test_a_deleted_job_has_its_waiting_trigger_taken_back_and_a_given_one_may_end(w: World) -> None:
    await w.schedule()
    await w.schedule("given", app("shipping"))
    watcher = w.watch(app_id="shipping")
    trigger = await watcher.next()
    waiting = await w.task()
    await w.scheduler.delete_job(d.DeleteJobRequest(name="backup", metadata=app()))
    given = await w.task("dapr-scheduler.prod/job:shipping:given")
    await w.scheduler.delete_job(d.DeleteJobRequest(name="given", metadata=app("shipping")))
    late = w.watch()
    await asyncio.sleep(60)
    assert late.triggers == []
    watcher.says(trigger)
    await asyncio.sleep(0.1)
    first, second = await w.stores[0].get_tasks([waiting.id, given.id])
    assert first is not None
    assert second is not None
    assert (first.status, second.status) == (Status.CANCELLED, Status.SUCCESS)


@virtual(world())
async def test_an_overwritten_job_has_its_waiting_trigger_taken_back(w: World) -> None:
    await w.schedule(due_time="0s", data={"value": b"old"})
    await asyncio.sleep(1)
    await w.schedule(due_time="10s", data={"value": b"new"}, overwrite=True)
    watcher = w.watch()
    assert (await watcher.next()).data.value == b"new"
    assert w.runtime.monotonic() > 10
    await asyncio.sleep(60)
    assert watcher.triggers == []


@virtual(world(partitions=3))
async def test_what_a_beginning_of_names_deletes_is_not_tried_again_even_after_a_last_tick(w: World) -> None:
    forever = r.JobFailurePolicy(constant=r.JobFailurePolicyConstant())
    forever.constant.interval.FromSeconds(10)
    for name in ("a1", "a2", "b"):
        await w.schedule(name, actor(), due_time="0s", failure_policy=forever)
    await w.schedule("a1", actor("Cat", "8"), due_time="0s", failure_policy=forever)
    watcher = w.watch(actor_types=["Cat"])
    for _ in range(4):
        watcher.says(await watcher.next(), d.FAILED)
    await asyncio.sleep(1)
    await w.scheduler.delete_by_name_prefix(d.DeleteByNamePrefixRequest(name_prefix="a", metadata=actor()))
    await asyncio.sleep(30)
    names = {(each.metadata.target.actor.id, each.name) for each in watcher.triggers}
    assert names == {("7", "b"), ("8", "a1")}


@virtual(world(partitions=1))
async def test_triggers_that_one_answer_cannot_hold_come_with_the_next(w: World) -> None:
    for number in range(6):
        await w.schedule(f"job{number}", data={"value": b"x" * 1_000_000}, due_time="0s")
    await asyncio.sleep(15)
    answers, take = list[int](), w.stores[0].next_claims

    async def counted(*args: Any, **more: Any) -> Any:
        taken = await take(*args, **more)
        answers.append(taken.taken())
        return taken

    w.stores[0].next_claims = counted  # type: ignore[method-assign]
    watcher = w.watch()
    await asyncio.sleep(1)
    assert len({each.name for each in watcher.triggers}) == len(watcher.triggers) == 6
    assert (max(answers), sum(answers)) == (1, 6)


@virtual(world())
async def test_hosts_are_told_once_and_the_stream_stays_open_until_the_frontend_ends(w: World) -> None:
    stream = w.scheduler.watch_hosts(d.WatchHostsRequest())
    assert [each.address for each in (await anext(stream)).hosts] == ["here:7401"]
    more = asyncio.ensure_future(anext(stream, None))
    await asyncio.sleep(60)
    assert not more.done()
    w.scheduler.drain()
    assert await more is None


@virtual(world(consumer=False))
async def test_a_frontend_without_watchers_asks_nothing_of_the_store(w: World) -> None:
    calls = 0
    call = w.stores[0].link.call

    async def counted(verb: str, *args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += verb != "heartbeat"  # a look each second whether the server is still the same
        return await call(verb, *args, **more)

    w.stores[0].link.call = counted  # type: ignore[method-assign]
    await asyncio.sleep(60)
    assert calls == 0
    watcher = w.watch()
    await asyncio.sleep(60)
    assert 20 <= calls <= 30, "two partitions, a look each five seconds"
    await watcher.leave()
    calls = 0
    await asyncio.sleep(60)
    assert calls == 0
