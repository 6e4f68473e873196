"""Holds unit tests to what they may do: start no process, and never sleep.

Whatever starts one is marked `processes`; `make unit` leaves it to `make test`. So a unit test that needs a server, a compiler or another
interpreter fails here, with the line that asked for it, instead of making `make unit` slow.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import croniter  # noqa: F401  it asks another program for the machine's word size while it is imported
import pytest

MARK: Final = "processes"
_UNIT: Final = Path(__file__).parent
_PROCESS: Final = _UNIT / "process"
_FORBIDDEN: Final = {
    "subprocess.Popen": "starts a process",
    "os.fork": "forks",
    "os.forkpty": "forks",
    "os.posix_spawn": "starts a process",
    "os.system": "starts a process",
    "time.sleep": "sleeps",
}
_running: Final[list[pytest.Item]] = []
"""The unit test that runs, if one does."""


def _look(event: str, _args: Any) -> None:
    if event in _FORBIDDEN and _running and threading.current_thread() is threading.main_thread():
        raise AssertionError(f"a unit test {_FORBIDDEN[event]}: mark it with @pytest.mark.{MARK}, or inject what waits")


def is_unit(path: Path) -> bool:
    """Whether a file holds unit tests: neither those of the roles' processes nor those of what proves."""
    return path.is_relative_to(_UNIT) and not path.is_relative_to(_PROCESS)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks whole folders, and the tests that take a real store by the fixture's name."""
    for item in items:
        if not is_unit(item.path) or "embedded" in getattr(item, "fixturenames", ()):
            item.add_marker(MARK)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spares `-m processes` the modules of unit tests that have none: to load them all takes as long as many tests."""
    if config.option.markexpr != MARK or collection_path.suffix != ".py" or not is_unit(collection_path):
        return None
    text = collection_path.read_text()
    return None if "embedded" in text or f"mark.{MARK}" in text or "store" in collection_path.parts else True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Holds one test to the rules, from its set-up to its tear-down."""
    if item.get_closest_marker(MARK) is None:
        _running.append(item)
    try:
        return (yield)
    finally:
        _running.clear()


sys.addaudithook(_look)
