"""Measures when a process's certificates end, for its metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from atf.auth.certificate_ends import first_end
from atf.config.settings import SecuritySettings
from atf.metrics.metrics import Metrics
from atf.metrics.table import CERTIFICATE_EXPIRES
from atf.rpc.caller_security import SYSTEM
from atf.runtime import Runtime
from atf.task import US

EVERY_S: Final = 60.0
_FILES: Final = ("tls_cert", "tls_client_ca", "tls_ca")
_UNREADABLE: Final = -1.0


async def watch_certificates(settings: SecuritySettings, metrics: Metrics, runtime: Runtime) -> None:
    """Measures again and again, until it is cancelled."""
    while True:
        metrics.replace(CERTIFICATE_EXPIRES, seconds_left(settings, runtime.wall_us()))
        await asyncio.sleep(EVERY_S)


def seconds_left(settings: SecuritySettings, wall_us: int) -> dict[tuple[str, ...], float]:
    """By setting: seconds until the first certificate of its file ends."""
    paths = {name: getattr(settings, name) for name in _FILES}
    return {(name,): _left(path, wall_us) for name, path in paths.items() if path and path != SYSTEM}


def _left(path: str, wall_us: int) -> float:
    try:
        return first_end(Path(path).read_bytes()).timestamp() - wall_us / US
    except (OSError, ValueError):
        return _UNREADABLE
