"""`atf/http` against a server on loopback: what goes out, what comes of each answer, and what is never called."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import atf
from atf.builtin import with_builtins
from atf.builtin.http import HttpCaller
from atf.builtin.http_request import checked_request
from atf.builtin.http_session import why_no_tls
from atf.config.allowed_hosts import AllowedHosts
from atf.config.settings import ExecutorSettings
from atf.errors import ConfigError
from atf.executor.outcome import GaveUp, RunFailed, of_exception
from atf.runtime import SystemRuntime

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Clocks(SystemRuntime):
    """A monotonic clock that the test moves."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


class Target:
    """One address of a service: answers as it is told, and keeps what it got."""

    def __init__(self, server: TestServer) -> None:
        self.server = server
        self.got: list[tuple[web.Request, bytes]] = []
        self.answer: Handler = self._hello

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/hook"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.got.append((request, await request.read()))
        return await self.answer(request)

    def answers(self, status: int, body: str = "", **headers: str) -> None:
        async def answer(_request: web.Request) -> web.StreamResponse:
            return web.Response(
                status=status, text=body, headers={name.replace("_", "-"): headers[name] for name in headers}
            )

        self.answer = answer

    async def _hello(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response({"hello": "there"})


@asynccontextmanager
async def serving() -> AsyncIterator[Target]:
    app = web.Application()
    server = TestServer(app, host="127.0.0.1")
    target = Target(server)
    app.router.add_route("*", "/{path:.*}", target.handle)
    async with server:
        yield target


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    async with serving() as each:
        yield each


@pytest.fixture
async def other() -> AsyncIterator[Target]:
    async with serving() as each:
        yield each


def context(**given: Any) -> atf.Context:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    run: dict[str, Any] = {"task_id": "0-abc", "attempt": 2, "run": 3, "fence": 77, "scheduled_at": at, **given}
    return atf.Context(lambda_name="atf/http", **run)


async def call(url: Any, *, allow: str = "127.0.0.1", ctx: atf.Context | None = None, **arguments: Any) -> Any:
    """Runs the lambda as an executor has it."""
    found = with_builtins({}, ExecutorSettings(http_allow=allow))["atf/http"]
    return await found.fn(ctx or context(), url, **arguments)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_request_goes_out_as_it_was_asked_for_and_tells_of_the_run(target: Target) -> None:
    ctx = context(job="shop/ünïon/x y", tick=12)
    result = await call(target.url + "?a=1#f", ctx=ctx, body={"n": [1, "ü"]}, headers={"Authorization": "Bearer abc"})
    assert result == {
        "status": 200,
        "content_type": "application/json; charset=utf-8",
        "body": '{"hello": "there"}',
        "truncated": False,
        "url": f"http://127.0.0.1:{target.server.port}",
    }
    ((request, body),) = target.got
    assert (request.method, request.path_qs, body) == ("POST", "/hook?a=1", '{"n":[1,"ü"]}'.encode())
    headers = dict(request.headers)
    assert headers.pop("Host") == f"127.0.0.1:{target.server.port}"
    assert headers == {
        "Authorization": "Bearer abc",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Content-Length": "14",
        "Content-Type": "application/json",
        "Idempotency-Key": "0-abc",
        "User-Agent": "ATF",
        "ATF-Task-Id": "0-abc",
        "ATF-Attempt": "2",
        "ATF-Fence": "77",
        "ATF-Scheduled-At": "2026-01-02T03:04:05Z",
        "ATF-Job": "shop/%C3%BCn%C3%AFon/x%20y",
        "ATF-Tick": "12",
    }


async def test_a_users_own_idempotency_key_wins_and_a_request_may_have_no_body(target: Target) -> None:
    await call(target.url, method="get", headers={"idempotency-key": "mine", "user-agent": "me"})
    ((request, body),) = target.got
    assert request.headers.getall("Idempotency-Key") == ["mine"]
    assert request.headers.getall("User-Agent") == ["me"]
    assert "ATF-Job" not in request.headers
    assert "Content-Type" not in request.headers
    assert (request.method, body) == ("GET", b"")


@pytest.mark.parametrize(
    ("status", "headers", "after"),
    [
        (408, {}, None),
        (425, {}, None),
        (429, {"Retry_After": "17"}, 17),
        (500, {}, None),
        (502, {"Retry_After": "3"}, 3),
        (503, {"Retry_After": "120"}, 120),
        (503, {"Retry_After": "0"}, None),
        (599, {"Retry_After": "never"}, None),
    ],
)
async def test_a_failure_that_may_pass_is_tried_again_when_the_target_says(
    target: Target, status: int, headers: dict[str, str], after: float | None
) -> None:
    target.answers(status, "busy\x1b[2J", **headers)
    with pytest.raises(atf.Retry) as failed:
        await call(target.url)
    outcome = of_exception(failed.value)
    assert isinstance(outcome, RunFailed)
    assert outcome.after_s == after
    assert f"127.0.0.1:{target.server.port} answered {status}" in outcome.error
    assert "busy\\x1b[2J" in outcome.error
    assert len(target.got) == 1


@pytest.mark.parametrize("status", [304, 400, 401, 404, 409, 422, 451])
async def test_any_other_failure_is_final_and_names_the_status_and_the_body(target: Target, status: int) -> None:
    target.answers(status, "" if status == 304 else "you sent Bearer s3cr3t-token", Retry_After="1")
    with pytest.raises(atf.Fatal) as failed:
        await call(target.url + "?key=hush", headers={"Authorization": "Bearer s3cr3t-token"})
    outcome = of_exception(failed.value)
    assert isinstance(outcome, GaveUp)
    assert f"answered {status} " in outcome.error
    assert ("you sent [hidden]" in outcome.error) == (status != 304)
    for secret in ("hush", "s3cr3t"):
        assert secret not in outcome.error.splitlines()[0]
    assert "atf/builtin" not in outcome.error  # our own frames are of no use to anybody


async def test_a_redirect_is_not_followed_and_the_error_says_where_it_pointed(target: Target, other: Target) -> None:
    target.answers(307, Location=other.url + "?token=hush")
    with pytest.raises(atf.Fatal, match="redirects are not followed") as failed:
        await call(target.url)
    assert other.url in str(failed.value)
    assert "hush" not in str(failed.value)
    assert not other.got


@pytest.mark.parametrize(
    ("allow", "host"),
    [
        ("", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("127.0.0.1", "localhost"),
        ("127.0.0.1", "[::1]"),
    ],
)
async def test_a_host_that_is_not_listed_is_not_called(target: Target, allow: str, host: str) -> None:
    url = f"http://{host}:{target.server.port}/"
    with pytest.raises(atf.Fatal, match="--http-allow") as failed:
        await call([target.url, url] if allow == "127.0.0.1" else url, allow=allow)
    assert f"{host}:{target.server.port}" in str(failed.value)
    assert not target.got


@pytest.mark.parametrize("allow", ["*", "*, 127.0.0.1"])
async def test_a_name_that_leads_into_the_internal_network_is_not_called(target: Target, allow: str) -> None:
    with pytest.raises(atf.Fatal, match=r"url: localhost leads to \S+, which is not allowed here"):
        await call(target.url.replace("127.0.0.1", "localhost"), allow=allow)
    assert not target.got
    assert (await call(target.url.replace("127.0.0.1", "localhost"), allow="*, localhost"))["status"] == 200


async def test_of_a_names_addresses_only_those_are_connected_to_that_may_be_called(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []

    async def two(_loop: object, host: str, port: int, **_: Any) -> Any:
        looked_up.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in ("169.254.169.254", "127.0.0.1")]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", two)
    url = target.url.replace("127.0.0.1", "two.example")
    assert (await call(url, allow="*.example", timeout=1))["status"] == 200
    assert looked_up == ["two.example"]  # once: what was looked at is what is connected to
    with pytest.raises(atf.Fatal, match=r"two\.example leads to 169\.254\.169\.254"):
        await call(url, allow="*")


async def test_bad_arguments_are_final() -> None:
    bad: list[dict[str, Any]] = [
        {"method": "BREW"},
        {"timeout": 0},
        {"headers": {"Host": "x"}},
        {"url": "http://u:p@a"},
    ]
    for arguments in bad:
        with pytest.raises(atf.Fatal, match=next(iter(arguments))):
            await call(**({"url": "http://127.0.0.1"} | arguments))


async def test_no_proxy_of_the_environment_sees_a_request(
    target: Target, other: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, other.url)
    await call(target.url)
    assert len(target.got) == 1
    assert not other.got


async def test_no_cookie_goes_from_one_task_to_the_next(target: Target) -> None:
    target.answers(200, Set_Cookie="session=1")
    caller = HttpCaller(AllowedHosts.parse("127.0.0.1, localhost"), SystemRuntime())
    for _ in range(2):
        url = target.url.replace("127.0.0.1", "localhost")  # a jar would keep none of a mere address
        await caller.call(context(), checked_request(url, "POST", None, None, 5))
    assert "Cookie" not in target.got[1][0].headers
    assert len({request.transport for request, _ in target.got}) == 1  # over one connection all the same


async def test_of_a_body_without_end_the_beginning_is_read(target: Target) -> None:
    closed = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65_536)
        finally:
            closed.set()

    target.answer = endless
    result = await call(target.url)
    assert result["truncated"]
    assert 48_000 < len(result["body"]) <= 49_152
    await asyncio.wait_for(closed.wait(), 10)


async def test_a_compressed_bomb_stays_what_it_is(target: Target) -> None:
    bomb = gzip.compress(bytes(1 << 24))

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    target.answer = answer
    result = await call(target.url)
    assert result["body"].startswith("\x1f")
    assert len(result["body"]) <= len(bomb)


async def test_a_slow_answer_is_given_up_within_the_timeout_and_before_the_deadline(target: Target) -> None:
    async def never(_request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"beginning")
        await asyncio.Event().wait()
        raise AssertionError

    for handler in (never, half):
        target.answer = handler
        with pytest.raises(atf.Retry, match=r"no answer within 0\.1 s"):
            await call(target.url, timeout=0.1)
    soon = datetime.now(UTC) + timedelta(seconds=0.5)
    with pytest.raises(atf.Retry, match=r"no answer within 0\."):
        await call(target.url, ctx=context(deadline=soon))


async def test_an_answer_that_breaks_off_or_is_no_http_is_tried_again() -> None:
    answers = [
        b"",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab",
        b"HTTP/1.1 200",
    ]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers[0])
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/?key=hush"
        while answers:
            with pytest.raises(atf.Retry) as failed:
                await call(url)
            assert "hush" not in str(failed.value)
            answers.pop(0)


async def test_an_error_of_tls_says_what_the_library_said(target: Target) -> None:
    with pytest.raises(atf.Retry, match=r"no connection: TLS failed: (wrong version number|record layer failure)"):
        await call(target.url.replace("http:", "https:"))  # it speaks no TLS
    untrusted = ssl.SSLCertVerificationError(1, "certificate verify failed: self-signed certificate")
    untrusted.verify_message = "self-signed certificate"
    key = aiohttp.client_reqrep.ConnectionKey("a", 443, True, True, None, None, None)
    found = aiohttp.ClientConnectorCertificateError(key, untrusted)
    assert why_no_tls(found) == "its certificate is not trusted: self-signed certificate"


async def test_an_address_without_a_server_gives_its_turn_to_the_next(target: Target) -> None:
    runtime = Clocks()
    caller = HttpCaller(AllowedHosts.parse("127.0.0.1, *.invalid"), runtime)
    gone = f"http://127.0.0.1:{closed_port()}/"
    request = checked_request([gone, target.url], "POST", None, None, 5)
    for _ in range(4):
        assert (await caller.call(context(), request))["status"] == 200
    assert len(target.got) == 4
    runtime.now += 0.5
    with pytest.raises(atf.Retry, match="no connection"):
        await caller.call(context(), checked_request([gone], "POST", None, None, 5))


async def test_a_host_that_is_not_found_in_time_gives_its_turn_to_the_next(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
    gone = "http://slow.invalid/"
    assert (await call([gone, target.url], allow="127.0.0.1,slow.invalid", timeout=0.5))["status"] == 200
    with pytest.raises(atf.Retry, match="no connection in time"):
        await call(gone, allow="slow.invalid", timeout=0.5)


async def test_a_request_that_may_have_been_done_is_not_sent_to_another_address_in_the_same_run(
    target: Target, other: Target
) -> None:
    runtime = Clocks()
    caller = HttpCaller(AllowedHosts.parse("127.0.0.1"), runtime)
    request = checked_request([target.url, other.url], "POST", None, None, 5)
    target.answers(500)
    with pytest.raises(atf.Retry):
        await caller.call(context(), request)
    assert (len(target.got), len(other.got)) == (1, 0)
    for _ in range(3):  # it is set aside
        await caller.call(context(), request)
    assert (len(target.got), len(other.got)) == (1, 3)
    runtime.now += 1.01
    target.answers(200)
    for _ in range(4):  # it is back, and works: they take turns
        await caller.call(context(), request)
    assert (len(target.got), len(other.got)) == (3, 5)


async def test_an_address_that_is_unavailable_gives_its_turn_to_the_next_and_stays_away_as_long_as_it_says(
    target: Target, other: Target
) -> None:
    runtime = Clocks()
    caller = HttpCaller(AllowedHosts.parse("127.0.0.1"), runtime)
    request = checked_request([target.url, other.url], "POST", None, None, 5)
    target.answers(503, Retry_After="20")
    for _ in range(3):
        await caller.call(context(), request)
    runtime.now += 19
    for _ in range(2):
        await caller.call(context(), request)
    assert (len(target.got), len(other.got)) == (1, 5)
    runtime.now += 2
    other.answers(503, Retry_After="5")
    with pytest.raises(atf.Retry) as failed:
        await caller.call(context(), request)
    assert failed.value.after_s == 5  # the first of them to come back
    assert "503" in str(failed.value)


async def test_it_is_served_beside_the_users_lambdas_in_a_namespace_that_is_not_theirs() -> None:
    mine = atf.App("shop")

    @mine.task
    def add(a: int) -> int:
        return a

    found = with_builtins(mine.lambdas, ExecutorSettings())
    assert {"shop/add", "atf/http"} <= found.keys()
    assert found["atf/http"].is_async
    taken = atf.App("atf")
    taken.task(name="http")(lambda: None)
    with pytest.raises(ConfigError, match="namespace"):
        with_builtins(taken.lambdas, ExecutorSettings())
