"""Nouns of the command line, and the tables that they print."""

from __future__ import annotations

import sys

import pytest

from atf.cli.commands import SECTIONS
from atf.cli.nouns import PLURALS
from atf.rpc import frontend_pb2 as f, task_pb2 as t

from .conftest import Atf, FakeFrontend


def test_the_help_lists_each_noun_once_in_the_singular(atf: Atf) -> None:
    listed = [line.split()[0] for line in atf("--help").out.splitlines() if line.startswith("  ") and line.split()]
    assert listed.count("lambda") == listed.count("job") == 1
    assert not {*listed} & {*PLURALS}
    assert {*PLURALS.values()} <= {name for section in SECTIONS.values() for name in section}


@pytest.mark.parametrize("plural", PLURALS)
def test_the_plural_is_the_same_command_with_all_its_verbs(plural: str, atf: Atf) -> None:
    singular = PLURALS[plural]
    assert atf(plural, "--help") == atf(singular, "--help")
    assert atf(plural, "ls", "--help") == atf(singular, "ls", "--help")
    assert atf(plural, "ls", "--nosuch").err == atf(singular, "ls", "--nosuch").err


@pytest.mark.usefixtures("frontend")
@pytest.mark.parametrize(
    "noun", sorted({*PLURALS.values(), "capacity"} - {"batch", "job"})
)  # of which this frontend has none
def test_a_noun_alone_lists(noun: str, atf: Atf) -> None:
    assert atf(noun) == atf(noun, "ls")
    assert atf(noun, "--json").json == atf(noun, "ls", "--json").json


def test_a_name_behind_a_noun_is_what_is_listed(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.lambdas = [f.LambdaInfo(spec=f.LambdaSpec(name="shop/mail"))]
    atf("queues", "shop/mail")
    atf("gate", "shop/mail")
    atf("lambda", "shop/mail")
    assert frontend.looked_up == ["shop/mail", "shop/mail"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["job", "pasue"], "No such command 'pasue'. Did you mean pause? (see atf job --help)"),
        (["lamda"], "No such command 'lamda'. Did you mean lambda? (see atf --help)"),
        (["jobs", "--json", "get", "a/b"], "--json stands behind the command: atf job get … --json …"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(words: list[str], says: str, atf: Atf) -> None:
    ran = atf(*words)
    assert (ran.code, says in ran.err) == (2, True)


def test_columns_are_named_in_a_pipe_too(atf: Atf, frontend: FakeFrontend) -> None:
    frontend.add("0-a", t.NEW)
    assert atf("ls", "shop/mail").out.splitlines()[0].split("\t") == [
        "task", "lambda", "status", "attempts", "scheduled for", "finished", "error",
    ]  # fmt: skip
    assert atf("ls", "shop/mail", "--no-header").out.startswith("0-a\t")


def test_an_id_is_never_broken_however_narrow_the_terminal(
    atf: Atf, frontend: FakeFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "12-" + "x" * 61
    frontend.add(long, t.FATAL_FAILURE, error="it rained " * 20)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    for columns in ("40", "80", "100"):
        monkeypatch.setenv("COLUMNS", columns)
        out = atf("ls", "shop/mail").out
        assert f"{long}  FATAL_FAILURE" in out
        assert "…" not in out
        assert out.count("rained") == 20, "the last column is folded, not cut"
    assert "attempts" not in atf("ls", "shop/mail", "--no-header").out
