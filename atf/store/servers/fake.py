"""The task store on fakeredis: tests, and `atf up --store memory`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import fakeredis

from .connection import Link

_KEPT: Final = 8
"""Connections that are kept at hand between calls."""


def fake_link(fake: Any, server: Callable[[], tuple[str, str]] = lambda: ("fake", "1")) -> Link:
    """A link to a fakeredis.FakeServer.

    Args:
        fake: the FakeServer.
        server: answers (run id, what it remembers: see ServerInfo.memory), since fakeredis has no INFO.
    """
    # As a server's connections are (Link.to), and kept as those: setting one up costs as much as several calls over it.
    pool = fakeredis.FakeAsyncRedis(server=fake, protocol=2).connection_pool
    pool.connection_kwargs["driver_info"] = None  # nobody lists the connections
    return Link(pool, "memory", lambda: fakeredis.FakeRedis(server=fake, protocol=2), server, keep=_KEPT)
