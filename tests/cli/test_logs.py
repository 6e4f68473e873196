"""`atf logs`: what it prints, once and as it comes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from atf.cli.logs import LogPrinter
from atf.rpc import frontend_pb2 as f, task_pb2 as t

from .conftest import Atf, FakeFrontend

ONE = t.RunLog(run=1, attempt=1, text="12:00:00.000 hello\n")
TWO = t.RunLog(run=3, attempt=2, text="12:00:01.000 \x1b[2J\n", cut_bytes=1_234)


def answers(frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch, *replies: f.GetLogReply) -> None:
    async def get_log(_self: object, request: f.GetLogRequest, *, timeout: float = 10) -> f.GetLogReply:
        assert request.id == "0-a"
        return replies[0]

    async def watch_log(
        _self: object, request: f.WatchLogRequest, *, timeout: float = 10
    ) -> AsyncIterator[f.GetLogReply]:
        assert request.id == "0-a"
        for each in replies:
            yield each

    monkeypatch.setattr(type(frontend), "get_log", get_log, raising=False)
    monkeypatch.setattr(type(frontend), "watch_log", watch_log, raising=False)


def test_each_run_stands_under_its_number_and_what_is_cut_is_said(
    atf: Atf, frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(frontend, monkeypatch, f.GetLogReply(status=t.FATAL_FAILURE, runs=[ONE, TWO]))
    assert atf("logs", "0-a").out.splitlines() == [
        "--- run 1, attempt 1 ---",
        "12:00:00.000 hello",
        "--- run 3, attempt 2 ---",
        "… 1,234 bytes are not kept …",
        "12:00:01.000 \\x1b[2J",
    ]
    shown = json.loads(atf("logs", "0-a", "--json").out)
    assert (shown["status"], shown["runs"][1]["cut_bytes"], shown["runs"][0]["text"]) == (
        "FATAL_FAILURE",
        1_234,
        ONE.text,
    )


def test_where_there_is_none_it_says_why(atf: Atf, frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(frontend, monkeypatch, f.GetLogReply(status=t.SUCCESS, why_none="it succeeded"))
    for words in (["logs", "0-a"], ["logs", "0-a", "--follow"]):
        ran = atf(*words)
        assert (ran.code, ran.out, ran.err) == (0, "", "no log: it succeeded\n")


def test_it_follows_until_the_end_and_its_exit_code_says_how_that_was(
    atf: Atf, frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = t.RunLog(run=1, attempt=1, text=ONE.text + "12:00:02.000 bye\n")
    answers(
        frontend,
        monkeypatch,
        f.GetLogReply(status=t.PROCESSING, runs=[ONE]),
        f.GetLogReply(status=t.FATAL_FAILURE, runs=[more]),
    )
    ran = atf("logs", "0-a", "--follow")
    assert ran.code == 1
    assert ran.out.splitlines() == ["--- run 1, attempt 1 ---", "12:00:00.000 hello", "12:00:02.000 bye"]


def test_only_what_is_new_is_printed_also_where_its_beginning_has_gone_meanwhile(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printer = LogPrinter()
    for text, cut_bytes in (("aé\n", 0), ("é\nbb\n", 1), ("dd\n", 12)):
        printer.show(f.GetLogReply(runs=[t.RunLog(run=1, attempt=1, text=text, cut_bytes=cut_bytes)]))
    assert capsys.readouterr().out == "--- run 1, attempt 1 ---\naé\nbb\n… 5 bytes are not kept …\ndd\n"
