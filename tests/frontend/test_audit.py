"""Who did what to which tasks, when and why: what is noted, what is not, and how it is found again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import pytest
from google.protobuf.descriptor_pb2 import MethodOptions

from atf.errors import InvalidArgument, NotFound, ResourceExhausted, Unavailable, UnknownLambda
from atf.frontend.audit import NOT_AUDITED, UNKNOWN
from atf.frontend.list_audit import MAX_LOOKED_AT
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.rpc.stub import snake_case
from atf.store.values.audit import AuditEntry
from atf.store.values.claims import Outcome
from atf.task import US

from .conftest import START_US, Bench
from .test_batches import ID, make, run_all

NAME = "photos/thumbnail"
JOB = "photos/nightly"
OF: Final[Any] = {"lambda": NAME}
SAID: Final[Any] = {"who": "ada", "why": "it rains"}
WRITES: Final = {
    each.name: each.input_type
    for each in f.DESCRIPTOR.services_by_name["Frontend"].methods
    if each.GetOptions().idempotency_level != MethodOptions.NO_SIDE_EFFECTS
}


# --- every call that changes something --------------------------------------------------------------------------------


def job(name: str = JOB, **fields: Any) -> f.ScheduleJobRequest:
    spec = j.JobSpec(name=name, task=t.TaskSpec(**OF, payload=b'{"secret":"5ecret"}'), schedule="@daily")
    return f.ScheduleJobRequest(job=spec, **fields)


async def dead(bench: Bench, **spec: Any) -> str:
    task_id = await bench.schedule("dead", **spec)
    await bench.finish(task_id, Outcome.FAILED_FATAL, error="5ecret")
    return task_id


async def stopped(bench: Bench) -> Any:
    await bench.register(stop_on_fatal=True)
    return {**OF, **SAID, "key": "anna", "task_id": await dead(bench, ordering_key="anna")}


async def made(bench: Bench) -> Any:
    await bench.frontend.schedule_job(job())
    return {"name": JOB, **SAID}


async def batch(bench: Bench, *outcomes: Outcome) -> Any:
    await make(bench)
    if outcomes:
        await run_all(bench, outcomes)
    return {"id": ID, **SAID}


class Write(NamedTuple):
    """How a call that changes something is made, and what its entry says."""

    call: Callable[[Bench], Awaitable[object]]
    detail: str = ""
    of: str = NAME
    tasks: tuple[str, ...] = ()


async def _cancel_tasks(h: Bench) -> object:
    return await h.frontend.cancel_tasks(f.CancelTasksRequest(ids=[await h.schedule("a"), "0-none"], **SAID))


async def _retry_tasks(h: Bench) -> object:
    return await h.frontend.retry_tasks(f.RetryTasksRequest(ids=[await dead(h)], **SAID))


async def _resume_lambda(h: Bench) -> object:
    await h.frontend.pause_lambda(f.PauseLambdaRequest(**OF, **SAID))
    return await h.frontend.resume_lambda(f.ResumeLambdaRequest(**OF, **SAID))


async def _lift_gate(h: Bench) -> object:
    await h.frontend.set_gate(f.SetGateRequest(**OF, **SAID, action=f.Gate.PAUSE))
    return await h.frontend.lift_gate(f.LiftGateRequest(**OF, **SAID, action=f.Gate.PAUSE))


async def _redrive(h: Bench) -> object:
    await dead(h)
    return await h.frontend.redrive(f.RedriveRequest(filter=OF, **SAID, dry_run=False, rate=5))


async def _cancel_matching(h: Bench) -> object:
    await h.schedule("a")
    asked = f.TaskFilter(**OF, statuses=[t.NEW], priorities=[1])
    return await h.frontend.cancel_matching(f.CancelMatchingRequest(filter=asked, **SAID, dry_run=False))


async def _set_capacity(h: Bench) -> object:
    await h.store.serve("gpu", 3600, "one:7403")
    return await h.frontend.set_capacity(f.SetCapacityRequest(pool="gpu", cores=2, **SAID))


def new_token() -> f.CreateTokenRequest:
    return f.CreateTokenRequest(id="abcdefghij", digest="a" * 64, verbs=["read"], scopes=["photos"], **SAID)


async def _with_token(h: Bench) -> Any:
    await h.frontend.create_token(new_token())
    return {"id": "abcdefghij", **SAID}


async def _drain_host(h: Bench) -> object:
    await h.store.serve("", 3600, "one:7403")
    return await h.frontend.drain_host(f.DrainHostRequest(host="one:7403", **SAID))


async def _resume_job(h: Bench) -> object:
    of = await made(h)
    await h.frontend.pause_job(f.PauseJobRequest(**of))
    return await h.frontend.resume_job(f.ResumeJobRequest(**of))


CALLS: Final[dict[str, Write]] = {
    "CancelTasks": Write(_cancel_tasks, tasks=("a",)),
    "CancelMatching": Write(_cancel_matching, "status NEW, priority 1", tasks=("a",)),
    "RetryTasks": Write(_retry_tasks, tasks=("dead",)),
    "RegisterLambdas": Write(
        lambda h: h.frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name="a/b")], **SAID)),
        "1 of 1 were new or other than before",
        of="a/b",
    ),
    "PauseLambda": Write(lambda h: h.frontend.pause_lambda(f.PauseLambdaRequest(**OF, **SAID))),
    "ResumeLambda": Write(_resume_lambda),
    "SetLambda": Write(
        lambda h: h.frontend.set_lambda(f.SetLambdaRequest(**OF, **SAID, set={"rate": "5"}, unset=["owner"])),
        "rate=5, unset owner",
    ),
    "SetGate": Write(lambda h: h.frontend.set_gate(f.SetGateRequest(**OF, **SAID, action=f.Gate.PAUSE)), "pause"),
    "LiftGate": Write(_lift_gate, "pause"),
    "Redrive": Write(_redrive, "5 a second", tasks=("dead",)),
    "ResumeKey": Write(
        lambda h: _then(stopped(h), lambda of: h.frontend.resume_key(f.ResumeKeyRequest(**of))),
        "key 'anna'",
        tasks=("dead",),
    ),
    "SkipKey": Write(
        lambda h: _then(stopped(h), lambda of: h.frontend.skip_key(f.SkipKeyRequest(**of))),
        "key 'anna'",
        tasks=("dead",),
    ),
    "SetCapacity": Write(_set_capacity, "pool gpu, cores=2", of=""),
    "DrainHost": Write(_drain_host, "one:7403", of=""),
    "CreateToken": Write(lambda h: h.frontend.create_token(new_token()), "abcdefghij: read for photos", of=""),
    "RotateToken": Write(
        lambda h: _then(
            _with_token(h),
            lambda of: h.frontend.rotate_token(f.RotateTokenRequest(**of, digest="b" * 64, overlap_us=1)),
        ),
        "abcdefghij",
        of="",
    ),
    "RotateSigningKey": Write(lambda h: h.frontend.rotate_signing_key(f.RotateSigningKeyRequest(**SAID)), of=""),
    "RevokeToken": Write(
        lambda h: _then(_with_token(h), lambda of: h.frontend.revoke_token(f.RevokeTokenRequest(**of))),
        "abcdefghij",
        of="",
    ),
    "DeleteLambda": Write(lambda h: h.frontend.delete_lambda(f.DeleteLambdaRequest(**OF, **SAID))),
    "CancelBatch": Write(
        lambda h: _then(batch(h), lambda of: h.frontend.cancel_batch(b.CancelBatchRequest(**of))), f"batch {ID}"
    ),
    "RetryBatch": Write(
        lambda h: _then(batch(h, Outcome.FAILED_FATAL), lambda of: h.frontend.retry_batch(b.RetryBatchRequest(**of))),
        f"batch {ID}",
    ),
    "DeleteBatch": Write(
        lambda h: _then(batch(h, Outcome.SUCCEEDED), lambda of: h.frontend.delete_batch(b.DeleteBatchRequest(**of))),
        f"batch {ID}",
        of="",
    ),
    "ScheduleJob": Write(lambda h: h.frontend.schedule_job(job(**SAID)), f"1 made: {JOB}"),
    "ScheduleJobs": Write(
        lambda h: h.frontend.schedule_jobs(f.ScheduleJobsRequest(requests=[job(**SAID), job("photos/other", **SAID)])),
        f"2 made: {JOB}, photos/other",
    ),
    "DeleteJob": Write(
        lambda h: _then(made(h), lambda of: h.frontend.delete_job(f.DeleteJobRequest(**of))), f"job {JOB}", of=""
    ),
    "DeleteJobsByPrefix": Write(
        lambda h: _then(
            made(h), lambda _: h.frontend.delete_jobs_by_prefix(f.DeleteJobsByPrefixRequest(prefix="photos/", **SAID))
        ),
        "jobs whose names begin with 'photos/': 1",
        of="",
    ),
    "PauseJob": Write(lambda h: _then(made(h), lambda of: h.frontend.pause_job(f.PauseJobRequest(**of))), f"job {JOB}"),
    "ResumeJob": Write(_resume_job, f"job {JOB}"),
    "RunJobNow": Write(
        lambda h: _then(made(h), lambda of: h.frontend.run_job_now(f.RunJobNowRequest(**of, task_id="ran"))),
        f"job {JOB}",
        tasks=("ran",),
    ),
}


async def _then(first: Awaitable[Any], call: Callable[[Any], Awaitable[object]]) -> object:
    return await call(await first)


def test_every_call_that_changes_something_is_noted_or_has_a_reason_not_to_be() -> None:
    assert CALLS.keys() | NOT_AUDITED.keys() == WRITES.keys(), "note the call, or say in NOT_AUDITED why not"
    assert not CALLS.keys() & NOT_AUDITED.keys()
    for name in CALLS.keys() - {"ScheduleJobs"}:  # each of whose requests says it
        assert {"who", "why"} <= set(WRITES[name].fields_by_name), f"{name}: it can't say who asks, and why"


@pytest.mark.parametrize("rpc", CALLS)
async def test_a_call_is_noted_with_what_it_did(rpc: str, bench: Bench) -> None:
    expected = CALLS[rpc]
    await expected.call(bench)
    (entry, *_) = await bench.audit() if rpc != "RegisterLambdas" else await newest(bench)
    assert entry.what == snake_case(rpc.removesuffix("s") if rpc == "ScheduleJobs" else rpc)
    assert (entry.who, entry.why, entry.outcome) == ("ada", "it rains", "done")
    assert (getattr(entry, "lambda"), entry.detail, entry.at_us) == (expected.of, expected.detail, bench.clock.now_us)
    assert tuple(each.partition("-")[2] for each in entry.tasks) == expected.tasks
    assert entry.task_count == len(expected.tasks)
    assert "5ecret" not in str(await newest(bench))


async def newest(bench: Bench, **fields: Any) -> list[f.AuditEntry]:
    return list((await bench.frontend.list_audit(f.ListAuditRequest(**fields))).entries)


# --- what is no change ------------------------------------------------------------------------------------------------


async def test_what_changed_nothing_is_not_noted(bench: Bench) -> None:
    await bench.register()
    done = await bench.schedule("done")
    await bench.finish(done)
    noted = len(await newest(bench))
    await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=[done, "0-none"]))
    await bench.frontend.retry_tasks(f.RetryTasksRequest(ids=[done]))
    await bench.frontend.lift_gate(f.LiftGateRequest(**OF, **SAID))
    await bench.frontend.resume_lambda(f.ResumeLambdaRequest(**OF, **SAID))
    await bench.frontend.delete_job(f.DeleteJobRequest(name=JOB))
    await bench.frontend.delete_jobs_by_prefix(f.DeleteJobsByPrefixRequest(prefix="none"))
    await bench.frontend.delete_batch(b.DeleteBatchRequest(id="none"))
    with pytest.raises(NotFound):
        await bench.frontend.pause_job(f.PauseJobRequest(name=JOB))
    await bench.register()
    assert len(await newest(bench)) == noted


async def test_the_same_again_is_noted_once(bench: Bench) -> None:
    gate = f.SetGateRequest(**OF, **SAID, action=f.Gate.PAUSE, request_id="r1")
    run = f.RunJobNowRequest(**await made(bench), task_id="ran")
    for _ in range(2):
        await bench.frontend.set_gate(gate)
        await bench.frontend.run_job_now(run)
        await bench.frontend.schedule_job(job(request_id="j1", overwrite=True))
    noted = [each.what for each in await bench.audit()]
    assert sorted(noted) == ["run_job_now", "schedule_job", "schedule_job", "set_gate"]


# --- who --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["", " "])
async def test_who_may_be_left_out_where_programs_ask_too(bench: Bench, who: str) -> None:
    await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=[await bench.schedule("a")], who=who))
    assert (await bench.audit())[0].who == UNKNOWN


@pytest.mark.parametrize(("fields", "says"), [({"who": "x" * 101}, "who: 101"), ({"why": "x" * 501}, "why: 501")])
async def test_what_is_too_long_is_refused_before_anything_is_done(bench: Bench, fields: Any, says: str) -> None:
    task = await bench.schedule("a")
    with pytest.raises(InvalidArgument, match=says):
        await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=[task], **fields))
    assert (await bench.stored(task)).status == t.NEW
    (result,) = (await bench.frontend.schedule_jobs(f.ScheduleJobsRequest(requests=[job(**fields)]))).results
    assert says in result.error.message


async def test_jobs_that_travel_together_are_noted_for_each_who_asks(bench: Bench) -> None:
    requests = [job("photos/a", who="ada"), job("photos/b", who="bob", why="x"), job("photos/c", who="ada")]
    await bench.frontend.schedule_jobs(f.ScheduleJobsRequest(requests=requests))
    found = {(each.who, each.why): each.detail for each in await bench.audit()}
    assert found == {("ada", ""): "2 made: photos/a, photos/c", ("bob", "x"): "1 made: photos/b"}


# --- failures ---------------------------------------------------------------------------------------------------------


async def test_what_failed_half_way_is_noted_as_that(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_ids: Any, _within: Any) -> Any:
        raise Unavailable("partition 1 is away")

    ids = [await bench.schedule(name) for name in "ab"]
    monkeypatch.setattr(bench.store, "cancel_tasks", fails)
    with pytest.raises(Unavailable):
        await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=ids, **SAID))
    (entry,) = await bench.audit()
    assert entry.outcome == "Unavailable: partition 1 is away; some of it may have been done"
    assert (list(entry.tasks), entry.who) == (ids, "ada")


async def test_a_caller_that_goes_away_leaves_an_entry(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def stays(_ids: Any, _within: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(bench.store, "cancel_tasks", stays)
    call = asyncio.ensure_future(bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=["0-a"], **SAID)))
    await begun.wait()
    call.cancel()
    await asyncio.wait([call])
    while not (found := await bench.audit()):
        await asyncio.sleep(0)
    assert found[0].outcome == "the caller went away; some of it may have been done"


@pytest.mark.parametrize("error", [Unavailable("the registry partition is away"), ResourceExhausted("full")])
async def test_a_call_does_not_fail_since_its_entry_could_not_be_stored(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def fails(_entries: Any) -> None:
        raise error

    monkeypatch.setattr(bench.store, "add_audit", fails)
    reply = await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=[await bench.schedule("a")]))
    assert reply.results[0].cancelled
    assert await bench.audit() == []


async def test_calls_that_end_together_share_a_call_of_the_store(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [await bench.schedule(f"a{number}") for number in range(20)]
    sizes: list[int] = []
    add = bench.store.add_audit

    async def adds(entries: Any) -> None:
        sizes.append(len(entries))
        await add(entries)

    monkeypatch.setattr(bench.store, "add_audit", adds)
    await asyncio.gather(*(bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=[each])) for each in ids))
    assert sum(sizes) == 20
    assert len(sizes) <= 10


async def test_an_entry_has_the_first_tasks_and_lambdas_of_many(bench: Bench) -> None:
    names = [f"photos/l{number}" for number in range(12)]
    for name in names:
        await bench.register(name)
    ids = [await bench.schedule(f"{place}", name=name) for place, name in enumerate([*names, *names])]
    await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=ids))
    (entry,) = await bench.audit()
    assert (list(entry.tasks), entry.task_count) == (ids[:20], 24)
    assert getattr(entry, "lambda") == ", ".join(names[:10]) + ", …"
    for each in ids:
        (entry,) = (await bench.frontend.list_audit(f.ListAuditRequest(task_id=each))).entries
        assert each in entry.tasks
        assert (len(entry.tasks), entry.task_count) == (20, 24)


# --- finding them -----------------------------------------------------------------------------------------------------


async def test_the_log_comes_page_by_page(bench: Bench) -> None:
    await bench.store.add_audit([AuditEntry("redrive", why=str(number)) for number in range(4)])
    first = await bench.frontend.list_audit(f.ListAuditRequest(page_size=3))
    assert [each.why for each in first.entries] == ["3", "2", "1"]
    assert first.looked_at == 3
    second = await bench.frontend.list_audit(f.ListAuditRequest(page_size=3, before=first.before))
    assert ([each.why for each in second.entries], second.before) == (["0", ""], 0)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, "dcba"),
        ({"lambda": NAME}, "cba"),
        ({"lambda": "photos/gone"}, "dc"),
        ({"who": "ada"}, "ba"),
        ({"what": "redrive"}, "db"),
        ({"task_id": "0-y"}, "c"),
        ({"lambda": NAME, "who": "ada", "what": "set_gate"}, "a"),
        ({"since_at_us": START_US + US}, "dcb"),
        ({"until_at_us": START_US + 2 * US}, "ba"),
        ({"since_at_us": START_US + US, "until_at_us": START_US + 2 * US}, "b"),
    ],
    ids=str,
)
async def test_entries_are_found_by_all_that_is_given(bench: Bench, fields: Any, found: str) -> None:
    for entry in (
        AuditEntry("set_gate", NAME, who="ada", why="a"),
        AuditEntry("redrive", NAME, who="ada", why="b"),
        AuditEntry("cancel_tasks", f"{NAME}, photos/gone", who="bob", why="c", tasks=["0-x", "0-y"]),
        AuditEntry("redrive", "photos/gone", who="bob", why="d"),
    ):
        await bench.store.add_audit([entry])
        bench.clock.advance(1)
    entries = await newest(bench, **fields)
    assert "".join(each.why for each in entries) == found


async def test_a_call_looks_at_so_many_entries_and_no_more(bench: Bench) -> None:
    await bench.store.add_audit([AuditEntry("redrive", who="old")])
    for _ in range(MAX_LOOKED_AT // 250):
        await bench.store.add_audit([AuditEntry("redrive", who="ada")] * 250)
    reply = await bench.frontend.list_audit(f.ListAuditRequest(who="old"))
    assert (list(reply.entries), reply.looked_at) == ([], MAX_LOOKED_AT)
    (entry,) = await newest(bench, who="old", before=reply.before)
    assert entry.who == "old"


async def test_a_lambda_that_nobody_knows_is_refused_unless_there_are_entries_of_it(bench: Bench) -> None:
    with pytest.raises(UnknownLambda, match="Did you mean photos/thumbnail"):
        await newest(bench, **{"lambda": "photos/thumbnal"})
    await bench.frontend.delete_lambda(f.DeleteLambdaRequest(**OF, **SAID))
    assert [each.what for each in await newest(bench, **OF)] == ["delete_lambda", "register_lambdas"]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"page_size": bad} for bad in (257, -1)),
        {"before": -1},
        {"lambda": "no name"},
        {"who": "x" * 101},
        {"what": "x" * 65},
        {"task_id": "none"},
        {"since_at_us": 5, "until_at_us": 5},
        {"since_at_us": -1},
    ],
    ids=str,
)
async def test_what_can_t_be_asked_for_is_refused(bench: Bench, wrong: Any) -> None:
    with pytest.raises(InvalidArgument):
        await newest(bench, **wrong)


async def test_what_was_done_to_a_batch_is_found_by_its_items(bench: Bench) -> None:
    await bench.frontend.cancel_batch(b.CancelBatchRequest(**await batch(bench)))
    page = await bench.frontend.list_batch_items(b.ListBatchItemsRequest(id=ID))
    for item in page.items:
        asked = f.ListAuditRequest(task_id=item.task_id)
        (entry,) = (await bench.frontend.list_audit(asked)).entries
        assert (entry.what, list(entry.tasks)) == ("cancel_batch", [])
    assert page.items
    other = f.ListAuditRequest(task_id=page.items[0].task_id.replace(ID, "other"))
    assert not (await bench.frontend.list_audit(other)).entries
