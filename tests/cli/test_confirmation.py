"""Commands that change many things: what they say in a dry run, and whom they ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from atf.rpc import frontend_pb2 as f, task_pb2 as t

from .conftest import Atf, FakeFrontend


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Somebody sits at it, and gives these answers in turn; what was asked takes their place."""
    answers: list[str] = []

    def confirm(question: str, **_: object) -> bool:
        said = answers.pop(0) == "y"
        answers.append(question)
        return said

    monkeypatch.setattr("atf.cli.confirmation.has_terminal", lambda: True)
    monkeypatch.setattr("click.confirm", confirm)
    return answers


MANY = [
    ["cancel", "0-a", "0-b"],
    ["retry", "0-a", "0-b"],
    ["retry", "--lambda", "shop/mail", "--error", "it rained"],
    ["job", "rm", "shop/a", "shop/b"],
    ["job", "rm", "--prefix", "*"],
    ["batch", "cancel", "a", "b"],
    ["batch", "retry", "a", "b"],
    ["batch", "delete", "a", "b"],
    ["key", "resume", "shop/mail", "--all"],
    ["key", "skip", "shop/mail", "anna", "bert"],
]


@pytest.mark.parametrize("words", MANY, ids=" ".join)
def test_where_nobody_can_be_asked_the_line_to_write_is_given(
    words: list[str], atf: Atf, frontend: FakeFrontend
) -> None:
    ran = atf(*words)

    assert (ran.code, ran.out, frontend.asked) == (2, "", [])
    line = " ".join(words).replace("it rained", "'it rained'").replace("*", "'*'")
    assert f"atf {line} --dry-run says what it would do, atf {line} --yes does it" in ran.err


def test_whoever_says_no_has_changed_nothing(atf: Atf, frontend: FakeFrontend, terminal: list[str]) -> None:
    terminal.append("n")

    ran = atf("cancel", "0-a", "0-b")

    assert (ran.code, ran.err) == (2, "atf: nothing was changed\n")
    assert terminal == ["Cancel 2 tasks?"]
    assert frontend.asked == []


def test_whoever_says_yes_is_obeyed(atf: Atf, frontend: FakeFrontend, terminal: list[str]) -> None:
    terminal.append("y")

    ran = atf("retry", "--lambda", "shop/mail")

    assert terminal == ["Run 2 of 3 failed tasks of shop/mail again?"]
    assert [each.dry_run for each in frontend.asked] == [True, False]
    assert ran.out == "tasks\tfailed with\n2\tit rained\nshop/mail: 2 of 3 failed tasks run again\n"


def test_a_single_id_is_never_asked_about(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.FATAL_FAILURE)

    assert atf("retry", "0-a").code == 0
    assert [type(each) for each in frontend.asked] == [f.RetryTasksRequest]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("cancel", ["would be cancelled", "would be asked to stop", "already FATAL_FAILURE"]),
        ("retry", ["is NEW", "is PROCESSING", "would run again"]),
    ],
)
def test_a_dry_run_by_ids_only_looks(command: str, says: list[str], atf: Atf, frontend: FakeFrontend) -> None:
    for task_id, status in (("0-a", t.NEW), ("0-b", t.PROCESSING), ("0-c", t.FATAL_FAILURE)):
        frontend.add(task_id, status)

    ran = atf(command, "0-a", "0-b", "0-c", "0-d", "--dry-run", "--no-header")

    assert [line.split("\t")[1] for line in ran.out.splitlines()] == says
    assert (ran.code, ran.err) == (3, "atf: no such task: 0-d\n")
    assert {type(each) for each in frontend.asked} == {f.GetTaskRequest}


def test_a_dry_run_by_a_filter(atf: Atf, frontend: FakeFrontend) -> None:
    filters = ("--error", "rain", "--newer-version", "--rate", "5", "--label", "team=web")
    ran = atf("retry", "--lambda", "shop/mail", *filters, "--dry-run")
    assert ran.out == (
        "shop/mail: 2 of 3 failed tasks match, such as 0-a, 0-b; without --dry-run they run again\n"
        "tasks\tfailed with\n2\tit rained\n"
    )
    (request,) = frontend.asked
    assert (request.dry_run, request.error, request.newer_version, request.rate) == (True, "rain", True, 5)
    shown = atf("retry", "--lambda", "shop/mail", "--yes", "--json").json
    assert (shown["errors"], shown["retried"], shown["dry_run"]) == ({"it rained": 2}, 2, False)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["retry"], "give ids of tasks, a lambda, or flags that say which tasks, such as --status or --group"),
        (["retry", "0-a", "--lambda", "shop/mail"], "and not both"),
        (["retry", "shop/mail", "--lambda", "shop/mail"], "and not both"),
        (["retry", "shop/mail", "shop/bill"], "shop/mail is a lambda: give it alone"),
        (["retry", "0-a", "--error", "rain"], "--error: of no use beside ids of tasks; leave it out"),
        (["retry", "--lambda", "shop/mail", "--rate", "0", "--yes"], "--rate 0: give tasks a second"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], says: str, atf: Atf, frontend: FakeFrontend) -> None:
    ran = atf(*words)
    assert (ran.code, frontend.asked) == (2, [])
    assert says in ran.err


def test_a_dry_run_of_an_import_reads_the_file(atf: Atf, tmp_path: Path) -> None:
    (tmp_path / "export").write_text('{"type":"header","format":1,"partitions":1,"begun_us":1}\n')
    ran = atf("store", "import", str(tmp_path / "export"), "--dry-run")
    assert (ran.code, "the export was interrupted after 0 tasks" in ran.err) == (2, True)
    refused = atf("store", "import", str(tmp_path / "export"))
    assert "--yes does it" in refused.err
