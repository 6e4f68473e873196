"""deploy/: what can be held without Prometheus. `make alerts` has promtool parse and test the rules themselves."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from atf.metrics.metrics import MAX_LAMBDAS
from atf.metrics.table import METRICS, Kind
from tools.check_alerts import expressions

ROOT: Final = Path(__file__).parents[2]
RULES: Final = ROOT / "deploy" / "prometheus"
ALERTS: Final = (RULES / "alerts.yml").read_text(encoding="utf-8")
RECORDING: Final = (RULES / "recording.yml").read_text(encoding="utf-8")
TESTS: Final = "".join(path.read_text(encoding="utf-8") for path in sorted((RULES / "tests").glob("*.yml")))
BOARD: Final[dict[str, Any]] = json.loads((ROOT / "deploy" / "grafana" / "atf.json").read_text(encoding="utf-8"))
RULE: Final = re.compile(r"^      - (alert|record): (\S+)\n(.*?)(?=^      - |^  - |\Z)", re.MULTILINE | re.DOTALL)
EXPR: Final = re.compile(r"^        expr: (.*?)(?=^        \w|^\s*#|\Z)", re.MULTILINE | re.DOTALL)
RECORDED: Final = dict.fromkeys(re.findall(r"record: (\S+)", RECORDING))
BESIDE: Final = {
    "up": {"job", "role", "instance"},
    "process_start_time_seconds": {"job", "role", "instance"},
    "ALERTS": {"alertname", "alertstate"},
}
"""What Prometheus and prometheus-client have of themselves."""


class Rule(NamedTuple):
    """A rule: an alert, or a series that is recorded."""

    name: str
    text: str
    expr: str


def rules_of(text: str) -> list[Rule]:
    found = []
    for _, name, rest in RULE.findall(text):
        expr = EXPR.search(rest)
        assert expr, name
        found.append(Rule(name, rest, expr[1]))
    return found


def labels_by_metric() -> dict[str, set[str]]:
    """Each series that rules may name, with its labels."""
    found = {name: set(labels) for name, labels in BESIDE.items()}
    for spec in METRICS:
        if spec.kind is Kind.HISTOGRAM:
            found |= {f"{spec.name}_bucket": {*spec.labels, "le"}, f"{spec.name}_count": {*spec.labels}}
        else:
            found[spec.name] = {*spec.labels}
    return found | {name: {"lambda"} if name.startswith("lambda:") else set() for name in RECORDED}


METRIC_LABELS: Final = labels_by_metric()
ALL_RULES: Final = rules_of(ALERTS) + rules_of(RECORDING)
SERIES: Final = re.compile(r"\b((?:lambda:|cluster:)?atf_\w+(?::\w+)?|up|ALERTS|process_\w+)\b(?:\{([^}]*)\})?")
ALERT_RULES: Final = rules_of(ALERTS)


def check(expr: str) -> None:
    """It names only known series, and only labels that these have."""
    known: set[str] = set()
    for name, matchers in SERIES.findall(expr):
        assert name in METRIC_LABELS, name
        known |= METRIC_LABELS[name]
        of = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        assert of <= METRIC_LABELS[name], (name, of)
    assert SERIES.search(expr)
    grouped = re.findall(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)", expr)
    assert {label.strip() for each in grouped for label in each.split(",")} <= known, expr


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.name)
def test_a_rule_names_only_what_processes_export(rule: Rule) -> None:
    check(rule.expr)


def test_the_check_sees_what_nobody_exports() -> None:
    for wrong in ("sum(atf_nothing)", 'atf_tasks{pool="a"}', "sum by (instance) (atf_tasks)", "1 > 0"):
        with pytest.raises(AssertionError):
            check(wrong)


@pytest.mark.parametrize("rule", ALERT_RULES, ids=lambda rule: rule.name)
def test_an_alert_has_a_severity_a_sentence_and_a_page(rule: Rule) -> None:
    assert re.search(r"severity: (page|ticket) }", rule.text)
    summary = re.search(r'summary: "(.+)"\n', rule.text)
    assert summary
    assert summary[1].endswith(".")
    page = re.search(r"runbook: (docs/how-to/runbooks/[\w-]+\.md)\n", rule.text)
    assert page
    assert f"`{rule.name}`" in (ROOT / page[1]).read_text(encoding="utf-8")
    assert f"`{rule.name}`" in (ROOT / "docs/how-to/alerts.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("rule", ALERT_RULES, ids=lambda rule: rule.name)
def test_an_alert_is_tested_both_firing_and_silent(rule: Rule) -> None:
    tests = re.findall(rf"alertname: {rule.name}\b,?\s*exp_alerts:(\s*\[\])?", TESTS)
    assert sorted(bool(each) for each in tests)[:1] == [False], "no test has it fire"
    assert any(tests), "no test has it stay silent"


def test_a_rule_groups_by_nothing_that_grows() -> None:
    """At most so many alerts at once: of each lambda one, and some of what there are few of."""
    bounded = {"file", "lambda", "le", "status", "pool", "state", "check", "role", "priority"}
    grouped = {
        label.strip()
        for each in ALL_RULES
        for by in re.findall(r"\bby \(([^)]*)\)", each.expr)
        for label in by.split(",")
    }
    assert grouped <= bounded
    assert MAX_LAMBDAS <= 200


def test_the_board_is_for_any_prometheus_and_names_only_what_processes_export() -> None:
    found = list(expressions())
    assert len(found) > 30
    for each in found:
        check(each.replace("$__rate_interval", "5m"))
    sources = {panel["datasource"]["uid"] for panel in BOARD["panels"] if panel["type"] != "row"}
    assert sources == {"${datasource}"}
    assert [each["name"] for each in BOARD["templating"]["list"]] == ["datasource", "lambda"]


def test_the_panels_of_the_board_stand_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        places = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not taken & places, panel["title"]
        taken |= places
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
