"""Whose calls Dapr's services take: those of tokens for the application's namespace, by gRPC's header, Dapr's own, or HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aiohttp
import pytest

from atf.auth.caller import Caller, CallerKind, acting_for
from atf.auth.grants import TokenGrant, Verb
from atf.auth.secrets import shown_in
from atf.config.settings import FrontendSettings, Timing
from atf.errors import PermissionDenied, Unauthenticated
from atf.frontend.dapr.http import HttpPort
from atf.frontend.dapr.runtime import DaprRuntime
from atf.frontend.dapr.scheduler import SchedulerService
from atf.rpc import dapr_runtime_pb2 as d, dapr_scheduler_pb2 as s
from atf.rpc.server_security import ServerSecurity
from tests.frontend.conftest import Bench

GRANT = TokenGrant(frozenset({Verb.SCHEDULE, Verb.READ_PAYLOAD}), frozenset({"dapr.billing", "dapr-scheduler.prod"}))
BILLING = Caller(CallerKind.TOKEN, "token x", GRANT)


async def test_an_application_has_its_own_jobs_alone(bench: Bench) -> None:
    dapr = DaprRuntime(bench.frontend, FrontendSettings(dapr_app_id="billing"))
    asked = d.ScheduleJobRequest(job=d.Job(name="backup", schedule="@every 1h"))
    other = {"dapr-app-id": "mail"}
    with acting_for(BILLING):
        await dapr.schedule_job(asked, {})
        assert (await dapr.get_job(d.GetJobRequest(name="backup"), {})).job.name == "backup"
        for call in (
            dapr.schedule_job(asked, other),
            dapr.get_job(d.GetJobRequest(name="backup"), other),
            dapr.list_jobs(d.ListJobsRequest(), other),
            dapr.delete_job(d.DeleteJobRequest(name="backup"), other),
            dapr.delete_jobs_by_prefix(d.DeleteJobsByPrefixRequest(), other),
        ):
            with pytest.raises(PermissionDenied, match=r"token x: no (schedule|read_payload) for dapr\.mail"):
                await call
        await dapr.delete_jobs_by_prefix(d.DeleteJobsByPrefixRequest(), {})
    assert [each.who for each in await bench.audit()] == ["token x", "token x"]


async def test_a_sidecar_has_the_jobs_of_its_namespace_alone(bench: Bench) -> None:
    scheduler = SchedulerService(frontend=bench.frontend, store=bench.store, timing=Timing(), runtime=bench.clock)

    def of(namespace: str) -> s.JobMetadata:
        return s.JobMetadata(namespace=namespace, app_id="app", target=s.JobTargetMetadata(job=s.TargetJob()))

    job = s.Job(schedule="@every 1h")
    with acting_for(BILLING):
        await scheduler.schedule_job(s.ScheduleJobRequest(name="a", metadata=of("prod"), job=job))
        assert len((await scheduler.list_jobs(s.ListJobsRequest(metadata=of("prod")))).jobs) == 1

        async def first() -> Any:
            yield s.WatchJobsRequest(initial=s.WatchJobsRequestInitial(namespace="prod", app_id="app"))

        calls: Sequence[Any] = (
            scheduler.schedule_job(s.ScheduleJobRequest(name="a", metadata=of("test"), job=job)),
            scheduler.get_job(s.GetJobRequest(name="a", metadata=of("test"))),
            scheduler.list_jobs(s.ListJobsRequest(metadata=of("test"))),
            scheduler.delete_job(s.DeleteJobRequest(name="a", metadata=of("test"))),
            scheduler.delete_by_metadata(s.DeleteByMetadataRequest(metadata=of("test"))),
            scheduler.delete_by_name_prefix(s.DeleteByNamePrefixRequest(metadata=of("test"))),
            anext(scheduler.watch_jobs(first())),  # which takes the verb work
        )
        for call in calls:
            with pytest.raises(PermissionDenied, match=r"for dapr-scheduler\.(test|prod)/job\.app"):
                await call


def test_a_token_comes_by_either_header() -> None:
    assert shown_in({"dapr-api-token": "atf_x"}) == "Bearer atf_x"
    assert shown_in({"dapr-api-token": "atf_x", "authorization": "Bearer atf_y"}) == "Bearer atf_y"
    assert not shown_in({})


class OneToken:
    """Knows one caller."""

    async def caller(self, shown: str, _subjects: Sequence[str]) -> Caller:
        if shown != "Bearer atf_x":
            raise Unauthenticated("nobody that is known")
        return BILLING


async def test_http_takes_a_token(bench: Bench) -> None:
    dapr = DaprRuntime(bench.frontend, FrontendSettings(dapr_app_id="billing"))
    port = HttpPort(dapr, 1, ServerSecurity(OneToken()))
    address = await port.open("127.0.0.1:0")
    try:
        async with aiohttp.ClientSession(f"http://{address}") as session:

            async def status(method: str, path: str = "/v1.0/jobs/a", **headers: str) -> int:
                body = {"schedule": "@every 1h"} if method == "POST" else None
                async with session.request(method, path, json=body, headers=headers) as answer:
                    return answer.status

            token = {"dapr-api-token": "atf_x"}
            assert [await status(each) for each in ("POST", "GET", "DELETE")] == [401] * 3
            assert await status("GET", **{"dapr-api-token": "atf_y"}) == 401
            assert await status("GET", "/v1.0/healthz") == 204
            assert await status("POST", **token) == 204
            assert await status("GET", authorization="Bearer atf_x") == 200
            assert await status("POST", **token, **{"dapr-app-id": "mail"}) == 403
            assert await status("GET", "/v1.0/other", **token) == 404
    finally:
        await port.stop()
