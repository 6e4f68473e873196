"""Every RPC with every accident: its answer lost, delivered twice, delivered late. Nothing is lost, nothing runs twice at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import pytest

from atf.client import Handle
from atf.errors import FailedPrecondition, NotFound, UnknownLambda
from atf.rpc import batch_pb2 as b, controller_pb2 as c, frontend_pb2 as f, hsc_pb2 as h, job_pb2 as j
from atf.rpc.stub import snake_case
from atf.task import US, Status

from .batches import batch_ended, items_of, make_batch, messages_of
from .line import LATE_S, Fault
from .world import World, app, charge, hopeless, of, play, step


def _methods(messages: Any, service: str) -> list[str]:
    return [snake_case(each.name) for each in messages.DESCRIPTOR.services_by_name[service].methods]


WITH_TOKENS: Final = {"enter", "issue_credential"}
"""Made where there are tokens, which this world has not: see controller/test_entrance.py and executor/test_credential.py."""
INNER: Final = [each for each in (*_methods(c, "Controller"), *_methods(h, "HSC")) if each not in WITH_TOKENS]
LATE: Final = {Fault.COPIED_LATE, Fault.DELAYED_LATE}


@pytest.mark.sweep(6)
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("method", INNER)
def test_a_call_between_roles_may_go_astray(method: str, fault: Fault) -> None:
    """Two executors die under load besides, so that there are claims to hand back and losses to report."""

    async def story(world: World) -> None:
        handles = await world.schedule(6) + await world.schedule(2, 0.3, fails=1)
        handles += await world.schedule(2, 0.3, ordering_key="k") + await world.schedule(1, 4.0, delay=1)
        charges = await world.client.schedule_many([charge.prepare("42", fails=1) for _ in range(3)])
        await asyncio.sleep(0.5)
        world.hosts[0].crash()
        await asyncio.sleep(1.2)
        world.hosts[1].crash()
        await world.succeed([*handles, *charges])
        assert world.line.hits[method] > 0, "the story never calls it"
        # The one that was the first stays so in its second attempt, and no other becomes it.
        assert sorted([(await world.record(each)).result for each in charges]) == [b"false", b"false", b"true"]
        if fault in LATE:
            await asyncio.sleep(LATE_S + 1)
            before = [len(of(handle)) for handle in handles]
            await world.succeed(handles)
            assert [len(of(handle)) for handle in handles] == before

    def prepare(world: World) -> None:
        world.line.plan[method] = fault
        if method == "hand_back":
            world.line.plan["next_work"] = Fault.LOST_ANSWER  # whose claims are handed back

    play(story, prepare=prepare)


# --- what clients call ------------------------------------------------------------------------------------------------


async def schedule(world: World) -> None:
    request = step.prepare(0.1).request
    request.id = "mine"
    reply = await world.sure(lambda: world.frontend.schedule(request))
    assert reply.id.endswith("-mine")
    await _runs_once(world, reply.id)


async def schedule_many(world: World) -> None:
    for handle in await world.schedule(3, 0.1):
        await _runs_once(world, handle.id)
    assert len(await world.client.list("f/step")) == 3


async def get_task(world: World) -> None:
    (handle,) = await world.schedule(1, 0.1, delay=5)
    assert (await world.client.get(handle.id)).status is Status.NEW


async def list_tasks(world: World) -> None:
    handles = await world.schedule(3, 0.1, delay=5)
    assert {each.id for each in await world.client.list("f/step")} == {each.id for each in handles}


async def count_tasks(world: World) -> None:
    await world.schedule(3, 0.1, delay=5)
    assert (await world.client.count("f/*"))["f/step"][Status.NEW] == 3


async def wait_tasks(world: World) -> None:
    await world.succeed(await world.schedule(3, 0.1), within=10)


async def cancel_tasks(world: World) -> None:
    (handle,) = await world.schedule(1, 0.1, delay=2)
    assert await world.client.cancel(handle.id)
    await asyncio.sleep(3)
    assert (await world.record(handle)).status is Status.CANCELLED
    assert of(handle) == []


async def cancel_matching(world: World) -> None:
    handles = await world.schedule(3, 0.1, delay=5)
    await world.client.cancel_matching("f/step", dry_run=False)  # 3, or 0 where the lost call had done it already
    assert {(await world.record(each)).status for each in handles} == {Status.CANCELLED}


async def retry_tasks(world: World) -> None:
    handle = await world.client.schedule(hopeless.prepare())
    await world.until(lambda: len(of(handle)) == 1)
    await world.finished([handle])
    await world.client.retry(handle.id)  # True, or False where the lost call had done it already
    await world.succeed([handle])
    assert len(of(handle)) == 2


async def register_lambdas(world: World) -> None:
    request = f.RegisterLambdasRequest(lambdas=[each.spec() for each in app.lambdas.values()])
    await world.sure(lambda: world.frontend.register_lambdas(request))
    assert {each.name for each in await world.client.lambdas()} == set(app.lambdas)


async def list_lambdas(world: World) -> None:
    await world.schedule(3, delay=60)
    (found,) = [each for each in await world.client.lambdas() if each.name == "f/step"]
    assert found.counts[Status.NEW] == 3


async def pause_lambda(world: World) -> None:
    await world.client.pause("f/step")
    handles = await world.schedule(2, 0.1)
    await asyncio.sleep(3)
    assert not any(of(handle) for handle in handles)
    await world.client.resume("f/step")
    await world.succeed(handles)


async def resume_lambda(world: World) -> None:
    await world.client.pause("f/step")
    handles = await world.schedule(2, 0.1)
    await world.client.resume("f/step")
    await world.succeed(handles, within=10)


async def set_lambda(world: World) -> None:
    assert (await world.client.set_lambda("f/step", {"queue_limit": 7})).overrides == {"queue_limit": "7"}
    assert (await world.client.set_lambda("f/step", unset=["all"])).overrides == {}
    await world.succeed(await world.schedule(2, 0.1))


async def set_gate(world: World) -> None:
    await world.client.gate("f/step", "pause", labels={"team": "web"}, why="a test", who="ada")
    handles = [await world.client.schedule(step.options(labels={"team": "web"}).prepare(0.1)) for _ in range(2)]
    await asyncio.sleep(3)
    assert not any(of(handle) for handle in handles)
    (gate,) = await world.client.gates("f/step")
    assert (gate.waiting, gate.who) == (2, "ada")
    assert len(await world.client.audit("f/step", what="set_gate")) == 1, "the same call again is the same gate"
    await world.client.lift_gate("f/step", labels={"team": "web"})
    await world.succeed(handles)


async def lift_gate(world: World) -> None:
    await world.client.gate("f/step", "pause", labels={"team": "web"})
    handle = await world.client.schedule(step.options(labels={"team": "web"}).prepare(0.1))
    await world.client.lift_gate("f/step", labels={"team": "web"})  # 1, or 0 where the lost call had done it already
    await world.succeed([handle], within=10)


async def list_gates(world: World) -> None:
    await world.client.gate("f/step", "admit", share=0.5)
    assert [each.share for each in await world.client.gates()] == [0.5]


async def redrive(world: World) -> None:
    handle = await world.client.schedule(hopeless.prepare())
    await world.until(lambda: len(of(handle)) == 1)
    await world.finished([handle])
    assert (await world.client.redrive("f/hopeless", dry_run=True)).matched == 1
    await world.client.redrive("f/hopeless", dry_run=False)  # 1, or 0 where the lost call had done it already
    await world.succeed([handle])
    assert len(of(handle)) == 2


async def list_audit(world: World) -> None:
    await world.client.pause("f/step", why="a test")
    assert [each.why for each in await world.client.audit(what="pause_lambda")] == ["a test"]


async def list_failures(world: World) -> None:
    assert await world.client.failures("f/step") == []


async def explain_task(world: World) -> None:
    (handle,) = await world.schedule(1, delay=60)
    assert (await world.client.explain(handle.id)).task.status is Status.NEW


async def get_log(world: World) -> None:
    (handle,) = await world.schedule(1, delay=60)
    reply = await world.sure(lambda: world.frontend.get_log(f.GetLogRequest(id=handle.id)))
    assert reply.why_none == "it has not run yet, or its runs said nothing"


async def watch_log(world: World) -> None:
    (handle,) = await world.schedule(1)
    seen = [each.status async for each in world.client.watch_log(handle.id)]
    assert Status(seen[-1]).finished
    assert not any(Status(each).finished for each in seen[:-1])


async def _stopped(world: World) -> list[Handle[Any]]:
    """A key that has stopped at the first of two tasks."""
    line = hopeless.options(ordering_key="k"), hopeless.options(ordering_key="k", delay=10)
    made = [await world.client.schedule(each.prepare()) for each in line]
    await world.finished(made[:1])
    return made


async def list_keys(world: World) -> None:
    first, _ = await _stopped(world)
    assert [(each.key, each.task_id) for each in await world.client.stopped_keys("f/hopeless")] == [("k", first.id)]


async def list_concurrency_keys(world: World) -> None:
    one = step.options(concurrency_key="k")
    made = [await world.client.schedule(one.prepare(1.0)) for _ in range(3)]
    await asyncio.sleep(0.5)
    request = f.ListConcurrencyKeysRequest()
    setattr(request, "lambda", "f/step")
    found: list[f.ConcurrencyKeyInfo] = []
    while not found or request.page_token:
        reply = await world.sure(lambda: world.frontend.list_concurrency_keys(request))
        found += reply.keys
        request.page_token = reply.next_page_token
    assert found == [f.ConcurrencyKeyInfo(key="k", taken=1, limit=1, waiting=2)]
    await world.succeed(made)


async def resume_key(world: World) -> None:
    first, second = await _stopped(world)
    await world.client.resume_key("f/hopeless", "k", first.id)
    await world.succeed([first])
    await world.finished([second])
    assert (len(of(first)), len(of(second))) == (2, 1)


async def skip_key(world: World) -> None:
    first, second = await _stopped(world)
    await world.client.skip_key("f/hopeless", "k", first.id)
    await world.finished([second])
    assert (len(of(first)), len(of(second))) == (1, 1)


async def set_capacity(world: World) -> None:
    found = await world.client.set_capacity(cores=3, reserve={"f/step": 1})
    assert [each.lambda_name for each in found.cores] == ["f/step", "", ""]
    assert await world.client.pools_with_cores() == ["default"]


async def get_capacity(world: World) -> None:
    await world.client.set_capacity(cores=3)
    assert len((await world.client.capacity()).cores) == 3


async def list_capacity(world: World) -> None:
    await world.client.set_capacity(cores=3)
    await world.client.set_capacity(cores=0)
    assert await world.client.pools_with_cores() == []


async def list_hosts(world: World) -> None:
    while not (found := await world.client.hosts()):  # until one has said that it is there
        await asyncio.sleep(1)
    assert {(each.name, each.pool) for each in found} <= {("host-0", "default"), ("host-1", "default")}


async def drain_host(world: World) -> None:
    while not (found := await world.client.hosts()):
        await asyncio.sleep(1)
    host = found[0].name
    for resume in (False, True):
        request = f.DrainHostRequest(host=host, resume=resume, who="ada")
        with suppress(NotFound):  # it was done, and its answer lost
            await world.sure(partial(world.frontend.drain_host, request))
    for handle in await world.schedule(2, 0.1):
        await _runs_once(world, handle.id)


async def delete_lambda(world: World) -> None:
    spec = f.LambdaSpec(name="f/gone")
    await world.sure(lambda: world.frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=[spec])))
    request = f.DeleteLambdaRequest(who="ada")
    setattr(request, "lambda", "f/gone")
    with suppress(UnknownLambda):  # it was done, and its answer lost
        while True:
            try:
                await world.sure(lambda: world.frontend.delete_lambda(request))
                break
            except FailedPrecondition:  # workers that have just come have not said yet what they run
                await asyncio.sleep(1)
    assert "f/gone" not in {each.name for each in await world.client.lambdas()}


async def get_status(world: World) -> None:
    while not (await world.sure(lambda: world.frontend.get_status(f.GetStatusRequest()))).hosts:
        await asyncio.sleep(1)


async def schedule_batch(world: World) -> None:
    assert (await make_batch(world, messages_of(6))).items == 6
    assert (await batch_ended(world, b.BATCH_DONE)).done == 6
    for item in await items_of(world):
        await _runs_once(world, item.task_id)


async def get_batch(world: World) -> None:
    await make_batch(world, messages_of())
    assert (await batch_ended(world, b.BATCH_DONE)).items == 3


async def list_batches(world: World) -> None:
    await make_batch(world, messages_of())
    reply = await world.sure(lambda: world.frontend.list_batches(b.ListBatchesRequest()))
    assert [(each.id, each.items) for each in reply.batches] == [("b", 3)]


async def list_batch_items(world: World) -> None:
    await make_batch(world, messages_of())
    assert [each.number for each in await items_of(world)] == [0, 1, 2]


async def watch_batch(world: World) -> None:
    await make_batch(world, messages_of())

    async def seen() -> list[int]:
        request = b.WatchBatchRequest(id="b", at_most_every_us=US)
        return [each.status async for each in world.frontend.watch_batch(request)]

    statuses = await world.sure(seen)
    assert statuses[-1] == b.BATCH_DONE
    assert b.BATCH_DONE not in statuses[:-1]


async def cancel_batch(world: World) -> None:
    await world.client.pause("f/step")
    await make_batch(world, messages_of())
    await world.sure(lambda: world.frontend.cancel_batch(b.CancelBatchRequest(id="b")))
    assert (await batch_ended(world, b.BATCH_CANCELLED)).cancelled == 3
    await world.client.resume("f/step")
    assert [of(each.task_id) for each in await items_of(world)] == [[], [], []]


async def retry_batch(world: World) -> None:
    messages = messages_of(2, "f/hopeless")
    for place, item in enumerate(messages[1].items.items):
        item.payload, item.arguments[:] = hopeless.prepare().request.spec.payload, [str(place)]
    await make_batch(world, messages)
    assert (await batch_ended(world, b.BATCH_DONE_WITH_FAILURES)).permanently_failed == 2
    await world.sure(lambda: world.frontend.retry_batch(b.RetryBatchRequest(id="b")))
    assert (await batch_ended(world, b.BATCH_DONE)).round == 2
    assert [len(of(each.task_id)) for each in await items_of(world)] == [2, 2]


async def delete_batch(world: World) -> None:
    await make_batch(world, messages_of())
    await batch_ended(world, b.BATCH_DONE)
    await world.sure(lambda: world.frontend.delete_batch(b.DeleteBatchRequest(id="b")))
    await asyncio.sleep(5)
    with pytest.raises(NotFound):
        await world.sure(lambda: world.frontend.get_batch(b.GetBatchRequest(id="b")))
    assert await world.client.list("f/step") == []


async def _job(world: World, schedule: str = "@every 1h") -> None:
    await world.client.schedule_job("f/job", step.prepare(0.1), schedule)


async def schedule_job(world: World) -> None:
    request = f.ScheduleJobRequest(
        job=j.JobSpec(name="f/job", schedule="@every 1h", task=step.prepare(0.1).request.spec), request_id="r"
    )
    assert (await world.sure(lambda: world.frontend.schedule_job(request))).generation == 1


async def schedule_jobs(world: World) -> None:
    await _job(world)
    assert (await world.client.get_job("f/job")).generation == 1


async def get_job(world: World) -> None:
    await _job(world)
    assert (await world.client.get_job("f/job")).ticks == 0


async def list_jobs(world: World) -> None:
    await _job(world)
    assert [each.name for each in await world.client.list_jobs("f/")] == ["f/job"]


async def delete_job(world: World) -> None:
    await _job(world)
    await world.client.delete_job("f/job")  # True, or False where the lost call had done it already
    assert await world.client.list_jobs() == []


async def delete_jobs_by_prefix(world: World) -> None:
    await _job(world)
    await world.client.delete_jobs("f/")
    assert await world.client.list_jobs() == []


async def pause_job(world: World) -> None:
    await _job(world, "@every 1s")
    assert (await world.client.pause_job("f/job")).paused
    ticks = (await world.client.get_job("f/job")).ticks
    await asyncio.sleep(5)
    assert (await world.client.get_job("f/job")).ticks == ticks


async def resume_job(world: World) -> None:
    await _job(world, "@every 1s")
    await world.client.pause_job("f/job")
    assert not (await world.client.resume_job("f/job")).paused
    await asyncio.sleep(5)
    assert (await world.client.get_job("f/job")).ticks > 0
    await world.client.delete_job("f/job")


async def run_job_now(world: World) -> None:
    await _job(world)
    await _runs_once(world, (await world.client.run_job_now("f/job")).id)


async def preview_schedule(world: World) -> None:
    assert len(await world.client.preview_schedule("@every 1h", count=3)) == 3


async def find_dapr_app(world: World) -> None:
    with pytest.raises(NotFound, match="--dapr-app orders=HOST:PORT"):
        await world.sure(lambda: world.frontend.find_dapr_app(f.FindDaprAppRequest(app_id="orders")))


_TOKEN: Final = "abcdefghij"


async def create_token(world: World) -> None:
    made = f.CreateTokenRequest(id=_TOKEN, digest="a" * 64, verbs=["read"], scopes=["f"])
    assert (await world.sure(lambda: world.frontend.create_token(made))).id == _TOKEN


async def list_tokens(world: World) -> None:
    await create_token(world)
    found = await world.sure(lambda: world.frontend.list_tokens(f.ListTokensRequest()))
    assert [each.id for each in found.tokens] == [_TOKEN]


async def rotate_token(world: World) -> None:
    await create_token(world)
    asked = f.RotateTokenRequest(id=_TOKEN, digest="b" * 64, overlap_us=3_600_000_000)
    assert (await world.sure(lambda: world.frontend.rotate_token(asked))).before_until_us
    text = ((await world.store.list_tokens()) or (0, {}))[1][_TOKEN]
    assert (b"a" * 64 in text, b"b" * 64 in text) == (True, True), (
        "the secret before is good for a while, also where it was asked twice"
    )


async def revoke_token(world: World) -> None:
    await create_token(world)
    assert (await world.sure(lambda: world.frontend.revoke_token(f.RevokeTokenRequest(id=_TOKEN)))).revoked_us


async def rotate_signing_key(world: World) -> None:
    made = await world.sure(lambda: world.frontend.rotate_signing_key(f.RotateSigningKeyRequest()))
    again = await world.frontend.rotate_signing_key(f.RotateSigningKeyRequest())
    assert again.made_at_us == made.made_at_us > 0, "a repeat makes no other key"


async def get_caller(world: World) -> None:
    assert (await world.sure(lambda: world.frontend.get_caller(f.GetCallerRequest()))).everything


async def _runs_once(world: World, task_id: str) -> None:
    await world.client.wait([task_id], timeout=20)
    await asyncio.sleep(2)
    assert [run.ok for run in of(task_id)] == [True]


CALLS: Final[dict[str, Callable[[World], Awaitable[None]]]] = {
    each.__name__: each
    for each in (
        *(schedule, schedule_many, get_task, list_tasks, count_tasks, wait_tasks, get_log, watch_log),
        *(cancel_tasks, cancel_matching, retry_tasks),
        *(register_lambdas, list_lambdas, pause_lambda, resume_lambda, set_lambda),
        *(set_gate, lift_gate, list_gates, list_audit, list_failures, redrive, explain_task),
        *(list_keys, resume_key, skip_key, list_concurrency_keys),
        *(set_capacity, get_capacity, list_capacity, list_hosts, drain_host, delete_lambda, get_status),
        *(schedule_batch, get_batch, list_batches, list_batch_items, watch_batch),
        *(cancel_batch, retry_batch, delete_batch),
        *(schedule_job, schedule_jobs, get_job, list_jobs, delete_job, delete_jobs_by_prefix),
        *(pause_job, resume_job, run_job_now, preview_schedule),
        *(create_token, list_tokens, rotate_token, revoke_token, rotate_signing_key, get_caller, find_dapr_app),
    )
}


def test_every_method_of_the_frontend_has_its_story() -> None:
    assert list(CALLS) == _methods(f, "Frontend")


@pytest.mark.sweep(6)
@pytest.mark.parametrize("fault", [each for each in Fault if each not in LATE])
@pytest.mark.parametrize("method", CALLS)
def test_a_client_s_call_may_go_astray(method: str, fault: Fault) -> None:
    """The client repeats what failed, and the task is stored once, cancelled once, retried once."""

    async def story(world: World) -> None:
        world.line.calls.clear()
        world.line.plan[method] = fault
        await CALLS[method](world)
        assert world.line.hits[method] > 0
        await world.check()

    play(story, hosts=1)


@pytest.mark.parametrize("method", ["schedule", "schedule_many"])
def test_a_schedule_that_arrives_when_its_task_is_done_makes_no_other(method: str) -> None:
    async def story(world: World) -> None:
        world.line.plan[method] = Fault.DELAYED_LATE
        await CALLS[method](world)
        await asyncio.sleep(LATE_S)
        assert all(len(of(each.id)) == 1 for each in await world.client.list("f/step"))

    play(story, hosts=1)


def test_a_copy_of_a_cancel_that_arrives_after_a_retry_cancels_once_more() -> None:
    """It can't be told from a new one. The task is at rest, not lost, and can be retried again."""

    async def story(world: World) -> None:
        (handle,) = await world.schedule(1, 0.1, delay=60)
        world.line.plan["cancel_tasks"] = Fault.COPIED_LATE
        assert await world.client.cancel(handle.id)
        await world.client.pause("f/step")
        assert await world.client.retry(handle.id)
        await asyncio.sleep(LATE_S + 1)
        assert (await world.record(handle)).status is Status.CANCELLED
        await world.client.resume("f/step")
        assert await world.client.retry(handle.id)
        await world.succeed([handle])

    play(story, hosts=1)
