"""Serves the metrics of `atf up --store memory`, from the one process that has every role."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from atf import __version__
from atf.cli.output import say
from atf.metrics.metrics import Metrics
from atf.metrics.server import MetricsServer
from atf.metrics.table import ROLES
from atf.process.metrics_access import MayRead, everybody
from atf.store.store import Store

from .ports import metrics_if_taken


@dataclass
class _OneProcess:
    """What the server of metrics watches."""

    metrics: Metrics
    read_gauges: Callable[[], Coroutine[Any, Any, None]]
    may_read: MayRead = everybody
    serves: bool = True


async def serve_metrics(
    last: AsyncExitStack,
    frontend: str,
    store: Store,
    read_gauges: Callable[[], Coroutine[Any, Any, None]],
) -> str:
    """Serves what all roles count until `last` is closed, where the frontend's would be; gives host:port. Empty: it is switched off."""
    listen = metrics_if_taken("frontend", frontend, os.environ, say)
    if listen == "none":
        return ""
    store.metrics.begin(ROLES, __version__, platform.python_version())
    server = MetricsServer(_OneProcess(store.metrics, read_gauges), asyncio.get_running_loop())
    await server.start(listen)
    last.callback(server.close)
    return server.address
