"""Checks where the pages for people may be served, and under which names."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from atf.errors import ConfigError

_BASE_PATH: Final = re.compile(r"(/[A-Za-z0-9._~-]{1,64}){0,8}/?")
_EDITOR: Final = re.compile(
    r"(?!javascript|data|vbscript)[a-z][a-z0-9+.-]*://[^\s\"'<>]*\{path\}[^\s\"'<>]*\{line\}[^\s\"'<>]*"
)
_NAME: Final = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(:[1-9][0-9]{0,4})?")


def other_ways(listen: str) -> str:
    """How pages that listen on loopback are reached from elsewhere, for an error about an address of theirs."""
    port = listen.rpartition(":")[2][:5]
    return (
        f", or have the pages listen on 127.0.0.1:{port}, which a tunnel (ssh -L {port}:127.0.0.1:{port} HOST) reaches, or a proxy on this machine"
        " that signs people in (its name goes into public_hosts)"
    )


def is_loopback(host: str) -> bool:
    """Whether a host, without its port, is this machine by its own loopback."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_address(host: str) -> bool:
    """Whether a host, without its port, is an IP address rather than a name."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def check_base_path(path: str) -> None:
    """Whether a text is a path that URLs can begin with.

    Raises:
        ConfigError: it is none.
    """
    parts = path.split("/")
    if not _BASE_PATH.fullmatch(path) or "." in parts or ".." in parts:
        raise ConfigError(f"base_path = {path[:80]!r}: write a path such as /atf, of letters, digits and . _ ~ -")


def check_editor_url(url: str) -> None:
    """Whether a text is empty, or a URL with places for a file and a line.

    Raises:
        ConfigError: it is neither.
    """
    if url and not _EDITOR.fullmatch(url):
        raise ConfigError(
            f"editor_url = {url[:80]!r}: write a URL with {{path}} and {{line}} in it, such as vscode://file{{path}}:{{line}}"
        )


def host_names(text: str) -> frozenset[str]:
    """The host names of a list with commas between them, each with its port where it has one.

    Raises:
        ConfigError: one is no host name.
    """
    names = frozenset(each.strip().lower() for each in text.split(",") if each.strip())
    for each in names:
        if not _NAME.fullmatch(each):
            raise ConfigError(
                f"public_hosts = {each[:80]!r}: write host names, such as ops.example.com or ops.example.com:8443"
            )
    return names
