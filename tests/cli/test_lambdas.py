"""Commands on lambdas and queues."""

from __future__ import annotations

from typing import Any

import pytest

from atf.client.whoami import whoami
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.task import US

from .conftest import Atf, FakeFrontend


def asked(name: str, **fields: Any) -> f.SetLambdaRequest:
    return f.SetLambdaRequest(**{"lambda": name, "who": whoami(), **fields})


def info(name: str, **counts: int) -> f.LambdaInfo:
    queue = f.QueueInfo(name=f"{{0}}{name}:1", priority=1, depth=7, limit=10_000)
    return f.LambdaInfo(spec=f.LambdaSpec(name=name, signature="(to: str)"), counts=counts, queues=[queue])


def test_lambdas_with_their_counts_by_name(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.lambdas = [info("shop/mail", NEW=1, CLAIMED=2, PROCESSING=3), info("shop/bill")]

    lines = [line.split("\t") for line in atf("lambda", "--no-header").out.splitlines()]

    assert [line[0] for line in lines] == ["shop/bill", "shop/mail"]
    assert lines[1][2:5] == ["1", "0", "5"]
    assert atf("lambda", "ls").out == atf("lambda").out
    assert atf("lambda", "ls", "--json").json[1]["counts"] == {"CLAIMED": 2, "NEW": 1, "PROCESSING": 3}


def test_queues(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.lambdas = [info("shop/mail")]

    assert atf("queue", "--no-header").out == "{0}shop/mail:1\tshop/mail\t1\t7\t10000\n"
    assert atf("queue", "shop/mail", "--json").json[0]["depth"] == 7
    assert frontend.looked_up[-1] == "shop/mail"


@pytest.mark.parametrize("noun", ["queue", "lambda"])
def test_a_pause_of_claims_is_said_beside_the_table(atf: Atf, frontend: FakeFrontend, noun: str) -> None:
    frontend.lambdas = [info("shop/mail")]
    before = atf(noun, "ls")
    assert before.err == ""
    assert atf("queue", "ls", "--json").json[0]["claims_paused"] is None

    frontend.claims_paused = "no task starts for another 3 s: claims are paused"

    assert atf(noun, "ls").out == before.out
    assert atf(noun, "ls").err == "no task starts for another 3 s: claims are paused\n"
    assert atf("queue", "ls", "--json").json[0]["claims_paused"] == "no task starts for another 3 s: claims are paused"


def test_settings_are_set_unset_and_shown(atf: Atf, frontend: FakeFrontend) -> None:
    spec = f.LambdaSpec(name="shop/mail", rate=5, shares={2: 0.1}, placement=f.STICKY)
    holds = f.LambdaSpec(name="shop/mail", rate=7.5, shares={2: 0.1}, placement=f.STICKY, max_running=3)
    set_by_hand = {"rate": "7.5", "max_running": "3"}
    frontend.lambdas = [f.LambdaInfo(spec=spec, in_force=holds, overrides=set_by_hand)]

    lines = [line.split(None, 1) for line in atf("lambda", "show", "shop/mail").out.splitlines()]

    assert lines == [
        ["name", "shop/mail"],
        ["rate", "7.5 (set; the code says 5.0)"],
        ["max_running", "3 (set; the code says nothing)"],
        ["shares", "{'2': 0.1}"],
        ["placement", "sticky"],
    ]
    shown = atf("lambda", "set", "shop/mail", "rate=7.5", "owner=a=b", "--json").json
    assert (shown["set"], shown["settings"]["rate"], shown["code"]["rate"]) == (set_by_hand, 7.5, 5)
    assert frontend.asked[-1] == asked("shop/mail", set={"rate": "7.5", "owner": "a=b"})
    atf("lambda", "unset", "shop/mail", "rate", "all")
    assert frontend.asked[-1] == asked("shop/mail", unset=["rate", "all"])
    out = atf("lambda", "unset", "shop/mail", "rate", "max_running").out
    assert "rate         5.0 (as the code says; it was set to 7.5)\n" in out
    assert "max_running  none (as the code says; it was set to 3)\n" in out
    assert atf("lambda", "set", "shop/mail", "rate").code == 2
    assert atf("lambda", "set", "shop/mail").code == 2


def test_how_long_its_finished_tasks_are_kept_is_shown_where_the_code_says_so(atf: Atf, frontend: FakeFrontend) -> None:
    spec = f.LambdaSpec(name="shop/mail", options=t.TaskOptions(retention_us=7 * 86_400 * US))
    frontend.lambdas = [f.LambdaInfo(spec=spec, in_force=spec)]
    assert "retention  7 d\n" in atf("lambda", "show", "shop/mail").out


def test_pause_and_resume(atf: Atf, frontend: FakeFrontend) -> None:
    assert atf("pause", "shop/mail").out == "shop/mail is paused\n"
    assert [(type(each), bool(each.who)) for each in frontend.asked] == [(f.PauseLambdaRequest, True)]
    assert atf("resume", "shop/mail", "--json").json == {"lambda": "shop/mail", "paused": False}
    assert type(frontend.asked[-1]) is f.ResumeLambdaRequest
