"""Reads from /proc what processes cost: CPU seconds and resident memory. It only looks; Linux alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from atf.cli.local.processes import PROC, stat_fields

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used, utime + stime; 0.0 where there is none."""
    fields = stat_fields(PROC / str(pid))
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S if fields else 0.0


def rss_mib(pid: int) -> float:
    """MiB of resident memory."""
    fields = stat_fields(PROC / str(pid))
    return int(fields[21]) * _PAGE / (1 << 20) if fields else 0.0


def pss_mib(pid: int) -> float:
    """MiB of memory, each page divided by the processes that share it; 0.0 where there is none, or it is somebody else's."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def of_session(leader: int) -> list[int]:
    """Every process of a session that is no zombie, its leader first."""
    found = {int(each.name): stat_fields(each) for each in PROC.iterdir() if each.name.isdigit()}
    mine = [pid for pid, fields in found.items() if fields and fields[0] != "Z" and int(fields[3]) == leader]
    return sorted(mine, key=lambda pid: (pid != leader, pid))


def cpu_by_role(roles: Mapping[str, Iterable[int]]) -> dict[str, float]:
    """Seconds of CPU by role."""
    return {role: sum(map(cpu_s, pids)) for role, pids in roles.items()}


def rss_by_role(roles: Mapping[str, Iterable[int]]) -> dict[str, float]:
    """MiB by role; of several processes of one role the sum."""
    return {role: round(sum(map(rss_mib, pids)), 2) for role, pids in roles.items()}


def less(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """What each role used meanwhile; a role that is new counts in full."""
    return {role: after[role] - before.get(role, 0.0) for role in after}


def cpu_model() -> str:
    """The processor's name."""
    for line in (PROC / "cpuinfo").read_text("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return "unknown"
