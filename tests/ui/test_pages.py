"""Every page, from a table that has to have them all: empty, full, with hostile content, in part, away, and under another path."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from atf.auth.grants import Verb
from atf.auth.methods import RULES
from atf.auth.routes import ROUTES, UI
from atf.config.settings import UiSettings
from atf.errors import NotFound, Unavailable
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.sdk.messages import of_lambda
from atf.ui.actions.action import command_template
from atf.ui.actions.bulk import redrive_request
from atf.ui.actions.table import ACTIONS
from atf.ui.app import make_app
from atf.ui.pages import cluster, lambdas
from atf.ui.pages.table import PAGES
from atf.ui.probes import add_probes
from atf.ui.security import HEADERS
from atf.ui.task_filter import FILTERS, read_filter
from atf.ui.visit import PAGE_ROWS
from atf.ui.words import lambda_of
from tests.recorder import Recorder

from .conftest import NOW_US, Browser, TurnedClock, browsing
from .hostile import EVIL, Empty, Hostile

PATHS = {
    "/": ["/"],
    "/lambdas": ["/lambdas", "/lambdas?q=x&sort=waiting", "/lambdas?page=zz"],
    "/lambdas/{name:.+}": ["/lambdas/a/b", *(f"/lambdas/a/b?tab={tab}" for tab in lambdas.TABS)],
    "/tasks": ["/tasks", "/tasks?lambda=a/b", "/tasks?lambda=a/b&status=waiting&page=x", "/tasks?status=no"],
    "/tasks/{id}": ["/tasks/0-a"],
    "/tasks/{id}/{part}": ["/tasks/0-a/arguments", "/tasks/0-a/result", "/tasks/0-a/error", "/tasks/0-a/log"],
    "/failures": ["/failures", "/failures?lambda=a/b&since=1h"],
    "/bulk/{verb}": [
        "/bulk/retry?lambda=a/b&labels=a=b&since=1h&error=rain",
        "/bulk/cancel?status=waiting&search=order=7",
    ],
    "/jobs": ["/jobs", "/jobs?q=a&page=x"],
    "/jobs/{name:.+}": ["/jobs/a/b", "/jobs/app%7C%7Cx"],
    "/batches": ["/batches", "/batches?lambda=a/b"],
    "/batches/{id}": ["/batches/b1", "/batches/b1?status=dead"],
    "/cluster": ["/cluster", *(f"/cluster?tab={tab}" for tab in cluster.TABS)],
}
"""By the path of each page in the table the requests that are tried."""
ALL = [path for paths in PATHS.values() for path in paths]
# fmt: off
ELEMENTS = {
    *("html", "head", "meta", "title", "link", "script", "body", "header", "main", "footer", "nav", "section", "div", "dialog"),
    *("h1", "h2", "h3", "p", "a", "b", "span", "code", "kbd", "pre", "time", "ul", "ol", "li", "dl", "dt", "dd", "svg", "rect"),
    *("table", "thead", "tbody", "tr", "th", "td", "form", "input", "button", "label", "select", "option", "datalist", "details", "summary"),
}
# fmt: on
LISTS = [
    "/",
    "/lambdas",
    "/lambdas/a/b?tab=keys",
    "/cluster?tab=gates",
    "/tasks?lambda=a/b",
    "/jobs",
    "/batches/b1",
    "/cluster",
]
MAX_BYTES = 600_000
"""Of a page with the most rows, each with two forms, and the worst text in each field."""


class Elements(HTMLParser):
    """What a browser would make of a page: the elements, their attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said += data

    def of(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag in names]


def test_the_table_of_requests_has_every_page() -> None:
    assert [page.path for page in PAGES] == list(PATHS)


@pytest.mark.parametrize("frontend", [Recorder, Empty, Hostile])
async def test_every_page_is_shown_with_every_header(frontend: Any) -> None:
    async with browsing(frontend()) as browser:
        for path in ALL:
            async with browser.client.get(path) as answer:
                text = await answer.text()
                assert answer.status == 200, (path, text)
                for name, value in HEADERS.items():
                    assert answer.headers[name] == value
                assert "style=" not in text
                assert text.startswith("<!doctype html>")
                assert "<main id=" in text


async def test_hostile_content_stays_text() -> None:
    async with browsing(Hostile()) as browser:
        for path in ALL:
            _, text = await browser.get(path)
            page = Elements(text)
            assert {tag for tag, _ in page.found} <= ELEMENTS, path
            for tag, attributes in page.found:
                assert not [each for each in attributes if each.startswith("on") or each == "style"], (path, tag)
                for name in ("href", "src", "action", "hx-get"):
                    assert (attributes.get(name) or "/").startswith(("/", "#")), (path, tag, attributes)
            assert not [each for each in page.of("script") if not (each.get("src") or "").startswith("/static/")]
            for hidden in "\u202e\u200b\x00\x1b":
                assert hidden not in page.said, (path, hidden)
            assert "<script>alert" not in text
            assert "49" not in text.replace("{{7*7}}", "") or "{{7*7}}" in text


async def test_a_value_that_an_action_needs_is_not_changed_by_being_shown() -> None:
    async with browsing(Hostile()) as browser:
        _, text = await browser.get("/lambdas/a/b?tab=keys")
        assert EVIL in {each.get("value") for each in Elements(text.replace("\x00", "")).of("input")} | {
            (each.get("value") or "").replace("\ufffd", "\x00") for each in Elements(text).of("input")
        }


async def test_a_page_is_bounded_however_much_there_is() -> None:
    async with browsing(Hostile(rows=150)) as browser:
        for path in LISTS:
            _, text = await browser.get(path)
            assert 10 < text.count("<tr") <= PAGE_ROWS + 5, path
            assert len(text) < MAX_BYTES, (path, len(text))


async def test_what_is_long_is_cut_until_it_is_asked_for(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    much = "z" * 1_000_000
    spec = t.TaskSpec(payload=b'{"a": "%s"}' % much.encode(), labels={"a": much}, ordering_key="k")
    task = t.Task(
        id="0-a", status=t.FATAL_FAILURE, error=much, result=much.encode(), progress=much, owner=much, spec=spec
    )

    async def get_task(_self: Any, _request: Any, *, timeout: float = 10) -> t.Task:
        return task

    monkeypatch.setattr(Recorder, "get_task", get_task)
    _, text = await browser.get("/tasks/0-a")
    assert len(text) < 40_000
    assert text.count("Show all of it") == 2
    for part in ("arguments", "result", "error"):
        assert (await browser.get(f"/tasks/0-a/{part}"))[1].count("z") > 1_000_000


async def test_the_middle_of_a_page_is_all_that_a_refresh_gets(browser: Browser) -> None:
    for path in ALL:
        _, text = await browser.get(path, **{"HX-Request": "true"})
        assert text.startswith("<main id="), path
        assert "<html" not in text


async def test_a_frontend_that_is_away_is_a_page_that_heals_by_itself() -> None:
    class Away(Recorder):
        gone = True

    def raising(name: str) -> Any:
        inner = getattr(Recorder, name)

        async def call(self: Any, request: Any, *, timeout: float = 10) -> Any:
            if Away.gone:
                raise Unavailable("can't reach 127.0.0.1:7401")
            return await inner(self, request)

        return call

    for name in ("get_status", "list_lambdas", "explain_task", "list_hosts"):
        setattr(Away, name, raising(name))
    async with browsing(Away()) as browser:
        for path in ("/", "/lambdas", "/tasks/0-a", "/cluster"):
            Away.gone = True
            status, text = await browser.get(path)
            assert status == 503
            assert "can't reach 127.0.0.1:7401" in Elements(text).said
            assert Elements(text).of("main")[0]["hx-get"] == path  # it goes on asking
            Away.gone = False
            browser.clock.now_us += 2_000_000
            status, text = await browser.get(path, **{"HX-Request": "true"})
            assert status == 200
            browser.clock.now_us += 2_000_000


async def test_what_is_not_there_is_a_page_with_a_sentence(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    async def missing(_self: Any, _request: Any, *, timeout: float = 10) -> Any:
        raise NotFound("there is no job a/b")

    monkeypatch.setattr(Recorder, "get_job", missing)
    assert (await browser.get("/nowhere"))[0] == 404
    assert (await browser.get("/tasks/0-a/secrets"))[0] == 404
    status, text = await browser.get("/jobs/a/b")
    assert status == 404
    assert "there is no job a/b" in text
    assert (await browser.get(f"/lambdas?q={'x' * 3_000}"))[0] == 400


async def test_a_bug_in_a_page_is_that_pages_error(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_self: Any, _request: Any, *, timeout: float = 10) -> Any:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(Recorder, "get_job", broken)
    status, text = await browser.get("/jobs/a/b")
    assert status == 500
    assert "ZeroDivisionError" in text
    assert "secret" not in text
    assert (await browser.get("/jobs"))[0] == 200


async def test_all_links_stay_below_the_base_path() -> None:
    async with browsing(Recorder(), base_path="/atf/") as browser:
        for path in ALL:
            status, text = await browser.get(path)
            assert status == 200
            for _, attributes in Elements(text).found:
                for name in ("href", "src", "action", "hx-get"):
                    assert (attributes.get(name) or "/atf/").startswith(("/atf/", "#")), (path, attributes)
        assert (await browser.client.get("/tasks")).status == 404
        assert (await browser.client.get("/atf", allow_redirects=False)).headers["Location"] == "/atf/"


async def test_a_page_that_was_linked_to_is_found_by_its_encoded_name(browser: Browser) -> None:
    await browser.get("/lambdas/a/b%3Fc?tab=gates")
    asked = [request for name, request in browser.frontend.asked if name == "ListGates"]
    assert b"a/b?c" in asked[0]


async def test_readings_are_shared_within_a_second(browser: Browser) -> None:
    for _ in range(20):
        await browser.get("/cluster")
    assert [name for name, _ in browser.frontend.asked] == ["ListHosts"]
    browser.clock.now_us += 1_000_000
    await browser.get("/cluster")
    assert [name for name, _ in browser.frontend.asked] == ["ListHosts"] * 2


async def test_find_goes_to_the_task_or_to_the_lambdas(browser: Browser) -> None:
    for sought, where in {
        "0-abc": "/tasks/0-abc",
        " shop/mail": "/lambdas?q=shop%2Fmail",
        "//evil": "/lambdas?q=%2F%2Fevil",
    }.items():
        async with browser.client.get("/find", params={"q": sought}, allow_redirects=False) as answer:
            assert answer.headers["Location"] == where


async def test_theme_and_zone_are_kept(browser: Browser) -> None:
    async with browser.client.get(
        "/prefs?theme=dark&zone=Europe/Paris&next=/jobs%3Fq%3Da", allow_redirects=False
    ) as answer:
        assert answer.headers["Location"] == "/jobs?q=a"
    _, text = await browser.get("/tasks/0-a")
    assert 'data-theme="dark"' in text
    _, text = await browser.get("/cluster?tab=audit")
    for bad in ("https://evil.example", "//evil.example", "/\\evil.example", ""):
        async with browser.client.get(
            "/prefs", params={"zone": "../../etc/passwd", "next": bad}, allow_redirects=False
        ) as answer:
            assert answer.headers["Location"] == "/"
    assert {each.value for each in browser.client.session.cookie_jar if each.key == "atf_zone"} == {"UTC"}


async def test_every_instant_names_its_zone() -> None:
    async with browsing(Hostile()) as browser:
        browser.client.session.cookie_jar.update_cookies({"atf_zone": "Europe/Paris"})
        for path in ("/tasks/0-a", "/cluster?tab=audit", "/batches"):
            _, text = await browser.get(path)
            assert text.count("<time ") == text.count('<span class="zone">CET</span></time>') > 0


async def test_probes_say_how_the_process_stands() -> None:
    serves = True
    app = make_app(Recorder(), UiSettings(base_path="/atf"), TurnedClock())  # type: ignore[arg-type]
    add_probes(app, lambda: serves)
    async with TestClient(TestServer(app)) as client:
        for path, said in {
            "/livez": "the loop turns",
            "/readyz": "serves",
            "/metrics": 'atf_build_info{python="',
        }.items():
            async with client.get(path) as answer:
                assert answer.status == 200
                assert said in await answer.text()
        serves = False
        assert (await client.get("/readyz")).status == 503


async def test_tasks_are_listed_by_what_stands_in_the_url(browser: Browser) -> None:
    words = "lambda=shop/*&status=failed&priority=0,1&labels=a=b%20c=d&key=anna&error_type=KeyError&since=1h&until=2026-01-31&order=oldest"
    await browser.get(f"/tasks?{words}&page=tok&asof=7200000001")
    (asked,) = [request for name, request in browser.frontend.asked if name == "ListTasks"]
    wanted = f.ListTasksRequest(page_size=50, page_token="tok", oldest_first=True)
    wanted.filter.MergeFrom(
        f.TaskFilter(
            statuses=[t.RETRIABLE_FAILURE, t.FATAL_FAILURE],
            priorities=[0, 1],
            labels={"a": "b", "c": "d"},
            key="anna",
            error_type="KeyError",
            since_at_us=3_600_000_001,
            until_at_us=1_769_817_600_000_000,
            **of_lambda("shop/*"),
        )
    )
    assert f.ListTasksRequest.FromString(asked) == wanted


@pytest.mark.parametrize("wrong", ["status=no", "priority=12", "labels=a", "since=soon", "until=9999-99-99"])
async def test_a_filter_that_is_wrong_is_said_beside_its_form(browser: Browser, wrong: str) -> None:
    status, text = await browser.get(f"/tasks?{wrong}")
    assert status == 200
    assert 'id="wrong"' in text
    assert 'id="filters"' in text
    assert "ListTasks" not in [name for name, _ in browser.frontend.asked]


async def test_durations_of_a_filter_count_from_the_same_instant_on_every_page(browser: Browser) -> None:
    asked = []
    for _ in range(2):
        await browser.get("/tasks?since=1h")
        browser.clock.now_us += 5_000_000
        asked = [request for name, request in browser.frontend.asked if name == "ListTasks"]
    assert asked[0] == asked[1]


async def test_a_task_shows_what_its_runs_have_said(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    async def get_task(_self: Any, _request: Any, *, timeout: float = 10) -> t.Task:
        return t.Task(id="0-a", status=t.SUCCESS, has_log=True)

    async def get_log(_self: Any, _request: Any, *, timeout: float = 10) -> f.GetLogReply:
        return f.GetLogReply(
            runs=[t.RunLog(run=1, text="early"), t.RunLog(run=2, text="x" * 9_000 + "\nlast", cut_bytes=2_048)]
        )

    monkeypatch.setattr(Recorder, "get_task", get_task)
    monkeypatch.setattr(Recorder, "get_log", get_log)
    said = Elements((await browser.get("/tasks/0-a"))[1]).said
    assert "early" in said
    assert "\nlast" in said
    assert "without 2.0 KiB before" in said
    assert said.count("x") < 5_000
    assert (await browser.get("/tasks/0-a/log"))[1].count("x") > 9_000


async def test_failures_are_groups_each_with_its_retry() -> None:
    class Failing(Recorder):
        async def list_failures(self, request: f.ListFailuresRequest, *, timeout: float = 10) -> f.ListFailuresReply:
            group = f.FailureGroup(
                id="41c7b2d09e3a", error_type="OSError", place="shop/till.py:pay", message="rain", count=412
            )
            setattr(group, "lambda", "shop/mail")
            return f.ListFailuresReply(groups=[group], next_page_token="behind")

    async with browsing(Failing()) as browser:
        status, text = await browser.get("/failures?since=1h")
    assert status == 200
    assert all(each in text for each in ("412", "OSError", "shop/till.py:pay", "page=behind"))
    assert "/bulk/retry?lambda=shop/mail&amp;group=41c7b2d09e3a" in text.replace("%2F", "/")


def test_a_group_is_retried_by_its_id() -> None:
    asked = read_filter({"group": "41c7b2d09e3a"}, NOW_US)
    request = redrive_request(asked, {})
    assert (request.filter.failure_group, lambda_of(request.filter)) == ("41c7b2d09e3a", "")
    target = {**dict.fromkeys(FILTERS, ""), "group": "41c7b2d09e3a", "error": ""}
    words = [each.text for each in command_template(ACTIONS["retry-matching"], target)]
    assert words[:5] == ["atf", "retry", "--group", "41c7b2d09e3a", "--yes"]


async def test_a_page_only_reads(browser: Browser) -> None:
    """So it is for whoever is signed in: each call goes by its own row."""
    values = {"{name}": "photos/thumbnail", "{id}": "0-a", "{part}": "payload", "{verb}": "retry"}
    for port, method, path in ROUTES:
        if (port, method) == (UI, "GET") and path != "/metrics":
            for name, value in values.items():
                path = path.replace(name, value)  # noqa: PLW2901
            await browser.get(path)
    asked = {name for name, _ in browser.frontend.asked}
    assert len(asked) > 8
    reads = {Verb.READ, Verb.READ_PAYLOAD, None}
    assert {name for name in asked if RULES[f"/atf.v1.Frontend/{name}"].verb not in reads} <= {
        "CancelMatching",
        "Redrive",
    }
    for name, sent in browser.frontend.asked:
        if name in {"CancelMatching", "Redrive"}:  # which only count
            kind = f.CancelMatchingRequest if name == "CancelMatching" else f.RedriveRequest
            assert kind.FromString(sent).dry_run


@pytest.mark.parametrize("path", ["//evil.example/x", "///evil.example/x?a=b", "/\\evil.example"])
async def test_no_page_links_to_a_site_that_stands_in_its_own_path(browser: Browser, path: str) -> None:
    browser.client.server.skip_url_asserts = True
    status, text = await browser.get(path)
    assert status == 404
    links = re.findall(r'(?:href|action|hx-get|value)="([^"]*evil[^"]*)"', text)
    assert links, "it says where to try again"
    assert [each for each in links if re.match(r"[/\\]{2}|[a-z]+:", each)] == []
