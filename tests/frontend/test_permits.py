"""What a frontend does for callers whose grants are of one namespace: every item by its own lambda."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

import pytest

from atf.auth.caller import MOST_WAIT_S, Caller, CallerKind, acting_for
from atf.auth.grants import TokenGrant, Verb, scopes_of
from atf.errors import (
    AlreadyExists,
    AtfError,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    TaskNotFound,
    Unavailable,
)
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.store.values.claims import Outcome
from atf.store.values.tasks import TaskRecord
from atf.task import Status
from tests.claiming import claim_ids, pop_ids

from .conftest import Bench, request

OWN, OTHER, BUILT_IN = "photos/thumbnail", "mail/send", "atf/command"


def token(*verbs: Verb, scopes: Iterable[str] = ("photos",)) -> Caller:
    return Caller(CallerKind.TOKEN, "token x", TokenGrant(frozenset(verbs), frozenset(scopes)), seal="s")


ALL = (Verb.SCHEDULE, Verb.READ, Verb.READ_PAYLOAD, Verb.OPERATE, Verb.WORK)
PHOTOS = token(*ALL)
"""Whoever may do everything to photos."""


@pytest.fixture
async def two(bench: Bench) -> Bench:
    """A store with lambdas of two namespaces, and a built-in one."""
    await bench.register(OTHER)
    await bench.register(BUILT_IN)
    await bench.register("photo/thumbnail")  # at which no other namespace may be hinted
    return bench


def of(name: str) -> dict[str, Any]:
    return {"lambda": name}


def job(name: str, lambda_name: str, **fields: Any) -> f.ScheduleJobRequest:
    return f.ScheduleJobRequest(
        job=j.JobSpec(name=name, schedule="@every 1h", task=t.TaskSpec(**of(lambda_name))), **fields
    )


async def batch(
    bench: Bench, batch_id: str, lambda_name: str = OWN, *then: str, spec: bool = True
) -> b.ScheduleBatchReply:
    steps: list[b.Callback] = []
    for name in reversed(then):
        steps = [b.Callback(when=b.Callback.COMPLETION, task=t.TaskSpec(**of(name)), then=steps)]
    described = b.BatchSpec(callbacks=steps, **of(lambda_name))

    async def messages() -> AsyncIterator[b.ScheduleBatchRequest]:
        yield b.ScheduleBatchRequest(
            header=b.BatchHeader(id=batch_id, spec=described if spec else None, extend=not spec)
        )
        yield b.ScheduleBatchRequest(items=b.BatchItems(items=[b.BatchItem(payload=b"{}")]))
        yield b.ScheduleBatchRequest(end=b.BatchEnd(items=1))

    return await bench.frontend.schedule_batch(messages())


# --- named ------------------------------------------------------------------------------------------------------------


async def test_a_task_is_scheduled_where_its_own_lambda_is_permitted(two: Bench) -> None:
    with acting_for(PHOTOS):
        await two.schedule()
        with pytest.raises(PermissionDenied, match="token x: no schedule for mail/send"):
            await two.schedule(name=OTHER)
        with pytest.raises(PermissionDenied, match="no schedule for nobodys/lambda"):  # whether it exists or not
            await two.schedule(name="nobodys/lambda")
        asked = f.ScheduleManyRequest(requests=[request(name=each) for each in (OWN, OTHER, BUILT_IN)])
        results = (await two.frontend.schedule_many(asked)).results
        assert [each.error.code for each in results] == ["", "PERMISSION_DENIED", "PERMISSION_DENIED"]
    with acting_for(token(Verb.ADMIN, scopes=["*"])):
        await two.schedule(name=OTHER)
        with pytest.raises(PermissionDenied, match="no schedule for atf/command"):
            await two.schedule(name=BUILT_IN)
    with acting_for(token(Verb.SCHEDULE, scopes=[BUILT_IN])):
        await two.schedule(name=BUILT_IN)


async def test_every_step_behind_a_batch_is_permitted_by_its_own_lambda(two: Bench) -> None:
    with acting_for(PHOTOS):
        await batch(two, "b1", OWN, OWN, OWN)
        for number, steps in enumerate([(OTHER,), (OWN, OTHER), (OWN, OTHER, OTHER), (OWN, OWN, BUILT_IN)]):
            with pytest.raises(PermissionDenied, match="no schedule for"):
                await batch(two, f"c{number}", *steps)
            with pytest.raises(NotFound):
                await two.frontend.get_batch(b.GetBatchRequest(id=f"c{number}"))


async def test_jobs_are_permitted_by_their_lambdas(two: Bench) -> None:
    for name in ("mail/theirs", "photos/theirs"):
        await two.frontend.schedule_job(job(name, OTHER))
    with acting_for(PHOTOS):
        asked = [job("photos/mine", OWN), job("photos/yours", OTHER), job("mail/theirs", OWN, overwrite=True)]
        asked += [job("photos/theirs", OWN, overwrite=True), job("mail/none", OWN)]
        results = (await two.frontend.schedule_jobs(f.ScheduleJobsRequest(requests=asked))).results
        denied = ["PERMISSION_DENIED"] * 2
        assert [each.error.code for each in results] == ["", *denied, "ALREADY_EXISTS", "PERMISSION_DENIED"]
        for call in (
            two.frontend.get_job(f.GetJobRequest(name="mail/theirs")),
            two.frontend.pause_job(f.PauseJobRequest(name="mail/theirs")),
            two.frontend.resume_job(f.ResumeJobRequest(name="mail/theirs")),
            two.frontend.run_job_now(f.RunJobNowRequest(name="mail/theirs")),
        ):
            with pytest.raises(NotFound, match="there is no job 'mail/theirs'"):
                await call
        assert not (await two.frontend.delete_job(f.DeleteJobRequest(name="mail/theirs"))).existed
        assert (await two.frontend.delete_jobs_by_prefix(f.DeleteJobsByPrefixRequest(prefix="*"))).deleted == 1
        with pytest.raises(AlreadyExists):
            await two.frontend.schedule_job(job("photos/theirs", OWN, overwrite=True))
    left = await two.frontend.get_job(f.GetJobRequest(name="mail/theirs"))
    assert getattr(left.spec.task, "lambda") == OTHER
    assert not left.paused


async def test_the_registry_gates_and_keys_are_permitted_by_their_lambda(two: Bench) -> None:
    front = two.frontend
    with acting_for(PHOTOS):
        await front.pause_lambda(f.PauseLambdaRequest(who="me", **of(OWN)))
        for call in (
            front.register_lambdas(
                f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name=OWN), f.LambdaSpec(name=OTHER)])
            ),
            front.register_lambdas(f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name=BUILT_IN)])),
            front.pause_lambda(f.PauseLambdaRequest(who="me", **of(OTHER))),
            front.resume_lambda(f.ResumeLambdaRequest(who="me", **of(OTHER))),
            front.set_lambda(f.SetLambdaRequest(set={"queue_limit": "1"}, **of(OTHER))),
            front.delete_lambda(f.DeleteLambdaRequest(who="me", **of(OTHER))),
            front.set_gate(f.SetGateRequest(who="me", action=f.Gate.PAUSE, **of(OTHER))),
            front.lift_gate(f.LiftGateRequest(who="me", **of(OTHER))),
            front.list_gates(f.ListGatesRequest(**of(OTHER))),
            front.list_keys(f.ListKeysRequest(**of(OTHER))),
            front.list_concurrency_keys(f.ListConcurrencyKeysRequest(**of(OTHER))),
            front.resume_key(f.ResumeKeyRequest(key="k", **of(OTHER))),
            front.skip_key(f.SkipKeyRequest(key="k", **of(OTHER))),
        ):
            with pytest.raises(PermissionDenied, match=r"token x: no (work|operate|read) for (mail|atf)"):
                await call
        with pytest.raises(NotFound, match=r"Did you mean photos/thumbnail\?"):
            await two.schedule(name="photos/thumbnails")


# --- found ------------------------------------------------------------------------------------------------------------


async def test_what_is_found_of_another_namespace_does_not_exist(two: Bench) -> None:
    front = two.frontend
    mine, theirs = await two.schedule(), await two.schedule(name=OTHER)
    with acting_for(PHOTOS):
        assert (await front.get_task(f.GetTaskRequest(id=mine))).id == mine
        for call in (
            front.get_task(f.GetTaskRequest(id=theirs)),
            front.explain_task(f.ExplainTaskRequest(id=theirs)),
            front.get_log(f.GetLogRequest(id=theirs)),
            anext(front.watch_log(f.WatchLogRequest(id=theirs))),
            front.wait_tasks(f.WaitTasksRequest(ids=[mine, theirs])),
        ):
            with pytest.raises(TaskNotFound, match=f"no task '{theirs}'"):
                await call
        cancelled = (await front.cancel_tasks(f.CancelTasksRequest(ids=[theirs, mine]))).results
        assert [(each.id, each.status, each.cancelled) for each in cancelled] == [
            (theirs, 0, False),
            (mine, t.CANCELLED, True),
        ]
        retried = (await front.retry_tasks(f.RetryTasksRequest(ids=[theirs, mine]))).results
        assert [(each.id, each.status, each.retried) for each in retried] == [(theirs, 0, False), (mine, t.NEW, True)]
    assert (await two.stored(theirs)).status == t.NEW


async def test_who_may_do_something_else_there_is_told_so_before_anything_is_changed(two: Bench) -> None:
    front = two.frontend
    mine, theirs = await two.schedule(), await two.schedule(name=OTHER)
    both = Caller(
        CallerKind.TOKEN,
        "token x",
        TokenGrant(frozenset({Verb.OPERATE, Verb.READ}), frozenset({"photos", "mail/other"})),
    )
    with acting_for(both), pytest.raises(PermissionDenied, match="token x: no operate for mail/send"):
        await front.cancel_tasks(f.CancelTasksRequest(ids=[mine, theirs]))
    assert (await two.stored(mine)).status == t.NEW
    with acting_for(token(Verb.READ)):
        with pytest.raises(PermissionDenied, match="no read_payload for photos/thumbnail"):
            await front.get_log(f.GetLogRequest(id=mine))
        with pytest.raises(PermissionDenied, match="no operate for photos/thumbnail"):
            await front.cancel_tasks(f.CancelTasksRequest(ids=[mine]))


async def test_a_batch_of_another_namespace_does_not_exist(two: Bench) -> None:
    front = two.frontend
    await batch(two, "theirs", OTHER)
    with acting_for(PHOTOS):
        for call in (
            front.get_batch(b.GetBatchRequest(id="theirs")),
            front.list_batch_items(b.ListBatchItemsRequest(id="theirs")),
            anext(front.watch_batch(b.WatchBatchRequest(id="theirs"))),
            front.cancel_batch(b.CancelBatchRequest(id="theirs")),
            front.retry_batch(b.RetryBatchRequest(id="theirs")),
            batch(two, "theirs", spec=False),
        ):
            with pytest.raises(NotFound, match="there is no batch 'theirs'"):
                await call
        assert not (await front.delete_batch(b.DeleteBatchRequest(id="theirs"))).existed
    left = await front.get_batch(b.GetBatchRequest(id="theirs"))
    assert (left.items, left.cancelled) == (1, 0)
    with acting_for(token(Verb.OPERATE)):
        await batch_of_own(two)
    with acting_for(token(Verb.READ)), pytest.raises(PermissionDenied, match="no operate for photos/thumbnail"):
        await front.cancel_batch(b.CancelBatchRequest(id="mine"))


async def batch_of_own(bench: Bench) -> None:
    with acting_for(PHOTOS):
        await batch(bench, "mine")
        await bench.frontend.get_batch(b.GetBatchRequest(id="mine"))


async def test_what_has_become_anothers_since_it_was_permitted_is_not_changed(
    two: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is read as it was a moment ago, when a task, batch or job of one's own had the name."""
    front, store = two.frontend, two.store
    new, gone = await two.schedule(name=OTHER), await two.schedule(name=OTHER)
    await store.cancel_tasks([gone])
    await batch(two, "theirs", OTHER)
    for _ in range(2):
        await front.schedule_job(job("photos/theirs", OTHER, overwrite=True, anew=True))
    get_tasks, get_batch, get_jobs = store.get_tasks, store.get_batch, store.get_jobs

    async def tasks_before(ids: Any, _within: Any = ()) -> Any:
        return [each and each._replace(lambda_name=OWN) for each in await get_tasks(ids)]

    async def batch_before(batch_id: str, _within: Any = ()) -> Any:
        record = await get_batch(batch_id)
        described = b.BatchSpec(**of(OWN)).SerializeToString()
        return record and record._replace(lambda_name=OWN, spec=described)

    async def jobs_before(names: Any, _within: Any = ()) -> Any:
        spec = job("photos/theirs", OWN).job.SerializeToString()
        return [each and each._replace(spec=spec, generation=each.generation - 1) for each in await get_jobs(names)]

    for name, before in {"get_tasks": tasks_before, "get_batch": batch_before, "get_jobs": jobs_before}.items():
        monkeypatch.setattr(store, name, before)
    with acting_for(PHOTOS):
        assert (await front.cancel_tasks(f.CancelTasksRequest(ids=[new]))).results[0].status == 0
        assert (await front.retry_tasks(f.RetryTasksRequest(ids=[gone]))).results[0].status == 0
        named: dict[str, Any] = {"name": "photos/theirs"}
        for call in (
            front.cancel_batch(b.CancelBatchRequest(id="theirs")),
            front.retry_batch(b.RetryBatchRequest(id="theirs")),
            batch(two, "theirs", spec=False),
            front.pause_job(f.PauseJobRequest(**named)),
            front.resume_job(f.ResumeJobRequest(**named)),
            front.run_job_now(f.RunJobNowRequest(**named)),
            front.schedule_job(job("photos/theirs", OWN, overwrite=True)),
        ):
            with pytest.raises((NotFound, AlreadyExists)):
                await call
        assert not (await front.delete_batch(b.DeleteBatchRequest(id="theirs"))).existed
        assert not (await front.delete_job(f.DeleteJobRequest(**named))).existed
        assert not (await front.delete_jobs_by_prefix(f.DeleteJobsByPrefixRequest(prefix="photos/"))).deleted
    monkeypatch.undo()
    assert [each.status for each in map(_found, await store.get_tasks([new, gone]))] == [Status.NEW, Status.CANCELLED]
    left, kept = await store.get_batch("theirs"), (await store.get_jobs(["photos/theirs"]))[0]
    assert left is not None
    assert (left.items, left.cancel_requested, left.deleting) == (1, False, False)
    assert kept is not None
    assert (kept.paused, kept.generation) == (False, 2)


async def test_what_a_filter_found_is_changed_only_while_it_is_of_ones_own(
    two: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    front, theirs = two.frontend, await two.schedule(name=OTHER)
    mine = await two.schedule()

    async def tasks_before(ids: Any, _within: Any = ()) -> Any:
        return [each and each._replace(lambda_name=OWN) for each in await get_tasks(ids)]

    async def listed(query: Any, *args: Any, **more: Any) -> Any:
        return await list_tasks(query._replace(scopes=()), *args, **more)

    get_tasks, list_tasks = two.store.get_tasks, two.store.list_tasks
    monkeypatch.setattr(two.store, "list_tasks", listed)
    monkeypatch.setattr(two.store, "get_tasks", tasks_before)
    with acting_for(PHOTOS):
        asked = f.CancelMatchingRequest(filter=f.TaskFilter(statuses=[t.NEW]), dry_run=False, who="me")
        assert (await front.cancel_matching(asked)).cancelled == 1
    await two.store.cancel_tasks([theirs])
    with acting_for(PHOTOS):
        again = f.RedriveRequest(filter=f.TaskFilter(statuses=[t.CANCELLED]), dry_run=False, who="me")
        assert (await front.redrive(again)).redriven == 1
    found = map(_found, await get_tasks([mine, theirs]))
    assert [each.status for each in found] == [Status.NEW, Status.CANCELLED]


def _found(record: TaskRecord | None) -> TaskRecord:
    assert record is not None
    return record


async def test_what_is_read_is_permitted_by_what_was_read(two: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait, a log and a page of items look twice: the second look may find what is another's by then."""
    front, store = two.frontend, two.store
    await _fail(two, OTHER, "ValueError: secret")
    (theirs,) = [each.id for each in (await front.list_tasks(f.ListTasksRequest())).tasks]
    await batch(two, "theirs", OTHER)
    get_tasks, get_batch, looks = store.get_tasks, store.get_batch, [0]

    async def first_before(ids: Any, _within: Any = ()) -> Any:
        looks[0] += 1
        return [each and (each._replace(lambda_name=OWN) if looks[0] == 1 else each) for each in await get_tasks(ids)]

    async def batch_before(batch_id: str, _within: Any = ()) -> Any:
        record = await get_batch(batch_id)
        described = b.BatchSpec(**of(OWN)).SerializeToString()
        return record and record._replace(lambda_name=OWN, spec=described)

    monkeypatch.setattr(store, "get_tasks", first_before)
    monkeypatch.setattr(store, "get_batch", batch_before)
    with acting_for(PHOTOS):
        assert not (await front.wait_tasks(f.WaitTasksRequest(ids=[theirs]))).tasks
        looks[0] = 0
        with pytest.raises(TaskNotFound):
            await front.get_log(f.GetLogRequest(id=theirs))
        assert not (await front.list_batch_items(b.ListBatchItemsRequest(id="theirs"))).items


async def test_what_is_anothers_and_what_does_not_exist_are_answered_alike(
    two: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same words after the same calls of the store, which have nothing to read: so neither text nor time tells them apart."""
    front = two.frontend
    theirs = await two.schedule("theirs", name=OTHER, payload=b'"' + b"x" * 100_000 + b'"')
    await batch(two, "theirs", OTHER)
    await front.schedule_job(job("mail/theirs", OTHER))
    await front.schedule_job(job("photos/theirs", OTHER))
    call, asked = two.store.link.call, list[Any]()

    async def noted(verb: str, key: str, args: Any, **more: Any) -> Any:
        reply = await call(verb, key, args, **more)
        asked.append((verb, len(args), reply))
        return reply

    monkeypatch.setattr(two.store.link, "call", noted)
    none = f"{theirs.partition('-')[0]}-thairs"  # in the same partition, so that the same calls are made
    calls: list[Any] = [
        lambda of, _: front.get_task(f.GetTaskRequest(id=of)),
        lambda of, _: front.explain_task(f.ExplainTaskRequest(id=of)),
        lambda of, _: front.get_log(f.GetLogRequest(id=of)),
        lambda of, _: front.wait_tasks(f.WaitTasksRequest(ids=[of])),
        lambda of, _: front.cancel_tasks(f.CancelTasksRequest(ids=[of])),
        lambda of, _: front.retry_tasks(f.RetryTasksRequest(ids=[of])),
        lambda _, of: front.get_batch(b.GetBatchRequest(id=of)),
        lambda _, of: front.list_batch_items(b.ListBatchItemsRequest(id=of)),
        lambda _, of: front.cancel_batch(b.CancelBatchRequest(id=of)),
        lambda _, of: front.retry_batch(b.RetryBatchRequest(id=of)),
        lambda _, of: front.delete_batch(b.DeleteBatchRequest(id=of)),
        lambda _, of: front.get_job(f.GetJobRequest(name=f"mail/{of}")),
        lambda _, of: front.pause_job(f.PauseJobRequest(name=f"mail/{of}")),
        lambda _, of: front.run_job_now(f.RunJobNowRequest(name=f"mail/{of}")),
        lambda _, of: front.delete_job(f.DeleteJobRequest(name=f"mail/{of}")),
        lambda _, of: front.schedule_job(job(f"mail/{of}", OWN)),
        lambda _, of: front.get_job(f.GetJobRequest(name=f"photos/{of}")),
        lambda _, of: front.delete_job(f.DeleteJobRequest(name=f"photos/{of}")),
    ]
    for each in calls:
        told = []
        for task_id, name in ((theirs, "theirs"), (none, "thairs")):
            asked.clear()
            with acting_for(PHOTOS):
                try:
                    said = str(await each(task_id, name))
                except AtfError as error:
                    said = f"{type(error).__name__}: {error}"
            told.append((said.replace("theirs", "thairs"), list(asked)))
        assert told[0] == told[1]


# --- listed -----------------------------------------------------------------------------------------------------------

BOTH = ("photos", "video/cut")
"""Scopes of which one is a lambda alone."""


async def ids_of(bench: Bench, size: int = 0, **asked: Any) -> list[str]:
    """What all pages of a list hold."""
    found: list[str] = []
    request = f.ListTasksRequest(filter=f.TaskFilter(**asked), page_size=size)
    while True:
        page = await bench.frontend.list_tasks(request)
        found += [each.id for each in page.tasks]
        request.page_token = page.next_page_token
        if not request.page_token:
            return found


@pytest.mark.parametrize("statuses", [[], [t.NEW], [t.CANCELLED], [t.NEW, t.CANCELLED]], ids=str)
@pytest.mark.parametrize("labels", [{}, {"of": "all"}], ids=str)
async def test_lists_have_what_their_caller_may_see(two: Bench, statuses: Any, labels: Any) -> None:
    for name in ("video/cut", "video/paste"):
        await two.register(name)
    tasks = {
        name: [await two.schedule(name=name, labels={"of": "all"}) for _ in range(5)]
        for name in (OWN, OTHER, "video/cut", "video/paste")
    }
    if t.CANCELLED in statuses:
        await two.store.cancel_tasks([some[0] for some in tasks.values()])
    wanted = slice(0, 1) if statuses == [t.CANCELLED] else slice(0, 5)
    visible = {each for name in (OWN, "video/cut") for each in tasks[name][wanted]}
    with acting_for(token(*ALL, scopes=BOTH)):
        for size in (1, 3, 100):
            found = await ids_of(two, size, statuses=statuses, labels=labels)
            assert len(found) == len(visible)
            assert set(found) == visible
        page = await two.frontend.list_tasks(f.ListTasksRequest(filter=f.TaskFilter(statuses=statuses), page_size=1))
        assert page.of == len(visible)
        assert not await ids_of(two, statuses=statuses, **of("mail/*"))
        assert set(await ids_of(two, statuses=statuses, **of("video/*"))) == set(tasks["video/cut"][wanted])
        with pytest.raises(PermissionDenied, match="no read for mail/send"):
            await ids_of(two, statuses=statuses, **of(OTHER))


async def test_what_is_done_by_a_filter_is_done_to_what_is_permitted(two: Bench) -> None:
    front = two.frontend
    mine, theirs = await two.schedule(), await two.schedule(name=OTHER)
    everything = f.TaskFilter(statuses=[t.NEW, t.CANCELLED])
    with acting_for(PHOTOS):
        done = await front.cancel_matching(f.CancelMatchingRequest(filter=everything, dry_run=False, who="me"))
        assert (done.cancelled, done.matched, done.of, list(done.ids)) == (1, 1, 1, [mine])
    assert (await two.stored(theirs)).status == t.NEW
    await two.store.cancel_tasks([theirs])
    with acting_for(PHOTOS):
        again = await front.redrive(f.RedriveRequest(filter=everything, dry_run=False, who="me"))
        assert (again.redriven, again.matched, again.of, list(again.ids)) == (1, 1, 1, [mine])
    assert (await two.stored(theirs)).status == t.CANCELLED
    await two.store.cancel_tasks([mine])
    with acting_for(token(Verb.OPERATE)), pytest.raises(PermissionDenied, match="no read_payload for photos"):
        await front.redrive(f.RedriveRequest(filter=everything, error="card", dry_run=True, who="me"))


async def test_to_search_by_arguments_is_to_read_them(two: Bench) -> None:
    await two.register(search=["size"])
    with acting_for(PHOTOS):
        assert not await ids_of(two, search={"size": "1"}, **of(OWN))
    with acting_for(token(Verb.READ)), pytest.raises(PermissionDenied, match="no read_payload for photos"):
        await ids_of(two, search={"size": "1"}, **of(OWN))


async def test_status_counts_and_registry_show_what_their_caller_may_see(two: Bench) -> None:
    front = two.frontend
    await front.schedule_jobs(f.ScheduleJobsRequest(requests=[job("photos/mine", OWN), job("mail/theirs", OTHER)]))
    await batch(two, "mine")
    await batch(two, "theirs", OTHER)
    for name in (OWN, OTHER):
        await front.pause_lambda(f.PauseLambdaRequest(who="me", **of(name)))
    with acting_for(PHOTOS):
        status = await front.get_status(f.GetStatusRequest())
        assert [getattr(each, "lambda") for each in status.lambdas] == [OWN]
        assert (status.lambdas_known, status.counts["NEW"]) == (1, 1)
        assert not status.hosts
        assert status.cluster_withheld
        assert [each.name for each in status.jobs] == ["photos/mine"]
        assert [each.spec.name for each in (await front.list_lambdas(f.ListLambdasRequest())).lambdas] == [OWN]
        counts = (await front.count_tasks(f.CountTasksRequest())).lambdas
        assert [getattr(each, "lambda") for each in counts] == [OWN]
        assert [getattr(each, "lambda") for each in (await front.list_gates(f.ListGatesRequest())).gates] == [OWN]
        assert [each.id for each in (await front.list_batches(b.ListBatchesRequest())).batches] == ["mine"]
        jobs = await front.list_jobs(f.ListJobsRequest(page_size=1))
        assert [each.spec.name for each in jobs.jobs] == ["photos/mine"]
        noted = (await front.list_audit(f.ListAuditRequest())).entries
        assert {getattr(each, "lambda") for each in noted} == {OWN}
        for call in (
            front.list_lambdas(f.ListLambdasRequest(**of(OTHER))),
            front.count_tasks(f.CountTasksRequest(**of(OTHER))),
            front.list_batches(b.ListBatchesRequest(**of(OTHER))),
            front.list_failures(f.ListFailuresRequest(**of(OTHER))),
            front.list_audit(f.ListAuditRequest(**of(OTHER))),
        ):
            with pytest.raises(PermissionDenied, match="no read for mail/send"):
                await call


@pytest.mark.parametrize("scopes", [("photos",), ("photos", "video")])
async def test_groups_of_failures_are_those_that_their_caller_may_see(two: Bench, scopes: tuple[str, ...]) -> None:
    mine = await two.schedule()
    await two.finish(mine, Outcome.FAILED_FATAL, error="ValueError: no")
    with acting_for(token(*ALL, scopes=scopes)):
        (group,) = (await two.frontend.list_failures(f.ListFailuresRequest(page_size=1))).groups
        assert group.task_id == mine
    with acting_for(token(*ALL, scopes=["mail", "video"])):
        assert not (await two.frontend.list_failures(f.ListFailuresRequest())).groups


async def test_a_lambda_stays_while_a_job_that_its_caller_may_not_read_needs_it(two: Bench) -> None:
    await two.frontend.schedule_job(job("photos/mine", OWN))
    with acting_for(token(Verb.OPERATE)), pytest.raises(FailedPrecondition, match="the job photos/mine makes tasks"):
        await two.frontend.delete_lambda(f.DeleteLambdaRequest(who="me", **of(OWN)))
    with acting_for(token(Verb.OPERATE)):
        info = await two.frontend.set_lambda(f.SetLambdaRequest(set={"queue_limit": "7"}, **of(OWN)))
        assert info.in_force.queue_limit == 7


# --- without read_payload ---------------------------------------------------------------------------------------------

SECRET = "hunter2"
READER = token(Verb.READ, Verb.OPERATE, Verb.SCHEDULE)
"""Whoever may see where tasks stand, and not what they hold."""


def holds(payload: str = f'{{"password": "{SECRET}"}}') -> dict[str, Any]:
    return {"payload": payload.encode()}


async def test_a_task_without_what_it_holds(two: Bench) -> None:
    front = two.frontend
    done, failed = [await two.schedule(**holds()) for _ in range(2)]
    await two.finish(done, result=f'"{SECRET}"'.encode())
    error = f"ValueError: {SECRET}\nTraceback (most recent call last):\n  File {SECRET}"
    await two.finish(failed, Outcome.FAILED_FATAL, error=error)
    with acting_for(READER):
        for task_id, unredacted in ((done, False), (done, True), (failed, False), (failed, True)):
            asked = f.GetTaskRequest(id=task_id, with_spec=True, unredacted=unredacted)
            assert SECRET.encode() not in (await front.get_task(asked)).SerializeToString()
        seen = await front.get_task(f.GetTaskRequest(id=failed))
        assert (seen.withheld, seen.error_type, seen.status) == (True, "ValueError", t.FATAL_FAILURE)
        waited = await front.wait_tasks(f.WaitTasksRequest(ids=[done, failed], all=True, timeout_us=0))
        listed = await front.list_tasks(f.ListTasksRequest(with_spec=True, unredacted=True))
        assert [each.withheld for each in (*waited.tasks, *listed.tasks)] == [True] * 4
        for reply in (
            waited,
            listed,
            await front.explain_task(f.ExplainTaskRequest(id=failed)),
            await front.list_failures(f.ListFailuresRequest()),
            await front.redrive(
                f.RedriveRequest(filter=f.TaskFilter(statuses=[t.FATAL_FAILURE]), dry_run=True, who="me")
            ),
        ):
            assert SECRET.encode() not in reply.SerializeToString()
            assert b"ValueError" in reply.SerializeToString()
    with acting_for(PHOTOS):
        whole = await front.get_task(f.GetTaskRequest(id=failed, with_spec=True))
        assert (whole.withheld, SECRET.encode() in whole.spec.payload, SECRET in whole.error) == (False, True, True)


async def test_jobs_batches_keys_and_callbacks_without_what_they_hold(two: Bench) -> None:
    front = two.frontend
    await two.register(stop_on_fatal=True)
    asked = job("photos/mine", OWN)
    asked.job.task.MergeFrom(t.TaskSpec(**holds()))
    keyed = await two.schedule(ordering_key="k", **holds())
    await two.finish(keyed, Outcome.FAILED_FATAL, error=f"ValueError: {SECRET}\nTraceback (most recent call last):\n")
    step = b.Callback(when=b.Callback.COMPLETION, task=t.TaskSpec(**of(OTHER), **holds()), gives=b.Callback.NOTHING)

    async def messages() -> AsyncIterator[b.ScheduleBatchRequest]:
        yield b.ScheduleBatchRequest(header=b.BatchHeader(id="mine", spec=b.BatchSpec(callbacks=[step], **of(OWN))))
        yield b.ScheduleBatchRequest(items=b.BatchItems(items=[b.BatchItem(**holds())]))
        yield b.ScheduleBatchRequest(end=b.BatchEnd(items=1))

    await front.schedule_batch(messages())
    with acting_for(READER):
        made = await front.schedule_job(asked)
        (item,) = (
            await front.list_batch_items(b.ListBatchItemsRequest(id="mine", with_arguments=True, unredacted=True))
        ).items
        (key,) = (await front.list_keys(f.ListKeysRequest(**of(OWN)))).keys
        (listed,) = (await front.list_jobs(f.ListJobsRequest(unredacted=True))).jobs
        replies: list[Any] = [
            made,
            item,
            key,
            listed,
            await front.get_job(f.GetJobRequest(name="photos/mine", unredacted=True)),
        ]
        replies.append(await front.pause_job(f.PauseJobRequest(name="photos/mine")))
        assert key.error.startswith("ValueError")
    for who in (READER, PHOTOS):  # the callback is of another lambda
        with acting_for(who):
            replies.append(await front.get_batch(b.GetBatchRequest(id="mine", with_spec=True, unredacted=True)))
    for each in replies:
        assert each.withheld
        assert SECRET.encode() not in each.SerializeToString()
    with acting_for(PHOTOS):
        assert not (await front.get_job(f.GetJobRequest(name="photos/mine", unredacted=True))).withheld


# --- who and how long -------------------------------------------------------------------------------------------------


async def test_the_audit_names_who_calls_and_not_whom_the_request_names(two: Bench) -> None:
    with acting_for(PHOTOS):
        await two.frontend.pause_lambda(f.PauseLambdaRequest(who="somebody else", why="since", **of(OWN)))
        await two.frontend.resume_lambda(f.ResumeLambdaRequest(**of(OWN)))
    await two.frontend.pause_lambda(f.PauseLambdaRequest(who="ann", **of(OWN)))
    assert [each.who for each in await two.audit()] == ["ann", "token x", "token x"]
    (gate,) = (await two.frontend.list_gates(f.ListGatesRequest(**of(OWN)))).gates
    assert gate.who == "ann"


async def test_a_stream_ends_before_a_revoked_token_would_be_good_for_long(two: Bench) -> None:
    await batch(two, "mine")
    with acting_for(PHOTOS):
        watch = two.frontend.watch_batch(b.WatchBatchRequest(id="mine", at_most_every_us=50_000))
        assert (await anext(watch)).items == 1
        two.clock.advance(MOST_WAIT_S + 1)
        with pytest.raises(StopAsyncIteration):
            await anext(watch)
    assert PHOTOS.longest(60.0) == MOST_WAIT_S
    assert Caller().longest(60.0) == 60.0


# --- pages ------------------------------------------------------------------------------------------------------------


async def _pages(call: Any, asked: Any) -> list[Any]:
    """All pages of a call, one entry each."""
    pages = [await call(asked)]
    while pages[-1].next_page_token and len(pages) < 50:
        asked.page_token = pages[-1].next_page_token
        pages.append(await call(asked))
    return pages


async def test_no_token_of_a_page_bears_a_foreign_name_or_is_of_use_to_another(two: Bench) -> None:
    front = two.frontend
    for number in range(12):
        for name, word in ((OWN, "mine"), (OTHER, "secret")):
            await front.schedule_job(job(f"photos/{word}-{number}", name))
            await batch(two, f"{word}-{number}", name)
            for _ in range(2):  # the second waits
                await two.schedule(name=name, concurrency=t.Concurrency(key=f"{word}-{number}", limit=1))
    for kind in ("KeyError", "ValueError", "OSError"):
        await _fail(two, OWN, f"{kind}: no")
        await _fail(two, OTHER, f"{kind}: secret")
    calls: list[tuple[Any, Any]] = [
        (front.list_jobs, f.ListJobsRequest(page_size=1)),
        (front.list_batches, b.ListBatchesRequest(page_size=1)),
        (front.list_failures, f.ListFailuresRequest(page_size=1)),
        (front.list_concurrency_keys, f.ListConcurrencyKeysRequest(page_size=1, **of(OWN))),
    ]
    mine = replace(token(*ALL, scopes=["photos", "video"]), seal="one")
    neighbour = replace(mine, name="token y", seal="two")
    for call, asked in calls:
        with acting_for(mine):
            pages = await _pages(call, asked)
        tokens = [each.next_page_token for each in pages if each.next_page_token]
        assert tokens, call
        for text in (*(each.SerializeToString() for each in pages), *map(_decoded, tokens)):
            assert b"secret" not in text
            assert OTHER.encode() not in text
        for each in tokens:
            asked.page_token = each
            with acting_for(neighbour), pytest.raises(InvalidArgument, match="page_token"):
                await call(asked)


def _decoded(page_token: str) -> bytes:
    return base64.urlsafe_b64decode(page_token + "=" * (-len(page_token) % 4))


async def _fail(bench: Bench, name: str, error: str) -> None:
    """A dead letter of a lambda."""
    task_id = await bench.schedule(name=name)
    await bench.enqueue()
    for partition in range(bench.store.partitions):
        await pop_ids(bench.store, partition, [[f"{name}:1"]], 100)
    (claim,) = (await claim_ids(bench.store, "executor-1", "", [task_id])).claims
    await bench.end(claim, Outcome.FAILED_FATAL, error=error)


# --- ways around it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scope", ["photos/", "photos/*", "*/thumbnail", " photos", "photos mail", "phötos", "", "**", "-/", "atf/*"]
)
def test_a_scope_is_a_namespace_a_lambda_or_everything(scope: str) -> None:
    with pytest.raises(InvalidArgument):
        scopes_of([scope])


@pytest.mark.parametrize(
    "name",
    [
        "photo/thumbnail",
        "photos2/thumbnail",
        "Photos/thumbnail",
        "PHOTOS/thumbnail",
        "photos.x/thumbnail",
        "x.photos/thumbnail",
    ],
)
async def test_what_is_called_nearly_alike_is_anothers(two: Bench, name: str) -> None:
    await two.register(name)
    task_id = await two.schedule(name=name)
    await two.frontend.schedule_job(job(f"{name.partition('/')[0]}/photos", name))
    with acting_for(PHOTOS):
        with pytest.raises(PermissionDenied, match="no schedule for"):
            await two.schedule(name=name)
        with pytest.raises(TaskNotFound):
            await two.frontend.get_task(f.GetTaskRequest(id=task_id))
        assert not await ids_of(two)
        assert not (await two.frontend.list_jobs(f.ListJobsRequest())).jobs
        assert not (await two.frontend.get_status(f.GetStatusRequest())).counts["NEW"]
        for prefix in ("*", "p", "photo", name):
            assert not (await two.frontend.delete_jobs_by_prefix(f.DeleteJobsByPrefixRequest(prefix=prefix))).deleted
        for asked in (f.TaskFilter(statuses=[t.NEW]), f.TaskFilter(**of("photos/*"))):
            done = await two.frontend.cancel_matching(f.CancelMatchingRequest(filter=asked, dry_run=False, who="me"))
            assert (done.matched, done.of, done.cancelled) == (0, 0, 0)
        with pytest.raises(PermissionDenied):
            await ids_of(two, **of(name))


async def test_one_lambda_of_a_namespace_is_not_its_neighbour(two: Bench) -> None:
    await two.register("photos/print")
    print_id = await two.schedule(name="photos/print", labels={"a": "b"}, ordering_key="k")
    await two.schedule(ordering_key="k", labels={"a": "b"})
    with acting_for(token(*ALL, scopes=[OWN])):
        with pytest.raises(PermissionDenied, match="no read for photos/print"):  # of its namespace it is told so
            await two.frontend.get_task(f.GetTaskRequest(id=print_id))
        assert len(await ids_of(two, key="k")) == len(await ids_of(two, labels={"a": "b"})) == 1
        assert len(await ids_of(two, **of("photos/*"))) == 1
        with pytest.raises(PermissionDenied):
            await two.frontend.cancel_tasks(f.CancelTasksRequest(ids=[print_id]))
        with pytest.raises(PermissionDenied):
            await two.frontend.list_concurrency_keys(f.ListConcurrencyKeysRequest(**of("photos/print")))


async def test_everything_is_not_the_built_in_lambdas(two: Bench) -> None:
    front = two.frontend
    await front.schedule_job(job("ops/backup", BUILT_IN))
    with acting_for(token(Verb.ADMIN, scopes=["*", "atf"])):
        for call in (
            two.schedule(name=BUILT_IN),
            batch(two, "c", OWN, BUILT_IN),
            front.schedule_job(job("ops/other", BUILT_IN)),
            front.schedule_job(job("ops/backup", OWN, overwrite=True)),
            front.run_job_now(f.RunJobNowRequest(name="ops/backup")),
            front.delete_job(f.DeleteJobRequest(name="ops/backup")),
            front.register_lambdas(f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name=BUILT_IN)])),
            front.find_dapr_app(f.FindDaprAppRequest(app_id="orders")),
        ):
            with pytest.raises(PermissionDenied, match=r"no (schedule|work) for atf/(command|dapr-job)"):
                await call
        assert not (await front.delete_jobs_by_prefix(f.DeleteJobsByPrefixRequest(prefix="*"))).deleted


async def test_pools_of_others_are_neither_named_nor_joined(two: Bench) -> None:
    await two.register(OTHER, pool="mail-gpus")
    asked = f.SetLambdaRequest(set={"pool": "mail-gpu"}, **of(OWN))
    with pytest.raises(NotFound, match="Did you mean mail-gpus"):
        await two.frontend.set_lambda(asked)
    with acting_for(PHOTOS):
        with pytest.raises(NotFound) as error:
            await two.frontend.set_lambda(asked)
        assert "mail-gpus" not in str(error.value)
        spec = f.LambdaSpec(name=OWN, pool="mail-gpu")
        warned = await two.frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=[spec]))
        assert "mail-gpus" not in str(warned.warnings)
    bound = TokenGrant(frozenset(ALL), frozenset({"photos"}), frozenset({"gpu"}))
    with acting_for(Caller(CallerKind.TOKEN, "token x", bound)), pytest.raises(PermissionDenied, match="'mail-gpus'"):
        await two.frontend.set_lambda(f.SetLambdaRequest(set={"pool": "mail-gpus"}, **of(OWN)))


async def test_entries_of_the_audit_that_concern_no_lambda_are_for_who_may_read_all(two: Bench) -> None:
    await two.frontend.schedule_job(job("photos/mine", OWN))
    await two.frontend.delete_jobs_by_prefix(f.DeleteJobsByPrefixRequest(prefix="photos/", who="me"))
    with acting_for(PHOTOS):
        seen = (await two.frontend.list_audit(f.ListAuditRequest())).entries
        assert {each.what for each in seen} == {"register_lambdas", "schedule_job"}
    with acting_for(token(Verb.READ, scopes=["*"])):
        seen = (await two.frontend.list_audit(f.ListAuditRequest())).entries
        assert "delete_jobs_by_prefix" in {each.what for each in seen}


async def test_of_many_tasks_and_jobs_those_that_are_permitted_are_stored(two: Bench) -> None:
    """As where one of them breaks a rule: each is answered by itself."""
    with acting_for(PHOTOS):
        asked = f.ScheduleManyRequest(requests=[request(name=each) for each in (OTHER, OWN)])
        refused, stored = (await two.frontend.schedule_many(asked)).results
        assert (refused.error.code, stored.error.code) == ("PERMISSION_DENIED", "")
        assert await ids_of(two) == [stored.reply.id]
        jobs = f.ScheduleJobsRequest(requests=[job("photos/no", OTHER), job("photos/yes", OWN)])
        assert [each.error.code for each in (await two.frontend.schedule_jobs(jobs)).results] == [
            "PERMISSION_DENIED",
            "",
        ]
        assert [each.spec.name for each in (await two.frontend.list_jobs(f.ListJobsRequest())).jobs] == ["photos/yes"]


async def test_a_stream_of_items_ends_before_its_batch_can_have_become_anothers(two: Bench) -> None:
    async def messages() -> AsyncIterator[b.ScheduleBatchRequest]:
        yield b.ScheduleBatchRequest(header=b.BatchHeader(id="mine", spec=b.BatchSpec(**of(OWN))))
        yield b.ScheduleBatchRequest(items=b.BatchItems(items=[b.BatchItem(payload=b"{}")]))
        two.clock.advance(500)
        yield b.ScheduleBatchRequest(items=b.BatchItems(items=[b.BatchItem(payload=b"{}")]))

    with acting_for(PHOTOS), pytest.raises(Unavailable, match="begin at the batch's prefix"):
        await two.frontend.schedule_batch(messages())
