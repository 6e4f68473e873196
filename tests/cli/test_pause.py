"""Pausing every lambda, and resuming what was paused so."""

from __future__ import annotations

import pytest

from atf.cli import pause
from atf.errors import Unavailable
from atf.rpc import frontend_pb2 as f

from .conftest import Atf, FakeFrontend


@pytest.fixture
def three(frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch) -> FakeFrontend:
    for name in ("shop/bill", "shop/mail", "shop/old"):
        frontend.lambdas.append(f.LambdaInfo(spec=f.LambdaSpec(name=name), paused=name == "shop/old"))
    whys = {"shop/bill": "pause --all: a flood", "shop/mail": "pause --all", "shop/old": "its target is away"}

    async def list_gates(_self: object, _request: f.ListGatesRequest, *, timeout: float = 10) -> f.ListGatesReply:
        reply = f.ListGatesReply()
        for name, why in whys.items():
            setattr(reply.gates.add(action=f.Gate.PAUSE, why=why), "lambda", name)
        setattr(reply.gates.add(action=f.Gate.PAUSE, labels={"a": "b"}), "lambda", "shop/part")
        return reply

    monkeypatch.setattr(FakeFrontend, "list_gates", list_gates)
    return frontend


def test_all_that_run_are_paused(atf: Atf, three: FakeFrontend) -> None:
    ran = atf("pause", "--all", "--why", "a flood", "--yes", "--no-header")
    assert ran.out == "shop/bill\tis paused\nshop/mail\tis paused\n"
    asked = [each for each in three.asked if isinstance(each, f.PauseLambdaRequest)]
    assert sorted((getattr(each, "lambda"), each.why) for each in asked) == [
        ("shop/bill", "pause --all: a flood"),
        ("shop/mail", "pause --all: a flood"),
    ]


@pytest.mark.usefixtures("three")
def test_what_was_paused_apart_stays_so(atf: Atf) -> None:
    ran = atf("resume", "--all", "--yes", "--json")
    assert (ran.json["lambdas"], ran.json["stay_paused"]) == (["shop/bill", "shop/mail"], ["shop/old"])
    assert "shop/old stays paused" in atf("resume", "--all", "--yes").out


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_all_is_asked_about_and_a_dry_run_only_looks(command: str, atf: Atf, three: FakeFrontend) -> None:
    assert f"atf {command} --all --yes does it" in atf(command, "--all").err
    assert three.asked == []
    assert atf(command, "--all", "--dry-run").out.count("would") == 2
    assert not [each for each in three.asked if isinstance(each, f.PauseLambdaRequest | f.ResumeLambdaRequest)]
    for words in ([command], [command, "shop/mail", "--all"]):
        assert "and not both" in atf(*words).err


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(("command", "done"), [("pause", "paused"), ("resume", "resumed")])
def test_a_long_command_says_how_far_it_is(command: str, done: str, atf: Atf, monkeypatch: pytest.MonkeyPatch) -> None:
    assert atf(command, "--all", "--yes").err == "", "a short one does not"
    monkeypatch.setattr(pause, "_AT_ONCE", 1)
    monkeypatch.setattr(pause, "LINE_S", 0)
    assert f"1 of 2 lambdas {done}\n" in atf(command, "--all", "--yes").err


@pytest.mark.usefixtures("three")
def test_a_command_that_ends_early_says_how_far_it_came(atf: Atf, monkeypatch: pytest.MonkeyPatch) -> None:
    async def pause_lambda(_self: object, request: f.PauseLambdaRequest, *, timeout: float = 10) -> f.PauseLambdaReply:
        if getattr(request, "lambda") == "shop/mail":
            raise Unavailable("the store is away")
        return f.PauseLambdaReply()

    monkeypatch.setattr(pause, "_AT_ONCE", 1)
    monkeypatch.setattr(FakeFrontend, "pause_lambda", pause_lambda)
    ran = atf("pause", "--all", "--yes")
    assert ran.code == 4
    assert ran.err == (
        "stopped with 1 of 2 lambdas paused; the same command goes on with the rest\natf: the store is away\n"
    )
