"""Every action, from the table: its form, the command beside it, the call that it makes; and what is refused."""

from __future__ import annotations

import shlex
from unittest.mock import Mock

import click
import pytest

from atf.auth.routes import ACTIONS as CALLS
from atf.cli.commands import cli
from atf.cli.task_filter import task_filter
from atf.log import Logger
from atf.rpc import frontend_pb2 as f
from atf.ui import app
from atf.ui.actions.action import command_template, command_words
from atf.ui.actions.table import ACTIONS
from atf.ui.task_filter import AS_OF, read_filter
from atf.ui.texts import command_line
from tests.recorder import Recorder

from .conftest import Browser, browsing, example
from .hostile import EVIL, Hostile
from .test_pages import ALL, Elements


def parsed(words: list[str]) -> click.Context:
    """What the real command line makes of a command's words; it runs nothing."""
    assert words[0] == "atf"
    command: click.Command = cli
    context, rest = click.Context(cli), words[1:]
    while isinstance(command, click.Group):
        command.parse_args(context, rest)
        _, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command, context = found, click.Context(found, parent=context)
    return command.make_context(words[-1], rest, parent=context.parent)


def test_the_table_of_calls_has_every_action() -> None:
    assert CALLS.keys() == ACTIONS.keys()


@pytest.mark.parametrize("name", ACTIONS)
def test_the_command_of_an_action_is_one_that_the_command_line_takes(name: str) -> None:
    values = example(name)
    words = command_words(ACTIONS[name], values)
    context = parsed(shlex.split(command_line(words)))
    said = str(context.params)
    for each in ACTIONS[name].fields:
        wanted = {"for": "1800.0", "by": "5.0", "labels": "tier=1", "cores": "4"}.get(each.name, values[each.name])
        assert wanted in said or each.name == "percent", (each.name, said)
    parsed(command_words(ACTIONS[name], {**values, "why": "", "for": "", "labels": ""}))  # what is optional is left out


@pytest.mark.parametrize("name", ACTIONS)
def test_the_form_shows_the_same_command(name: str) -> None:
    values = example(name)
    shown = []
    for word in command_template(ACTIONS[name], values):
        value = values[word.field] if word.field else word.text
        parts = value.split() if word.kind == "labels" else [value]
        shown += [each for part in parts for each in ([word.flag, part] if word.flag else [part])]
    assert shown == command_words(ACTIONS[name], values)


async def test_each_action_makes_its_call(browser: Browser) -> None:
    for name, call in CALLS.items():
        browser.frontend.asked.clear()
        answer = await browser.post(name, example(name))
        assert (answer.status, answer.headers["Location"]) == (303, "/tasks")
        assert [each for each, _ in browser.frontend.asked] == [call], name


async def test_what_came_of_it_is_shown_once(browser: Browser) -> None:
    await browser.post("pause-lambda", example("pause-lambda"))
    _, text = await browser.get("/tasks")
    assert "It is paused" in text
    assert "atf pause photos/thumbnail --why &#39;it rains&#39;" in text
    _, text = await browser.get("/tasks")
    assert "It is paused" not in text


async def test_who_and_why_reach_the_frontend(browser: Browser) -> None:
    await browser.post("drain-host", example("drain-host"))
    (_, request) = browser.frontend.asked[-1]
    assert b"it rains" in request
    assert b"(atf ui)" in request


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("gate-delay", {"by": ""}, "By: nothing is written there"),
        ("gate-delay", {"by": "soon"}, "no duration"),
        ("gate-admit", {"percent": "many"}, "is no number"),
        ("gate-pause", {"labels": "team"}, "write NAME=VALUE"),
        ("set-cores", {"cores": "-1"}, "write a number"),
        ("set-lambda", {"setting": "rate"}, "write NAME=VALUE"),
        ("pause-lambda", {"why": "x" * 3_000}, "at most 2000 characters"),
    ],
)
async def test_what_is_written_wrong_is_said_and_asks_nobody(
    browser: Browser, name: str, changes: dict[str, str], said: str
) -> None:
    assert (await browser.post(name, {**example(name), **changes})).status == 303
    _, text = await browser.get("/jobs")
    assert said in Elements(text).said
    assert 'role="alert"' in text
    assert [each for each, _ in browser.frontend.asked] == ["ListJobs"]


async def test_every_form_is_an_action_with_a_token_and_a_command() -> None:
    seen = set()
    async with browsing(Hostile()) as browser:
        token = await browser.token()
        for path in ALL:
            _, text = await browser.get(path)
            for part in text.split('<form class="panel"')[1:]:
                form = part.partition("</form>")[0]
                name = form.partition("/do/")[2].partition('"')[0]
                seen.add(name)
                assert f'name="csrf" value="{token}"' in form
                assert 'class="command"' in form
                assert all(f'name="{each}"' in form for each in ACTIONS[name].target)
    assert {"retry-batch", "lift-gate", "resume-key", "gate-drop", "resume-host", "delete-job"} <= seen


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cancel-task", "nothing"])
async def test_a_form_without_the_token_is_refused(browser: Browser, name: str) -> None:
    await browser.token()
    for token in ("", "x" * 64):
        assert (await browser.post(name, {"id": "0-a"}, token=token)).status == 403
    assert browser.frontend.asked == []


async def test_a_form_of_another_site_is_refused(browser: Browser) -> None:
    for origin in ("https://evil.example", "null", "", "http://localhost:1", "http://127.0.0.1.evil.example:80"):
        assert (await browser.post("cancel-task", {"id": "0-a"}, Origin=origin)).status == 403, origin
    assert browser.frontend.asked == []


async def test_a_host_that_is_not_ours_is_refused(browser: Browser) -> None:
    for host in ("evil.example", "evil.example:8401", "127.0.0.1.evil.example", "10.0.0.1:8401", ""):
        for path in ("/", "/static/app.js", "/do/cancel-task"):
            assert (await browser.get(path, Host=host))[0] == 403, host
    for host in ("localhost:9000", "127.0.0.1", "[::1]:8401", "LOCALHOST"):
        assert (await browser.get("/jobs", Host=host))[0] == 200, host


async def test_a_proxys_name_is_taken_where_it_is_set() -> None:
    from tests.recorder import Recorder

    async with browsing(Recorder(), public_hosts="Ops.example.com") as browser:
        assert (await browser.get("/jobs", Host="ops.example.com"))[0] == 200
        answer = await browser.post("cancel-task", {"id": "0-a"}, Origin="https://ops.example.com")
        assert answer.status == 303


async def test_read_only_pages_have_no_form_and_refuse_every_post() -> None:
    async with browsing(Hostile(), read_only=True) as browser:
        for path in ALL:
            _, text = await browser.get(path)
            assert '<form class="panel"' not in text
            assert 'method="post"' not in text
        for name in ACTIONS:
            assert (await browser.post(name, example(name))).status == 403
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
            async with browser.client.request(method, "/tasks") as answer:
                assert answer.status == 403


async def test_other_methods_do_nothing(browser: Browser) -> None:
    for method in ("PUT", "DELETE", "OPTIONS"):
        async with browser.client.request(method, "/do/cancel-task") as answer:
            assert answer.status in {403, 405}
            assert "Access-Control-Allow-Origin" not in answer.headers
    assert browser.frontend.asked == []


def test_words_that_act_are_quoted() -> None:
    assert command_line(["atf", "cancel", "0-a b'c"]) == """atf cancel '0-a b'"'"'c'"""
    assert command_line([EVIL]).isascii()
    assert "\n" not in command_line(["a\nb"])
    assert command_line(["\u202ex\n'"]) == r"$'\xe2\x80\xaex\x0a\x27'"


@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_the_command_for_all_that_match_means_the_same_tasks(verb: str) -> None:
    values = {"lambda": "shop/*", "status": "waiting", "labels": "team=web tier=1", "key": "anna b", "priority": "0, 3"}
    values |= {"error_type": "OSError", "search": "order=7", "since": "1h", "until": "2030-01-31T08:00Z", "group": "g"}
    values |= {AS_OF: "1800000000000000", "error": "", "why": "", "rate": ""}
    words = command_words(ACTIONS[f"{verb}-matching"], values)
    context = parsed(words)
    assert words[-1] == "--yes"
    assert task_filter(context.params["ids"][0], context.params) == read_filter(values, 0).filter


async def test_what_would_be_cancelled_is_counted_first() -> None:
    async with browsing(Recorder()) as browser:
        status, text = await browser.get("/bulk/cancel?lambda=shop/mail&status=waiting")
        assert (status, "2 of 2 unfinished tasks match" in text, "Cancel them all" in text) == (200, True, True)
        ((call, request),) = browser.frontend.asked
        assert (call, f.CancelMatchingRequest.FromString(request).dry_run) == ("CancelMatching", True)
        assert (await browser.get("/bulk/burn?lambda=shop/mail"))[0] == 404


async def test_the_log_of_an_action_holds_no_value_of_its_form(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Mock(Logger)
    monkeypatch.setattr(app, "_log", log)
    for name in ("cancel-matching", "retry-matching"):
        form = {**example(name), "search": "card=4111111111111111", "status": ""}
        assert (await browser.post(name, form)).status == 303
    said = log.info.call_args_list
    assert [each.kwargs["action"] for each in said] == ["cancel-matching", "retry-matching"]
    assert all("search" in each.kwargs["given"] for each in said)
    assert "4111" not in str(log.mock_calls)
    assert "it rained" not in str(log.mock_calls)
