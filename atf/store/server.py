"""What a role checks of the server before it trusts it with tasks."""

from __future__ import annotations

from atf.errors import Unavailable

from .connection import Link

_OLDEST = (7, 0)


async def check(link: Link) -> list[str]:
    """Reads the server's version and settings.

    Returns:
        Warnings, a sentence each.

    Raises:
        Unavailable: it can't be reached, is a replica, is too old, or would lose tasks by its settings. All of it can be
            mended while the role waits, so trying again makes sense.
    """
    info = {}
    for line in (await link.command("INFO", "everything")).decode().splitlines():
        name, _, value = line.partition(":")
        info[name] = value.strip()
    version = info.get("redis_version", "0")
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        raise Unavailable(f"the task store at {link.where} is Redis {version}; ATF needs Redis 7.0 or newer, or Valkey")
    if info.get("maxmemory", "0") != "0" and info.get("maxmemory_policy") != "noeviction":
        raise Unavailable(
            f"the task store at {link.where} evicts keys (maxmemory-policy {info.get('maxmemory_policy')}), and would lose tasks."
            " Mend it: CONFIG SET maxmemory-policy noeviction"
        )
    if info.get("role", "master") != "master":
        raise Unavailable(f"the task store at {link.where} is a read-only replica; point the roles at the primary")
    warnings = []
    if info.get("aof_enabled") == "0":
        warnings.append(
            f"the task store at {link.where} keeps no append-only file: accepted tasks are lost when it restarts."
            " Mend it: CONFIG SET appendonly yes"
        )
    return warnings
