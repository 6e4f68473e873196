"""Reads the process tree from the system: who was started by whom. It only looks."""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
_STOP_MS: Final = 1_000


class ExecutorPids(NamedTuple):
    """One executor: the guard, and the worker that runs lambdas."""

    guard: int
    worker: int


def descendants(pid: int) -> list[int]:
    """All that a process has started and that runs now, and what these have started."""
    children = _children()
    found: list[int] = []
    left = [pid]
    while left:
        mine = children.get(left.pop(), [])
        found += mine
        left += mine
    return found


def executors_of(controller: int) -> list[ExecutorPids]:
    """The executors that a controller's process has started and that have a worker now."""
    children = _children()
    return [
        ExecutorPids(guard, worker)
        for guard in children.get(controller, [])
        for worker in _workers(children.get(guard, []))
    ]


def _workers(children: list[int]) -> list[int]:
    """The worker among the children of a guard, which gets what lambdas leave behind as children, too."""
    return children if len(children) < 2 else [pid for pid in children if "atf.executor.worker_main" in _command(pid)]


def _command(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_text("utf-8", "replace").replace("\0", " ")
    except OSError:
        return ""


def _children() -> dict[int, list[int]]:
    """Children by process."""
    children: dict[int, list[int]] = {}
    for pid, parent in sorted(_parents().items()):
        children.setdefault(parent, []).append(pid)
    return children


def stat_fields(process: Path) -> list[str]:
    """What /proc says of a process or a thread behind its name, its state first; []: it has ended.

    The name, in parentheses, may hold anything; what follows its last one has fixed fields.
    """
    try:
        return (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def _parents() -> dict[int, int]:
    """Parent by process, of every process that is no zombie."""
    if not (PROC / "self" / "stat").exists():
        return _parents_by_ps()
    found = {int(each.name): stat_fields(each) for each in PROC.iterdir() if each.name.isdigit()}
    return {pid: int(fields[1]) for pid, fields in found.items() if fields and fields[0] != "Z"}


def _parents_by_ps() -> dict[int, int]:
    listing = subprocess.run(["ps", "-axo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listing.splitlines())
    return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}


async def stands_still(pid: int) -> None:
    """Waits until every thread of a stopped process has stopped, for a second at most."""
    threads = PROC / str(pid) / "task"
    for _ in range(_STOP_MS):
        with suppress(OSError):  # no such system: the whole time is waited; or the process has just ended
            if all(fields and fields[0] in "TZX" for fields in map(stat_fields, threads.iterdir())):
                return
        await asyncio.sleep(0.001)
