"""Checks the servers of a task store: when a role starts, now and then while it works, and for `atf doctor`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

import redis.exceptions as rx

from atf.config.settings import CLOCKS_AGREE_S
from atf.errors import AtfError, Unavailable
from atf.runtime import Runtime
from atf.task import US

from . import permissions, settings
from .check_results import CheckResult, State, ok, warn
from .connection import Link
from .server_info import text

_CLOCK_READINGS: Final = 3


async def check(link: Link, runtime: Runtime) -> list[CheckResult]:
    """Looks at every server that takes writes.

    Returns:
        The results, none of which is a refusal.

    Raises:
        Unavailable: one can't be reached, or does not fit. All of it can be mended while the role waits, so trying again
            makes sense.
    """
    results = await examine(link, runtime)
    for each in results:
        if each.state is State.REFUSE:
            raise Unavailable(each.sentence)
    return results


async def examine(link: Link, runtime: Runtime) -> list[CheckResult]:
    """Every check of every server that takes writes, whatever comes of it.

    Raises:
        Unavailable: none of them can be reached.
        FailedPrecondition: the store refuses the user.
    """
    servers = await link.masters()
    found: list[CheckResult] = []
    away: list[Unavailable] = []
    for each in servers:
        try:
            found += [replace(result, where=each.where) for result in await _examine(each, runtime)]
        except Unavailable as error:
            away.append(error)
            mend = "see whether it runs; a cluster gives its slots to a replica after a while"
            found.append(replace(warn("server", "away", "it can't be reached", mend), where=each.where))
    if away and (len(away) == len(servers) or not link.parted):
        raise away[0]
    return found


async def _examine(link: Link, runtime: Runtime) -> list[CheckResult]:
    allowed = await permissions.check(link)
    answer = await told(link, "INFO")
    if answer is None:
        return [allowed]
    lines = text(answer).splitlines()
    info = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    pairs = await told(link, "CONFIG", "GET", *settings.READ) or []
    words = [text(each) for each in pairs]
    found = settings.judge(info, dict(zip(words[::2], words[1::2], strict=True)))
    if info.get("cluster_enabled") == "1" and link.alone:
        found.append(
            warn(
                "mode",
                "cluster",
                "it is a node of a cluster; partitions on other nodes can't be reached through it",
                "begin the address with redis+cluster:// and name some of the nodes",
            )
        )
    clock = await _clock(link, runtime)
    return [*found, *([clock] if clock else []), allowed]


class Memory(NamedTuple):
    """What a server uses of its memory, bytes."""

    where: str
    used: int
    most: int  # maxmemory; 0: there is no bound


async def memory(link: Link) -> list[Memory]:
    """Of each server that takes writes and says so.

    Raises:
        Unavailable: one of them can't be reached.
    """
    found = []
    for each in await link.masters():
        said = said_of(await told(each, "INFO", "memory"))
        if "used_memory" in said:
            found.append(Memory(each.where, int(said["used_memory"]), int(said.get("maxmemory", 0))))
    return found


def said_of(info: object) -> dict[str, str]:
    """What an answer to INFO says; nothing where there is none."""
    return dict(line.split(":", 1) for line in text(info or b"").splitlines() if ":" in line)


async def used_bytes(link: Link) -> int | None:
    """Bytes that the servers which take writes use for their data, together; None where one does not say.

    Raises:
        Unavailable: one of them can't be reached.
    """
    total = 0
    for each in await link.masters():
        lines = text(await told(each, "INFO", "memory") or b"").splitlines()
        used = next((line.partition(":")[2] for line in lines if line.startswith("used_memory:")), None)
        if used is None:
            return None
        total += int(used)
    return total


async def told(link: Link, *command: str) -> Any:
    """The answer to a command that this user may not be allowed, or the server may not have; None then."""
    try:
        return await link.command(*command)
    except AtfError as error:
        if isinstance(error.__cause__, rx.ResponseError):
            return None
        raise


async def _clock(link: Link, runtime: Runtime) -> CheckResult | None:
    """How far the store's clock is from this host's. Of several readings the quickest is the most exact."""
    best: tuple[float, float] | None = None
    for _ in range(_CLOCK_READINGS):
        began, wall_us = runtime.monotonic(), runtime.wall_us()
        answer = await told(link, "TIME")
        if answer is None:
            return None
        took_us = (runtime.monotonic() - began) * US
        offset_us = int(answer[0]) * US + int(answer[1]) - (wall_us + took_us / 2)
        best = min(best or (took_us, offset_us), (took_us, offset_us))
    assert best is not None
    return clock(best[1], best[0] / 2)


def clock(offset_us: float, error_us: float) -> CheckResult:
    """The judgement on an offset of the store's clock against this host's, known but for an error."""
    value = f"{offset_us / US:+.3f} s ± {error_us / US:.3f} s"
    if abs(offset_us) - error_us <= CLOCKS_AGREE_S * US:
        return ok("clock", value, "the store's clock and this host's agree")
    return warn(
        "clock",
        value,
        f"the store's clock is {abs(offset_us) / US:.2f} s {'ahead of' if offset_us > 0 else 'behind'} this host's: ATF goes by the"
        " store's, so tasks given an instant start by that one, and a store consumer that starts here ends no lease for one"
        " heartbeat_timeout",
        "run a time service (chrony, ntpd) on both; timedatectl shows whether one does",
    )
