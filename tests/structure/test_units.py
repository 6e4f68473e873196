"""The units of deploy/systemd: one for each role, with time enough to drain, and hardened."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import click
import pytest

from atf.cli.commands import cli
from atf.config.settings import ExecutorSettings, HscSettings, Timing
from atf.controller.main import LAST_REPORTS_S
from atf.exits import EXIT_BAD_INPUT
from proof.chaos.rows.units import STOP_S

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
ROLES = {"frontend", "hsc", "server", "store-consumer", "ui", "worker@"}
EXECUTORS_END_S = 3.0
"""Seconds beyond drain_timeout in which executors end (docs/how-to/operations.md, Stops)."""
MOST_EXPOSED = 4.0


def settings(path: Path) -> dict[str, list[str]]:
    """By name, of all sections."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in path.read_text("utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[name].append(value)
    return found


COMMON = settings(UNITS / "atf-.service.d" / "10-common.conf")


def seconds(name: str) -> float:
    return float(COMMON[name][-1])


def test_each_role_has_a_unit_and_no_other_has_one() -> None:
    assert {each.stem.removeprefix("atf-") for each in SERVICES} == ROLES


@pytest.mark.parametrize("unit", SERVICES, ids=lambda each: each.stem)
def test_what_a_unit_starts_is_a_command_and_it_is_part_of_the_target(unit: Path) -> None:
    found = settings(unit)
    (command,) = found["ExecStart"]
    program, name, *arguments = command.split()
    assert (program, name) == ("/opt/atf/bin/atf", unit.stem.removeprefix("atf-").removesuffix("@"))
    assert arguments == (["%i"] if unit.stem.endswith("@") else [])
    assert cli.get_command(click.Context(cli), name) is not None
    assert found["WantedBy"] == ["atf.target"]
    assert COMMON["PartOf"] == ["atf.target"]


def test_a_unit_waits_until_a_worker_has_drained_and_longer_than_any_standstill_that_does_no_harm() -> None:
    drained = ExecutorSettings().drain_timeout + EXECUTORS_END_S + LAST_REPORTS_S
    assert drained < seconds("TimeoutStopSec") == STOP_S
    assert HscSettings().stop_delay < seconds("TimeoutStopSec")
    assert seconds("WatchdogSec") > Timing().pause


def test_only_the_controller_hears_of_a_stop_and_a_bad_setting_is_not_started_again() -> None:
    assert COMMON["KillMode"] == ["mixed"]
    assert COMMON["OOMPolicy"] == ["continue"]
    assert COMMON["RestartPreventExitStatus"] == [str(EXIT_BAD_INPUT)]


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze is installed")
@pytest.mark.parametrize("unit", SERVICES, ids=lambda each: each.stem)
def test_systemd_finds_a_unit_well_guarded(unit: Path, tmp_path: Path) -> None:
    there = tmp_path / "etc" / "systemd" / "system"
    shutil.copytree(UNITS, there)
    name = unit.name.replace("@", "@shop:app")
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED * 10:g}", "--no-pager"]
    done = subprocess.run([*command, f"--root={tmp_path}", name], capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("systemd-analyze here is older than 250")
    assert done.returncode == 0, done.stdout[-300:] + done.stderr
    assert "Overall exposure level" in done.stdout
