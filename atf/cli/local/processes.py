"""Reads the process tree from the system: who was started by whom. It only looks."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


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
        return (_PROC / str(pid) / "cmdline").read_text("utf-8", "replace").replace("\0", " ")
    except OSError:
        return ""


def _children() -> dict[int, list[int]]:
    """Children by process."""
    children: dict[int, list[int]] = {}
    for pid, parent in sorted(_parents().items()):
        children.setdefault(parent, []).append(pid)
    return children


def _parents() -> dict[int, int]:
    """Parent by process, of every process that is no zombie."""
    if not (_PROC / "self" / "stat").exists():
        return _parents_by_ps()
    found = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                # The name, in parentheses, may hold anything; what follows its last one has fixed fields.
                state, parent = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:2]
            except OSError:
                continue  # it has just ended
            if state != "Z":
                found[int(entry.name)] = int(parent)
    return found


def _parents_by_ps() -> dict[int, int]:
    listing = subprocess.run(["ps", "-axo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listing.splitlines())
    return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}
