"""Commands on the cores of worker pools."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from atf.client.whoami import whoami
from atf.rpc import frontend_pb2 as f

from .conftest import Atf, FakeFrontend

NOW = 1_000_000_000


def _of(name: str) -> dict[str, Any]:
    """The field whose name is a keyword."""
    return {"lambda": name}


def capacity() -> f.Capacity:
    occupied = f.Core(state=f.OCCUPIED, **_of("shop/mail"), group=1, until_us=NOW + 500_000)
    occupied.next_up_on_available = occupied.next_up_on_time_out = "shop/bill"
    return f.Capacity(
        pool="gpu",
        cores=[f.Core(state=f.SCHEDULED, **_of("vip/one"), reserved=True), occupied],
        groups=[f.CoreGroup(executors=["e1", "e2"]), f.CoreGroup(executors=["e3"]), f.CoreGroup()],
        queue=[f.CoreClaim(**_of("shop/bill"), core=1, retries=2)],
        beyond=[f.CoreClaim(**_of("shop/last"), core=-1)],
        reserved={"vip/one": 1},
        away=["vip/one"],
        rotation=7,
        lookahead=3,
        max_retries=2,
        hand_over_us=1_500_000,
        reserved_timeout_us=60_000_000,
        multiplexed_timeout_us=1_000_000,
        rotation_us=10_000_000,
        next_rotation_at_us=NOW + 2_000_000,
        now_us=NOW,
    )


def test_show_says_who_has_the_cores_and_who_is_next(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.capacity = capacity()
    lines = [line.split("\t") for line in atf("capacity", "show", "gpu", "--no-header").out.splitlines()]
    assert lines[0] == ["0", "reserved", "scheduled", "vip/one", "", "", "", "0 (2 executors)"]
    assert lines[1][1:6] == ["multiplexed", "occupied", "shop/mail", "in 0.5 s", "shop/bill"]
    assert lines[2:5] == [["group 0: e1, e2"], ["group 1: e3"], ["group 2: nobody"]]
    assert lines[5] == ["waiting: shop/bill (core 1), shop/last"]
    assert lines[6] == ["rotation 7; the next one in 2.0 s"]
    assert lines[7] == [
        "settings: lookahead 3, max-retries 2, hand-over 1.5 s, reserved-timeout 60 s, multiplexed-timeout 1 s, rotation 10 s"
    ]
    assert lines[8] == [
        "vip/one does not run in this pool, and its reserved cores (1) stand idle: atf capacity set gpu --reserve vip/one=0"
    ]
    found = atf("capacity", "show", "gpu", "--json").json
    assert [each["lambda"] for each in found["scheduled"]] == ["vip/one"]
    assert [each["core"] for each in found["occupied"]] == [1]
    assert found["groups"] == [["e1", "e2"], ["e3"], []]
    assert found["away"] == ["vip/one"]
    assert found["queue"] == [{"lambda": "shop/bill", "core": 1, "retries": 2}]
    assert frontend.asked[-1] == f.GetCapacityRequest(pool="gpu")


def test_set_sends_what_was_given_and_nothing_else(atf: Atf, frontend: FakeFrontend) -> None:
    given = ["--reserve", "shop/mail=2", "--reserve", "shop/bill=0", "--rotation", "500ms", "--lookahead", "4"]
    assert "has no cores" in atf("capacity", "set", "default", *given).out
    expected = f.SetCapacityRequest(
        pool="default", reserve={"shop/mail": 2, "shop/bill": 0}, rotation_us=500_000, lookahead=4, who=whoami()
    )
    assert frontend.asked[-1] == expected
    atf("capacity", "set", "gpu", "--cores", "0", "--why", "gone")
    assert frontend.asked[-1] == f.SetCapacityRequest(pool="gpu", cores=0, who=whoami(), why="gone")


@pytest.mark.parametrize(
    "given", [["--reserve", "shop/mail"], ["--reserve", "shop/mail=-1"], ["--rotation", "soon"], ["--cores", "9" * 30]]
)
def test_what_makes_no_sense_is_refused_with_a_sentence(atf: Atf, frontend: FakeFrontend, given: list[str]) -> None:
    ran = atf("capacity", "set", "gpu", *given)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert not frontend.asked


@pytest.mark.usefixtures("frontend")
def test_ls_names_the_pools_that_have_cores(atf: Atf) -> None:
    assert atf("capacity", "ls").out == atf("capacity").out == "pool\ndefault\ngpu\n"
    assert atf("capacity", "ls", "--json").json == ["default", "gpu"]


@pytest.mark.usefixtures("frontend")
def test_hosts_say_what_they_quarantine(atf: Atf) -> None:
    lines = [line.split("\t") for line in atf("host", "--no-header").out.splitlines()]
    assert lines == [
        ["one:7403", "default", "0", "takes tasks", "shop/mail (for 2.5 s)"],
        ["two:7403", "gpu", "0", "takes tasks", "everything (a task is tried)"],
    ]
    assert json.loads(atf("host", "--json").out)[0] == {
        "name": "one:7403",
        "pool": "default",
        "executors": 0,
        "draining": False,
        "drain_until_us": None,
        "starting": False,
        "why_not": "",
        "quarantined": {"shop/mail": 12_500_000},
        "signatures": {},
    }


@pytest.mark.usefixtures("frontend")
def test_hosts_say_why_no_executor_can_start_there(atf: Atf, monkeypatch: pytest.MonkeyPatch) -> None:
    async def list_hosts(_self: object, _request: f.ListHostsRequest, **_more: object) -> f.ListHostsReply:
        bad = f.WorkerHost(
            name="one:7403", pool="default", why_not="app shop:app: shop.py line 3: SyntaxError\n\x1b[2J"
        )
        return f.ListHostsReply(hosts=[bad, f.WorkerHost(name="two:7403", pool="default", starting=True)])

    monkeypatch.setattr(FakeFrontend, "list_hosts", list_hosts)
    assert [line.split("\t")[3] for line in atf("host", "--no-header").out.splitlines()] == [
        "can't start: app shop:app: shop.py line 3: SyntaxError\\n\\x1b[2J",
        "starts",
    ]
    listed = json.loads(atf("host", "--json").out)
    assert [(each["starting"], each["why_not"][:12]) for each in listed] == [(False, "app shop:app"), (True, "")]


@pytest.mark.usefixtures("frontend")
def test_hosts_name_the_signatures_that_differ(atf: Atf, monkeypatch: pytest.MonkeyPatch) -> None:
    async def list_hosts(_self: object, _request: f.ListHostsRequest, **_more: object) -> f.ListHostsReply:
        here = f.HostSignature(digests=["aaa", "bbb"], **cast("Any", {"lambda": "shop/mail"}))
        return f.ListHostsReply(hosts=[f.WorkerHost(name="one:7403", pool="default", signatures=[here])])

    monkeypatch.setattr(FakeFrontend, "list_hosts", list_hosts)
    assert atf("host", "ls", "--no-header").out == "one:7403\tdefault\t0\ttakes tasks\t\tshop/mail aaa bbb\n"
    assert json.loads(atf("host", "--json").out)[0]["signatures"] == {"shop/mail": ["aaa", "bbb"]}
