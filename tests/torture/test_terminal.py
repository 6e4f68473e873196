"""What a command prints can't act on an operator's terminal, whatever is in a task, a lambda or an error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import click
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from atf.cli import main, remote
from atf.cli.commands import SECTIONS, cli
from atf.errors import BY_REASON, AtfError
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.visible import json_text, one_line, visible

from .texts import BIDI, BOMBS, ESCAPES, acts

POISON = f"<b>[bold]{ESCAPES}{BIDI}\r\t\0\x7f\u2028\U000e0041ü\U0001f600"
SHOWN = "<b>[bold]\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\u202etxt.exe\\u2066\\r\\t\\x00\\x7f\\u2028\\U000e0041ü\U0001f600"


def poison(message: Message, text: str = POISON) -> Any:
    """Writes a text into every field of a message that holds any."""
    for field in message.DESCRIPTOR.fields:
        if field.name == "then":
            continue  # callbacks within callbacks, without end
        value: Any = getattr(message, field.name)
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            inner: Any = field.message_type
            if inner.GetOptions().map_entry:
                key = text if inner.fields_by_name["key"].type == FieldDescriptor.TYPE_STRING else 7
                value[key] = text if inner.fields_by_name["value"].type == FieldDescriptor.TYPE_STRING else 7
            else:
                poison(value.add() if field.is_repeated else value, text)
        elif field.type in {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES}:
            filled: Any = text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
            value.append(filled) if field.is_repeated else setattr(message, field.name, filled)
    return message


def poisoned_task() -> t.Task:
    task: t.Task = poison(t.Task(status=t.FATAL_FAILURE, attempts=3, finished_at_us=1))
    task.result = json.dumps({POISON: [POISON, "\ud800"]}).encode()
    task.spec.payload = json.dumps({POISON: POISON}, ensure_ascii=False).encode()
    task.error = f"{POISON}\nerror  no such field\n{POISON}"
    return task


class Frontend:
    """Answers with poison, whatever is asked."""

    def __init__(self) -> None:
        self.fails: AtfError | None = None

    async def watch_log(self, request: Any, *, timeout: float = 10) -> AsyncIterator[f.GetLogReply]:
        log = poison(f.GetLogReply())
        log.status = t.FATAL_FAILURE
        yield log

    async def watch_batch(self, request: Any, *, timeout: float = 10) -> AsyncIterator[b.Batch]:
        yield poisoned_batch()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def answer(request: Any, *, timeout: float = 10) -> Any:
            if self.fails:
                raise self.fails
            match name:
                case "get_task":
                    return poisoned_task()
                case "list_tasks":
                    return f.ListTasksReply(tasks=[poisoned_task()])
                case "wait_tasks":
                    task = poisoned_task()
                    return f.WaitTasksReply(tasks=[_with_id(task, each) for each in request.ids])
                case "get_batch" | "retry_batch" | "cancel_batch":
                    return poisoned_batch()
                case "list_batches":
                    return b.ListBatchesReply(batches=[poisoned_batch()])
                case "list_batch_items":
                    item = poison(b.Item(status=b.ITEM_PERMANENTLY_FAILED))
                    item.payload = json.dumps({POISON: POISON}, ensure_ascii=False).encode()
                    return b.ListBatchItemsReply(items=[item])
                case "list_keys":
                    return f.ListKeysReply(keys=[poison(f.KeyInfo(stopped=True, key=request.key))])
                case "get_job" | "schedule_job" | "pause_job" | "resume_job":
                    return poisoned_job()
                case "list_jobs":
                    return f.ListJobsReply(jobs=[poisoned_job()])
                case "set_gate":
                    return poison(f.Gate(action=f.Gate.PAUSE))
                case "list_gates":
                    gates = [f.Gate(action=f.Gate.DELAY, delay_us=1), f.Gate(action=f.Gate.ADMIT, share=0.5)]
                    return f.ListGatesReply(gates=[poison(each) for each in gates])
                case "lift_gate":
                    return f.LiftGateReply(lifted=2)
                case "list_lambdas":
                    page = poison(f.ListLambdasReply())
                    page.next_page_token = ""
                    return page
                case "redrive" | "cancel_matching":
                    said = poison(
                        f.RedriveReply(matched=1, redriven=1, looked_at=1)
                        if name == "redrive"
                        else f.CancelMatchingReply(matched=1, cancelled=1, looked_at=1)
                    )
                    said.next_page_token = ""  # of a page that is the last one
                    return said
                case "explain_task":
                    reply: f.ExplainTaskReply = poison(f.ExplainTaskReply())
                    reply.task.CopyFrom(poisoned_task())
                    return reply
            method = f.DESCRIPTOR.services_by_name["Frontend"].methods_by_name[
                "".join(word.capitalize() for word in name.split("_"))
            ]
            module = b if method.output_type.file.name.endswith("/batch.proto") else f
            return poison(getattr(module, method.output_type.name)())

        return answer


def poisoned_job() -> j.Job:
    job: j.Job = poison(j.Job(next_tick_at_us=1, last_tick_at_us=1, skipped=1))
    return job


def poisoned_batch() -> b.Batch:
    batch: b.Batch = poison(b.Batch(status=b.BATCH_DONE_WITH_FAILURES, items=1, permanently_failed=1, ended_at_us=1))
    return batch


def _with_id(task: t.Task, task_id: str) -> t.Task:
    copy = t.Task()
    copy.CopyFrom(task)
    copy.id = task_id
    return copy


@pytest.fixture
def frontend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Frontend:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATF_DEBUG", raising=False)
    made = Frontend()

    @asynccontextmanager
    async def connect(address: str, **_more: bool) -> AsyncIterator[Frontend]:
        yield made

    monkeypatch.setattr(remote, "connect", connect)
    return made


WORD = POISON.replace("\0", "")
"""No command line can hold a NUL."""

COMMANDS = [
    ["status"],
    ["status", "--json"],
    ["slo", "--prometheus", WORD],
    ["slo", "--metrics", WORD],
    ["get", WORD],
    ["ls", WORD],
    ["ls", WORD, "--status", "new"],
    ["ls"],
    ["failures"],
    ["failures", WORD],
    ["wait", WORD, "a"],
    ["cancel", WORD],
    ["retry", WORD],
    ["explain", WORD],
    ["key", "ls", WORD],
    ["key", "ls", WORD, WORD],
    ["key", "resume", WORD, WORD],
    ["key", "resume", WORD, "--all"],
    ["key", "skip", WORD, "--all"],
    ["lambda"],
    ["lambda", "ls"],
    ["lambda", "check", WORD],
    ["lambda", "register", f"{WORD}:{WORD}"],
    ["lambda", "show", WORD],
    ["lambda", "set", WORD, f"rate={WORD}"],
    ["lambda", "unset", WORD, WORD],
    ["queue"],
    ["queue", f"a/{WORD}"],
    ["queues", WORD],
    ["queue", "ls", WORD],
    ["batch", "ls"],
    ["batch", "ls", WORD],
    ["batch", "status", WORD],
    ["batch", "watch", WORD],
    ["batch", "items", WORD],
    ["batch", "items", WORD, "--status", WORD],
    ["batch", "results", WORD],
    ["batch", "results", WORD, "--format", "csv"],
    ["batch", "results", WORD, "--format", "chunks"],
    ["batch", "results", "a", "--output", f"{WORD}/{WORD}"],
    ["batch", "retry", WORD],
    ["batch", "cancel", WORD],
    ["batch", "delete", WORD],
    ["batch", "submit", "shop/mail", WORD],
    ["batch", "submit", WORD, "a"],
    ["batch", "submit", "shop/mail", "a", "--id", WORD],
    ["batch", "submit", "atf/command", "-", "--target", WORD],
    ["pause", WORD],
    ["pause", "--all", "--yes", "--why", WORD],
    ["resume", "--all", "--yes"],
    ["resume", "--all", "--dry-run"],
    ["resume", WORD],
    ["capacity", "ls"],
    ["capacity", "show", WORD],
    ["capacity", "set", WORD, "--cores", "2"],
    ["capacity", "set", "gpu", "--reserve", WORD],
    ["schedule", "shop/mail"],
    ["schedule", "shop/mail", "--wait"],
    ["schedule", WORD],
    ["schedule", "shop/mail", "-a", WORD],
    ["schedule", "shop/mail", "--payload", WORD],
    ["schedule", "shop/mail", "--raw", WORD],
    ["schedule", "shop/mail", "--delay", WORD],
    ["schedule", "shop/mail", "--at", WORD],
    ["schedule", "shop/mail", "--priority", WORD],
    ["schedule", "shop/mail", "--key", WORD],
    ["schedule", "shop/mail", "--label", WORD],
    ["schedule", "shop/mail", "--max-attempts", WORD],
    ["job", "schedule", WORD, WORD, WORD],
    ["job", "schedule", WORD, "shop/mail", "--tz", WORD, "--gap", WORD],
    ["job", "schedule", "shop/nightly", "shop/mail", "--misfire", WORD],
    ["job", "schedule", "shop/nightly", "shop/mail", "--grace", WORD],
    ["job", "get", WORD],
    ["job", "ls"],
    ["job", "ls", WORD],
    ["job", "rm", WORD],
    ["job", "rm", "--prefix", WORD],
    ["job", "pause", WORD],
    ["job", "resume", WORD],
    ["job", "run", WORD],
    ["cron", "next", WORD],
    ["cron", "next", "@daily", "--tz", WORD],
    ["cron", "next", "@daily", "--from", WORD],
    ["cron", "next", "@daily", "--count", WORD],
    ["cron", "next", "@daily", "--gap", WORD],
    ["host"],
    ["host", "ls"],
    ["host", "drain", WORD],
    ["host", "drain", WORD, "--for", WORD],
    ["host", "resume", WORD, "--why", WORD],
    ["token", "ls"],
    ["token", "create", "--namespace", WORD, "--can", WORD, "--note", WORD],
    ["token", "rotate", WORD, "--why", WORD],
    ["token", "revoke", WORD],
    ["token", "rotate-key", "--why", WORD],
    ["lambda", "rm", WORD, "--dry-run"],
    ["lambda", "rm", WORD],
    ["hosts", "ls"],
    ["retry", "--lambda", WORD],
    ["retry", "--lambda", "a/b", "--error", WORD],
    ["retry", "--lambda", "a/b", "--dry-run", "--error", WORD],
    ["retry", "--lambda", "a/b", "--yes", "--error", WORD, "--why", WORD],
    ["retry", "--lambda", "a/b", "--since", WORD],
    ["retry", "--key", WORD, "--dry-run"],
    ["retry", "--lambda", "a/b", "--rate", WORD],
    ["retry", WORD, "--error", WORD],
    ["retry", WORD, WORD],
    ["retry", WORD, "--dry-run"],
    ["count"],
    ["count", WORD],
    ["cancel", WORD, "a", "--yes"],
    ["cancel", "--key", WORD, "--why", WORD, "--yes"],
    ["cancel", "a/b", "--label", f"{WORD}={WORD}", "--dry-run"],
    ["cancel", WORD, "--dry-run"],
    ["job", "rm", WORD, "--dry-run"],
    ["job", "rm", "--prefix", WORD, "--yes"],
    ["batch", "cancel", WORD, "--dry-run"],
    ["batch", "delete", WORD, "a", "--yes"],
    ["logs", WORD],
    ["logs", WORD, "--follow"],
    ["key"],
    ["key", "skip", WORD, "--all", "--yes"],
    ["key", "skip", WORD, "--all", "--dry-run"],
    ["gate", "pause", WORD, "--label", f"{WORD}={WORD}", "--why", WORD],
    ["gate", "pause", WORD, "--label", WORD],
    ["gate", "pause", WORD, "--until", WORD],
    ["gate", "drop", WORD, "--for", WORD],
    ["gate", "delay", WORD, "--by", WORD],
    ["gate", "delay", WORD, "--by", "5m"],
    ["gate", "admit", WORD, WORD],
    ["gate", "admit", WORD, "5"],
    ["gate", "lift", WORD],
    ["gate", "lift", WORD, WORD],
    ["gate", "ls"],
    ["gate", "ls", WORD],
    ["audit"],
    ["audit", WORD],
    ["audit", "--who", WORD, "--what", WORD, "--task", WORD],
    ["audit", "--since", WORD],
    ["store", "export", WORD],
    ["store", "import", WORD],
    ["store", "timing", "--set", WORD],
    ["store", "timing", "--redis-url", WORD],
    ["store", "direct", "--redis-url", WORD],
    ["doctor", "--redis-url", WORD],
    ["frontend", "--log-level", WORD],
    ["store-consumer", "--log-level", WORD],
    ["hsc", "--log-level", WORD],
    ["controller", "--log-level", WORD],
    ["executor", WORD, "--threads", WORD],
    ["server", "--log-level", WORD],
    ["worker", WORD, "--log-level", WORD],
    [WORD],
    ["get", f"--{WORD}"],
]

LEFT_OUT: Final = {
    "up": "starts a store and every role; it prints their addresses and their lines, which test_logs.py has",
    "demo": "starts a store and roles; it prints figures of its own",
    "verify": "starts roles on a store; it prints figures of its own",
    "bench": "starts roles on a store; it prints figures of its own",
    **dict.fromkeys(
        ("certs dev", "keyfile new", "keyfile ls", "keyfile add", "keyfile rotate", "keyfile drop"),
        "makes files; it prints their names, of its own",
    ),
    "ui": "serves pages; it prints its address, and what its log says",
}
"""Commands that no line above calls, with the reason."""
PLACED: Final = {"cron"}
"""Groups whose refusals show the place in a second line, by a caret in a third one."""


def commands_of(command: click.Command, words: str = "") -> Iterator[str]:
    """The words of a command, or of all that are in a group."""
    if not isinstance(command, click.Group):
        yield words
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands_of(found, f"{words} {name}".strip())


def test_every_command_is_called_with_such_words_or_left_out_for_a_reason() -> None:
    known = set(commands_of(cli))
    assert {each.split()[0] for each in known} == {name for section in SECTIONS.values() for name in section}
    called = {each for each in known for line in COMMANDS if line[: len(each.split())] == each.split()}
    assert known - called - LEFT_OUT.keys() == set(), "call it in COMMANDS, or say why not"
    assert LEFT_OUT.keys() - (known - called) == set(), "they are gone, or called"


@pytest.mark.usefixtures("frontend")
@pytest.mark.parametrize("on_terminal", [False, True], ids=["into a pipe", "on a terminal"])
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).replace(WORD, "X"))
def test_no_command_prints_what_a_terminal_obeys(
    words: list[str],
    on_terminal: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: on_terminal)
    monkeypatch.setenv("TERM", "dumb")  # without colours, so that any escape is somebody else's
    monkeypatch.setenv("COLUMNS", "500")
    code = main(words)
    said = capsys.readouterr()
    assert "a bug in atf" not in said.err
    assert code in {0, 1, 2, 3, 4}
    assert acts(said.out, allowed="\n" if on_terminal else "\n\t") == []
    assert acts(said.err) == []
    assert said.out + said.err
    if code == 2:
        assert said.err.count("\n") == 1 or (words[0] in PLACED and said.err.count("\n") == 3)


@pytest.mark.usefixtures("frontend")
@pytest.mark.parametrize(
    "words",
    [
        ["get", "a"],
        ["ls", "a"],
        ["wait", "a"],
        ["explain", "a"],
        ["lambda"],
        ["queue"],
        ["batch", "ls"],
        ["batch", "status", "a"],
        ["batch", "items", "a"],
        ["job", "ls"],
        ["job", "get", "a"],
        ["gate", "ls"],
        ["audit"],
        ["host"],
        ["retry", "--lambda", "a/b", "--dry-run"],
    ],
)
def test_json_says_the_same_in_escapes_of_its_own(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main([*words, "--json"])
    out = capsys.readouterr().out
    assert acts(out) == []
    assert out.count("\n") == 1
    assert POISON in _texts(json.loads(out))


def _texts(value: Any) -> set[str]:
    match value:
        case dict():
            return {text for pair in value.items() for each in pair for text in _texts(each)}
        case list():
            return {text for each in value for text in _texts(each)}
        case str():
            return {value}
    return set()


@pytest.mark.usefixtures("frontend")
def test_markup_is_shown_as_it_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    main(["get", "a"])
    out = capsys.readouterr().out
    assert re.search(rf"^progress +{re.escape(SHOWN)}$", out, re.MULTILINE)
    assert f"{SHOWN}={SHOWN}" in out
    main(["ls", "a"])
    assert_listed(capsys.readouterr().out)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "500")
    main(["ls"])
    assert_listed(capsys.readouterr().out)


def assert_listed(out: str) -> None:
    """As task and as lambda; and as an error, whose message stands in one line."""
    assert out.count(SHOWN) == 2
    assert out.count(SHOWN.replace("\\r\\t", " ").replace("\\u2028", " ")) == 1


@pytest.mark.usefixtures("frontend")
def test_a_second_line_of_an_error_can_not_pass_for_a_fact(capsys: pytest.CaptureFixture[str]) -> None:
    main(["get", "a"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines if "no such field" in line] == ["error  no such field"]
    assert len([line for line in lines if line.startswith("error ")]) == 1


@pytest.mark.parametrize("kind", [kind for kind in BY_REASON.values() if kind is not AtfError])
def test_the_sentence_of_a_frontend_is_one_line(
    kind: type[AtfError], frontend: Frontend, capsys: pytest.CaptureFixture[str]
) -> None:
    frontend.fails = kind(f"{POISON}\natf: everything is fine")
    main(["get", "a"])
    err = capsys.readouterr().err
    assert err == f"atf: {SHOWN}\\natf: everything is fine\n"


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_payload_or_result_that_is_a_bomb_is_shown_all_the_same(
    bomb: str, flags: tuple[str, ...], frontend: Frontend, capsys: pytest.CaptureFixture[str]
) -> None:
    class Bombs(Frontend):
        async def get_task(self, request: Any, *, timeout: float = 10) -> t.Task:
            spec = t.TaskSpec(payload=BOMBS[bomb])
            return t.Task(id="0-a", status=t.SUCCESS, result=BOMBS[bomb], spec=spec)

    frontend.__class__ = Bombs
    assert main(["get", "a", *flags]) == 0
    out = capsys.readouterr().out
    assert acts(out) == []
    if flags:
        json.loads(out, parse_constant=pytest.fail)


@pytest.mark.parametrize("us", [1, -1, 1 << 62, -(1 << 62), (1 << 63) - 1])
def test_no_instant_and_no_status_is_too_strange_to_be_shown(
    us: int, frontend: Frontend, capsys: pytest.CaptureFixture[str]
) -> None:
    class Strange(Frontend):
        async def get_task(self, request: Any, *, timeout: float = 10) -> t.Task:
            task = t.Task(id="0-a", status=99, scheduled_at_us=us, next_at_us=us, finished_at_us=us)  # type: ignore[arg-type]
            task.ended_runs.add(started_at_us=us, ended_at_us=us)
            return task

    frontend.__class__ = Strange
    for flags in ([], ["--json"]):
        assert main(["get", "a", *flags]) == 0
        assert "STATUS_99" in capsys.readouterr().out


def test_every_character_is_either_shown_or_escaped() -> None:
    every = " ".join(map(chr, (*range(0x3100), *range(0xD700, 0x10200), *range(0xE0000, 0xE0200))))
    assert acts(one_line(every), allowed="") == []
    assert acts(visible(every)) == []
    assert acts(json_text(json.dumps(every, ensure_ascii=False)), allowed="") == []
    assert json.loads(json_text(json.dumps(every, ensure_ascii=False))) == every
    assert (
        one_line("Größe: 5 µm, \U0001f468\u200d\U0001f469, العربية")
        == "Größe: 5 µm, \U0001f468\u200d\U0001f469, العربية"
    )
