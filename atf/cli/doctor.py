"""`atf doctor`: finds the store, has it and this host's settings checked, prints a line per result. The checks are atf/store's."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from atf.config.loading import TABLES
from atf.config.settings import (
    ControllerSettings,
    ExecutorSettings,
    FrontendSettings,
    HscSettings,
    LogSettings,
    SecuritySettings,
    ServerSettings,
    StoreConsumerSettings,
    StoreSettings,
    Timing,
    WorkerHostSettings,
    setting,
)
from atf.embedded import DataDir
from atf.errors import ConfigError, FailedPrecondition, Unavailable
from atf.exits import EXIT_FAILED, EXIT_OK, EXIT_UNAVAILABLE
from atf.process.streams import protect_stdout
from atf.runtime import SystemRuntime
from atf.store.backup import contents
from atf.store.servers import checks
from atf.store.servers.check_results import CheckResult, State, ok, refuse, warn, worst
from atf.store.servers.connection import Link
from atf.store.servers.modes import open_link
from atf.store.servers.permissions import STORE_USERS, acl_user

from .json_values import print_json
from .link_checks import certificates, now, plain_links
from .options import as_json, no_header, read, refuse_unused, settings_flags, wants_json
from .output import print_table

_ROLES: Final[dict[str, type[Any]]] = {
    "frontend": FrontendSettings,
    "store_consumer": StoreConsumerSettings,
    "hsc": HscSettings,
    "controller": ControllerSettings,
    "executor": ExecutorSettings,
    "server": ServerSettings,
    "worker": WorkerHostSettings,
    "": LogSettings,
}
_WITHOUT_STORE: Final = {"controller", "executor"}
_NO_SETTINGS: Final = {"ATF_CONFIG", "ATF_DEBUG", "ATF_READY_FD", "ATF_DEMO_RECORD"}
"""Variables of ATF's that stand for no setting; nor do those of its tests."""


@dataclass(frozen=True, kw_only=True)
class _DoctorFlags:
    """Which store is meant."""

    redis_url: str = setting(
        "", "the task store; empty: that of an `atf up` in --data-dir, else redis://127.0.0.1:6379/0", secret=True
    )
    data_dir: str = setting(".atf", "data directory of a running `atf up`")
    partitions: int = setting(
        0, "partitions that the roles are set to; 0: as they are set here, or what the store has on record"
    )


@click.command()
@settings_flags(_DoctorFlags)
@click.option(
    "--acl",
    is_flag=False,
    flag_value="server",
    type=click.Choice(list(STORE_USERS)),
    help="Print the store's user for a role, or the one for all of them, with a fresh password, and do nothing else.",
)
@as_json
@no_header
def doctor(acl: str | None, **flags: Any) -> int:
    """Check the task store and this host's settings, and say how to mend what is wrong.

    A line each: ok; warn, with which roles work, but tasks may be lost or slow in some event; or refuse, with which roles do not
    start. Changes nothing. Exit codes: 0 nothing refused, 1 something refused, 4 the store can't be reached.

    \b
    atf doctor --redis-url redis://10.0.0.5:6379/0
    atf doctor --acl > atf.acl
    atf doctor --acl hsc >> atf.acl
    """
    refuse_unused(flags, ("data_dir",) if flags["redis_url"] else (), "with --redis-url")
    if acl:
        refuse_unused({**flags, "json": wants_json()}, [*flags, "json"], "with --acl")
        return _print_acl(acl)
    protect_stdout()  # the exit code is the verdict, whoever still reads
    results, code = _examine(flags)
    if wants_json():
        print_json([_json(each) for each in results])
    else:
        _print(results)
    return code or (EXIT_FAILED if worst(results) is State.REFUSE else EXIT_OK)


def _examine(flags: dict[str, Any]) -> tuple[list[CheckResult], int]:
    """The results, and the exit code that they have beyond their own: 0, or that of a store that can't be reached."""
    here = _settings()
    if worst(here) is not State.REFUSE:
        here += _links(flags)
    try:
        settings, timing = _chosen(flags), read(Timing, {})
    except ConfigError as error:
        return here if worst(here) is State.REFUSE else [*here, _refused_settings(error)], 0
    try:
        return here + asyncio.run(_of_store(settings, timing)), 0
    except Unavailable as error:
        mend = "start it, or give its address with --redis-url (ATF_REDIS_URL)"
        return [*here, refuse("server", "away", str(error), mend)], EXIT_UNAVAILABLE
    except FailedPrecondition as error:  # before it said who it is: a password, or a right
        mend = "put a user that may do what ATF does into the redis URL; atf doctor --acl prints one"
        return [*here, refuse("acl", "refused", str(error), mend)], 0


async def _of_store(settings: StoreSettings, timing: Timing) -> list[CheckResult]:
    link = open_link(settings)
    try:
        found = await checks.examine(link, SystemRuntime())
        if any(each.check in {"acl", "role"} and each.state is State.REFUSE for each in found):
            return found  # the rest would fail by the same cause
        away = {each.where for each in found if (each.check, each.value) == ("server", "away")}
        for each in await link.masters():
            if each.where not in away:
                found.append(replace(await _libraries(each, link), where=each.where))
        return found + await _partitions(link, settings, timing)
    finally:
        await link.close()


async def _libraries(master: Link, link: Link) -> CheckResult:
    try:
        return await contents.libraries(master)
    except Unavailable as error:
        if not link.parted:
            raise
        return warn("library", "away", f"it can't be read: {error}", "see whether the server runs")


async def _partitions(link: Link, settings: StoreSettings, timing: Timing) -> list[CheckResult]:
    try:
        return await contents.partitions(link, settings.partitions, timing)
    except Unavailable as error:
        if not link.parted:
            raise
        return [warn("records", "away", f"they can't be read: {error}", "see whether the servers run")]


def _chosen(flags: dict[str, Any]) -> StoreSettings:
    where = read(_DoctorFlags, flags)
    settings = read(StoreSettings, {"redis_url": where.redis_url or None, "partitions": where.partitions or None})
    if where.redis_url or not Path(where.data_dir, "up.lock").exists():
        return settings
    running = DataDir(Path(where.data_dir)).announced()
    if running is None:
        return settings
    partitions = where.partitions or running["partitions"] or settings.partitions
    return replace(settings, redis_url=running["redis_url"], partitions=partitions)


# --- this host's settings ---------------------------------------------------------------------------------------------


def _settings() -> list[CheckResult]:
    """Whether every role could read its settings here, and whether anything is set that none reads."""
    found: dict[str, CheckResult] = {}
    for role, cls in _ROLES.items():
        for each in (cls, Timing) if role in _WITHOUT_STORE else (cls, StoreSettings, Timing):
            try:
                read(each, {}, role)
            except ConfigError as error:
                found[str(error)] = _refused_settings(error)
    strange = sorted(
        name
        for name in os.environ
        if name.startswith("ATF_")
        and not name.startswith("ATF_TEST_")
        and name not in _NO_SETTINGS
        and name.removeprefix("ATF_").lower() not in TABLES[""]
    )
    if strange:
        mend = f"unset {' '.join(strange)}, or spell it as atf ROLE --help does"
        found["variables"] = warn("settings", strange[0], f"nothing reads {', '.join(strange)}", mend)
    file = os.environ.get("ATF_CONFIG", "atf.toml")
    sound = ok("settings", file if Path(file).exists() else "no file", "every setting here is one, and keeps its rules")
    return list(found.values()) or [sound]


def _links(flags: dict[str, Any]) -> list[CheckResult]:
    """What there is to say of certificates and of plain links, by this host's settings."""
    security, roles = read(SecuritySettings, {}), {name: cls for name, cls in _ROLES.items() if name}
    store = _chosen(flags)
    named = [(name, read(cls, {}, name)) for name, cls in roles.items()]
    return certificates(security, store.redis_url, now()) + plain_links(security, named, store)


def _refused_settings(error: ConfigError) -> CheckResult:
    return refuse("settings", "refused", str(error), "put the setting right; atf ROLE --help has its meaning and unit")


# --- showing ----------------------------------------------------------------------------------------------------------


def _print(results: list[CheckResult]) -> None:
    several = len({each.where for each in results if each.where}) > 1
    columns = ["state", "check", *(["server"] if several else []), "found", "what it means"]
    rows = []
    for each in results:
        stop = "" if each.text.endswith((".", "?")) else "."
        mend = f"{stop} {each.mend[0].upper()}{each.mend[1:]}" if each.mend else ""
        rows.append([each.state, each.check, *([each.where] if several else []), each.value, each.text + mend])
    print_table(columns, rows)


def _json(result: CheckResult) -> dict[str, str]:
    return {
        "check": result.check,
        "state": result.state.value,
        "value": result.value,
        "text": result.text,
        "mend": result.mend,
        "server": result.where,
    }


def _print_acl(role: str) -> int:
    password = secrets.token_hex(16)
    line = acl_user(password, role)
    print(line)
    print(
        f"{STORE_USERS[role].note}. Put this line into the server's aclfile, or its words after `user` behind ACL SETUSER, and give the role"
        f" redis://{line.split()[1]}:{password}@HOST:PORT/0 as ATF_REDIS_URL. Controllers, executors and pages know no task store",
        file=sys.stderr,
    )
    return EXIT_OK
