"""Tells the address of a task store from that of a frontend, without any library of the store's."""

from __future__ import annotations

import re
from typing import Final

from atf.errors import ConfigError

_OF_STORE: Final = re.compile(r"(?:rediss?|unix|rediss?\+(?:sentinel|cluster))://")


def is_store_url(address: str) -> bool:
    """Whether an address is a task store's: redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://."""
    return _OF_STORE.match(address) is not None


def has_one_server(url: str) -> bool:
    """Whether a store's address names its only server, rather than Sentinels or nodes of a cluster."""
    return "+" not in url.partition("://")[0]


def shown_url(url: str) -> str:
    """A store's address without user, password and options; any other as it is."""
    if not is_store_url(url):
        return url
    scheme, slashes, rest = url.partition("://")
    return f"{scheme}{slashes}{rest.partition('?')[0].rpartition('@')[2]}"


def has_password(url: str) -> bool:
    """Whether a store's address holds a password, among its options or before its host."""
    user, at, _ = url.partition("?")[0].partition("://")[2].rpartition("@")
    return bool(at and ":" in user) or "password=" in url.partition("?")[2]


def check_no_store(address: str, role: str) -> None:
    """Lets pass the address of a frontend.

    Raises:
        ConfigError: it is a task store's; the message never tells it, since it may hold a password.
    """
    if is_store_url(address):
        raise ConfigError(
            f"frontend (ATF_FRONTEND) is the address of a task store, and {role} takes none: where the code of users runs, nothing"
            " may hold the key to everybody's tasks. Give the HOST:PORT of a frontend"
        )
