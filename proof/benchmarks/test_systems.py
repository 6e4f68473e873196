"""The adapters of the systems: what the driver asks of each, and that what they say of their settings is what they set.

Most peers are not installed here, only in environments of their own: what of them an adapter imports is a stand-in.
"""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import inspect
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest

from proof.benchmarks import driver
from proof.benchmarks.known import OURS, PEERS, ROOT, SYSTEMS
from proof.benchmarks.questions import e_kill

SYSTEM_FILES = Path(__file__).parent / "systems"
PINS = ROOT / "requirements" / "peers"
_DURATIONS = {"s": 1, "min": 60, "h": 3600}


def source(name: str) -> ast.Module:
    return ast.parse((SYSTEM_FILES / f"{name}.py").read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> set[str]:
    """The modules of others that an adapter imports, and the packages that they are in."""
    names = [each.module or "" for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
    names += [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    parts = [name.split(".") for name in names]
    others = [each for each in parts if each[0] not in {*sys.stdlib_module_names, "atf", "proof", "tests"}]
    return {".".join(each[: length + 1]) for each in others for length in range(len(each))}


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ModuleType:
    """The module of the system of the test's parameter."""
    name: str = request.param
    monkeypatch.setattr(asyncio, "set_event_loop_policy", lambda _: None)
    for each in imported(source(name)):
        monkeypatch.setitem(sys.modules, each, MagicMock(name=each))
    spec = importlib.util.spec_from_file_location(f"adapter_{name}", SYSTEM_FILES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


peers = pytest.mark.parametrize("adapter", PEERS, indirect=True)


def test_every_adapter_is_of_a_system_and_every_system_has_one() -> None:
    modules = {each.module for each in SYSTEMS.values() if each.module}
    assert modules == {OURS, *PEERS} == {each.stem for each in SYSTEM_FILES.glob("*.py") if each.stem != "__init__"}
    assert all(SYSTEMS[name].module == name for name in PEERS)
    assert {each.stem for each in PINS.glob("*.in")} == {each.stem for each in PINS.glob("*.txt")} == set(PEERS)


def test_whoever_has_other_workers_elsewhere_is_killed_with_these_too() -> None:
    (asked,) = e_kill.QUESTIONS
    others = {name for name in PEERS if "for_later" in ast.unparse(source(name))}
    killed = {SYSTEMS[name].module for name in asked.systems if driver.LATER in SYSTEMS[name].env}
    assert killed == others == {"celery"}
    assert set(PEERS) <= set(asked.systems)


async def test_a_stream_begins_each_call_at_its_turn_whatever_the_others_do() -> None:
    began: list[tuple[int, float]] = []
    first = asyncio.Event()

    async def call(number: int, due: float) -> None:
        began.append((number, due))
        if number == 2:
            first.set()
        await first.wait()  # that of a later one: nobody waits for the answer of the one before

    await driver.Loop.stream(call, [(0.0, 1, lambda: 7.0), (-1.0, 2, lambda: 8.0)])
    assert began == [(1, 7.0), (2, 8.0)]


def test_a_client_without_a_loop_schedules_a_stream_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)

    class PlayedSystem(driver.SystemClient):
        def at(self, number: int, due: float) -> None:
            waited.append(number + due)

    PlayedSystem().stream([(0.5, 1, lambda: 0.25), (-0.5, 2, lambda: 0.25)])
    assert waited == [0.5, 1.25, 2.25], "one that is behind does not wait"


@pytest.mark.parametrize("adapter", [OURS, *PEERS], indirect=True)
def test_a_client_has_the_verbs_of_the_driver_or_says_why_not(adapter: ModuleType) -> None:
    own, base = adapter.Client, driver.SystemClient
    assert issubclass(own, base)
    for name, method in inspect.getmembers(own, inspect.isfunction):
        if name.startswith("_") and not hasattr(base, name):
            continue
        assert hasattr(base, name), f"the driver never calls {name}()"
        wanted = inspect.signature(getattr(base, name)).parameters
        assert list(inspect.signature(method).parameters) == list(wanted), name
    for verb in ("one", "many", "at"):
        assert (getattr(own, verb) is not getattr(base, verb)) != (verb in own.lacks), verb
    assert own.lacks.keys() <= driver.VERBS.keys()


@peers
def test_single_calls_are_measured_of_every_peer(adapter: ModuleType) -> None:
    assert ("one" in adapter.Client.lacks) == (adapter.Client.lacks.get("concurrent") == driver.SAME)


@peers
def test_a_peer_has_two_workers_that_are_alike_so_that_a_kill_takes_one_of_two(adapter: ModuleType) -> None:
    first, second, *others = adapter.WORKERS
    assert re.sub(r" --hostname \S+", "", first) == re.sub(r" --hostname \S+", "", second)
    assert first not in others
    for number in re.findall(r"--(?:workers|processes) (\d+)", first):
        assert number == "1", "a process more would be killed with it"


@peers
def test_versions_that_are_told_are_of_what_is_pinned(adapter: ModuleType) -> None:
    name = adapter.__name__.removeprefix("adapter_")
    pinned = set(re.findall(r"^([a-z0-9-]+)==", (PINS / f"{name}.txt").read_text(encoding="utf-8"), re.MULTILINE))
    (call,) = [each for each in ast.walk(source(name)) if isinstance(each, ast.Call) and _is_run(each)]
    told = ast.literal_eval(call.args[2])
    assert set(told) <= pinned
    assert {name, "redis"} <= set(told)
    assert ("uvloop" in imported(source(name))) == ("uvloop" in told)


def _is_run(call: ast.Call) -> bool:
    return ast.unparse(call.func) == "driver.run"


@pytest.mark.parametrize("name", PEERS)
def test_settings_that_the_page_names_are_in_the_code(name: str) -> None:
    tree = source(name)
    page = ast.get_docstring(tree) or ""
    code = ast.unparse(ast.Module([each for each in tree.body if each.lineno > tree.body[0].lineno], []))
    named = set(re.findall(r"`([^`]+)`", page))
    assert named
    words = {word for each in named for word in re.findall(r"--[a-z-]+|[A-Za-z_]\w+", each)}
    assert [word for word in sorted(words) if word not in code] == []


@pytest.mark.parametrize("name", PEERS)
def test_values_that_the_page_names_are_those_of_the_code(name: str) -> None:
    tree = source(name)
    page = ast.get_docstring(tree) or ""
    code = ast.unparse(ast.Module(tree.body[1:], []))
    for setting, number, unit in re.findall(r"`([a-z_]+)` ([\d.,]*\d)(?: (s|min|h)\b)?", page):
        value = float(number.replace(",", ""))
        found = re.search(rf"\b{setting}\W{{1,5}}([\d_.]+)", code)
        if found is None:
            continue  # of a name: driver.CALLERS
        seconds = value * _DURATIONS.get(unit, 1)
        assert float(found[1].replace("_", "")) in {value, seconds, seconds * 1000}, setting


def test_threads_share_the_numbers_and_each_keeps_its_own() -> None:
    done: list[int] = []
    kept: set[int] = set()
    left: list[int] = []

    @contextmanager
    def caller() -> Iterator[Any]:
        kept.add(threading.get_ident())
        yield done.append
        left.append(1)

    driver.with_threads(caller, range(500))
    assert sorted(done) == list(range(500))
    assert len(left) == driver.CALLERS


def test_what_a_thread_raises_is_raised() -> None:
    @contextmanager
    def caller() -> Iterator[Any]:
        yield {7: 1}.__delitem__

    with pytest.raises(KeyError):
        driver.with_threads(caller, range(500))
