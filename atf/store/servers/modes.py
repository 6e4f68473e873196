"""Chooses the kind of connection that a store's address asks for; or one to fakeredis, in tests and for `atf up --store memory`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from atf.config.settings import StoreSettings

from .address import parse
from .blocking import BlockingLink
from .cluster import ClusterLink
from .connection import Link
from .sentinel import SentinelLink

_KEPT: Final = 8
"""Connections to fakeredis that are kept at hand between calls."""


def open_link(settings: StoreSettings, *, blocking: bool = False) -> Link:
    """The link to a store. Connects on first use.

    Args:
        settings: where it is.
        blocking: whether its calls block their thread; only where it is one server.

    Raises:
        ConfigError: the address of the store has no form that can be one.
    """
    address = parse(settings.redis_url)
    if blocking:
        return BlockingLink.over(address.options, address.where, settings)
    match address.kind:
        case "sentinel":
            return SentinelLink(address, settings)
        case "cluster":
            return ClusterLink(address, settings)
        case _:
            return Link.to(address.options, address.where, settings)


def fake_link(fake: Any, server: Callable[[], tuple[str, str]] = lambda: ("fake", "1")) -> Link:
    """A link to a fakeredis.FakeServer.

    Args:
        fake: the FakeServer.
        server: answers (run id, what it remembers: see ServerInfo.memory), since fakeredis has no INFO.
    """
    import fakeredis  # which only those have installed who use it

    # As a server's connections are (Link.to), and kept as those: setting one up costs as much as several calls over it.
    pool = fakeredis.FakeAsyncRedis(server=fake, protocol=2).connection_pool
    pool.connection_kwargs["driver_info"] = None  # nobody lists the connections
    return Link(pool, "memory", lambda: fakeredis.FakeRedis(server=fake, protocol=2), server, keep=_KEPT)
