"""Dapr's HTTP API of a frontend, on a real port: what it answers, what it refuses, and how it ends."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.struct_pb2 import Value
from google.protobuf.wrappers_pb2 import StringValue

from atf.auth.caller import Caller, CallerKind
from atf.auth.grants import TokenGrant, Verb
from atf.auth.wrong_tries import WrongTries
from atf.config.settings import FrontendSettings, SecuritySettings
from atf.errors import ConfigError, Unauthenticated
from atf.frontend.dapr.http import HttpPort
from atf.frontend.dapr.runtime import DaprRuntime
from atf.metrics.metrics import Metrics
from atf.rpc import dapr_runtime_pb2 as d, frontend_pb2 as f
from atf.rpc.caller_limits import CallerLimits
from atf.rpc.server_security import ServerSecurity
from tests.frontend.conftest import Bench

JOB = "/v1.0/jobs/report"


class Web:
    """A caller of the port."""

    def __init__(self, runtime: DaprRuntime, port: HttpPort, address: str, session: aiohttp.ClientSession) -> None:
        self.runtime, self.port, self.address = runtime, port, address
        self._session = session

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        given = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        data = None if given is None else io.BytesIO(given)
        async with self._session.request(method, f"http://{self.address}{path}", data=data, **more) as answer:
            text = await answer.read()
            return answer.status, json.loads(text) if text else None


@pytest.fixture
async def web(bench: Bench) -> AsyncIterator[Web]:
    runtime = DaprRuntime(bench.frontend, FrontendSettings(dapr_app_id="orders"))
    port = HttpPort(runtime, grace=1)
    address = await port.open("127.0.0.1:0")
    async with aiohttp.ClientSession() as session:
        yield Web(runtime, port, address, session)
    await port.stop()


async def test_it_says_that_it_is_ready_until_it_drains(web: Web) -> None:
    assert await web.ask("GET", "/v1.0/healthz/outbound") == (204, None)
    assert await web.ask("GET", "/v1.0/healthz") == (204, None)
    web.port.drain()
    status, answer = await web.ask("GET", "/v1.0/healthz/outbound")
    assert (status, answer["errorCode"]) == (500, "ERR_HEALTH_NOT_READY")
    assert (await web.ask("POST", JOB, {"schedule": "@daily"}))[0] == 204, "calls are still answered"


@pytest.mark.parametrize("base", ["/v1.0/jobs", "/v1.0-alpha1/jobs", "/v1.0/schedule/jobs"])
async def test_a_job_is_made_read_and_deleted(web: Web, base: str) -> None:
    body = {"schedule": "@every 1m", "repeats": 3, "dueTime": "1h", "ttl": "2h", "data": {"a": [1, None, "ä"]}}
    assert await web.ask("POST", f"{base}/report", body) == (204, None)
    assert await web.ask("GET", f"{base}/report") == (200, {"name": "report", **body})
    assert await web.ask("DELETE", f"{base}/report") == (204, None)
    assert await web.ask("DELETE", f"{base}/report") == (204, None)
    status, answer = await web.ask("GET", f"{base}/report")
    assert (status, answer["errorCode"]) == (404, "DAPR_SCHEDULER_GET_JOB")


async def test_names_of_protobuf_do_as_well(web: Web) -> None:
    policy = {"constant": {"interval": "3s", "max_retries": 5}}
    body = {"schedule": "@daily", "due_time": "1h", "failure_policy": policy}
    assert (await web.ask("POST", JOB, body))[0] == 204
    found = (await web.ask("GET", JOB))[1]
    assert found["failurePolicy"] == {"constant": {"interval": "3s", "maxRetries": 5}}
    assert found["dueTime"] == "1h"


@pytest.mark.parametrize("data", ["text", 123, 1.5, True, None, [1, 2], {"@type": "mine", "x": {}}])
async def test_data_is_any_json_and_travels_as_google_protobuf_value(web: Web, data: Any) -> None:
    await web.ask("POST", JOB, {"dueTime": "1h", "data": data})
    found = (await web.ask("GET", JOB))[1]["data"]
    assert found == data
    assert type(found) is type(data)
    job = (await web.runtime.get_job(d.GetJobRequest(name="report"), {})).job
    assert job.data.type_url == "type.googleapis.com/google.protobuf.Value"
    assert job.data.Unpack(Value())


async def test_data_that_came_by_grpc_is_shown_as_well_as_it_can_be(web: Web) -> None:
    known = AnyMessage()
    known.Pack(StringValue(value="x"))
    theirs = AnyMessage(type_url="type.googleapis.com/acme.Order", value=b"\0\xff")
    broken = AnyMessage(type_url=known.type_url, value=b"\xff")
    shown = []
    for data in (known, theirs, broken, AnyMessage()):
        made = d.ScheduleJobRequest(job=d.Job(name="report", schedule="@daily", data=data), overwrite=True)
        await web.runtime.schedule_job(made, {})
        shown.append((await web.ask("GET", JOB))[1].get("data", "nothing"))
    assert shown == [
        {"@type": known.type_url, "value": "x"},
        {"@type": theirs.type_url, "value": "AP8="},
        {"@type": known.type_url, "value": "/w=="},
        "nothing",
    ]


async def test_a_name_is_taken_until_told_to_overwrite(web: Web) -> None:
    await web.ask("POST", JOB, {"schedule": "@daily"})
    status, answer = await web.ask("POST", JOB, {"schedule": "@hourly"})
    assert (status, answer["errorCode"]) == (409, "DAPR_SCHEDULER_SCHEDULE_JOB")
    assert "overwrite" in answer["message"]
    kind = "type.googleapis.com/google.rpc.ErrorInfo"
    assert answer["details"] == [{"@type": kind, "reason": "DAPR_SCHEDULER_SCHEDULE_JOB", "domain": "dapr.io"}]
    assert (await web.ask("POST", JOB, {"schedule": "@hourly", "overwrite": True}))[0] == 204


@pytest.mark.parametrize(
    ("body", "says", "reason"),
    [
        (b"", "JSON", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b"{", "JSON", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b"\xff{}", "JSON", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b"[{}]", "JSON", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b"null", "JSON", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b'"x"', "JSON", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b'"\\ud800"', "surrogate", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b'{"\\ud800": 1}', "surrogate", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b'{"schedule": "@daily", "schedule": "@hourly"}', "schedule", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b'{"data": ' + b"[" * 100_000, "JSON", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b'{"schedule": "@daily", "data": ' + b"[" * 500 + b"]" * 500 + b"}", "JSON", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b'{"schedule": "@daily", "data": NaN}', "JSON", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b'{"schedule": "@daily", "repeats": ' + b"9" * 5_000 + b"}", "JSON", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b'{"schedule": "@daily", "data": 1e999}', "1e999", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b'{"schedule": "@daily", "data": "\\ud800"}', "JSON", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b'{"schedule": "@daily", "data": 1' + b"0" * 400 + b"}", "JSON", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (b'{"schedule": "' + b"9" * 5_000 + b'"}', "schedule", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        ({}, "schedule", "DAPR_SCHEDULER_SCHEDULE_EMPTY"),
        ({"schedule": "@daily", "name": "other"}, "name", "DAPR_SCHEDULER_JOB_NAME"),
        ({"schedule": "@daily", "shedule": 1}, "shedule", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        ({"schedule": 5}, "schedule", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        ({"schedule": "@daily", "repeats": -1}, "repeats", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        ({"schedule": "@daily", "repeats": 1.5}, "repeats", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        ({"schedule": "@daily", "overwrite": "maybe"}, "overwrite", "DAPR_SCHEDULER_SCHEDULE_JOB"),
        ({"schedule": "@daily", "failurePolicy": {"constant": {"interval": "soon"}}}, "interval", None),
        ({"schedule": "@daily", "failurePolicy": {"drop": {}, "constant": {}}}, "policy", None),
        ({"schedule": "61 * * * * *"}, "61", "DAPR_SCHEDULER_SCHEDULE_JOB"),
    ],
)
async def test_a_malformed_body_is_refused_with_a_sentence_and_nothing_is_stored(
    bench: Bench, web: Web, body: Any, says: str, reason: str | None
) -> None:
    status, answer = await web.ask("POST", JOB, body)
    assert (status, answer["errorCode"]) == (400, reason or "DAPR_SCHEDULER_SCHEDULE_JOB")
    assert says in answer["message"]
    assert len(answer["message"]) < 2_000
    assert (await bench.frontend.list_jobs(f.ListJobsRequest())).jobs == []


async def test_a_body_is_at_most_a_mebibyte(web: Web) -> None:
    for size, status in ((1 << 20, 204), ((1 << 20) + 1, 413)):
        body = b'{"schedule": "@daily"}'.ljust(size)
        assert (await web.ask("POST", JOB, body))[0] == status


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/v1.0/jobs/%20", 400, "DAPR_SCHEDULER_JOB_NAME_EMPTY"),
        ("/v1.0/jobs/a%2Fb", 400, "DAPR_SCHEDULER_SCHEDULE_JOB"),
        ("/v1.0/jobs/" + "x" * 256, 400, "DAPR_SCHEDULER_SCHEDULE_JOB"),
        ("/v1.0/jobs/", 404, "NotFound"),
        ("/v1.0/invoke/x", 404, "NotFound"),
        ("/v1.0/healthz", 405, "ERR_BAD_REQUEST"),
    ],
)
async def test_a_path_that_names_no_job_is_refused(web: Web, path: str, status: int, reason: str) -> None:
    answered, answer = await web.ask("POST", path, {"schedule": "@daily"})
    assert (answered, answer["errorCode"]) == (status, reason)
    assert len(answer["message"]) > 20


async def test_a_name_may_have_any_letters(web: Web) -> None:
    assert (await web.ask("POST", "/v1.0/jobs/t%C3%A4glich%201", {"schedule": "@daily"}))[0] == 204
    assert (await web.runtime.get_job(d.GetJobRequest(name="täglich 1"), {})).job.name == "täglich 1"


async def test_a_header_says_whose_call_it_is(web: Web) -> None:
    who = {"dapr-app-id": "billing", "dapr-api-token": "unused"}
    assert (await web.ask("POST", JOB, {"schedule": "@daily"}, headers=who))[0] == 204
    assert (await web.ask("GET", JOB))[0] == 404
    assert (await web.ask("GET", JOB, headers=who))[0] == 200


async def test_a_bug_says_nothing_of_the_inside(
    web: Web, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(*_: Any) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(web.runtime, "get_job", broken)
    status, answer = await web.ask("GET", JOB)
    assert (status, answer["errorCode"]) == (500, "Internal")
    assert "secret" not in answer["message"]
    capsys.readouterr()


async def test_a_call_that_runs_is_answered_when_it_ends(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(*_: Any) -> d.DeleteJobResponse:
        began.set()
        await go_on.wait()
        return d.DeleteJobResponse()

    monkeypatch.setattr(web.runtime, "delete_job", slow)
    asking = asyncio.ensure_future(web.ask("DELETE", JOB))
    await began.wait()
    stopping = asyncio.ensure_future(web.port.stop())
    await asyncio.sleep(0)
    go_on.set()
    assert await asking == (204, None)
    await stopping
    with pytest.raises(aiohttp.ClientConnectorError):
        await web.ask("GET", "/v1.0/healthz")


async def test_a_port_in_use_is_refused_with_what_to_do(web: Web) -> None:
    with pytest.raises(ConfigError, match=r"port \d+ is in use.*--dapr-http"):
        await HttpPort(web.runtime, grace=1).open(web.address)
    with pytest.raises(ConfigError, match="dapr_http = 'nonsense'"):
        await HttpPort(web.runtime, grace=1).open("nonsense")


class Noted(WrongTries):
    """Notes who has shown what is not valid."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    async def after(self, peer: str, why: str) -> None:
        self.noted.append(f"{peer.rpartition(':')[0]} {why}")


class Knows:
    """Knows nobody but `right`."""

    async def caller(self, shown: str, subjects: Sequence[str]) -> Caller:  # noqa: ARG002
        if shown != "Bearer right":
            raise Unauthenticated("who is that?")
        return Caller(CallerKind.TOKEN, "token x", TokenGrant(frozenset({Verb.ADMIN}), frozenset({"*"})))


@asynccontextmanager
async def guarded(bench: Bench, security: ServerSecurity) -> AsyncIterator[Web]:
    runtime = DaprRuntime(bench.frontend, FrontendSettings(dapr_app_id="orders"))
    port = HttpPort(runtime, grace=1, security=security)
    address = await port.open("127.0.0.1:0")
    async with aiohttp.ClientSession() as session:
        yield Web(runtime, port, address, session)
    await port.stop()


async def test_wrong_tokens_count_by_the_address_and_not_by_what_headers_say(bench: Bench) -> None:
    tries = Noted()
    async with guarded(bench, ServerSecurity(Knows(), wrong_tries=tries)) as web:
        for header in ("authorization", "dapr-api-token"):
            status, answer = await web.ask("GET", JOB, headers={header: "wrong", "X-Forwarded-For": "10.0.0.1"})
            assert (status, answer["message"]) == (401, "who is that?")
        assert (await web.ask("GET", JOB, headers={"dapr-api-token": "right"}))[0] == 404
        assert (await web.ask("GET", "/v1.0/healthz", headers={"dapr-api-token": "wrong"}))[0] == 204
    assert tries.noted == ["ipv4:127.0.0.1 who is that?"] * 2


async def test_a_caller_has_so_many_requests_a_second(bench: Bench) -> None:
    limits = CallerLimits(SecuritySettings(caller_rate=1), Metrics())
    async with guarded(bench, ServerSecurity(Knows(), limits=limits)) as web:
        found = [await web.ask("GET", JOB, headers={"dapr-api-token": "right"}) for _ in range(3)]
        assert [status for status, _ in found] == [404, 404, 429]
        assert found[2][1]["errorCode"] == "TooManyCalls"
        assert "token x makes more than 1 calls a second, and caller_rate allows no more" in found[2][1]["message"]


async def test_a_body_that_is_packed_is_refused(web: Web) -> None:
    packed = gzip.compress(json.dumps({"schedule": "@daily"}).encode())
    status, answer = await web.ask("POST", JOB, packed, headers={"Content-Encoding": "gzip"})
    assert status == 415
    assert "the body has the coding 'gzip': send it as it is" in answer["message"]
