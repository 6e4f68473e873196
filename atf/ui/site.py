"""Serves the pages on a socket that listens already. Loaded when somebody first connects (main.py)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final

from aiohttp import web

from atf.config.settings import UiSettings
from atf.rpc import api
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
    tls: ssl.SSLContext | None,
) -> None:
    """Serves until it is cancelled, and what is under way then for DRAIN_S more. Arguments as of main.pages."""
    app = make_app(frontend, settings, runtime, samples, login=login)
    add_probes(app, serves)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=DRAIN_S)
    await runner.setup()
    try:
        await web.SockSite(runner, listening, ssl_context=tls).start()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
