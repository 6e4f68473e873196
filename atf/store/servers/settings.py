"""Judges what a server's version, state and settings mean for tasks, from what INFO and CONFIG GET say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from atf.store import fields
from atf.store.library import RECORD_INLINE_BYTES
from atf.task import US

from .check_results import CheckResult, ok, refuse, warn

_OLDEST: Final = (7, 0)
_LISTPACK_BYTES: Final = RECORD_INLINE_BYTES
"""No value of a record is longer, but for names and keys that somebody chose."""
_LISTPACK_FIELDS: Final = len(fields.FIELDS)
"""A record has no more fields."""
_MAX_LAG_S: Final = 2
_FULL_MEND: Final = (
    "raise maxmemory; if tasks wait (atf lambda), they make room as they finish, else waiting does not help"
)
_EARLY_LATELY_US: Final = 600 * US

READ: Final = (
    "appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "min-replicas-to-write", "min-replicas-max-lag",
    "hash-max-listpack-value", "hash-max-listpack-entries", "save", "stop-writes-on-bgsave-error",
)  # fmt: skip
"""The settings that are judged."""
HIDDEN: Final = "hidden"
"""Stands for a setting that the server does not show, as hosted ones do."""

Info = Mapping[str, str]
Config = Mapping[str, str]


def judge(info: Info, config: Config) -> list[CheckResult]:
    """Every judgement on one server.

    Args:
        info: what INFO says.
        config: the settings of READ, as far as the server shows them.
    """
    found = [version(info), role(info), saves(info, config), appendonly(info), appendfsync(info, config)]
    found += [maxmemory(info), policy(info), replicas(info, config), listpack(config)]
    return found


def version(info: Info) -> CheckResult:
    """Whether it has functions, and all that they need."""
    compatible = info.get("redis_version", "0")
    name = f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {compatible}"
    numbers = tuple(int(part) for part in re.findall(r"\d+", compatible)[:2])
    if numbers < _OLDEST:
        return refuse("version", name, f"it is {name}; ATF needs Redis 7.0 or newer, or Valkey", "install one of these")
    return ok("version", name, "it has all that ATF calls")


def role(info: Info) -> CheckResult:
    """Whether it takes writes."""
    if info.get("loading", "0") != "0":
        return refuse("role", "loading", "it is still loading its data", "wait; its log says how far it is")
    if info.get("role", "master") != "master":
        primary = f"{info.get('master_host', '?')}:{info.get('master_port', '?')}"
        return refuse(
            "role",
            f"replica of {primary}",
            "it is a read-only replica",
            f"point the roles at the primary, {primary}, or at its Sentinels (redis+sentinel://)",
        )
    return ok("role", "primary", "it takes writes")


def saves(info: Info, config: Config) -> CheckResult:
    """Whether it refuses writes because a save failed, or will."""
    if info.get("aof_last_write_status", "ok") != "ok":
        return refuse(
            "saves",
            "append failed",
            "it refuses writes, because the last write to its append-only file failed",
            "make room on its disk, or mend the disk (its log says what failed); it goes on by itself then",
        )
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        failed = "its last snapshot failed"
        stops = config.get("stop-writes-on-bgsave-error", "yes") == "yes" and config.get("save", HIDDEN) != ""
        mend = "make room on its disk or in its memory (its log says what failed), then BGSAVE"
        if stops:
            return refuse("saves", "snapshot failed", f"it refuses writes, because {failed}", mend)
        return warn("saves", "snapshot failed", failed, mend)
    if info.get("aof_last_bgrewrite_status", "ok") != "ok":
        return warn(
            "saves",
            "rewrite failed",
            "it could not rewrite its append-only file, which grows without bounds",
            "make room on its disk or in its memory (its log says what failed), then BGREWRITEAOF",
        )
    return ok("saves", "good", "its last writes to disk succeeded")


def appendonly(info: Info) -> CheckResult:
    """Whether tasks survive a restart."""
    if info.get("aof_enabled", "0") == "1":
        return ok("appendonly", "yes", "tasks survive its restart")
    return warn(
        "appendonly",
        "no",
        "it keeps no append-only file: accepted tasks are lost when it restarts",
        "CONFIG SET appendonly yes, then CONFIG REWRITE",
    )


def appendfsync(info: Info, config: Config) -> CheckResult:
    """Whether tasks survive the machine."""
    value = config.get("appendfsync", HIDDEN)
    if info.get("aof_enabled", "0") != "1":
        return ok("appendfsync", value, "matters only with appendonly yes")
    match value:
        case "always":
            return ok("appendfsync", value, "a task is on disk before its acceptance is answered")
        case "everysec" if int(config.get("min-replicas-to-write", "0")) > 0:
            return ok(
                "appendfsync", value, "up to 2 s of accepted tasks are lost if it and its replicas lose power at once"
            )
        case "everysec":
            lost = "up to 2 s of accepted tasks may be lost with the power"
            mend = "CONFIG SET appendfsync always, then CONFIG REWRITE; or keep it, at four times the rate"
        case "no":
            lost = "accepted tasks of half a minute may be lost with the power"
            mend = "CONFIG SET appendfsync always, then CONFIG REWRITE"
        case _:
            lost = "it does not show how often it writes to its disk, so it is taken for one that may forget"
            mend = "allow CONFIG GET (+config|get); a hosted one: see its documentation"
    paused = "after a restart that forgot any claim no task starts for one heartbeat_timeout"
    return warn("appendfsync", value, f"{lost}; {paused}", mend)


def maxmemory(info: Info) -> CheckResult:
    """Whether a backlog meets a bound of the server's before it meets the machine's."""
    size = int(info.get("maxmemory", "0"))
    used = int(info.get("used_memory", "0"))
    half = max(int(info.get("total_system_memory", "0")) >> 21, 64)
    if size == 0:
        return warn(
            "maxmemory",
            "none",
            "a backlog may grow until the machine's memory is full and the system kills the server",
            f"CONFIG SET maxmemory {half}mb, then CONFIG REWRITE",
        )
    shown = f"{_mib(used)} of {_mib(size)}"
    if used > size:
        return warn("maxmemory", shown, "it is full: it accepts no tasks", _FULL_MEND)
    if used > 0.9 * size:
        return warn(
            "maxmemory", shown, "it is nearly full, and will accept no tasks then", "raise maxmemory, or add executors"
        )
    return ok("maxmemory", shown, "a store that is full refuses tasks, and drains")


def retention(early_us: int, now_us: int) -> CheckResult:
    """Whether finished tasks stay for their retention.

    Args:
        early_us: when some last went before that, since their server's memory was too full; 0: none ever did.
        now_us: by the store's clock.
    """
    ago_us = now_us - early_us
    if not early_us or ago_us > _EARLY_LATELY_US:
        return ok("retention", "kept", "finished tasks stay until their retention is over")
    return warn(
        "retention",
        f"cut {max(ago_us, 0) // US} s ago",
        "finished tasks go before their retention is over: a store server uses more of its maxmemory than retention_memory allows",
        "raise maxmemory, or give tasks a shorter retention",
    )


def policy(info: Info) -> CheckResult:
    """Whether it throws keys away."""
    value = info.get("maxmemory_policy", "noeviction")
    mend = "CONFIG SET maxmemory-policy noeviction, then CONFIG REWRITE"
    if value == "noeviction":
        return ok("maxmemory-policy", value, "it throws nothing away")
    if value.startswith("volatile-"):
        return warn(
            "maxmemory-policy",
            value,
            "it evicts keys with an expiry; ATF has none, whoever shares the server may",
            mend,
        )
    if info.get("maxmemory", "0") == "0":
        return warn(
            "maxmemory-policy", value, "it would evict keys, and lose tasks, as soon as a maxmemory is set", mend
        )
    return refuse("maxmemory-policy", value, f"it evicts keys (maxmemory-policy {value}), and would lose tasks", mend)


def replicas(info: Info, config: Config) -> CheckResult:
    """Whether what it accepted outlives a failover."""
    connected = int(info.get("connected_slaves", "0"))
    least = int(config.get("min-replicas-to-write", "0"))
    lag = int(config.get("min-replicas-max-lag", "10"))
    good = int(info.get("min_slaves_good_slaves", str(connected)))
    shown = f"{connected} connected, at least {least} to write" if least or connected else "none"
    sound = f"CONFIG SET min-replicas-to-write 1, CONFIG SET min-replicas-max-lag {_MAX_LAG_S}, then CONFIG REWRITE"
    if least > good:
        return refuse(
            "replicas",
            shown,
            f"it refuses writes: {good} of its replicas have answered within {lag} s, and it wants {least}",
            "start the replicas that are missing, or CONFIG SET min-replicas-to-write 0, which gives up their protection",
        )
    if not connected:
        return ok("replicas", shown, "a store of one server: it has no failover")
    if not least:
        # With one replica, a primary that asked for it would refuse every write while that one is silent or has taken over.
        mend = sound if connected > 1 else f"add a second replica; then {sound}"
        return warn(
            "replicas", shown, "a failover may lose accepted tasks, and a primary that is cut off takes more", mend
        )
    if lag == 0 or lag > _MAX_LAG_S:
        return warn(
            "replicas",
            shown,
            f"for {lag or 'any number of'} s, a primary that is cut off takes tasks that are lost",
            sound,
        )
    if connected <= least:
        return warn(
            "replicas",
            shown,
            "one silent replica is enough for it to refuse all writes, heartbeats among them",
            "add a replica",
        )
    return ok("replicas", shown, "a primary that is cut off stops taking tasks")


def listpack(config: Config) -> CheckResult:
    """Whether records are kept compact."""
    try:
        size, fields = int(config["hash-max-listpack-value"]), int(config["hash-max-listpack-entries"])
    except (KeyError, ValueError):
        return ok("listpack", HIDDEN, "it does not show how it keeps small records")
    shown = f"{size} bytes, {fields} fields"
    if size >= _LISTPACK_BYTES and fields >= _LISTPACK_FIELDS:
        return ok("listpack", shown, "records are kept compact")
    wanted = {"hash-max-listpack-value": max(size, _LISTPACK_BYTES), "hash-max-listpack-entries": max(fields, 128)}
    commands = [f"CONFIG SET {name} {value}" for name, value in wanted.items() if str(value) != config[name]]
    return warn(
        "listpack",
        shown,
        "it is set to less than by default, and records take about four times the memory that they need",
        f"{', '.join(commands)}, then CONFIG REWRITE",
    )


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
