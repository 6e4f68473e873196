"""`atf up --store memory`: runs every role in this one process, on a store that is gone with it. For a first look, and for nothing else.

The roles are those of `atf up`, called directly; only the frontend also listens, for clients and the other commands. Beside it are the pages and the metrics.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from atf.builtin import with_builtins
from atf.cli import answered
from atf.cli.json_values import print_json
from atf.cli.options import read, wants_json
from atf.cli.output import print_fields, say
from atf.client.registration import register_lambdas
from atf.codec.cipher import cipher_of
from atf.config.settings import (
    ControllerSettings,
    ExecutorSettings,
    FrontendSettings,
    HscSettings,
    LogSettings,
    RoleSettings,
    StoreConsumerSettings,
    StoreSettings,
    Timing,
    UiSettings,
)
from atf.errors import ConfigError
from atf.executor.code_jobs import register_jobs
from atf.executor.executor import Executor
from atf.executor.isolation.runs import IsolatedRuns
from atf.executor.worker_hooks import WorkerHooks, run_apart
from atf.executor.workers import ThreadAndLoopWorkers
from atf.log import get_logger, leave_structlog, setup
from atf.process.descriptors import watch
from atf.process.forks import keep_signals_from_children
from atf.process.stops import StopRequests, stop_signals
from atf.process.streams import exit_at_once, given_back
from atf.runtime import Runtime, SystemRuntime, new_id
from atf.sdk.app import App
from atf.sdk.lambdas import Lambda
from atf.sdk.loading import load_apps, load_lambdas
from atf.server.roles import ServerRoles
from atf.store.store import Store
from atf.testing.wiring import Wiring

from .cluster_settings import ClusterSettings
from .memory_watching import serve_metrics
from .ports import free_if_taken
from .user_code import check_imports, end


class _UserCode(NamedTuple):
    """What runs here, imported before any loop ran; `folder` is where its names were looked for."""

    names: Sequence[str]
    apps: Sequence[App]
    lambdas: Mapping[str, Lambda[..., Any]]
    folder: Path


def run_in_memory(settings: ClusterSettings, apps: Sequence[str], *, ui: bool) -> NoReturn:
    """Runs until SIGINT or SIGTERM. Ends this process: a thread of user code would keep it."""
    end(answered(lambda: _imported(settings, apps, ui=ui)))


def _imported(settings: ClusterSettings, apps: Sequence[str], *, ui: bool) -> int:
    if code := check_imports(apps):  # a crash or an exit in there would end this process without a word
        return code
    setup(read(LogSettings, {}), "atf")
    folder = Path.cwd()  # before user code, which may go elsewhere
    leave_structlog()
    with given_back():
        lambdas = load_lambdas(apps)
    return asyncio.run(_run(settings, _UserCode(apps, load_apps(apps), lambdas, folder), ui=ui))


async def _run(settings: ClusterSettings, code: _UserCode, *, ui: bool) -> int:
    async with AsyncExitStack() as last:
        status = await _serve(last, settings, code, ui=ui)
    if status:
        exit_at_once(status)  # a `def` that does not end would keep the loop
    return status


async def _serve(last: AsyncExitStack, settings: ClusterSettings, code: _UserCode, *, ui: bool) -> int:
    """Runs the roles; `last` takes what is to be closed behind them, also where one can't start."""
    runtime, timing = SystemRuntime(), read(Timing, {})
    wiring = Wiring(runtime, timing)
    store = await Store.open(StoreSettings(partitions=1), timing, runtime, fake=_fake_server())
    last.push_async_callback(store.close)
    store.metrics = wiring.metrics
    roles = ServerRoles(store, _role_settings(settings), timing, runtime)
    await roles.start(grace=1.0)
    last.push_async_callback(roles.end)
    bounds = _bounds(settings, roles.address)
    os.environ.setdefault("ATF_FRONTEND", roles.address)  # for tasks that schedule tasks, as in other executors
    lambdas = with_builtins(code.lambdas, bounds)
    controller = wiring.controller(roles.hsc.logic, read(ControllerSettings, {}, "controller"))
    isolated = await IsolatedRuns.start(code.names, code.lambdas, code.folder)
    workers = ThreadAndLoopWorkers(bounds.threads * settings.executors, bounds.async_tasks * settings.executors)
    hooks = WorkerHooks(code.apps, run_apart(workers.turn))
    wired = wiring.executor(
        f"memory-{new_id(runtime.random)}",
        lambdas,
        controller=controller,
        hsc=roles.hsc.logic,
        workers=workers,
        settings=bounds,
        isolated=isolated,
    )
    executor, heartbeats = wired.executor, wired.heartbeats
    executor.stop_hooks = hooks.stop
    if isolated is not None:
        executor.drains = isolated.drain
        isolated.listen(gone=executor.drain)
    await hooks.start()
    try:
        await register_lambdas(roles.frontend, [each.spec() for each in lambdas.values()])
        await register_jobs(
            roles.frontend, [each.job for each in lambdas.values() if each.job is not None], (), cipher_of()
        )
    except BaseException:
        await hooks.stop(bounds.drain_timeout)
        raise
    _drain_on_signals(executor, runtime)
    duties = {
        name: runtime.spawn(work, name=name)
        for name, work in (("controller", controller.run()), ("beats", heartbeats.run()))
    }
    runtime.spawn(watch(runtime, get_logger()), name="file descriptors")
    working = runtime.spawn(executor.run(), name="executor")
    metrics = await serve_metrics(last, roles.address, store, roles.consumer.read_gauges)
    pages = await roles.serve_pages(_page_settings(settings), lambda: True) if ui else ""
    _announce(roles, code.names, metrics, pages)
    await asyncio.wait({working, *duties.values(), *roles.consumer.passes}, return_when=asyncio.FIRST_COMPLETED)
    executor.drain()
    status = await working
    if isolated is not None:
        isolated.close()
    await controller.drain()
    for duty in duties.values():
        duty.cancel()
    for ended in await asyncio.gather(*duties.values(), return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended
    return status


def _drain_on_signals(executor: Executor, runtime: Runtime) -> None:
    asked = StopRequests()

    def signalled(number: int) -> None:
        if asked.at_once(number, runtime.monotonic()):
            exit_at_once(128 + number)
        executor.drain()

    signals = stop_signals()
    for number in signals:
        asyncio.get_running_loop().add_signal_handler(number, signalled, number)
    keep_signals_from_children(*signals)


def _bounds(settings: ClusterSettings, frontend: str) -> ExecutorSettings:
    flags = {
        "threads": settings.threads or None,
        "http_allow": settings.http_allow or None,
        "command_allow": settings.command_allow or None,
        "frontend": frontend,
    }
    return read(ExecutorSettings, flags, "executor")


def _role_settings(settings: ClusterSettings) -> RoleSettings:
    listen = free_if_taken("frontend", settings.free_ports, os.environ, say)
    return RoleSettings(
        frontend=replace(read(FrontendSettings, {}, "frontend"), listen=listen),
        hsc=read(HscSettings, {}, "hsc"),
        consumer=read(StoreConsumerSettings, {}, "store_consumer"),
    )


def _page_settings(settings: ClusterSettings) -> UiSettings:
    return read(UiSettings, {"listen": free_if_taken("ui", settings.free_ports, os.environ, say)}, "ui")


def _fake_server() -> Any:
    try:
        import fakeredis
    except ImportError:
        raise ConfigError("--store memory needs fakeredis: pip install 'atf-tasks[testing]'") from None
    return fakeredis.FakeServer()


def _announce(roles: ServerRoles, apps: Sequence[str], metrics: str, pages: str) -> None:
    where = {"frontend": roles.address}
    if wants_json():
        also = {"dapr_http": roles.dapr_http} if roles.dapr_http else {}
        watched = {"metrics": {"all": metrics} if metrics else {}, "ui": pages}
        print_json({"pid": os.getpid(), "store": "memory", "redis_url": "", "roles": where, **watched, **also})
        return
    print_fields(
        [
            ("task store", "in memory: nothing survives the end of this process"),
            *where.items(),
            ("pages", pages and f"http://{pages}/"),
            ("metrics", metrics),
            ("Dapr's HTTP API", roles.dapr_http),
            ("apps", ", ".join(apps)),
        ]
    )
    print("everything is up, in one process; Ctrl-C stops it", flush=True)
