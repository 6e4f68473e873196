"""`atf status`: what counts as wrong, and the exit code that says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from atf.cli.budgets import Budget
from atf.client.judge import HOST_KNOWN_US
from atf.controller.host_state import KNOWN_S
from atf.errors import Unavailable
from atf.rpc import frontend_pb2 as f
from atf.task import US

from .conftest import Atf, FakeFrontend

NOW_US = 1_800_000_000 * US
ROLES = ("frontend", "store-consumer", "hsc", "controller")


def healthy() -> f.GetStatusReply:
    return f.GetStatusReply(
        now_us=NOW_US,
        memory=[f.StoreMemory(where="store:6379", used_bytes=100 << 20, max_bytes=1 << 30)],
        check_results=[f.StoreCheckResult(check="save", state="warn", sentence="it is small")],
        partitions=1,
        roles=[f.RoleCount(role=each, version="1.0", processes=2) for each in ROLES],
        hosts=[f.WorkerHost(name="one:7403", pool="default", executors=2)],
        lambdas=[of(waiting=3, later=2, running=1, dead=4, failed_id="0-d", due_since_us=NOW_US - US, served=True)],
        lambdas_known=7,
    )


def of(name: str = "shop/mail", **fields: Any) -> f.LambdaStatus:
    return f.LambdaStatus(**{"lambda": name, **fields})


@pytest.fixture
def reply(frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch) -> f.GetStatusReply:
    made = healthy()

    async def get_status(_self: object, _request: f.GetStatusRequest, *, timeout: float = 10) -> f.GetStatusReply:
        if frontend.fails:
            raise frontend.fails
        return made

    monkeypatch.setattr(FakeFrontend, "get_status", get_status, raising=False)
    return made


def test_all_is_well(atf: Atf, reply: f.GetStatusReply) -> None:
    ran = atf("status")
    assert ran.code == 0
    assert "store:6379: 100 MiB of 1,024 MiB (10%)" in ran.out
    assert "hsc: 2 of 1.0" in ran.out
    assert "7 registered; 3 due, 2 later, 1 running, 4 failed for good" in ran.out
    assert "4 failed for good, the newest: atf get 0-d" in ran.out
    assert ran.out.endswith("\nall is well; failed tasks and why: atf ls --status dead\n")
    reply.lambdas[0].dead = 0
    assert atf("status").out.endswith("\nall is well\n")
    assert not [line for line in ran.out.splitlines() if line.startswith("!")]
    shown = atf("status", "--json").json
    assert shown["well"] is True
    assert (shown["look"], shown["now_us"]) == ([], NOW_US), "numbers are numbers"
    assert (shown["hosts"][0]["name"], shown["lambdas"][0]["waiting"]) == ("one:7403", 3)


BROKEN: dict[str, Callable[[f.GetStatusReply], object]] = {
    "(95%)": lambda r: setattr(r.memory[0], "used_bytes", int(0.95 * (1 << 30))),
    "maxmemory-policy": lambda r: setattr(
        r.check_results.add(check="maxmemory-policy", state="refuse"), "sentence", "maxmemory-policy evicts"
    ),
    "1 of 1 partitions can't be reached": lambda r: setattr(r, "partitions_away", 1),
    "no task starts for another 3 s": lambda r: setattr(
        r, "claims_paused", "no task starts for another 3 s: claims are paused"
    ),
    "store-consumer: none is alive": lambda r: r.roles.pop(1),
    "none is alive: no task runs": lambda r: r.ClearField("hosts"),
    "one:7403 (pool default): 0 executors": lambda r: setattr(r.hosts[0], "executors", 0),
    "2 executors, silent for 16 s: it may be dead": lambda r: setattr(r.hosts[0], "until_us", NOW_US + 14 * US),
    "quarantines everything": lambda r: setattr(r.hosts[0].quarantined.add(), "lambda", "*"),
    "no executor can start: shop.py line 3": lambda r: setattr(r.hosts[0], "why_not", "shop.py line 3: SyntaxError"),
    "the first for 6 min": lambda r: setattr(r.lambdas[0], "due_since_us", NOW_US - 360 * US),
    "no live worker runs it": lambda r: setattr(r.lambdas[0], "served", False),
    "2 failed within 1 h: atf get 0-a": lambda r: r.lambdas[0].MergeFrom(
        f.LambdaStatus(failed_recently=2, failed_id="0-a")
    ),
    "job shop/nightly  its lambda is not registered: atf job rm shop/nightly ends it": lambda r: r.jobs.append(
        f.JobWithoutCode(name="shop/nightly", why="its lambda is not registered")
    ),
}


@pytest.mark.parametrize("says", BROKEN)
def test_what_is_wrong_is_marked_and_sets_the_exit_code(says: str, atf: Atf, reply: f.GetStatusReply) -> None:
    BROKEN[says](reply)
    ran = atf("status")
    assert ran.code == 1
    (line,) = (line for line in ran.out.splitlines() if line.startswith("!"))
    assert says in line
    assert ran.out.endswith("\n1 wrong; failed tasks and why: atf ls --status dead\n")
    assert len(atf("status", "--json").json["wrong"]) == 1


def test_while_claims_are_paused_nobody_is_called_dead(atf: Atf, reply: f.GetStatusReply) -> None:
    """The store may have come back empty just now: who lives has not told it yet."""
    reply.claims_paused = "no task starts for another 3 s: claims are paused"
    del reply.roles[:]
    del reply.hosts[:]
    ran = atf("status")
    assert ran.code == 1
    assert ran.out.count("none has told the store yet that it lives") == len(ROLES) + 1
    assert "none is alive" not in ran.out


def test_what_is_kept_on_purpose_is_not_wrong_but_worth_a_look(atf: Atf, reply: f.GetStatusReply) -> None:
    reply.lambdas[0].MergeFrom(of(paused=True, kept_by="dana@laptop: accounts are being moved"))
    assert atf("status").out.endswith("\nall is well; failed tasks and why: atf ls --status dead\n"), "for a second"
    reply.lambdas[0].due_since_us, reply.lambdas[0].served = NOW_US - 3_600 * US, False
    ran = atf("status")
    assert ran.code == 0
    assert "\n? shop/mail  paused by dana@laptop: accounts are being moved, 3 due, the first for 1 h" in ran.out
    assert "\n1 worth a look; failed tasks" in ran.out
    reply.lambdas[0].failed_recently = 1
    assert "\n1 wrong; failed tasks" in atf("status").out


def test_a_storm_of_retries_is_worth_a_look(atf: Atf, reply: f.GetStatusReply) -> None:
    reply.lambdas[0].MergeFrom(of(waiting=4, later=56, retrying=25))
    assert "60 due" not in atf("status").out
    assert "?" not in atf("status").out
    reply.lambdas[0].retrying = 30
    ran = atf("status")
    assert "\n? shop/mail  4 due, the first for 1 s, 56 later, 30 to retry" in ran.out
    assert ran.code == 0
    assert len(atf("status", "--json").json["look"]) == 1


def test_a_host_that_says_in_time_that_it_lives_is_not_silent(atf: Atf, reply: f.GetStatusReply) -> None:
    assert HOST_KNOWN_US == KNOWN_S * US
    reply.hosts[0].until_us = NOW_US + 16 * US
    assert atf("status").code == 0
    reply.hosts[0].MergeFrom(f.WorkerHost(until_us=NOW_US + US, why_not="shop.py line 3: SyntaxError"))
    assert "silent" not in atf("status").out


def test_lasting_warnings_of_the_store_are_one_line(atf: Atf, reply: f.GetStatusReply) -> None:
    reply.check_results.add(check="appendfsync", state="warn", sentence="up to 2 s may be lost")
    reply.check_results.add(check="retention", state="warn", sentence="finished tasks go early")
    out = atf("status").out
    assert "warnings about appendfsync, save: see atf doctor\n" in out
    assert "finished tasks go early" in out
    assert "up to 2 s" not in out


def test_what_is_withheld_is_not_called_dead(atf: Atf, reply: f.GetStatusReply) -> None:
    for name in ("roles", "hosts", "memory"):
        reply.ClearField(name)
    reply.cluster_withheld = True
    shown = atf("status")
    assert shown.code == 0
    assert "withheld, with worker hosts and store servers: they take a token that may read every namespace" in shown.out
    assert "none is alive" not in shown.out


def test_how_late_and_how_recent_is_the_caller_s_to_say(atf: Atf, reply: f.GetStatusReply) -> None:
    reply.lambdas[0].due_since_us = NOW_US - 20 * US
    assert atf("status").code == 0
    assert atf("status", "--late", "10s").code == 1


def test_a_screen_is_one_screen(atf: Atf, reply: f.GetStatusReply) -> None:
    reply.hosts.extend(f.WorkerHost(name=f"w{number}", executors=1) for number in range(100))
    reply.lambdas.extend(of(f"shop/l{number}", waiting=1, served=number % 2 == 0) for number in range(200))
    ran = atf("status")
    assert len(ran.out.splitlines()) < 60
    assert "hosts     and 81 more\n" in ran.out
    assert "and 182 more, 81 of them wrong" in ran.out


@pytest.mark.usefixtures("reply")
def test_without_a_frontend_the_code_is_another(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.fails = Unavailable("the task store is loading")
    assert atf("status").code == 4


def test_a_budget_that_burns_is_wrong_and_names_the_command(
    atf: Atf, reply: f.GetStatusReply, monkeypatch: pytest.MonkeyPatch
) -> None:
    burns = [
        Budget("shop/mail", "5s 99%", 0.5, {"1h": 20, "5m": 15}),
        Budget("Schedule", "99.9% accepted", -1, {"start": 2}, 1_000, 2),
        Budget("shop/well", "5s 95%", 0.9, {"start": 0.1}, 1_000, 5),
    ]
    monkeypatch.setattr("atf.cli.status.budgets_now", lambda _seconds: burns)
    shown = atf("status")
    promises = [line.split(maxsplit=2) for line in shown.out.splitlines() if "promises" in line]
    assert promises == [
        [
            "!",
            "promises",
            "shop/mail: its error budget goes 20 times as fast as 5s 99% allows, over an hour (atf slo shop/mail)",
        ],
        ["?", "promises", "Schedule: 2 of 1,000 calls were not 99.9% accepted: its error budget is gone (atf slo)"],
    ]
    assert (shown.code, "all is well" in shown.out) == (1, False)
