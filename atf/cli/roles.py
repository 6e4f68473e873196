"""Defines one command per role: its flags are the fields of its settings classes, and its work is the role package's `main`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from atf.config.settings import (
    ControllerSettings,
    ExecutorSettings,
    FrontendSettings,
    HscSettings,
    LogSettings,
    RoleSettings,
    SecuritySettings,
    ServerSettings,
    StoreConsumerSettings,
    StoreSettings,
    Timing,
    UiSettings,
    WorkerHostSettings,
)
from atf.process.forks import without_fork_support
from atf.process.left_out import without

from .options import SettingsCommand, option, read, refuse_password, refuse_unused, settings_flags

_SHARED = (StoreSettings, Timing, LogSettings, SecuritySettings)
_OF_WORKERS = (Timing, LogSettings, SecuritySettings)
"""Of roles on worker hosts, which don't know the task store."""


def _run(role: str, classes: tuple[type[Any], ...], flags: dict[str, Any], *more: Any) -> int:
    """Reads the settings classes and hands them, in their order, to the `main` of a role's package."""
    refuse_password(flags)
    settings = [read(cls, flags, role) for cls in classes]
    return main_of(role)(*settings, *more)


def main_of(role: str) -> Callable[..., int]:
    """The `main` of a role's package, loaded only now: a guard must not carry what other roles need."""
    with without_fork_support(), without("opentelemetry"):  # by it redis' client would measure itself: 2 MiB
        main: Callable[..., int] = importlib.import_module(f"atf.{role}.main").main
    return main


@click.command()
@settings_flags(FrontendSettings, *_SHARED)
def frontend(**flags: Any) -> int:
    """Run the scheduling service: it checks tasks and puts them into the task store.

    Clients, services and the other commands of `atf` talk to it. Any number may run.
    """
    return _run("frontend", (FrontendSettings, *_SHARED), flags)


@click.command("store-consumer")
@settings_flags(StoreConsumerSettings, *_SHARED)
def store_consumer(**flags: Any) -> int:
    """Run the process that moves due tasks into their queues, and tasks whose executor was lost too.

    Any number may run. They share the work, and none of them leads.
    """
    return _run("store_consumer", (StoreConsumerSettings, *_SHARED), flags)


@click.command()
@settings_flags(HscSettings, *_SHARED)
def hsc(**flags: Any) -> int:
    """Run the heartbeat and status controller: it grants claims, renews them, and records results.

    Controllers and executors talk to it. Any number may run.
    """
    return _run("hsc", (HscSettings, *_SHARED), flags)


@click.command()
@click.argument("apps", metavar="[MODULE:APP]...", nargs=-1)
@settings_flags(ControllerSettings, ExecutorSettings, *_OF_WORKERS, without=frozenset({"controller"}))
def controller(apps: tuple[str, ...], **flags: Any) -> int:
    """Run the controller of this host: it asks the HSC for work and gives it to this host's executors.

    With MODULE:APP it starts --executors processes for these apps, guards them, and starts them again when they die.
    """
    own = {each.name for cls in (ControllerSettings, *_OF_WORKERS) for each in fields(cls)}
    refuse_unused(flags, () if apps else flags.keys() - own, "without MODULE:APP, since it starts no executors then")
    return _run(
        "controller", (ControllerSettings, *_OF_WORKERS), flags, apps, read(ExecutorSettings, flags, "executor")
    )


@click.command(cls=SettingsCommand)
@settings_flags(
    ServerSettings,
    FrontendSettings,
    HscSettings,
    StoreConsumerSettings,
    UiSettings,
    *_SHARED,
    without=frozenset({"frontend"}),
)
def server(**flags: Any) -> int:
    """Run frontend, HSC, store consumer and pages in one process, on one gRPC port and one HTTP port.

    It does what these roles do as processes of their own, and fits one small machine. Any number may run. Beside it each worker host
    runs `atf worker`.

    In atf.toml its addresses stand in the table [server], and what else a role is told in the role's own table, such as [frontend].
    """
    refuse_password(flags)
    own = read(ServerSettings, flags, "server")
    flags |= {"listen": own.listen, "metrics_listen": own.metrics_listen}
    roles = RoleSettings(
        frontend=read(FrontendSettings, flags, "frontend"),
        hsc=read(HscSettings, flags, "hsc"),
        consumer=read(StoreConsumerSettings, flags, "store_consumer"),
    )
    ui = read(UiSettings, {**flags, "listen": own.ui_listen}, "ui") if own.has_pages else None
    return main_of("server")(own, roles, ui, *(read(cls, flags, "server") for cls in _SHARED))


@click.command(cls=SettingsCommand)
@click.argument("apps", metavar="MODULE:APP...", nargs=-1, required=True)
@settings_flags(
    WorkerHostSettings, ControllerSettings, ExecutorSettings, *_OF_WORKERS, without=frozenset({"controller"})
)
def worker(apps: tuple[str, ...], **flags: Any) -> int:
    """Run this host's controller, and --executors guarded executor processes for the lambdas of MODULE:APP.

    Your code runs in the executors alone. The controller takes work for them, and starts them again when they die. It finds HSC and
    frontend at --server, or each at its own address.

    \b
    atf worker shop:app --server tasks.example.com:7401 --executors 4
    """
    own = read(WorkerHostSettings, flags, "worker")
    flags |= {"hsc": own.hsc or own.server, "frontend": own.frontend or own.server}
    shared = [read(cls, flags, "worker") for cls in _OF_WORKERS]
    executor = read(ExecutorSettings, flags, "executor")
    return main_of("controller")(read(ControllerSettings, flags, "controller"), *shared, apps, executor)


@click.command()
@click.argument("apps", metavar="MODULE:APP...", nargs=-1, required=True)
@option("--events-fd", "N", "Write what happens to the worker, as JSON lines, to this descriptor.", int)
@click.option("--stand-by", is_flag=True, help="Load no app before the controller says so.")
@settings_flags(ExecutorSettings, *_OF_WORKERS)
def executor(apps: tuple[str, ...], events_fd: int | None, stand_by: bool, **flags: Any) -> int:
    """Run one executor for the lambdas of MODULE:APP, in a worker process that this one guards.

    It asks the controller of this host for work. Usually the controller starts it; start it by hand for a controller with
    --executors 0. It ends when the controller is gone, and with the worker's exit code.
    """
    return _run("executor", (ExecutorSettings, *_OF_WORKERS), flags, apps, events_fd, stand_by)


@click.command()
@settings_flags(UiSettings, LogSettings, SecuritySettings)
def ui(**flags: Any) -> int:
    """Serve the pages on which people see and steer tasks.

    They talk to the frontend alone. Off loopback they need TLS and tokens; without these, reach them by a tunnel, or by a proxy that signs
    people in.
    """
    return _run("ui", (UiSettings, LogSettings, SecuritySettings), flags)
