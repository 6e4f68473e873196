"""Says where each role of a cluster on this machine listens: as it is set, or on a free port where another process has the default one."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, Final

from atf.config.loading import load
from atf.config.settings import (
    ControllerSettings,
    FrontendSettings,
    HscSettings,
    ServerSettings,
    StoreConsumerSettings,
    UiSettings,
    metrics_address,
)

from .role_process import Say

ROLES: Final[dict[str, type[Any]]] = {
    "hsc": HscSettings,
    "frontend": FrontendSettings,
    "store-consumer": StoreConsumerSettings,
    "controller": ControllerSettings,
}
"""The roles with a server, in the order of their start; the end goes the other way, the store last."""
COMPACT: Final[dict[str, str]] = {
    **dict.fromkeys(("hsc", "frontend", "store-consumer", "ui"), "server"),
    "controller": "worker",
}
"""The process that does a role's work in a compact cluster."""
_LISTENING: Final[dict[str, type[Any]]] = {
    **ROLES,
    "ui": UiSettings,
    "server": ServerSettings,
    "worker": ControllerSettings,
}
_TABLES: Final = {"store-consumer": "store_consumer", "worker": "controller"}
"""Of atf.toml, where a process has another name there."""


def free_if_taken(role: str, free: bool, env: Mapping[str, str], say: Say, setting: str = "listen") -> str:
    """Where a role is to listen: as it is set; on a free port where the default one is taken, or with `free` anyway."""
    settings = _LISTENING[role]
    default: str = getattr(settings(), setting)
    wanted: str = getattr(load(settings, table=_TABLES.get(role, role), env=env), setting)
    host, _, port = wanted.rpartition(":")
    if free:
        return f"{host}:0"
    if wanted == default and is_taken(host, int(port)):
        say(role, f"port {port} is taken; it will listen on a free one")
        return f"{host}:0"
    return wanted


def metrics_if_taken(role: str, listen: str, env: Mapping[str, str], say: Say) -> str:
    """Where a role that listens there is to serve its metrics: as it is set; on a free port where the one that follows from `listen` is taken."""
    settings = _LISTENING[role]
    set_to: str = load(settings, table=_TABLES.get(role, role), env=env).metrics_listen
    wanted = metrics_address(settings(listen=listen, metrics_listen=set_to))
    host, _, port = wanted.rpartition(":")
    if set_to == "auto" and port != "0" and is_taken(host, int(port)):
        say(role, f"port {port} is taken; its metrics will be on a free one")
        return f"{host}:0"
    return wanted or "none"


def is_taken(host: str, port: int) -> bool:
    """Whether another socket has a port."""
    with socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(
                (host.strip("[]"), port)
            )  # without listening, which would refuse the port to a role that binds it just now
        except OSError:
            return True
    return False
