"""`atf verify`: what makes no sense is refused before anything is started. The proof itself is tests/process/test_verify.py's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from atf.cli import main
from atf.cli.verify import print_report
from atf.verify.outcome import judge
from atf.verify.run import VerifyPlan, VerifyReport


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--redis-url", "redis://127.0.0.1:1", "--role", "store"], "was not started here"),
        pytest.param(["--durability", "some"], "durability = 'some'", marks=pytest.mark.processes),
        (["--rate", "0"], "--rate"),
        (["--rate", "5000", "--seconds", "3600"], "18,000,000 tasks"),
        (["--role", "nobody"], "--role"),
    ],
)
def test_what_makes_no_sense_is_bad_input(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_the_table_says_things_by_the_names_that_the_json_has(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = replace(judge([], {}, {}), wrong=1, dead=2, excused=3, refused={"Unavailable": 4, "Internal": 1})
    course: Any = VerifyPlan(rate=1, seconds=1, strikes=0, roles=(), seed=7, executors=1, redis_url="", settings={})
    report = VerifyReport(course, outcome, 0, "n", "here", 16)
    print_report(report)
    table = capsys.readouterr().out.split("BROKEN")[0]
    said = dict(line.split(maxsplit=1) for line in table.splitlines() if line)
    assert said.keys() <= report.as_json().keys()
    assert outcome.breaches.keys() <= said.keys()
    assert said["wrong"].startswith("1 (ended otherwise")
    assert said["refused"].startswith("4 × Unavailable, 1 × Internal (")
