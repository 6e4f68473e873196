"""Chooses the kind of connection that a store's address asks for."""

from __future__ import annotations

from atf.config.settings import StoreSettings

from .address import parse
from .cluster import ClusterLink
from .connection import Link
from .sentinel import SentinelLink


def open_link(settings: StoreSettings) -> Link:
    """The link to a store. Connects on first use.

    Raises:
        ConfigError: the address of the store has no form that can be one.
    """
    address = parse(settings.redis_url)
    match address.kind:
        case "sentinel":
            return SentinelLink(address, settings)
        case "cluster":
            return ClusterLink(address, settings)
        case _:
            return Link.to(address.options, address.where, settings)
