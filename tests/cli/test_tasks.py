"""Commands on tasks: what they print, and the exit codes on which scripts rely."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pytest

from atf.errors import (
    AlreadyExists,
    AtfError,
    DeadlineExceeded,
    Internal,
    ResourceExhausted,
    Unavailable,
    UnknownLambda,
)
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.task import US

from .conftest import Atf, FakeFrontend


def test_get_for_people_leaves_out_what_is_not_there(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.FATAL_FAILURE, error="no such file", attempts=3)

    ran = atf("get", "0-a")

    assert "no such file" in ran.out
    assert "FATAL_FAILURE" in ran.out
    assert "losses" not in ran.out
    assert "atf retry 0-a" in ran.out, "what to do next"
    frontend.add("0-b", t.SUCCESS)
    assert "atf retry" not in atf("get", "0-b").out


def test_get_says_of_each_run_when_and_why(atf: Atf, frontend: FakeFrontend) -> None:
    task = frontend.add("0-a", t.FATAL_FAILURE, error="no such file")
    task.ended_runs.add(
        owner="one", started_at_us=1_000_000, ended_at_us=3_500_000, attempt=1, why="failed: OSError: no\tdisk"
    )
    for end in (9_000_000, 9_500_000):
        task.ended_runs.add(owner="two", ended_at_us=end, why="handed_back")
    task.attempts, task.spec.options.max_attempts = 1, 5
    out = atf("get", "0-a").out
    assert "\nattempts       1 of 5\n" in out
    assert ", never started: the same\n" in out
    assert ", 2.500 s: failed: OSError: no\\tdisk (one)\n" in out
    assert ", never started: handed_back (two)\n" in out


def test_get_of_a_lambda_shows_what_failed_last(
    atf: Atf, frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = f.GetStatusReply()
    for name, failed in (("shop/bill", "0-b"), ("shop/mail", "0-a"), ("shop/ring", "")):
        status.lambdas.add(failed_id=failed, **{"lambda": name})

    async def list_lambdas(_self: object, request: f.ListLambdasRequest, *, timeout: float = 10) -> f.ListLambdasReply:
        info = f.LambdaInfo(spec=f.LambdaSpec(name=getattr(request, "lambda")), counts={"FATAL_FAILURE": 12})
        return f.ListLambdasReply(lambdas=[info])

    async def get_status(_self: object, _request: f.GetStatusRequest, *, timeout: float = 10) -> f.GetStatusReply:
        return status

    monkeypatch.setattr(FakeFrontend, "get_status", get_status, raising=False)
    frontend.add("0-a", t.FATAL_FAILURE)
    monkeypatch.setattr(FakeFrontend, "list_lambdas", list_lambdas)
    assert atf("get", "shop/mail", "--json").json["id"] == "0-a"
    assert "FATAL_FAILURE, the last of 12 that failed: atf ls shop/mail --status dead\n" in atf("get", "shop/mail").out
    ran = atf("get", "shop/ring")
    assert (ran.code, ran.err.startswith("atf: no task of shop/ring has failed for good")) == (3, True)
    assert atf("get", "shop/").code == 2


@pytest.mark.usefixtures("frontend")
def test_retry_of_a_lambda_without_failures_asks_nothing(atf: Atf, monkeypatch: pytest.MonkeyPatch) -> None:
    async def redrive(_self: object, _request: f.RedriveRequest, *, timeout: float = 10) -> f.RedriveReply:
        return f.RedriveReply(looked_at=3)

    monkeypatch.setattr(FakeFrontend, "redrive", redrive)
    monkeypatch.setattr("atf.cli.confirmation.has_terminal", lambda: True)
    for words in (["--dry-run"], []):
        ran = atf("retry", "shop/mail", "--error", "rain", *words)
        assert (ran.code, ran.out) == (0, "shop/mail: none of 3 failed tasks matches\n")


def test_retry_of_a_lambda_is_that_of_its_failed_tasks(atf: Atf, frontend: FakeFrontend) -> None:
    assert atf("retry", "shop/mail", "--error", "rain", "--yes").out == "shop/mail: 2 of 3 failed tasks run again\n"
    (request,) = frontend.asked
    assert (getattr(request.filter, "lambda"), request.error) == ("shop/mail", "rain")


@pytest.mark.usefixtures("frontend")
def test_what_failed_alike_is_one_line(atf: Atf, monkeypatch: pytest.MonkeyPatch) -> None:
    async def redrive(_self: object, _request: f.RedriveRequest, *, timeout: float = 10) -> f.RedriveReply:
        return f.RedriveReply(matched=9, looked_at=9, errors={"it rained": 1, "OSError: a": 3, "OSError: b": 2})

    monkeypatch.setattr(FakeFrontend, "redrive", redrive)
    out = atf("retry", "shop/mail", "--dry-run", "--no-header").out
    assert out.splitlines()[1:] == [
        "5\tOSError: a (the messages of the others differ)",
        "1\tit rained",
        "3\tother messages",
    ]


def test_ls_fits_a_screen(atf: Atf, frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked for stands in no column, and the error of the longest ids keeps its place."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    frontend.lambdas = [f.LambdaInfo(spec=f.LambdaSpec(name="shop/mail"), counts={"FATAL_FAILURE": 1})]
    frontend.add(
        "0-" + "a" * 24,
        t.FATAL_FAILURE,
        error="OSError: " + "x" * 40,
        scheduled_at_us=1_000_000,
        finished_at_us=1_000_000,
    )
    head, row, *_, one, again = atf("ls", "shop/mail", "--status", "dead").out.splitlines()
    assert (one[-26:], again) == ("0-" + "a" * 24, "run all again: atf retry shop/mail")
    *_, again = atf("ls", "--status", "dead").out.splitlines()
    assert again == "run all again: atf retry --status dead"
    words = ("--since", "1h", "--label", "a=b c", "--error-type", "E")
    *_, again = atf("ls", "shop/*", "--status", "dead", *words).out.splitlines()
    assert again == "run all again: atf retry 'shop/*' --since 1h --label 'a=b c' --error-type E", "exactly these"
    assert head.split() == ["task", "finished", "error"]
    assert row.split() == ["0-" + "a" * 24, "01-01", "00:00:01", "OSError:"]
    assert atf("ls", "shop/mail").out.splitlines()[0].split() == ["task", "status", "scheduled", "for", "error"]
    assert atf("ls").out.splitlines()[0].split() == ["task", "lambda", "status", "scheduled", "for", "error"]


def test_lambdas_fit_a_screen(atf: Atf, frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column in which every value is empty takes no place."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    frontend.lambdas = [f.LambdaInfo(spec=f.LambdaSpec(name="clinic/remind"), counts={"SUCCESS": 25_000})]
    head = atf("lambda").out.splitlines()[0]
    assert "state" not in head
    assert head.split()[-2:] == ["failed", "cancelled"]
    assert len(head) <= 80
    frontend.lambdas[0].paused = True
    assert atf("lambda").out.splitlines()[1].split()[:2] == ["clinic/remind", "paused"]


@pytest.mark.usefixtures("frontend")
@pytest.mark.parametrize(
    ("retried", "ids", "command"),
    [(1, ["0-a"], "atf wait 0-a"), (4, list("abcd"), "atf wait a b c ..."), (9, list("abcd"), "atf lambda shop/mail")],
)
def test_retry_says_how_to_see_its_end(
    retried: int, ids: list[str], command: str, atf: Atf, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def redrive(_self: object, _request: f.RedriveRequest, *, timeout: float = 10) -> f.RedriveReply:
        return f.RedriveReply(redriven=retried, matched=retried, looked_at=retried, ids=ids)

    monkeypatch.setattr(FakeFrontend, "redrive", redrive)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert atf("retry", "shop/mail", "--yes").out.splitlines()[-1] == f"see how that ends: {command}"


@pytest.mark.usefixtures("frontend")
def test_ls_of_nothing_says_so(atf: Atf) -> None:
    ran = atf("ls", "shop/mail", "--status", "dead", "--no-header")
    assert (ran.code, ran.out, ran.err) == (0, "", "no task of shop/mail is dead\n")
    assert atf("ls", "--search", "order=7").err == "no task matches\n"


def test_ls_asks_by_the_words_of_users(atf: Atf, frontend: FakeFrontend) -> None:
    flags = [
        "--status",
        "Failed",
        "--since",
        "1h",
        "--until",
        "2030-01-31T08:00Z",
        "--label",
        "a=b",
        "--key",
        "k",
        "--priority",
        "low",
    ]
    flags += ["--error-type", "OSError", "--search", "order=7", "--group", "g", "--oldest-first"]
    assert atf("ls", "shop/*", *flags).code == 0
    (request,) = frontend.asked
    asked = request.filter
    assert request.oldest_first
    assert set(asked.statuses) == {t.RETRIABLE_FAILURE, t.FATAL_FAILURE}
    assert 3_599 <= time.time() - asked.since_at_us / US <= 3_660
    assert asked.until_at_us == 1_896_076_800 * US
    assert (dict(asked.labels), asked.key, list(asked.priorities), asked.error_type) == (
        {"a": "b"},
        "k",
        [2],
        "OSError",
    )
    assert (dict(asked.search), asked.failure_group, getattr(asked, "lambda")) == ({"order": "7"}, "g", "shop/*")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--status", "broken"], "use waiting, running, failed, dead, done, cancelled, or one of the states"),
        (["--since", "yesterday"], "--since 'yesterday': write an instant"),
        (["--since", "9999999d"], "or how long ago"),
        (["--search", "order"], "--search 'order': write NAME=VALUE"),
        (["--priority", "soon"], "--priority 'soon'"),
    ],
)
def test_ls_refuses_what_it_can_not_read(flags: list[str], message: str, atf: Atf) -> None:
    ran = atf("ls", *flags)
    assert ran.code == 2
    assert message in ran.err


def test_ls_says_how_far_it_looked(atf: Atf, frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch) -> None:
    async def few(_request: f.ListTasksRequest, *, timeout: float = 10) -> f.ListTasksReply:
        return f.ListTasksReply(looked_at=2_000, of=90_000, next_page_token="more")

    monkeypatch.setattr(frontend, "list_tasks", few)
    assert "looked at 40000 of 90000 tasks" in atf("ls", "--label", "a=b").err


def test_get_for_programs(atf: Atf, frontend: FakeFrontend) -> None:
    task = frontend.add("0-a", t.SUCCESS, result=b"[1]", finished_at_us=9)
    task.spec.payload = b"\xff"
    task.spec.encoding = t.RAW

    shown = atf("get", "0-a", "--json").json

    assert shown["result"] == [1]
    assert shown["payload_base64"] == "/w=="
    assert shown["finished_at_us"] == 9
    assert shown["lambda"] == "shop/mail"


@pytest.mark.usefixtures("frontend")
def test_get_of_an_unknown_task(atf: Atf) -> None:
    ran = atf("get", "0-none")

    assert (ran.code, ran.err, ran.out) == (3, "atf: no task 0-none\n", "")


def test_ls_reads_page_after_page_up_to_the_limit(atf: Atf, frontend: FakeFrontend) -> None:
    for number in range(5):
        frontend.add(f"0-{number}", t.NEW)

    every = atf("ls", "shop/mail", "--json").json
    some = atf("ls", "shop/mail", "--limit", "3", "--no-header").out.splitlines()

    assert [task["id"] for task in every] == [f"0-{number}" for number in range(5)]
    assert [line.split("\t")[0] for line in some] == ["0-0", "0-1", "0-2"]


def test_ls_without_a_lambda_lists_those_of_all(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.NEW)
    assert [task["id"] for task in atf("ls", "--status", "new", "--json").json] == ["0-a"]
    (asked,) = frontend.asked
    assert getattr(asked.filter, "lambda") == ""


def test_ls_by_status(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.NEW)
    frontend.add("0-b", t.FATAL_FAILURE)

    assert [task["id"] for task in atf("ls", "shop/mail", "--status", "fatal_failure", "--json").json] == ["0-b"]
    assert atf("ls", "shop/mail", "--status", "broken").code == 2


@pytest.mark.parametrize(("status", "code"), [(t.SUCCESS, 0), (t.FATAL_FAILURE, 1), (t.CANCELLED, 1)])
def test_wait_says_by_its_exit_code_how_the_task_ended(
    status: t.Status, code: int, atf: Atf, frontend: FakeFrontend
) -> None:
    frontend.add("0-a", t.SUCCESS)
    frontend.add("0-b", status)

    ran = atf("wait", "0-b", "0-a", "--json")

    assert ran.code == code
    assert [task["id"] for task in ran.json] == ["0-b", "0-a"]


def test_wait_any_is_content_with_the_first(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.NEW)
    frontend.add("0-b", t.SUCCESS)

    ran = atf("wait", "--any", "0-a", "0-b", "--json")

    assert [task["id"] for task in ran.json] == ["0-b"]
    assert frontend.asked[0].all is False


def test_wait_gives_up(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.NEW)

    ran = atf("wait", "0-a", "--timeout", "0")

    assert (ran.code, ran.err) == (4, "atf: 1 of 1 tasks had not finished after 0 s\n")


def test_wait_gives_up_in_its_time_on_a_frontend_that_never_answers(
    atf: Atf, frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    async def hang(_request: Any, *, timeout: float) -> None:
        given.append(timeout)
        raise DeadlineExceeded("WaitTasks: no answer")

    monkeypatch.setattr(frontend, "wait_tasks", hang)

    ran = atf("wait", "0-a", "--timeout", "0.1")

    assert ran.code == 4
    assert "1 of 1 tasks had not finished after 0.1 s, and the frontend is away: WaitTasks: no answer" in ran.err
    assert max(given) <= 2.1


def test_cancel_says_what_became_of_each(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.NEW)
    frontend.add("0-b", t.PROCESSING)

    lines = atf("cancel", "0-a", "0-b", "--yes").out.splitlines()
    assert lines == ["task\toutcome\tstatus", "0-a\tcancelled\tCANCELLED", "0-b\tasked to stop\tPROCESSING"]


def test_cancel_of_what_has_finished_is_refused(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.SUCCESS)

    ran = atf("cancel", "0-a")

    assert ran.code == 2
    assert "already finished, not cancelled: 0-a" in ran.err


@pytest.mark.parametrize("command", ["cancel", "retry"])
def test_those_that_exist_are_done_and_the_others_named(command: str, atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.NEW if command == "cancel" else t.FATAL_FAILURE)

    ran = atf(command, "0-a", "0-none", "--yes", "--json")

    assert ran.code == 3
    assert ran.err == "atf: no such task: 0-none\n"
    assert [each["status"] for each in ran.json] == ["CANCELLED" if command == "cancel" else "NEW", None]


def test_retry_of_a_task_that_runs_is_refused(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.PROCESSING)

    ran = atf("retry", "0-a")

    assert ran.code == 2
    assert "0-a is PROCESSING" in ran.err


def test_a_retry_names_who_holds_the_unique_key(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.CANCELLED)
    frontend.add("0-b", t.PROCESSING)

    ran = atf("retry", "0-a", "0-b", "--yes", "--json")

    assert ran.code == 2
    assert "0-a: its unique key is held by task 0-other, which has not finished" in ran.err
    assert "0-b is PROCESSING" in ran.err
    assert [each["held_by"] for each in ran.json] == ["0-other", ""]


def test_many_ids_go_in_batches(atf: Atf, frontend: FakeFrontend) -> None:
    ids = [f"0-{number}" for number in range(300)]
    for each in ids:
        frontend.add(each, t.NEW)

    assert len(atf("cancel", *ids, "--yes", "--json").json) == 300
    assert [len(request.ids) for request in frontend.asked] == [256, 44]


def test_a_task_that_ends_its_process_is_not_to_be_retried_at_once(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.FATAL_FAILURE, error="lost with its executor 3 times; last: ended by SIGSEGV", losses=3)
    out = atf("get", "0-a").out
    assert "run it again  atf retry 0-a, once its cause is mended: its process died each time\n" in out
    assert "run all again" not in out


def test_explain(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.NEW)

    assert atf("explain", "0-a").out == "It is due in 30 s.\n"
    shown = atf("explain", "0-a", "--json").json
    assert (shown["reason"], shown["until_us"], shown["task"]["id"]) == ("not_due", 7, "0-a")


def test_explain_a_lambda_takes_a_task_that_still_waits(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.lambdas = [f.LambdaInfo(spec=f.LambdaSpec(name="shop/mail"))]
    ran = atf("explain", "shop/mail")
    assert (ran.code, ran.err) == (3, "atf: no task of shop/mail waits now; atf ls shop/mail lists its tasks\n")
    for name, at_us in {"0-new": 9, "0-old": 5}.items():
        frontend.add(name, t.NEW)
        frontend.tasks[name].scheduled_at_us = at_us
    assert atf("explain", "shop/mail").out == "Task 0-old:\nIt is due in 30 s.\n"
    frontend.starts.add("0-old")
    assert atf("explain", "shop/mail").out == "Task 0-new:\nIt is due in 30 s.\n"
    listed = next(each for each in frontend.asked if isinstance(each, f.ListTasksRequest))
    assert (listed.oldest_first, list(listed.filter.statuses)) == (True, [t.NEW, t.ENQUEUED, t.RETRIABLE_FAILURE])


def test_what_a_task_has_waited_for(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.NEW)
    frontend.waits = [("not due", 2_500_000), ("due", 999), ("gated", 61_000_000)]

    said = "not due 2.500 s, gated 61.000 s"
    assert atf("explain", "0-a").out == f"It is due in 30 s.\nIt has waited: {said}.\n"
    assert ["waits", said] in [line.split(maxsplit=1) for line in atf("get", "0-a").out.splitlines()]
    for command in ("explain", "get"):
        assert atf(command, "0-a", "--json").json["waits"][2] == {"reason": "gated", "begun_us": 1, "us": 61_000_000}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownLambda("no lambda shop/mial; nearest: shop/mail"), 3),
        (AlreadyExists("the id k1 is taken by another request"), 2),
        (ResourceExhausted("the task store is full"), 4),
        (Unavailable("the task store is loading"), 4),
        (DeadlineExceeded("no answer within 10 s"), 4),
        (Internal("a bug"), 4),
    ],
)
def test_what_the_frontend_refuses_is_its_sentence(
    error: AtfError, code: int, atf: Atf, frontend: FakeFrontend
) -> None:
    frontend.fails = error

    ran = atf("schedule", "shop/mail")

    assert (ran.code, ran.err, ran.out) == (code, f"atf: {error}\n", "")


def test_no_frontend_there(atf: Atf) -> None:
    ran = atf("get", "0-a", "--frontend", "127.0.0.1:1")

    assert ran.code == 4
    assert ran.err.startswith("atf: no frontend answers at 127.0.0.1:1: is `atf up` running?")
    assert ran.err.count("\n") == 1


def test_the_frontends_address(atf: Atf, frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch) -> None:
    frontend.add("0-a", t.NEW)
    atf("get", "0-a")
    monkeypatch.setenv("ATF_FRONTEND", "variable:1")
    atf("get", "0-a")
    atf("get", "0-a", "--frontend", "flag:1")

    assert frontend.addresses == ["127.0.0.1:7401", "variable:1", "flag:1"]


def test_a_result_that_is_not_what_it_says_is_shown_as_bytes(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.SUCCESS, result=b"{")

    assert json.loads(atf("get", "0-a", "--json").out)["result_base64"] == "ew=="


def test_failures_are_lines_that_say_what_to_do(atf: Atf, frontend: FakeFrontend) -> None:
    ran = atf("failures", "shop/*", "--since", "1h")
    titles, line = ran.out.splitlines()
    assert titles.split("\t")[-1] == "show one, retry all"
    count, name, *_, place, said, commands = line.split("\t")
    assert (count, name, place, said) == ("2", "shop/mail", "shop/till.py:pay", "OSError: rain")
    assert commands == "atf get 0-a; atf retry --group 41c7b2d09e3a"
    assert len(frontend.asked) == 2  # pages
    request = frontend.asked[0]
    assert getattr(request, "lambda") == "shop/*"
    assert request.since_at_us > 0


@pytest.mark.usefixtures("frontend")
def test_a_screen_of_80_columns_holds_groups_of_failures(atf: Atf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    first, place, commands = atf("failures").out.splitlines()
    assert first == "2 of shop/mail: OSError: rain"
    assert place.startswith("    at shop/till.py:pay, first 1970-")
    assert commands == "    atf get 0-a; atf retry --group 41c7b2d09e3a"


@pytest.mark.usefixtures("frontend")
def test_no_failures_is_said(atf: Atf, monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(_self: object, _request: f.ListFailuresRequest, *, timeout: float = 10) -> f.ListFailuresReply:
        return f.ListFailuresReply()

    monkeypatch.setattr(FakeFrontend, "list_failures", none)
    assert atf("failures", "shop/mail").err == "no task of shop/mail has failed for good\n"
    assert atf("failures", "--json").out == "[]\n"


def test_retry_of_a_group_needs_no_lambda(atf: Atf, frontend: FakeFrontend) -> None:
    ran = atf("retry", "--group", "41c7b2d09e3a", "--yes")
    assert ran.out == "group 41c7b2d09e3a: 2 of 3 failed tasks run again\n"
    (request,) = frontend.asked
    assert (getattr(request.filter, "lambda"), request.filter.failure_group) == ("", "41c7b2d09e3a")
    assert "give ids of tasks, a lambda, or flags that say which" in atf("retry").err
    assert "beside ids of tasks" in atf("retry", "0-a", "--group", "g").err


def test_cancel_by_a_filter_is_that_of_ls(atf: Atf, frontend: FakeFrontend) -> None:
    words = ("--status", "waiting", "--label", "team=web", "--priority", "high", "--priority", "3", "--key", "k")
    ran = atf("cancel", "shop/*", *words, "--search", "order=7", "--why", "rain", "--yes")
    assert (ran.code, ran.out) == (0, "shop/*: 2 tasks cancelled, 1 that run asked to stop\n")
    (request,) = frontend.asked
    assert (getattr(request.filter, "lambda"), request.why, request.dry_run) == ("shop/*", "rain", False)
    assert list(request.filter.statuses) == [t.NEW, t.ENQUEUED, t.RETRIABLE_FAILURE]
    assert (list(request.filter.priorities), request.filter.key) == ([0, 3], "k")
    assert (dict(request.filter.labels), dict(request.filter.search)) == ({"team": "web"}, {"order": "7"})


def test_cancel_by_a_filter_counts_first(atf: Atf, frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = atf("cancel", "--group", "g", "--dry-run")
    said = "group g: 3 tasks that can be cancelled, such as 0-a; without --dry-run they are cancelled\n"
    assert (ran.code, ran.out) == (0, said)
    assert atf("cancel", "--status", "waiting", "--dry-run", "--json").json["matched"] == 3
    assert "nobody is here to be asked" in atf("cancel", "shop/mail").err
    monkeypatch.setattr("atf.cli.confirmation.has_terminal", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_args, **_more: False)
    assert "nothing was changed" in atf("cancel", "shop/mail").err
    assert all(request.dry_run for request in frontend.asked)


@pytest.mark.usefixtures("frontend")
def test_cancel_and_retry_say_what_they_need(atf: Atf) -> None:
    for command in ("cancel", "retry"):
        assert "give ids of tasks, a lambda, or flags that say which" in atf(command).err
        assert "shop/mail is a lambda: give it alone" in atf(command, "0-a", "shop/mail").err
        assert "--since: of no use beside ids of tasks" in atf(command, "0-a", "--since", "1h").err


def test_what_takes_long_says_how_far_it_is(atf: Atf, frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atf.cli.matching._LINE_S", 0.0)
    assert atf("cancel", "shop/mail", "--yes").err == "looked at 9 of 9 tasks\n"
    assert frontend.asked


def test_retry_of_cancelled_tasks_is_named_so(atf: Atf, frontend: FakeFrontend) -> None:
    assert atf("retry", "--status", "cancelled", "--yes").out == "all lambdas: 2 of 3 cancelled tasks run again\n"
    assert list(frontend.asked[0].filter.statuses) == [t.CANCELLED]


def test_count_says_each_task_once(atf: Atf, frontend: FakeFrontend) -> None:
    assert atf("count", "shop/*", "--no-header").out == "shop/mail\t5\t0\t0\t4\t0\n"
    assert atf("count", "--json").json == [
        {"lambda": "shop/mail", "counts": {"NEW": 2, "RETRIABLE_FAILURE": 3, "SUCCESS": 4}}
    ]
    assert getattr(frontend.asked[0], "lambda") == "shop/*"
