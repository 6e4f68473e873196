"""Serves /metrics, /livez and /readyz beside the pages, at the root whatever their base path is: for the machine, not for people."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable

from aiohttp import web
from prometheus_client import generate_latest

from atf import __version__
from atf.metrics.exposition import registry_of
from atf.metrics.metrics import Metrics


def add_probes(app: web.Application, serves: Callable[[], bool]) -> None:
    """Adds them to the pages.

    Args:
        app: the pages.
        serves: whether they are served now, and were not asked to end.
    """
    metrics = Metrics()
    metrics.begin(("ui",), __version__, platform.python_version())
    registry = registry_of(metrics)

    async def livez(_request: web.Request) -> web.Response:
        return web.Response(text="the loop turns\n")

    async def readyz(_request: web.Request) -> web.Response:
        if serves():
            return web.Response(text="serves\n")
        return web.Response(text="it is about to end\n", status=503)

    async def shown(_request: web.Request) -> web.Response:
        text = await asyncio.to_thread(generate_latest, registry)  # noqa: TID251  it reads /proc
        return web.Response(body=text, content_type="text/plain", charset="utf-8")

    for path, handler in {"/livez": livez, "/readyz": readyz, "/metrics": shown}.items():
        app.router.add_get(path, handler)
