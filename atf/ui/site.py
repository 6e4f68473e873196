"""Serves the pages on a socket that listens already. Loaded when somebody first connects (main.py)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from atf.config.settings import UiSettings
from atf.rpc import api
from atf.rpc.http_bounds import bounded_runner, listen
from atf.rpc.server_security import ServerSecurity
from atf.runtime import Runtime

from .app import make_app
from .probes import add_probes
from .samples import Samples

DRAIN_S: Final = 2.0
"""Seconds that requests under way have when the process ends."""


async def serve(
    frontend: api.Frontend,
    settings: UiSettings,
    runtime: Runtime,
    samples: Samples,
    serves: Callable[[], bool],
    listening: socket.socket,
    login: bool,
    security: ServerSecurity,
) -> None:
    """Serves until it is cancelled, and what is under way then for DRAIN_S more. Arguments as of main.pages."""
    app = make_app(frontend, settings, runtime, samples, login=login, security=security)
    add_probes(app, serves)
    runner = bounded_runner(app, DRAIN_S)
    await runner.setup()
    taking = await listen(runner, listening, security.http)
    try:
        await asyncio.Event().wait()
    finally:
        taking.close()
        await runner.cleanup()
