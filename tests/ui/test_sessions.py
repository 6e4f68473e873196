"""People sign in by a token; what they see and may do is what that may."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp.test_utils import TestClient, TestServer

from atf.auth.caller import Caller, CallerKind, caller
from atf.auth.grants import TokenGrant, Verb
from atf.auth.methods import check_method
from atf.auth.wrong_tries import WrongTries
from atf.config.settings import SecuritySettings, UiSettings
from atf.errors import PermissionDenied, Unauthenticated
from atf.metrics.metrics import Metrics
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.rpc.caller_limits import CallerLimits
from atf.rpc.local_channel import LocalChannel
from atf.rpc.server_security import OPEN_TO_ALL, ServerSecurity
from atf.rpc.stubs import FrontendStub
from atf.ui.app import SAID_COOKIE, make_app
from atf.ui.security import CSRF_COOKIE, CSRF_FIELD, Refused, check_token
from atf.ui.sessions import COOKIE, IDLE_S, LIFE_S, MOST, MOST_OF_ONE, Sessions
from tests.recorder import Recorder

from .conftest import Browser, TurnedClock

FRONTEND = f.DESCRIPTOR.services_by_name["Frontend"]
READS = {Verb.READ, Verb.READ_PAYLOAD}
TOKENS = {"reader": READS, "operator": {*READS, Verb.OPERATE}}


class Door:
    """Knows people by words; `revoked` are known no more."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()

    async def caller(self, shown: str, subjects: Sequence[str]) -> Caller:  # noqa: ARG002
        word = shown.removeprefix("Bearer ")
        if word not in TOKENS or word in self.revoked:
            raise Unauthenticated("the token is not known here")
        return Caller(CallerKind.TOKEN, f"token {word}", TokenGrant(frozenset(TOKENS[word]), frozenset({"*"})))


class Asked(Recorder):
    """Answers, and notes who has asked for what."""

    def __init__(self) -> None:
        super().__init__()
        self.by: list[str] = []
        self.task = t.Task()
        self.sees_cluster = True

    async def get_task(self, request: f.GetTaskRequest) -> t.Task:  # noqa: ARG002
        return self.task

    async def get_caller(self, request: f.GetCallerRequest) -> f.CallerInfo:  # noqa: ARG002
        who = caller()
        assert who.grant is not None
        return f.CallerInfo(name=who.name, verbs=who.grant.verbs, scopes=who.grant.scopes)

    async def get_status(self, request: f.GetStatusRequest) -> Any:
        self.by.append(caller().name)
        if not self.sees_cluster:
            return f.GetStatusReply(cluster_withheld=True)
        return await super().get_status(request)  # type: ignore[misc]  # they are made by name

    async def list_hosts(self, request: f.ListHostsRequest) -> Any:
        if not self.sees_cluster:
            raise PermissionDenied("no read for all namespaces")
        return await super().list_hosts(request)  # type: ignore[misc]  # they are made by name


@asynccontextmanager
async def at_the_door(
    bounds: ServerSecurity = OPEN_TO_ALL, **settings: Any
) -> AsyncIterator[tuple[Browser, Door, Asked]]:
    door, asked, clock = Door(), Asked(), TurnedClock()
    channel = LocalChannel(FRONTEND, asked, ServerSecurity(door, check_method=check_method).let_in)
    app = make_app(FrontendStub(channel), UiSettings(**settings), clock, login=True, security=bounds)
    async with TestClient(TestServer(app)) as client:
        yield Browser(client, asked, clock, UiSettings(**settings).root), door, asked


async def sign_in(browser: Browser, token: str, back: str = "", **headers: str) -> Any:
    csrf = await csrf_of(browser)
    sent = {"Origin": browser.origin, **headers}
    form = {CSRF_FIELD: csrf, "token": token, "next": back}
    async with browser.client.post(f"{browser.root}/login", data=form, headers=sent, allow_redirects=False) as answer:
        return answer.status, await answer.text(), answer.headers


async def csrf_of(browser: Browser) -> str:
    await browser.get("/login")
    return next(each.value for each in browser.client.session.cookie_jar if each.key == CSRF_COOKIE)


async def test_nobody_sees_a_page_before_signing_in() -> None:
    async with at_the_door() as (browser, _, asked):
        for path in ("/", "/tasks?status=dead", "/find?q=x"):
            async with browser.client.get(path, allow_redirects=False) as answer:
                assert answer.status == 303
                assert answer.headers["Location"].startswith("/login?next=%2F")
        assert (await browser.get("/login"))[0] == 200
        answer = await browser.post("pause-lambda", {"lambda": "a/b", "why": ""}, token=await csrf_of(browser))
        assert answer.headers["Location"] == "/login"
        assert asked.by == []
        async with browser.client.get("/tasks", headers={"HX-Request": "true"}) as partial:
            assert (partial.status, partial.headers["HX-Redirect"]) == (401, "/login")


async def test_whoever_signs_in_goes_on_to_where_they_wanted_and_acts_by_their_token() -> None:
    async with at_the_door(base_path="/atf") as (browser, _, asked):
        status, _, headers = await sign_in(browser, "operator", "/atf/cluster")
        assert (status, headers["Location"]) == (303, "/atf/cluster")
        cookie = headers["Set-Cookie"]
        assert re.search(r"atf_session=[0-9a-f]{64}; HttpOnly; Path=/atf; SameSite=Strict", cookie), cookie
        assert "operator" not in cookie
        status, text = await browser.get("/")
        assert (status, set(asked.by)) == (200, {"token operator"})
        assert "token operator" in text
        assert "Signed in as token operator" in text


async def test_a_wrong_token_is_told_and_is_in_no_answer() -> None:
    async with at_the_door() as (browser, _, _asked):
        status, text, headers = await sign_in(browser, "s3cret-word")
        assert status == 401
        assert "not known here" in text
        assert "s3cret-word" not in text
        assert COOKIE not in headers.get("Set-Cookie", "")
        for strange in ("", "a b", "ä\n" * 50):
            assert (await sign_in(browser, strange))[0] == 401
        status, _, headers = await sign_in(browser, "reader", "//evil.example")
        assert headers["Location"] == "/"


async def test_the_login_of_another_site_is_refused() -> None:
    async with at_the_door() as (browser, _, _asked):
        assert (await sign_in(browser, "reader", Origin="http://evil.example"))[0] == 403


async def test_a_token_that_is_revoked_ends_its_sessions() -> None:
    async with at_the_door() as (browser, door, _):
        await sign_in(browser, "reader")
        door.revoked.add("reader")
        browser.clock.now_us += 60_000_000
        async with browser.client.get("/", allow_redirects=False) as answer:
            assert answer.headers["Location"] == "/login?next=%2F&why=ended"
        assert "Your session has ended" in (await browser.get("/login?next=%2F&why=ended"))[1]
        door.revoked.clear()
        async with browser.client.get("/", allow_redirects=False) as answer:
            assert answer.status == 303, "it has ended"


async def test_signing_out_ends_the_session() -> None:
    async with at_the_door() as (browser, _, _asked):
        await sign_in(browser, "reader")
        form = {CSRF_FIELD: await csrf_of(browser)}
        sent = {"Origin": browser.origin}
        async with browser.client.post("/logout", data=form, headers=sent, allow_redirects=False) as answer:
            assert answer.headers["Location"] == "/login?why=out"
        assert "You are signed out." in (await browser.get("/login?why=out"))[1]
        async with browser.client.get("/", allow_redirects=False) as answer:
            assert answer.status == 303


async def test_what_somebody_may_not_do_is_not_offered_and_is_refused() -> None:
    async with at_the_door() as (browser, _, asked):
        await sign_in(browser, "reader")
        _, reader = await browser.get("/lambdas/a/b")
        answer = await browser.post("pause-lambda", {"lambda": "a/b", "why": ""})
        assert answer.status == 303
        _, said = await browser.get("/lambdas/a/b")
        assert "no operate" in said
        assert "PauseLambda" not in [name for name, _ in asked.asked]
        await sign_in(browser, "operator")
        _, operator = await browser.get("/lambdas/a/b")
        assert ("do-pause-lambda" in reader, "do-pause-lambda" in operator) == (False, True)
        assert "do-set-cores" not in (await browser.get("/cluster"))[1], "that is an admin's"


async def test_what_is_withheld_names_the_verb_that_it_takes() -> None:
    async with at_the_door() as (browser, _, asked):
        withheld = t.Task(id="0-a", status=t.SUCCESS, withheld=True, has_log=True, **{"lambda": "photos/thumbnail"})  # type: ignore[arg-type]
        asked.task = withheld
        await sign_in(browser, "reader")
        for path in ("/tasks/0-a", "/tasks/0-a/result", "/tasks/0-a/log"):
            _, text = await browser.get(path)
            assert 'id="withheld"' in text
            assert "<code>photos</code>" in text
            assert "<code>read_payload</code>" in text
        assert "GetLog" not in [name for name, _ in asked.asked], "it would be refused, and the page with it"
        asked.task = t.Task(id="0-a", status=t.SUCCESS, result=b"1", **{"lambda": "photos/thumbnail"})  # type: ignore[arg-type]
        browser.clock.now_us += 60_000_000
        _, text = await browser.get("/tasks/0-a")
        assert 'class="veil"' not in text


async def test_what_of_the_cluster_is_withheld_is_not_taken_for_dead() -> None:
    async with at_the_door() as (browser, _, asked):
        asked.sees_cluster = False
        await sign_in(browser, "reader")
        _, overview = await browser.get("/")
        assert "none is alive" not in overview
        for path in ("/", "/cluster", "/cluster?tab=store"):
            status, text = await browser.get(path)
            assert (status, 'id="withheld"' in text) == (200, True), path
        assert 'id="withheld"' not in (await browser.get("/cluster?tab=gates"))[1]


async def test_nothing_that_was_read_for_one_is_shown_to_another() -> None:
    async with at_the_door() as (browser, _, asked):
        await sign_in(browser, "operator")
        await browser.get("/")
        await sign_in(browser, "reader")
        await browser.get("/")
        assert set(asked.by) == {"token operator", "token reader"}


@pytest.mark.parametrize("after", [(IDLE_S + 1,), (IDLE_S - 1,) * int(LIFE_S // IDLE_S + 1)])
def test_a_session_is_over_when_nobody_looks_and_in_any_case_after_a_while(after: Sequence[float]) -> None:
    clock = TurnedClock()
    sessions = Sessions(Recorder(), clock)  # type: ignore[arg-type]
    name = sessions.begin("t", f.CallerInfo(name="token t"))
    assert repr(sessions.of(name)) == "Session(token t)"
    found = [sessions.of(name) for seconds in after if clock.turn(seconds)]
    assert found[-1] is None
    assert None not in found[:-1]


def test_there_are_so_many_sessions_at_most() -> None:
    sessions = Sessions(Recorder(), TurnedClock())  # type: ignore[arg-type]
    names = [sessions.begin("t", f.CallerInfo(name=f"token {number}")) for number in range(MOST + 1)]
    assert [sessions.of(names[0]), sessions.of(names[1]) is not None] == [None, True]


def test_who_signs_in_again_and_again_ends_only_their_own_sessions() -> None:
    sessions = Sessions(Recorder(), TurnedClock())  # type: ignore[arg-type]
    other = sessions.begin("o", f.CallerInfo(name="token other"))
    own = [sessions.begin("t", f.CallerInfo(name="token t")) for _ in range(MOST + 1)]
    assert sessions.of(other) is not None
    assert [each is not None for each in map(sessions.of, own[-MOST_OF_ONE - 1 :])] == [False] + [True] * MOST_OF_ONE


class Noted(WrongTries):
    """Notes who has shown what is not valid."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    async def after(self, peer: str, why: str) -> None:
        self.noted.append(f"{peer.rpartition(':')[0]} {why}")


async def test_wrong_tokens_count_by_the_address_and_not_by_what_headers_say() -> None:
    tries = Noted()
    async with at_the_door(ServerSecurity(wrong_tries=tries)) as (browser, _, _asked):
        for more in ({}, {"X-Forwarded-For": "10.1.2.3", "Forwarded": "for=10.1.2.3"}):
            assert (await sign_in(browser, "guessed", **more))[0] == 401
        assert (await sign_in(browser, "reader"))[0] == 303
    assert tries.noted == ["ipv4:127.0.0.1 the token is not known here"] * 2


async def test_a_reader_has_so_many_pages_a_second() -> None:
    limits = CallerLimits(SecuritySettings(caller_rate=1), Metrics())
    async with at_the_door(ServerSecurity(limits=limits)) as (browser, _, _asked):
        await sign_in(browser, "reader")
        found = [await browser.get("/cluster") for _ in range(6)]
        assert {status for status, _ in found} == {200, 429}
        assert "token reader makes more than 1 calls a second" in next(text for status, text in found if status == 429)


async def test_a_form_comes_as_forms_do() -> None:
    async with at_the_door() as (browser, _, asked):
        headers = {"Origin": browser.origin}
        form = {CSRF_FIELD: await csrf_of(browser), "token": "reader"}
        packed = {**headers, "Content-Type": "application/x-www-form-urlencoded", "Content-Encoding": "gzip"}
        plain = packed["Content-Type"]
        for status, more in (
            (415, {"data": gzip.compress(urlencode(form).encode()), "headers": packed}),
            (415, {"json": form, "headers": headers}),
            (415, {"data": urlencode(form), "headers": {**headers, "Content-Type": f"{plain}; charset=bogus"}}),
            (415, {"data": urlencode(form), "headers": {**headers, "Content-Type": f"{plain}; charset=hex"}}),
            (400, {"data": b"token=\xff", "headers": {**headers, "Content-Type": plain}}),
            (403, {"data": form, "headers": {"Origin": "http://["}}),
        ):
            async with browser.client.post("/login", **more) as answer:
                assert answer.status == status, more
        assert asked.by == []


async def test_cookies_that_no_page_has_set_are_passed_over() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 50_000).decode()
    async with at_the_door() as (browser, _, _asked):
        for cookie in (
            f"{SAID_COOKIE}={deep[:6_000]}",
            f"{CSRF_COOKIE}=\udcff",
            f"{COOKIE}=\udcff; {SAID_COOKIE}=\udcff",
        ):
            async with browser.client.get("/login", headers={"Cookie": cookie}) as answer:
                assert answer.status == 200
    with pytest.raises(Refused):
        check_token("x", "\udcff")
