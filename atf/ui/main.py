"""Runs the process that serves the pages."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from atf.config.settings import LogSettings, SecuritySettings, UiSettings
from atf.errors import ConfigError
from atf.log import get_logger
from atf.process.caller_token import token_of_process
from atf.process.role import Process, run_role
from atf.process.security import wrong_tries_of
from atf.rpc import api
from atf.rpc.caller_limits import CallerLimits
from atf.rpc.channel import open_channel
from atf.rpc.http_tls import http_context
from atf.rpc.listen_address import listening_socket
from atf.rpc.server_security import OPEN_TO_ALL, ServerSecurity
from atf.rpc.stubs import FrontendStub
from atf.runtime import Runtime, end

from .reads import SharedReads
from .samples import Samples, keep_sampling

_log = get_logger(duty="pages")


def main(settings: UiSettings, logs: LogSettings, security: SecuritySettings) -> int:
    """Runs until it is asked to end; returns the exit code.

    Raises:
        ConfigError: other machines would reach the pages, and they have not TLS and tokens.
    """
    security.check_pages(settings.listen)

    async def body(process: Process) -> None:
        login = security.auth != "off"
        channel = open_channel(settings.frontend, security=token_of_process(security))
        try:
            stub = FrontendStub(channel)
            bounds = ServerSecurity(
                http=http_context(security),
                limits=CallerLimits(security, process.metrics),
                wrong_tries=wrong_tries_of(process),
            )
            served = pages(stub, settings, process.runtime, lambda: process.serves, login=login, security=bounds)
            async with served as address:
                process.ready(address)
                await process.stopping.wait()
        finally:
            await channel.close()

    return run_role("ui", body, logs)


@asynccontextmanager
async def pages(
    frontend: api.Frontend,
    settings: UiSettings,
    runtime: Runtime,
    serves: Callable[[], bool],
    *,
    login: bool,
    security: ServerSecurity = OPEN_TO_ALL,
) -> AsyncIterator[str]:
    """Serves the pages; gives their host:port. What makes them is loaded when somebody first connects: it takes 15 MiB.

    Args:
        frontend: whose tasks they show.
        settings: where.
        runtime: clocks, spawning.
        serves: whether the process serves now, for /readyz.
        login: whether each reader has to show a token first.
        security: how connections are encrypted, what one reader may ask for, and what limits those who show no valid token.

    Raises:
        ConfigError: they can't be served there, or a package is missing.
    """
    _check_installed()
    samples = Samples(frontend, SharedReads(runtime), runtime)
    host, listening = await listening_socket(settings.listen)
    visited, loop = asyncio.Event(), asyncio.get_running_loop()

    async def serve() -> None:
        await visited.wait()
        loop.remove_reader(listening)
        try:
            # On a thread: the loop may have other roles' work to do.
            site = await asyncio.to_thread(importlib.import_module, "atf.ui.site")  # noqa: TID251
            await site.serve(frontend, settings, runtime, samples, serves, listening, login, security)
        except Exception:  # noqa: BLE001  whoever has connected can't be told, and the process may have roles that go on
            _log.exception("the pages can't be served")
            listening.close()

    loop.add_reader(listening, visited.set)
    duties = [runtime.spawn(serve(), name="pages")]
    if not login:  # else each reader sees other tasks, and nobody's are counted in their absence
        duties.append(runtime.spawn(keep_sampling(samples), name="samples of counts"))
    try:
        yield f"{host}:{listening.getsockname()[1]}"
    finally:
        if not visited.is_set():
            loop.remove_reader(listening)
        await end(duties)
        listening.close()


def _check_installed() -> None:
    for package in ("aiohttp", "jinja2"):
        if importlib.util.find_spec(package) is None:
            raise ConfigError(f"the pages need {package}: pip install 'atf-tasks[server]'")
