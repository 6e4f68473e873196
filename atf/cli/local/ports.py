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
LISTENING: Final[dict[str, type[Any]]] = {**ROLES, "ui": UiSettings}
"""These, and the pages for people, which no role needs."""


def free_if_taken(role: str, free: bool, env: Mapping[str, str], say: Say) -> str:
    """Where a role is to listen: as it is set; on a free port where the default one is taken, or with `free` anyway."""
    settings = LISTENING[role]
    default: str = settings().listen
    wanted: str = load(settings, table=role.replace("-", "_"), env=env).listen
    host, _, port = wanted.rpartition(":")
    if free:
        return f"{host}:0"
    if wanted == default and is_taken(host, int(port)):
        say(role, f"port {port} is taken; it will listen on a free one")
        return f"{host}:0"
    return wanted


def metrics_if_taken(role: str, listen: str, env: Mapping[str, str], say: Say) -> str:
    """Where a role that listens there is to serve its metrics: as it is set; on a free port where the one that follows from `listen` is taken."""
    set_to: str = load(ROLES[role], table=role.replace("-", "_"), env=env).metrics_listen
    wanted = metrics_address(ROLES[role](listen=listen, metrics_listen=set_to))
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
