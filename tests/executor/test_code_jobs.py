"""Jobs that lambdas declare with their code: made once, brought up to date, left alone where somebody else made them, never deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator

import fakeredis
import pytest

import atf
from atf.config.settings import StoreSettings, Timing
from atf.executor.code_jobs import register_jobs
from atf.frontend.service import FrontendService
from atf.rpc import frontend_pb2 as f, job_pb2 as j
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.store_consumer.ticks import tick_of
from atf.testing.wiring import Wiring


def app(**options: object) -> atf.App:
    made = atf.App("shop")

    @made.task(**options)  # type: ignore[call-overload, untyped-decorator]
    def nightly(of: str = "all") -> None: ...

    return made


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    made = await Store.open(StoreSettings(partitions=2), Timing(), SystemRuntime(), fake=fakeredis.FakeServer())
    yield made
    await made.close()


@pytest.fixture
def frontend(store: Store) -> FrontendService:
    return Wiring(SystemRuntime(), Timing()).frontend(store)


async def start(frontend: FrontendService, made: atf.App) -> None:
    """As an executor does."""
    specs = [each.spec() for each in made.lambdas.values()]
    await frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=specs))
    await register_jobs(frontend, [each.job for each in made.lambdas.values() if each.job is not None], {"shop"})


async def job(frontend: FrontendService) -> j.Job:
    return await frontend.get_job(f.GetJobRequest(name="shop/nightly"))


async def test_a_job_of_the_code_is_made_once(frontend: FrontendService) -> None:
    await start(frontend, app(schedule="@daily", tz="Europe/Paris", job={"misfire": "all"}))
    made = await job(frontend)
    assert (made.spec.schedule, made.spec.tz, made.spec.misfire) == ("@daily", "Europe/Paris", j.ALL)
    await start(frontend, app(schedule="@daily", tz="Europe/Paris", job={"misfire": "all"}))
    assert await job(frontend) == made


async def test_what_the_code_says_now_replaces_what_it_said(frontend: FrontendService) -> None:
    await start(frontend, app(schedule="@daily"))
    await start(frontend, app(schedule="@hourly"))
    made = await job(frontend)
    assert (made.spec.schedule, made.generation) == ("@hourly", 2)


async def test_what_its_lambda_s_options_are_now_holds_for_its_ticks(frontend: FrontendService) -> None:
    await start(frontend, app(schedule="@daily", timeout=60))
    await start(frontend, app(schedule="@daily", timeout=90))
    made = await job(frontend)
    assert (made.spec.task.options.timeout_us, made.generation) == (90_000_000, 2)
    await start(frontend, app(schedule="@daily", timeout=90, max_attempts=7, backoff=atf.Backoff(9)))
    assert await job(frontend) == made, "its failure policy says how it is retried"


@pytest.mark.parametrize(
    "changed",
    [
        {"timeout": 90},
        {"priority": "high"},
        {"retention": 60},
        {"job": {"misfire": "all", "overlap": "allow", "grace": 9, "jitter": 5, "max_retries": 1}},
        {"schedule": "@every 3600s"},
    ],
)
async def test_a_deploy_that_leaves_the_timing_leaves_the_next_tick(
    frontend: FrontendService, changed: dict[str, object]
) -> None:
    before = {"schedule": "@every 1h"}
    await start(frontend, app(**before))
    made = await job(frontend)
    for options in (changed, {}, changed):  # of a rolling deploy two releases are alive, and register in turns
        await start(frontend, app(**{**before, **options}))
        now = await job(frontend)
        assert (now.next_tick_at_us, now.created_at_us) == (made.next_tick_at_us, made.created_at_us)
    assert (await job(frontend)).generation > made.generation


async def test_a_job_that_has_ended_is_not_made_anew_by_a_deploy_that_leaves_its_timing(
    store: Store, frontend: FrontendService
) -> None:
    options = {"schedule": "@every 1h", "job": {"due_time": "0s", "repeats": 1}}
    await start(frontend, app(**options))
    for partition in range(2):
        for due in (await store.enqueue(partition, 0)).jobs:
            await store.tick(partition, [tick_of(due, partition, due.due_us)])
    assert not (await job(frontend)).next_tick_at_us
    await start(frontend, app(**options, timeout=90))
    again = await job(frontend)
    assert (again.next_tick_at_us, again.ticks, again.spec.task.options.timeout_us) == (0, 1, 90_000_000)
    await start(frontend, app(schedule="@every 2h"))
    assert (await job(frontend)).next_tick_at_us


async def test_a_job_that_is_past_its_ttl_keeps_no_executor_from_starting(frontend: FrontendService) -> None:
    over = {"schedule": "@every 1h", "job": {"ttl": "2020-01-01T00:00:00Z"}}
    await start(frontend, app(**over))
    with pytest.raises(atf.NotFound):
        await job(frontend)
    await start(frontend, app(schedule="@every 1h"))
    with pytest.raises(atf.InvalidArgument, match="ttl: it ends before the first tick"):
        await start(frontend, app(**over))  # the job that goes on is another one
    with pytest.raises(atf.InvalidArgument, match="schedule"):
        await start(frontend, app(**over | {"schedule": "0 0 0 30 2 *"}))


async def test_of_several_jobs_the_one_that_can_not_be_read_is_named(frontend: FrontendService) -> None:
    with pytest.raises(atf.InvalidArgument) as refused:
        await start(frontend, app(schedule="0 0 24 * * *"))
    sentence, place, mark = str(refused.value).splitlines()
    assert sentence.startswith("job shop/nightly of the code: schedule: the hour 24 is over 23")
    assert place[mark.index("^") :].startswith("24")


async def test_a_job_that_left_the_code_goes_on_and_is_said(
    frontend: FrontendService, capsys: pytest.CaptureFixture[str]
) -> None:
    await start(frontend, app(schedule="@daily"))
    await start(frontend, app())
    assert (await job(frontend)).next_tick_at_us
    assert "not in the code any more" in capsys.readouterr().err


async def test_a_job_made_by_hand_is_left_alone(frontend: FrontendService, capsys: pytest.CaptureFixture[str]) -> None:
    await start(frontend, app())
    by_hand = j.JobSpec(name="shop/nightly", schedule="@yearly")
    setattr(by_hand.task, "lambda", "shop/nightly")
    await frontend.schedule_job(f.ScheduleJobRequest(job=by_hand))
    await start(frontend, app(schedule="@daily"))
    assert (await job(frontend)).spec.schedule == "@yearly"
    assert "made by hand" in capsys.readouterr().err


def test_a_job_of_the_code_must_do_without_arguments() -> None:
    made = atf.App("shop")
    with pytest.raises(TypeError, match="need defaults"):

        @made.task(schedule="@daily")
        def nightly(of: str) -> None: ...


def test_what_a_job_says_is_of_no_use_without_a_schedule() -> None:
    with pytest.raises(atf.InvalidArgument, match="without schedule"):
        app(tz="Europe/Paris")


async def test_a_job_whose_lambda_left_the_code_is_said_too_and_one_made_by_hand_is_not(
    frontend: FrontendService, capsys: pytest.CaptureFixture[str]
) -> None:
    await start(frontend, app(schedule="@daily"))
    by_hand = app(schedule="@daily").lambdas["shop/nightly"].job
    assert by_hand is not None
    by_hand.name, by_hand.code = "shop/hand", ""
    await frontend.schedule_job(f.ScheduleJobRequest(job=by_hand))
    capsys.readouterr()
    await register_jobs(frontend, [], {"shop"})
    said = capsys.readouterr().err
    assert said.count("not in the code any more") == 1
    assert "shop/nightly" in said
