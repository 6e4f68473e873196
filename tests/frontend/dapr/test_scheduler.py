"""Jobs of Dapr's scheduler service: kept as they came, found by whose they are, and refused with nothing stored."""

from __future__ import annotations

from typing import Any

import pytest

from atf.errors import AlreadyExists, InvalidArgument, NotFound, ResourceExhausted
from atf.frontend.dapr import names, scheduler
from atf.rpc import dapr_runtime_pb2 as r, dapr_scheduler_pb2 as d
from atf.task import MAX_AHEAD_US
from tests.virtual import virtual

from .world import World, actor, app, world

at_rest = world(consumer=False)

ODD = "ä/b%:||~ \\#?.é\n"
"""A name with everything that has no place in one of ATF's."""


def constant(seconds: int, retries: int | None) -> r.JobFailurePolicy:
    policy = r.JobFailurePolicy(constant=r.JobFailurePolicyConstant(max_retries=retries))
    policy.constant.interval.FromSeconds(seconds)
    return policy


async def get(w: World, name: str = "backup", of: d.JobMetadata | None = None) -> d.Job:
    return (await w.scheduler.get_job(d.GetJobRequest(name=name, metadata=of or app()))).job


async def listed(w: World, of: d.JobMetadata) -> list[tuple[str, str]]:
    jobs = (await w.scheduler.list_jobs(d.ListJobsRequest(metadata=of))).jobs
    return sorted((each.metadata.target.actor.id, each.name) for each in jobs)


JOBS: list[dict[str, Any]] = [
    {"schedule": "0 30 2 * * *"},
    {"schedule": "@every 10s", "repeats": 3, "due_time": "2h", "ttl": "P1D"},
    {"due_time": "2030-01-01T00:00:00Z", "data": {"type_url": "t", "value": b"\xff"}},
    {"schedule": "@daily", "failure_policy": r.JobFailurePolicy(drop=r.JobFailurePolicyDrop())},
    {"schedule": "@daily", "failure_policy": constant(7, 2)},
    {"schedule": "@daily", "failure_policy": constant(0, None)},
    {"schedule": "TZ=Europe/Paris 0 0 4 * * MON", "data": {}},
    {"schedule": "R4/PT3S"},
    {"schedule": "@daily", "repeats": (1 << 32) - 1},
]


@virtual(at_rest)
async def test_a_job_comes_back_as_it_was_made(w: World) -> None:
    for metadata in (app(), app(ODD, ODD), actor(), actor(ODD, ODD)):
        kept = d.JobMetadata()
        kept.CopyFrom(metadata)
        kept.concurrency_key = "key"
        for number, fields in enumerate(JOBS):
            job = d.Job(**fields)
            await w.schedule(f"{number}{ODD}", kept, **fields)
            assert await get(w, f"{number}{ODD}", metadata) == job
        found = (await w.scheduler.list_jobs(d.ListJobsRequest(metadata=metadata))).jobs
        assert len(found) == len(JOBS)
        for each in found:
            assert each.metadata == kept
            assert (each.name[1:], each.job) == (ODD, d.Job(**JOBS[int(each.name[0])]))


@virtual(at_rest)
async def test_no_two_jobs_share_a_name_and_each_target_has_a_lambda_of_its_own(w: World) -> None:
    long, longer = "n" * 63, "n" * 62
    metadata = [
        app("a", "x"),
        app("a:b", "x"),
        app("a", "x:b"),
        app("actor", "x"),
        app(long, long),
        app(longer, longer),
        app("a..b", "x"),
        app(names.of_app("x", long * 2).partition("/job.")[2], "x"),
        app(long * 2, "x"),
        app("é", "x"),
        app("è", "x"),
        actor("a", "b", namespace="x"),
        actor("a:b", "b", namespace="x"),
        actor("a", "b:b", namespace="x"),
    ]
    for number, each in enumerate(metadata):
        await w.schedule("b", each, due_time="1h", data={"value": b"%d" % number})
    for number, each in enumerate(metadata):
        assert (await get(w, "b", each)).data.value == b"%d" % number
    lambdas = await w.stores[0].list_lambdas()
    assert len(lambdas) == len(metadata) - 1, "two actors of one type share theirs"
    assert {"dapr-scheduler.x/job.a", "dapr-scheduler.x/actor.a"} <= lambdas.keys()
    await w.schedule("b", actor("a", "b", app_id="another", namespace="x"), overwrite=True, due_time="2h")
    assert (await get(w, "b", actor("a", "b", namespace="x"))).due_time == "2h", "an actor is not an app's"


@virtual(at_rest)
async def test_dapr_s_defaults_hold(w: World) -> None:
    from atf.rpc import job_pb2 as j

    await w.schedule(schedule="@daily")
    spec = j.JobSpec.FromString((await w.job()).spec)
    assert (spec.misfire, spec.grace_us, spec.overlap) == (j.ALL, MAX_AHEAD_US, j.QUEUE)
    options = spec.task.options
    assert (options.max_attempts, options.backoff.base_us, options.max_losses) == (4, 1_000_000, scheduler.MAX_LOSSES)
    await w.schedule(overwrite=True, schedule="@daily", failure_policy=constant(5, None))
    options = j.JobSpec.FromString((await w.job()).spec).task.options
    assert (options.max_attempts, options.backoff.base_us) == (100, 5_000_000), "for ever, as far as the cap allows"


@virtual(at_rest)
async def test_a_name_is_taken_until_told_to_overwrite(w: World) -> None:
    await w.schedule(schedule="@daily")
    with pytest.raises(AlreadyExists):
        await w.schedule(schedule="@hourly")
    assert (await get(w)).schedule == "@daily"
    await w.schedule(schedule="@hourly", overwrite=True)
    assert (await get(w)).schedule == "@hourly"


@virtual(world())
async def test_a_job_that_was_never_made_or_has_ended_is_not_found_and_deleting_it_is_fine(w: World) -> None:
    import asyncio

    with pytest.raises(NotFound, match="backup"):
        await get(w)
    await w.schedule()
    await asyncio.sleep(1)
    with pytest.raises(NotFound, match="ended"):
        await get(w)
    for name in ("backup", "never"):
        await w.scheduler.delete_job(d.DeleteJobRequest(name=name, metadata=app()))
    await w.schedule()


@virtual(at_rest)
async def test_jobs_are_listed_and_deleted_by_whose_they_are(w: World) -> None:
    for name in ("a1", "a2", "b"):
        await w.schedule(name, app(), due_time="1h")
        await w.schedule(name, app("billing2"), due_time="1h")
        for actor_id in ("1", "12", "2"):
            await w.schedule(name, actor(actor_id=actor_id), due_time="1h")
        await w.schedule(name, actor("Cats", "1"), due_time="1h")
    assert await listed(w, app()) == [("", "a1"), ("", "a2"), ("", "b")]
    assert await listed(w, actor(actor_id="1")) == [("1", "a1"), ("1", "a2"), ("1", "b")]
    assert len(await listed(w, actor(actor_id=""))) == 9

    async def by_metadata(metadata: d.JobMetadata, *, id_prefix_match: bool = False) -> None:
        await w.scheduler.delete_by_metadata(
            d.DeleteByMetadataRequest(metadata=metadata, id_prefix_match=id_prefix_match)
        )

    await w.scheduler.delete_by_name_prefix(d.DeleteByNamePrefixRequest(name_prefix="a", metadata=app()))
    assert await listed(w, app()) == [("", "b")]
    assert len(await listed(w, app("billing2"))) == 3
    await by_metadata(app(), id_prefix_match=True)
    assert (await listed(w, app()), len(await listed(w, app("billing2")))) == ([], 3)
    await w.scheduler.delete_by_name_prefix(d.DeleteByNamePrefixRequest(name_prefix="a", metadata=actor(actor_id="2")))
    assert await listed(w, actor(actor_id="2")) == [("2", "b")]
    await by_metadata(actor(actor_id="1"))
    assert await listed(w, actor(actor_id="")) == [("12", "a1"), ("12", "a2"), ("12", "b"), ("2", "b")]
    await by_metadata(actor(actor_id="1"), id_prefix_match=True)
    assert await listed(w, actor(actor_id="")) == [("2", "b")]
    await by_metadata(actor(actor_id=""))
    assert await listed(w, actor(actor_id="")) == []
    assert len(await listed(w, actor("Cats", ""))) == 3


@pytest.mark.parametrize(
    ("name", "metadata", "fields", "says"),
    [
        ("", app(), {}, "name"),
        ("x", app(""), {}, r"metadata\.app_id"),
        ("x", app("a", ""), {}, r"metadata\.namespace"),
        ("x", actor(app_id=""), {}, r"metadata\.app_id"),
        ("x", actor(""), {}, r"actor\.type"),
        ("x", actor("Cat", ""), {}, r"actor\.id"),
        ("x", d.JobMetadata(app_id="a", namespace="b"), {}, r"metadata\.target"),
        ("x" * 300, app(), {}, "312 characters.*at most 255"),
        ("é" * 50, app(), {}, "312 characters"),
        ("x", app(), {"schedule": "@daily", "repeats": 0}, "repeats"),
        ("x", app(), {"schedule": "every day"}, "schedule"),
        ("x", app(), {"repeats": 1}, "schedule"),
        ("x", app(), {"schedule": "@daily", "ttl": "-1s"}, "ttl"),
        ("x", app(), {"schedule": "@daily", "failure_policy": constant(-1, 1)}, "interval"),
        ("x", app(), {"schedule": "@daily", "data": {"value": b"x" * (1 << 20)}}, "data"),
    ],
)
def test_a_malformed_job_is_refused_and_nothing_is_stored(
    name: str, metadata: d.JobMetadata, fields: dict[str, Any], says: str
) -> None:
    @virtual(at_rest)
    async def story(w: World) -> None:
        request = d.ScheduleJobRequest(name=name, job=d.Job(**(fields or {"due_time": "1h"})), metadata=metadata)
        with pytest.raises(InvalidArgument, match=says):
            await w.scheduler.schedule_job(request)
        assert [each for partition in range(2) for each in await w.stores[0].list_jobs("", partition, "", 10)] == []

    story()


@virtual(at_rest)
async def test_a_name_prefix_of_reminders_needs_an_actor(w: World) -> None:
    with pytest.raises(InvalidArgument, match=r"actor\.id"):
        await w.scheduler.delete_by_name_prefix(
            d.DeleteByNamePrefixRequest(name_prefix="a", metadata=actor(actor_id=""))
        )


@virtual(at_rest)
async def test_a_list_that_no_message_can_hold_says_so(w: World) -> None:
    for number in range(5):
        await w.schedule(f"job{number}", due_time="1h", data={"value": b"x" * 1_000_000})
    with pytest.raises(ResourceExhausted, match=r"atf job ls dapr-scheduler\.prod/job:billing:"):
        await w.scheduler.list_jobs(d.ListJobsRequest(metadata=app()))
