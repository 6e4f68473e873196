"""Commands on gates."""

from __future__ import annotations

import pytest

from atf.rpc import frontend_pb2 as f
from atf.task import US

from .conftest import Atf, FakeFrontend


def test_a_gate_of_a_collection(atf: Atf, frontend: FakeFrontend) -> None:
    ran = atf("gate", "pause", "shop/mail", "--label", "team=web", "--for", "10m", "--why", "it rains")
    assert ran.out == "shop/mail: pause of team=web, until it is lifted\n"
    request = frontend.asked[-1]
    assert (request.action, dict(request.labels), request.for_us) == (f.Gate.PAUSE, {"team": "web"}, 600 * US)
    assert (request.why, bool(request.who), bool(request.request_id)) == ("it rains", True, True)


def test_each_action_has_its_command(atf: Atf, frontend: FakeFrontend) -> None:
    assert (
        atf("gate", "delay", "shop/mail", "--by", "90s").out == "shop/mail: delay by 1 min 30 s, until it is lifted\n"
    )
    assert atf("gate", "admit", "shop/mail", "12.5%").out == "shop/mail: admit 12.5 %, until it is lifted\n"
    dropped = atf("gate", "drop", "shop/mail", "--until", "2030-01-31T08:00Z", "--json").json
    assert (dropped["action"], dropped["until_at_us"]) == ("drop", 1_896_076_800 * US)
    assert [each.action for each in frontend.asked] == [f.Gate.DELAY, f.Gate.ADMIT, f.Gate.DROP]


def test_what_makes_no_sense_is_refused(atf: Atf, frontend: FakeFrontend) -> None:
    assert "--by" in atf("gate", "delay", "shop/mail").err
    assert "'many' is no share" in atf("gate", "admit", "shop/mail", "many").err
    assert "give one of them" in atf("gate", "pause", "shop/mail", "--for", "1m", "--until", "2030-01-31T08:00Z").err
    assert "--until 'soon'" in atf("gate", "pause", "shop/mail", "--until", "soon").err
    assert "NAME=VALUE" in atf("gate", "drop", "shop/mail", "--label", "web").err
    assert frontend.asked == []


def test_lifting(atf: Atf, frontend: FakeFrontend) -> None:
    assert atf("gate", "lift", "shop/mail", "pause", "--label", "team=web").out == "shop/mail: 1 gate lifted\n"
    assert frontend.asked[-1].action == f.Gate.PAUSE
    ran = atf("gate", "lift", "shop/none")
    assert (ran.code, "has no such gate" in ran.err) == (3, True)


@pytest.mark.usefixtures("frontend")
def test_the_gates_that_stand(atf: Atf) -> None:
    line = atf("gate", "--no-header").out.rstrip("\n").split("\t")
    assert line == ["shop/mail", "admit 5 %", "team=web", "until it is lifted", "7", "0", "ada", "it rains"]
    assert atf("gate", "ls", "shop/mail", "--json").json[0]["waiting"] == 7
