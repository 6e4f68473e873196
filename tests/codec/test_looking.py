"""Wherever people look at encrypted tasks: with the key a command shows what they carry, without it everything says "[encrypted]"."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from html import unescape
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from atf import App, Context, Fatal, HandBack, Handle, Retry, Unique
from atf.cli import main, remote
from atf.codec.key_file import read_keys
from atf.config.settings import UiSettings
from atf.testing import Harness
from atf.ui.app import make_app
from atf.ui.pages.cluster import TABS as CLUSTER_TABS
from atf.ui.pages.lambdas import TABS as LAMBDA_TABS
from tests.ui.conftest import Browser, TurnedClock

SECRET = "Zanzibar"
"""In everything that these tasks carry, and in no line of code that runs."""
GARBAGE = re.compile(r"\$encrypted|\[encrypted:[A-Za-z0-9_-]{12}|(?<![A-Za-z0-9/+_-])A[TW][A-Za-z0-9_-]{38,}")
"""What nobody can read."""

app = App("vault")


@app.task(search=["who"], logs="all")
def greet(ctx: Context, who: str) -> str:
    print(f"greeting {who}")
    ctx.progress(f"at {who}")
    return f"hello {who}"


@app.task(logs="all", max_attempts=1)
def refuse(who: str) -> None:
    print(f"refusing {who}")
    complaint = f"no card of {who}"
    try:
        raise KeyError(complaint)
    except KeyError as error:
        error.add_note(f"a note on {who}")
        raise ValueError(complaint) from error


@app.task(max_attempts=3)
def stumble(who: str) -> None:
    raise Retry(f"not yet, {who}", after=60)


@app.task()
def give_up(who: str) -> None:
    raise Fatal(f"never, {who}")


@app.task()
def put_off(who: str) -> None:
    raise HandBack(f"later, {who}", after=60)


@app.task()
def turn(data: bytes) -> bytes:
    return data[::-1]


@app.task()
def fold(parts: list[str], end: str) -> str:
    return "+".join(parts) + end


@app.task()
def told(batch: dict[str, Any], who: str) -> str:
    return f"{batch['done']} for {who}"


class OfAHarness:
    """The frontend of a harness, for callers on other loops."""

    def __init__(self, harness: Harness) -> None:
        self._drive, self._frontend = harness._drive, harness._pipeline.frontend  # noqa: SLF001

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._frontend, name)
        return self._stream(method) if inspect.isasyncgenfunction(method) else self._call(method)

    def _call(self, method: Any) -> Any:
        async def call(*words: Any, **more: Any) -> Any:
            return self._drive(method(*words, **more))

        return call

    def _stream(self, method: Any) -> Any:
        async def stream(*words: Any, **more: Any) -> AsyncIterator[Any]:
            seen = method(*words, **more)

            async def following() -> Any:
                return [each async for each in _first(seen)]

            while found := self._drive(following()):
                yield found[0]

        return stream


async def _first(seen: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for each in seen:
        yield each
        return


class World:
    """Tasks of every kind, all of which carry the secret."""

    def __init__(self, harness: Harness) -> None:
        client = harness.client
        self.frontend = OfAHarness(harness)
        self.batch = greet.map([SECRET, "Lamu"], on_complete=told.s(who=SECRET), batch_id="b1").id
        refuse.map([SECRET], batch_id="b2", target="who", pause=1)
        (greet.map_s([SECRET, "Lamu"]) | fold.s(end=f"!{SECRET}")).submit()
        client.schedule_job("vault/daily", greet.prepare(who=SECRET), "@every 10s", repeats=1)
        made: dict[str, Handle[Any]] = {
            "done": greet.schedule(who=SECRET),
            "failed": refuse.schedule(who=SECRET),
            "again": stumble.schedule(who=SECRET),
            "over": give_up.schedule(who=SECRET),
            "back": put_off.schedule(who=SECRET),
            "bytes": turn.schedule(SECRET.encode()),
            "unique": greet.options(unique=Unique("u", window=5)).schedule(who=SECRET),
            "waits": greet.options(delay=3_600, ordering_key="k", labels={"team": "web"}).schedule(who=SECRET),
        }
        harness.advance(15)
        self.tasks = {name: each.id for name, each in made.items()}
        (self.item,) = [each.task_id for each in client.batch_handle("b2").items()]


@pytest.fixture
def world(key_file: str, stored: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    assert stored() == "{}"
    with Harness(app) as harness:
        made = World(harness)

        @asynccontextmanager
        async def connect(_address: str, **_more: bool) -> AsyncIterator[Any]:
            yield made.frontend

        monkeypatch.setattr(remote, "connect", connect)
        monkeypatch.delenv("ATF_CODEC_KEYS")
        yield made
    assert key_file


def commands(world: World) -> list[list[str]]:
    """Every command that shows tasks, or what was made of them."""
    of_tasks = [
        [*words, each]
        for each in [*world.tasks.values(), world.item]
        for words in (["get"], ["get", "--json"], ["logs"], ["logs", "--json"], ["explain"], ["explain", "--json"])
    ]
    ended = [world.tasks["done"], world.tasks["failed"], world.tasks["bytes"]]
    of_batches = [
        [*words, each]
        for each in ("b1", "b2")
        for words in (
            ["batch", "items"],
            ["batch", "items", "--json"],
            ["batch", "results"],
            ["batch", "results", "--format", "csv"],
            ["batch", "results", "--format", "chunks"],
            ["batch", "status", "--json"],
            ["batch", "watch"],
        )
    ]
    return [
        *of_tasks,
        *of_batches,
        ["get", "vault/refuse"],
        ["logs", "--follow", world.tasks["failed"]],
        ["wait", *ended],
        ["wait", "--json", *ended],
        ["ls"],
        ["ls", "--json"],
        ["failures"],
        ["failures", "--json"],
        ["retry", "vault/refuse", "--dry-run"],
        ["retry", "vault/refuse", "--dry-run", "--json"],
        ["job", "get", "vault/daily"],
        ["job", "ls", "--json"],
        ["batch", "ls", "--json"],
        ["lambda", "ls", "--json"],
        ["lambda", "show", "vault/greet"],
        ["key", "ls", "vault/greet", "--json"],
        ["cancel", world.tasks["waits"], "--why", "it rains"],
        ["retry", world.tasks["over"], "--why", "it rains"],
        ["audit"],
        ["audit", "--json"],
        ["status"],
        ["count"],
    ]


def test_the_store_holds_no_plain_word(world: World, stored: Callable[[], str]) -> None:
    dump = stored()
    assert world.tasks["done"].partition("-")[2] in dump
    assert SECRET not in dump
    assert SECRET[::-1] not in dump


def test_commands_without_the_key_say_encrypted(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = []
    for words in commands(world):
        main(words)
        said = "".join(capsys.readouterr())
        if SECRET in said or SECRET[::-1] in said or GARBAGE.search(said):
            wrong.append((words, said))
        if words[0] in {"get", "logs"} and "Error" not in said and words[-1] != world.tasks["waits"]:
            assert "[encrypted]" in said or "no log" in said or "why_none" in said, (words, said)
    assert not wrong, "\n".join([" ".join(wrong[0][0]), wrong[0][1]])


def test_commands_with_the_key_show_what_tasks_carry(
    world: World, key_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, has in {
        ("get", world.tasks["done"]): f'result         "hello {SECRET}"',
        ("get", world.tasks["failed"]): f"ValueError: no card of {SECRET}",
        ("get", world.tasks["again"]): f"not yet, {SECRET}",
        ("get", world.tasks["back"]): f"later, {SECRET}",
        ("explain", world.tasks["back"], "--json"): f"later, {SECRET}",
        ("wait", world.tasks["failed"]): f"no card of {SECRET}",
        ("ls", "vault/refuse"): f"no card of {SECRET}",
        ("ls", "--search", f"who={SECRET}"): world.tasks["done"],
        ("batch", "items", "b2"): f"no card of {SECRET}",
        ("batch", "results", "b1"): f'"result": "hello {SECRET}"',
        ("batch", "results", "b1", "--format", "csv"): f"hello {SECRET}",
        ("batch", "results", "b1", "--format", "chunks"): f"hello {SECRET}",
        ("cancel", "vault/greet", "--search", f"who={SECRET}", "--dry-run"): "1 task that can be cancelled",
    }.items():
        main([*words, "--codec-keys", key_file])
        said = "".join(capsys.readouterr())
        assert has in said, (words, said)
        assert not GARBAGE.search(said), (words, said)


async def test_pages_say_encrypted_and_how_to_read_it(world: World, key_file: str) -> None:
    tasks = [f"/tasks/{each}" for each in [*world.tasks.values(), world.item]]
    paths = [
        "/",
        "/lambdas",
        *(f"/lambdas/vault/{name}?tab={tab}" for name in ("greet", "refuse", "stumble") for tab in LAMBDA_TABS),
        "/tasks",
        "/tasks?status=dead",
        f"/tasks?lambda=vault/greet&search=who={SECRET[:3]}",
        *tasks,
        *(f"{each}/{part}" for each in tasks for part in ("arguments", "result", "error", "log")),
        "/failures",
        "/bulk/retry?lambda=vault/refuse",
        "/bulk/retry?lambda=vault/refuse&error=card",
        "/jobs",
        "/jobs/vault/daily",
        "/batches",
        "/batches/b1",
        "/batches/b2",
        *(f"/cluster?tab={tab}" for tab in CLUSTER_TABS),
    ]
    clock, settings = TurnedClock(), UiSettings()
    async with TestClient(TestServer(make_app(world.frontend, settings, clock))) as client:
        browser = Browser(client, world.frontend, clock, settings.root)
        texts = {path: await browser.get(path) for path in paths}
    refused = {path: status for path, (status, _) in texts.items() if status != 200}
    assert refused == {"/bulk/retry?lambda=vault/refuse&error=card": 400}
    assert "the messages of vault/refuse are encrypted" in unescape(texts[next(iter(refused))][1])
    for path, (_, text) in texts.items():
        assert SECRET not in text, path
        assert SECRET[::-1] not in text, path
        assert not (found := GARBAGE.search(unescape(text))), (
            path,
            unescape(text)[found.start() - 60 : found.end() + 700],
        )
    assert "arguments of vault/greet are encrypted" in texts[f"/tasks?lambda=vault/greet&search=who={SECRET[:3]}"][1]
    (key_id,) = read_keys(key_file).by_id
    for path in ("/tasks", "/failures", tasks[0], f"{tasks[0]}/result", "/jobs/vault/daily", "/batches/b1"):
        assert 'id="encrypted"' in texts[path][1], path
    assert f"with the key <code>{key_id}</code>" in texts[tasks[0]][1]
    assert f"atf get {world.tasks['done']} --codec-keys FILE" in texts[tasks[0]][1]


def test_spans_name_types_alone(key_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert key_file
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    with Harness(app) as harness:
        World(harness)
    spans = kept.get_finished_spans()
    said = "".join(each.to_json() for each in spans)
    assert "ValueError: [encrypted]" in said
    assert not [each for each in spans if each.events]
    assert SECRET not in said
    assert not GARBAGE.search(said)
    provider.shutdown()
