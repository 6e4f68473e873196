"""Every flag of every command that asks a frontend: it changes what is asked or printed, or is refused by its name.

The commands are found by walking the tree of them; a new one needs an entry in COMMANDS, a new flag one in VALUES.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from atf.auth.methods import RULES
from atf.auth.routes import COMMANDS as COMMAND_ROWS, OF_ONE_MACHINE, OF_PROCESSES, OF_STORE
from atf.cli import remote
from atf.cli.caller import NAMES
from atf.cli.commands import cli
from atf.cli.task_filter import FLAGS as FILTER
from tests.recorder import Recorder

from .conftest import Atf

APART = {
    *(
        "up",
        "frontend",
        "store-consumer",
        "hsc",
        "controller",
        "executor",
        "ui",
        "server",
        "worker",
        "verify",
        "bench",
        "demo",
        "doctor",
    ),
    *(
        "certs dev",
        "store export",
        "store import",
        "store timing",
        "store direct",
        "lambda check",
        "status",
        "slo",
        "pause",
        "resume",
    ),
    *("token create", "token rotate"),
    *("keyfile new", "keyfile ls", "keyfile add", "keyfile rotate", "keyfile drop"),
}
"""They ask no frontend, or have a test of their own: see test_certs.py, test_roles.py, test_verify.py, test_status.py, test_slo.py, test_pause.py, process/test_direct.py,
codec/test_key_file.py, test_tokens.py (what it makes is another each time), and below."""
COMMANDS: dict[str, list[str]] = {
    "schedule": ["a/b"], "get": ["0-a"], "ls": ["a/b"], "wait": ["0-a", "0-b"], "cancel": ["0-a", "0-b"], "retry": ["0-a", "0-b"], "explain": ["0-a"], "count": [],
    "logs": ["0-a"],
    "batch submit": ["photos/thumbnail", "rows.jsonl"], "batch ls": [], "batch status": ["b"], "batch watch": ["b"], "batch items": ["b"],
    "batch results": ["b"], "batch retry": ["b", "c"], "batch cancel": ["b", "c"], "batch delete": ["b", "c"],
    "job schedule": ["a/j", "a/b", "0 * * * * *"], "job get": ["a/j"], "job ls": [], "job rm": ["a/j", "a/k"], "job pause": ["a/j"],
    "job resume": ["a/j"], "job run": ["a/j"], "lambda ls": [], "lambda show": ["a/b"], "lambda set": ["a/b", "rate=3"],
    "lambda unset": ["a/b", "rate"], "lambda register": ["flagged:app"], "queue ls": [],
    "gate pause": ["a/b"], "gate drop": ["a/b"], "gate delay": ["a/b", "--by", "9"], "gate admit": ["a/b", "5"], "gate lift": ["a/b"],
    "gate ls": [], "audit": [], "failures": [], "key ls": ["a/b"], "key resume": ["a/b", "anna", "anna"], "key skip": ["a/b", "anna", "anna"],
    "capacity set": ["gpu"], "capacity show": [], "capacity ls": [], "host ls": [], "host drain": ["one:7403"], "host resume": ["one:7403"], "token ls": [], "token revoke": ["abcdefghij"], "token rotate-key": [], "lambda rm": ["a/b"], "cron next": ["0 0 9 * * *"],
}  # fmt: skip
VALUES: dict[str, str] = {
    "affinity_key": "b", "arguments": "path=x", "at": "2031-01-01T00:00Z", "backoff": "3s", "base": "2031-01-01T00:00:00Z", "batch_id": "b2", "codec_keys": "none.keys",
    "batch_size": "1", "by": "7", "concurrency_key": "b", "concurrency_limit": "3", "concurrency_policy": "skip", "cores": "3", "count": "2",
    "delay": "9", "due_time": "1h", "durability": "disk", "error": "rain", "error_type": "OSError",
    "fold": "first", "for_": "9", "form": "csv", "format": "unix", "frontend": "127.0.0.1:9",
    "gap": "run_after", "group": "g", "grace": "9", "hand_over": "3", "jitter": "3", "key": "mine", "labels": "team=web", "lambda_name": "a/b", "limit": "1", "lookahead": "2",
    "max_attempts": "4", "max_in_flight": "2", "max_losses": "2", "max_retries": "7", "misfire": "all", "multiplexed_timeout": "9",
    "on_complete": "a/c", "on_failure": "a/c", "on_success": "a/c", "ordering_key": "b", "output": "out", "overlap": "skip", "pause": "3",
    "payload": '{"path": "x"}', "prefix": "a/", "priority": "high", "rate": "3", "raw": "raw.bin", "repeats": "2", "reserve": "a/b=1",
    "reserved_timeout": "9", "retention": "60", "retry_interval": "3", "rotation": "99", "search": "order=7", "since": "2020-01-01T00:00Z", "status": "SUCCESS", "statuses": "done",
    "target": "path", "task_id": "0-a", "timeout": "3", "ttl": "36h", "tz": "Europe/Paris", "unique": "b", "until": "2031-01-01T00:00Z", "wait_timeout": "3",
    "what": "redrive", "who": "ada", "why": "rain", "window": "3", "workers": "2",
}  # fmt: skip
BESIDE: dict[tuple[str, str], tuple[list[str], list[str]]] = {
    ("lambda rm", "cancel_waiting"): (["--yes"], []),
    ("schedule", "concurrency_limit"): (["--concurrency-key", "b"], []),
    ("schedule", "concurrency_policy"): (["--concurrency-key", "b"], []),
    ("schedule", "unique"): (["--window", "3"], []),
    ("schedule", "window"): (["--unique", "b"], []),
    ("schedule", "debounce"): (["--unique", "b", "--window", "3"], []),
    ("schedule", "wait_timeout"): (["--wait"], []),
    ("batch submit", "pause"): (["--target", "path"], []),
    ("batch submit", "target"): (["--pause", "3"], []),
    ("batch submit", "form"): ([], ["photos/thumbnail", "rows"]),
    ("job rm", "prefix"): ([], ["--prefix", "b/"]),
    ("key resume", "every"): ([], ["a/b", "bob"]),
    ("key skip", "every"): ([], ["a/b", "bob"]),
    **{
        (command, flag): ([], ["a/b"])
        for command in ("cancel", "retry")
        for flag in (*FILTER, "error", "rate", "newer_version")
    },
    ("retry", "lambda_name"): ([], ["--group", "g"]),
    ("cron next", "fold"): (["--tz", "Europe/Paris", "--from", "2026-10-24T12:00:00Z"], ["0 30 2 * * *"]),
    ("cron next", "gap"): (["--tz", "Europe/Paris", "--from", "2026-03-28T12:00:00Z"], ["0 30 2 * * *"]),
    ("cron next", "format"): ([], ["0 9 * * *"]),
}
"""Flags that a flag needs beside itself, with and without it; and arguments that stand in for those of COMMANDS."""


def leaves(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command, by its words."""
    if not isinstance(group, click.Group):
        yield " ".join(path), group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*path, name))


ALL = dict(leaves(cli))
FLAGS = [
    (name, each.name)
    for name, command in ALL.items()
    for each in command.params
    if name not in APART and isinstance(each, click.Option) and each.name not in NAMES
]
"""Without those of what is shown to the frontend: test_caller.py."""


def flag_of(command: str, name: str) -> list[str]:
    """The words of a flag with its value."""
    (option,) = (each for each in ALL[command].params if each.name == name)
    assert isinstance(option, click.Option)
    return [option.opts[-1]] if option.is_flag else [option.opts[-1], VALUES[name]]


class Seen:
    """Runs commands, and sees what they asked and said."""

    def __init__(self, run: Atf, patch: pytest.MonkeyPatch) -> None:
        self._run, self._patch = run, patch

    def __call__(self, words: list[str]) -> Any:
        fake, addresses = Recorder(), []

        @asynccontextmanager
        async def connect(address: str, **_more: bool) -> AsyncIterator[Recorder]:
            addresses.append(address)
            yield fake

        self._patch.setattr(remote, "connect", connect)
        ran = self._run(*words)
        return ran.code, ran.out, ran.err, addresses, fake.asked, [each.name for each in Path.cwd().iterdir()]


@pytest.fixture
def seen(atf: Atf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seen:
    (tmp_path / "rows.jsonl").write_text('{"path": "a"}\n{"path": "b"}\n')
    (tmp_path / "rows").write_text('{"path": "a"}\n')
    (tmp_path / "raw.bin").write_bytes(b"raw")
    (tmp_path / "flagged.py").write_text("import atf\napp = atf.App('flagged')\n@app.task\ndef one() -> None: ...\n")
    for module in ("task_request", "job", "gate", "batch.commands"):
        monkeypatch.setattr(f"atf.cli.{module}.new_id", lambda *_: "fixed")
    return Seen(atf, monkeypatch)


def test_every_command_is_known() -> None:
    assert {*COMMANDS, *APART} == {*ALL}
    options = [each for name, command in ALL.items() for each in command.params if name not in APART]
    missing = {each.name for each in options if isinstance(each, click.Option) and not each.is_flag} - {*VALUES, *NAMES}
    assert not missing, "a flag that is new needs a value"


def test_every_command_has_a_row_of_the_table_of_who_may_call_what() -> None:
    rows = (COMMAND_ROWS.keys(), OF_STORE, OF_ONE_MACHINE, OF_PROCESSES)
    assert sorted(name for some in rows for name in some) == sorted(ALL)
    assert {f"/atf.v1.Frontend/{call}" for calls in COMMAND_ROWS.values() for call in calls} <= RULES.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_asks_for_what_its_row_says(command: str, seen: Seen) -> None:
    asked = {name for name, _ in seen([*command.split(), *COMMANDS[command]])[4]}
    assert asked <= {*COMMAND_ROWS[command]}


@pytest.mark.parametrize(("command", "flag"), FLAGS)
def test_a_flag_changes_what_a_command_does(command: str, flag: str, seen: Seen) -> None:
    beside, instead = BESIDE.get((command, flag), ([], []))
    words = [*command.split(), *(instead or COMMANDS[command]), *beside]
    changed = [*command.split(), *([] if instead[:1] == ["--prefix"] else (instead or COMMANDS[command])), *beside]
    if flag == "every":
        words, changed = [*command.split(), "a/b", "bob"], [*command.split(), "a/b"]
    without, with_it = seen(words), seen([*changed, *flag_of(command, flag)])
    asked = {name for ran in (without, with_it) for name, _ in ran[4]}
    assert asked <= {*COMMAND_ROWS.get(command, ())}, "what a command asks for stands in its row"
    assert with_it != without, f"atf {command} {flag_of(command, flag)} is dropped without a word"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["schedule", "a/b", "--wait-timeout", "3"], "--wait-timeout: of no use without --wait"),
        (["schedule", "a/b", "--concurrency-limit", "3"], "--concurrency-limit"),
        (["batch", "submit", "photos/thumbnail", "rows.jsonl", "--target", "path"], "target: it is what pause= is kept between"),
        (["lambda", "--json", "ls"], "--json stands behind the command: atf lambda ls"),
        (["lambda", "--frontend", "a:1", "show", "a/b"], "--frontend stands behind the command: atf lambda show"),
        (["cron", "next", "0 0 9 * * *", "--around-dst", "--ttl", "1h"], "--ttl: of no use with --around-dst"),
        (["cron", "next", "@every 1h", "--tz", "Europe/Paris"], "tz: only a cron expression has one"),
        (["up", "flagged:app", "--store", "memory", "--redis-url", "redis://a"], "--redis-url: of no use with --store memory"),
        (["up", "flagged:app", "--store", "memory", "--executors", "3"], "--executors: of no use with --store memory"),
        (["up", "flagged:app", "--store", "memory", "--watch"], "--watch: of no use with --store memory"),
        (["up", "flagged:app", "--redis-url", "redis://a", "--data-dir", "b"], "--data-dir: of no use with --redis-url"),
        (["up", "flagged:app", "--store", "memory", "--redis-url", ""], "--redis-url: of no use with --store memory"),
        (["batch", "submit", "photos/thumbnail", "rows.jsonl", "--id", ""], "batch id ''"),
        (["retry", "--lambda", "a/b", "--error", ""], "--error '': give a text, or leave it out"),
        (["job", "schedule", "a/j", "a/b", "0 * * * * *", "--tz", ""], "tz: it is empty; leave it out"),
        (["store", "export", "f", "--redis-url", "redis://a", "--data-dir", "b"], "--data-dir: of no use with --redis-url"),
        (["store", "timing", "--all-stopped"], "--all-stopped: of no use without --set"),
        (["doctor", "--acl", "--json"], "--json: of no use with --acl"),
        (["doctor", "--acl", "--redis-url", "redis://a"], "--redis-url: of no use with --acl"),
        *((words, "--redis-url: every user of this machine can read the password in it") for words in (
            ["up", "flagged:app", "--redis-url", "redis://:hush@a"],
            ["server", "--redis-url", "redis://u:hush@a/0?db=1"],
            ["frontend", "--redis-url", "redis+sentinel://a,b/m?sentinel_password=hush"],
            ["hsc", "--redis-url", "unix:///a?password=hush"],
            ["store-consumer", "--redis-url", "rediss+cluster://u:hush@a,b"],
        )),
        (["controller", "--threads", "3"], "--threads: of no use without MODULE:APP"),
    ],
)  # fmt: skip
def test_a_flag_that_would_be_dropped_is_refused(words: list[str], says: str, seen: Seen) -> None:
    code, _, err, addresses, _, _ = seen(words)
    assert code == 2
    assert not addresses or words[0] == "batch"  # of which it asks first whether the lambda is there
    assert says in err
