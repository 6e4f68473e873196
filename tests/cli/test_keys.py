"""Commands on ordering keys."""

from __future__ import annotations

import pytest

from atf.rpc import frontend_pb2 as f

from .conftest import Atf, FakeFrontend


@pytest.fixture
def frontend(frontend: FakeFrontend) -> FakeFrontend:
    frontend.keys = [
        f.KeyInfo(key=key, stopped=key != "busy", stopped_at_us=5, task_id=f"0-{key}", error="no\nway", unfinished=3)
        for key in ("anna", "bert", "busy", "gone")
    ]
    return frontend


def mended(frontend: FakeFrontend) -> list[tuple[str, str, str]]:
    calls = [each for each in frontend.asked if not isinstance(each, f.ListKeysRequest)]
    return [(type(each).__name__[:-7], each.key, each.task_id) for each in calls]


@pytest.mark.usefixtures("frontend")
def test_stopped_keys_are_listed_over_all_pages(atf: Atf) -> None:
    lines = [line.split("\t") for line in atf("key", "ls", "shop/mail").out.splitlines()]
    assert lines.pop(0) == ["lambda", "key", "state", "at task", "unfinished", "error"]
    assert [(line[1], line[3:]) for line in lines] == [
        (key, [f"0-{key}", "3", "no"]) for key in ("anna", "bert", "gone")
    ]
    assert all(line[0] == "shop/mail" and line[2].startswith("stopped ") for line in lines)


@pytest.mark.usefixtures("frontend")
def test_one_key_is_listed_as_it_stands(atf: Atf) -> None:
    (shown,) = atf("key", "ls", "shop/mail", "busy", "--json").json
    assert (shown["key"], shown["stopped"], shown["unfinished"]) == ("busy", False, 3)
    assert "goes on" in atf("key", "ls", "shop/mail", "busy").out


def test_concurrency_keys_are_listed_with_their_slots(atf: Atf, frontend: FakeFrontend) -> None:
    assert atf("key", "ls", "shop/mail", "--concurrency", "--no-header").out.splitlines() == ["anna\t3 of 3\t7"]
    shown = atf("key", "ls", "shop/mail", "bert", "--concurrency", "--json").json
    assert shown == [{"key": "bert", "taken": 3, "limit": 3, "waiting": 7}]
    assert len(frontend.asked) == 3, "two pages, and one key"


def test_keys_are_resumed_with_the_task_that_was_seen(atf: Atf, frontend: FakeFrontend) -> None:
    ran = atf("key", "resume", "shop/mail", "anna", "gone", "--yes")
    assert ran.out.splitlines() == [
        "anna: task 0-anna resumed",
        "gone: task 0-gone goes on without it: it can't run again",
    ]
    assert mended(frontend) == [("ResumeKey", "anna", "0-anna"), ("ResumeKey", "gone", "0-gone")]


def test_all_keys_are_skipped(atf: Atf, frontend: FakeFrontend) -> None:
    done = atf("key", "skip", "shop/mail", "--all", "--yes", "--json").json
    assert done[0] == {"key": "anna", "task": "0-anna", "skipped": True}
    assert [key for _, key, _ in mended(frontend)] == ["anna", "bert", "gone"]


@pytest.mark.parametrize("word", ["resume", "skip"])
def test_what_can_t_be_mended_is_refused_before_anything_is_done(atf: Atf, frontend: FakeFrontend, word: str) -> None:
    refused = atf("keys", word, "shop/mail", "anna", "busy", "--yes")
    assert (refused.code, refused.err) == (
        3,
        "atf: not stopped: busy; atf key ls shop/mail lists the keys that are\n",
    )
    for arguments in ([], ["anna", "--all"]):
        assert atf("key", word, "shop/mail", *arguments).code == 2
    assert mended(frontend) == []


def test_the_stopped_keys_of_every_lambda_whose_keys_may_stop(atf: Atf, frontend: FakeFrontend) -> None:
    spec = f.LambdaSpec(name="shop/mail", stop_on_fatal=True)
    other = f.LambdaSpec(name="shop/other")
    frontend.lambdas = [f.LambdaInfo(spec=spec, in_force=spec), f.LambdaInfo(spec=other, in_force=other)]
    assert [each["key"] for each in atf("key", "--json").json] == ["anna", "bert", "gone"]
    assert {each["lambda"] for each in atf("key", "--json").json} == {"shop/mail"}
    assert "name the lambda" in atf("key", "ls", "--concurrency").err


def test_a_dry_run_mends_no_key(atf: Atf, frontend: FakeFrontend) -> None:
    assert atf("key", "skip", "shop/mail", "--all", "--dry-run").out.startswith("anna: task 0-anna would be skipped\n")
    assert mended(frontend) == []
