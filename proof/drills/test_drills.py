"""The bench of drills, without a cluster: rules that are faster, commands that are noted, and what is judged right or wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import atf
from tests.deploy.test_alerts import ALERT_RULES

from . import faults, rules, shop
from .cluster import DrillCluster
from .drill import Drill
from .faults import DESTROYS, FAULTS, DrillFault
from .incident import Incident
from .oncall import OperatorCall, calls, made, write_tools
from .prometheus import FiringAlert, PrometheusServer


def test_durations_are_divided_and_names_are_not() -> None:
    text = """
      - record: lambda:atf_starts_burn:1h
        expr: avg_over_time(lambda:atf_starts_late:rate5m[1h]) > sum(x offset 2m)
      - alert: A
        expr: max by (lambda) (atf_due_oldest_seconds) > 3600 and y > 300
        for: 5m
"""
    assert (
        rules.scaled(text, 60)
        == """
      - record: lambda:atf_starts_burn:1h
        expr: avg_over_time(lambda:atf_starts_late:rate5m[60000ms]) > sum(x offset 2000ms)
      - alert: A
        expr: max by (lambda) (atf_due_oldest_seconds) > 60 and y > 300
        for: 5000ms
"""
    )


def test_no_long_duration_of_the_shipped_rules_is_forgotten(tmp_path: Path) -> None:
    names = rules.write(tmp_path, rules.SCALE)
    for name in names:
        before, after = (rules.RULES / name).read_text("utf-8"), (tmp_path / name).read_text("utf-8")
        assert before.count("[") == after.count("[")
        assert "[5m]" not in after
        assert " for: 5m" not in after
        assert "> 3600" not in after
        assert "21600" not in after


def test_every_fault_waits_for_alerts_that_there_are() -> None:
    assert len(FAULTS) == 8
    known = {rule.name for rule in ALERT_RULES}
    assert {name for fault in FAULTS.values() for name in fault.alerts} <= known


def test_a_command_that_only_asks_or_fails_does_nothing() -> None:
    retry = r"^atf retry"
    assert OperatorCall(1.0, 0, "atf retry shop/mail --yes").does(retry)
    assert not OperatorCall(1.0, 0, "atf retry shop/mail --dry-run").does(retry)
    assert not OperatorCall(1.0, 2, "atf retry shop/mail --yes").does(retry)


def test_notes_of_commands_are_read_without_the_one_being_written(tmp_path: Path) -> None:
    (tmp_path / "calls").write_text("1.5\t0\tatf status\n2.5\t3\tatf get x\ty \n3.5\t0\tatf ret", "utf-8")
    assert calls(tmp_path) == [OperatorCall(1.5, 0, "atf status"), OperatorCall(2.5, 3, "atf get x\ty")]


class StillWorld(PrometheusServer):
    """Prometheus that says what it is told to."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    async def value(self, expression: str) -> float | None:
        return next((value for part, value in self.values.items() if part in expression), None)


class NoCluster(DrillCluster):
    """A cluster without a process, but with its world."""

    def __init__(self, folder: Path) -> None:
        self.world, self.release, self.hosts = folder, shop.GOOD, {}


@pytest.fixture
def incident(tmp_path: Path) -> Incident:
    return Incident(NoCluster(tmp_path), atf.AsyncClient("127.0.0.1:1"), StillWorld(), injected_at=time.time())


def judged(fault: DrillFault, incident: Incident, *commands: str) -> list[str]:
    """Why a drill finds these commands wrong."""
    drill = Drill(fault, incident.cluster.world, 1, print)
    for number, each in enumerate(commands):
        call = OperatorCall(incident.injected_at + 1 + number, 0, each)
        drill.judge(incident, call)
        incident.calls.append(call)
    return [str(each["why"]) for each in drill.wrong]


@pytest.mark.parametrize(
    ("fault", "commands"),
    [
        ("late-task", ["atf cancel 0-1"]),
        ("bad-deploy", ["atf pause shop/mail", "atf retry shop/mail --yes"]),
        ("full-store", ["fleet redis CONFIG SET maxmemory-policy allkeys-lru"]),
        ("paused-lambda", ["atf resume shop/bill"]),
        ("dead-host", ["atf host drain web-2"]),
        ("poison-task", ["atf retry 0-1"]),
        ("missed-tick", ["atf job run shop/report", "atf job run shop/report"]),
        ("retry-storm", ["fleet deploy 42"]),
    ],
)
def test_what_makes_it_worse_is_written_down(incident: Incident, fault: str, commands: list[str]) -> None:
    assert len(judged(FAULTS[fault], incident, *commands)) == 1


@pytest.mark.parametrize(
    ("fault", "command"),
    [
        ("late-task", "atf lambda unset shop/bill max_running"),
        ("full-store", "fleet redis CONFIG SET maxmemory 256mb"),
        ("paused-lambda", "fleet tell dana may I?"),
        ("dead-host", "fleet start web-2"),
        ("missed-tick", "atf job run shop/report"),
        ("retry-storm", 'atf pause shop/charge --why "payments is down"'),
    ],
)
def test_what_the_runbook_says_is_right(incident: Incident, fault: str, command: str) -> None:
    assert judged(FAULTS[fault], incident, "atf status", command) == []
    assert OperatorCall(1.0, 0, command).does(FAULTS[fault].right)


async def test_a_pause_may_be_lifted_once_its_reason_is_over(incident: Incident) -> None:
    incident.injected_at -= 1_000
    assert judged(FAULTS["paused-lambda"], incident, "atf status") == []
    call = OperatorCall(time.time(), 0, "atf resume shop/bill")
    assert FAULTS["paused-lambda"].too_early(incident, call.at, call.words) == ""


async def test_a_report_that_was_made_once_is_what_was_wanted(incident: Incident) -> None:
    over = FAULTS["missed-tick"].over
    assert not await over(incident)
    made = incident.cluster.world / "reports"
    made.write_text("made\n", "utf-8")
    assert await over(incident)
    made.write_text("made\nmade\n", "utf-8")
    assert not await over(incident)


async def test_fleet_answers_and_says_what_it_does_not_know(incident: Incident, tmp_path: Path) -> None:
    incident.people["dana"] = lambda: "Leave it."
    asked = {
        "1": ["tell", "dana", "may I?"],
        "2": ["start"],
        "3": ["done", "it", "is", "over"],
        "4": ["tell", "bob", "?"],
    }
    for name, words in asked.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(words), "utf-8")
    await incident.answer(tmp_path)
    said: dict[str, Any] = {name: json.loads((tmp_path / f"{name}.answer").read_text("utf-8")) for name in asked}
    assert said["1"] == [0, "Leave it."]
    assert said["2"][0] == 1
    assert "done" in incident.notes
    assert "nobody of that name" in said["4"][1]


def test_a_trial_of_one_s_own_may_be_cancelled(incident: Incident, tmp_path: Path) -> None:
    """schedule-refused.md says so."""
    trial = tmp_path / "made"
    assert len(judged(FAULTS["full-store"], incident, "atf cancel 0-mine")) == 1
    trial.write_text("0-mine\n", "utf-8")
    assert judged(FAULTS["full-store"], incident, "atf cancel 0-mine") == []
    for words in ("atf cancel 0-mine 0-other", "atf cancel shop/mail --yes", "atf cancel 0-mine --status waiting"):
        assert len(judged(FAULTS["full-store"], incident, words)) == 1, words


def test_the_id_of_a_trial_is_noted_by_the_operator_s_own_command(tmp_path: Path) -> None:
    write_tools(tmp_path, dict.fromkeys(("ATF_FRONTEND", "ATF_REDIS_URL", "ATF_CONFIG", "ATF_PROMETHEUS"), "x"))
    program = (tmp_path / "bin" / "atf").read_text("utf-8")
    for words, code in ((["schedule", "atf/command"], 0), (["get", "0-b"], 3)):
        fake = tmp_path / "python"
        fake.write_text(f"#!/bin/sh\necho 0-{words[0]}\nexit {code}\n", "utf-8")
        fake.chmod(0o755)
        ran = subprocess.run(
            ["sh", "-c", program.replace(sys.executable, str(fake)), "atf", *words],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (ran.stdout, ran.returncode) == (f"0-{words[0]}\n", code)
    assert made(tmp_path) == {"0-schedule"}
    assert [(each.code, each.words) for each in calls(tmp_path)] == [
        (0, "atf schedule atf/command"),
        (3, "atf get 0-b"),
    ]


def test_the_page_says_when_an_alert_has_ended(tmp_path: Path) -> None:
    said: list[str] = []
    drill = Drill(FAULTS["late-task"], tmp_path, 1, said.append)
    late = FiringAlert("AtfStartsLate", "page", "Tasks start late.", "starts-late.md", "shop/bill")
    gone = FiringAlert("AtfProcessGone", "ticket", "It does not answer.", "process-gone.md", "")
    for firing in ([late], [replace(late, summary="Tasks start later.")], [late, gone], [gone], [], [late]):
        drill.page(firing)
    assert [line[10:].partition(":")[0] for line in said] == [
        "[page] AtfStartsLate", "[ticket] AtfProcessGone",
        "[resolved] AtfStartsLate of shop/bill", "[resolved] AtfProcessGone", "[page] AtfStartsLate",
    ]  # fmt: skip


def test_nobody_may_delete_anything_in_any_drill() -> None:
    for words in ("atf cancel 0-1", "atf lambda rm shop/mail --yes", "fleet redis FLUSHALL", "atf resume --all --yes"):
        assert any(OperatorCall(1.0, 0, words).does(pattern) for pattern in DESTROYS), words


async def test_payments_comes_back_once_its_owner_is_told(incident: Incident, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_MEND_S", 0.0)
    await FAULTS["retry-storm"].inject(incident)
    down = incident.cluster.world / "payments.down"
    assert judged(FAULTS["retry-storm"], incident, "atf resume shop/charge") == [
        "payments was still down: the storm begins anew"
    ]
    assert down.exists()
    assert "database" in incident.people["payments"]()
    await incident.background[-1]
    assert not down.exists()
    assert "slowly" in incident.people["payments"]()
    for each in incident.background:
        each.cancel()
