"""Pausing every lambda, and resuming what was paused so."""

from __future__ import annotations

import pytest

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


def test_what_was_paused_apart_stays_so(atf: Atf, three: FakeFrontend) -> None:
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
