"""What a cluster on this machine is made of, by the flags of atf up and its like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from atf.cli.options import F, settings_flags
from atf.config.allowed_hosts import AllowedHosts
from atf.config.allowed_programs import AllowedPrograms
from atf.config.settings import setting
from atf.errors import ConfigError

EMBEDDED_ONLY: Final = ("store_bin", "data_dir", "maxmemory_mib")
"""Settings of a store of one's own, which `redis_url` leaves unused."""


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """Every role on this machine."""

    redis_url: str = setting(
        "", "a running Redis or Valkey to use as the task store; empty: one of its own", secret=True
    )
    store_bin: str = setting("", "the valkey-server or redis-server to run as the task store; empty: look for one")
    data_dir: str = setting(".atf", "directory in which the embedded store keeps the tasks")
    durability: str = setting(
        "",
        "disk: on disk before it is accepted; relaxed: up to 2 s of tasks may go with the power; replicated: for a store with"
        " replicas; empty: disk for the embedded store, the roles' setting otherwise",
    )
    maxmemory_mib: int = setting(0, "MiB of tasks at which the embedded store takes no more; 0: half of the memory")
    partitions: int = setting(
        0, "partitions of the store's keys; 0: what it has on record, and 1 in a new embedded store"
    )
    executors: int = setting(1, "executor processes")
    threads: int = setting(0, "tasks of `def` lambdas that one executor runs at once; 0: the executor's own setting")
    http_allow: str = setting(
        "",
        "hosts that `atf/http` may call: HOST, HOST:PORT or *.DOMAIN with commas between; *: any; empty: as executors are set",
    )
    command_allow: str = setting(
        "",
        "programs that `atf/command` may run: /PATH/TO/PROGRAM or NAME=/PATH/TO/PROGRAM with commas between; empty: as executors are set",
    )
    free_ports: bool = setting(False, "take free ports for every role, whatever is set")
    compact: bool = setting(
        False,
        "two processes in place of one per role: `atf server`, which has the pages too, and `atf worker`, which has the executors",
    )

    def __post_init__(self) -> None:
        if self.executors < 1:
            raise ConfigError(f"executors = {self.executors}: at least 1")
        if self.threads < 0:
            raise ConfigError(f"threads = {self.threads}: at least 1, or 0 for the executor's own setting")
        AllowedHosts.parse(self.http_allow)
        AllowedPrograms.parse(self.command_allow)


compact_flag = click.option(
    "--compact",
    is_flag=True,
    default=None,
    help="Two processes, `atf server` and `atf worker`, in place of one per role.",
)
"""Whether they are few processes. It takes no value, unlike a setting's own flag: MODULE:APP may follow it."""
_own_flags = settings_flags(
    ClusterSettings, without=frozenset({"data_dir", "free_ports", "compact", "executors", "threads", "maxmemory_mib"})
)


def own_cluster_flags(command: F) -> F:
    """Adds the flags of a command that runs roles of its own for a while."""
    return _own_flags(compact_flag(command))


executors_flag = click.option(
    "--executors", type=click.IntRange(1, 64), default=2, show_default=True, help="Executor processes."
)
"""How many of them are executors."""


def as_flags(**values: object) -> list[str]:
    """Settings as flags of a command line, without those that are left to the role."""
    given = {f"--{name.replace('_', '-')}": str(value) for name, value in values.items() if value}
    return [word for pair in given.items() for word in pair]
