"""Looks whether a server can listen at an address, and says why not and what to change."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

from atf.config.store_urls import shown_url
from atf.errors import ConfigError


async def free_address(listen: str, setting: str = "listen") -> tuple[str, int]:
    """The host and the port of an address, on which nobody listened a moment ago.

    Args:
        listen: host:port.
        setting: the name of the setting that says so, for messages.

    Raises:
        ConfigError: it is not host:port, or nobody can listen there; the message says why and what to change.
    """
    host, port = split_address(listen, setting)
    await _probe(host, port, setting)
    return host, port


async def listening_socket(listen: str, setting: str = "listen", *, waiting: int = 128) -> tuple[str, socket.socket]:
    """The host of an address, and a socket that listens there; its accept() waits for nobody.

    Args:
        listen: host:port.
        setting: the name of the setting that says so, for messages.
        waiting: connections that nobody has taken yet, at most.

    Raises:
        ConfigError: as of `free_address`.
    """
    host, port = await free_address(listen, setting)
    found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    family, *_, address = found[0]
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setblocking(False)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(waiting)
    except OSError as error:  # it was free a moment ago
        listening.close()
        raise _refusal(host, port, setting, error) from None
    return host, listening


def split_address(listen: str, setting: str = "listen") -> tuple[str, int]:
    """The host, in brackets if it is of IPv6, and the port.

    Raises:
        ConfigError: it is not host:port.
    """
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(
            f"{setting} = {shown_url(listen)!r}: write host:port, such as 127.0.0.1:7401; port 0 takes a free one"
        )
    return host, int(port)


async def _probe(host: str, port: int, setting: str) -> None:
    """Binds the address once, since gRPC says only that it could not, not why."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:  # ValueError: a name that no resolver takes
        raise _refusal(host, port, setting, error) from None
    errors = [failed for each in found if (failed := _bind_error(*each)) is not None]
    taken = [error for error in errors if error.errno == errno.EADDRINUSE]
    if taken or len(errors) == len(found):  # "localhost" may have an address of IPv6 that the machine lacks
        raise _refusal(host, port, setting, (taken or errors)[0])


def _bind_error(family: int, kind: int, protocol: int, _name: str, address: Any) -> OSError | None:
    try:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(address)
            probe.listen()  # with SO_REUSEADDR, two may bind and only one may listen
    except OSError as error:
        return error
    return None


def _refusal(host: str, port: int, setting: str, error: OSError | ValueError) -> ConfigError:
    taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    why = f"port {port} is in use by another process" if taken else (getattr(error, "strerror", "") or str(error))
    choose = "Stop what holds it, or choose another address" if taken else "Choose another address"
    return ConfigError(
        f"can't listen on {host}:{port}: {why}. {choose} with"
        f" --{setting.replace('_', '-')} HOST:PORT (or ATF_{setting.upper()}, or `{setting}` in atf.toml); port 0 takes a free one"
    )
