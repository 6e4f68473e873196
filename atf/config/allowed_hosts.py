"""Decides which hosts the built-in lambda `atf/http` may call: an allow-list, closed by default. Pure; it resolves no name.

    api.example.com          this host, at every port
    api.example.com:8443     this host at this port alone
    *.example.com            every host below example.com, not example.com itself
    10.0.0.7:80  [::1]:8080  an address
    *                        any host of the public internet

An entry of a name stands for whatever the name resolves to: whoever lists one trusts its DNS. `*` lists none, so what it allows must resolve to
a public address. No name leads to link-local addresses, where clouds give credentials to whoever asks: these need an entry of their own. The text of a URL is brought into one form before it is
compared, and what other programs would read as another host, such as 127.1 or 0x7f000001, is refused rather than guessed.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final, NamedTuple, Self

from atf.errors import ConfigError, InvalidArgument

DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_AUTHORITY: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(.*))?", re.DOTALL)
_MAX_HOST_CHARS: Final = 253

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_STANDS_FOR_IPV4: Final = tuple(
    map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96"))
)
"""Whose last 32 bits are an address of IPv4: translated by NAT64 and SIIT, compatible, mapped."""
_METADATA: Final = {"168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"}
"""Where clouds that use no link-local address tell a machine its credentials."""


class _AllowedHost(NamedTuple):
    host: str
    below: bool
    """Whether it stands for the hosts below this one."""
    port: int | None
    """None: every port."""


class AllowedHosts:
    """An allow-list as it was read. Equal ones share their connections."""

    def __init__(self, entries: tuple[_AllowedHost, ...], *, everything: bool = False) -> None:
        self._entries = entries
        self._everything = everything

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AllowedHosts):
            return NotImplemented
        return (self._entries, self._everything) == (other._entries, other._everything)

    def __hash__(self) -> int:
        return hash((self._entries, self._everything))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads entries with commas between them.

        Raises:
            ConfigError: one is none; the message names it.
        """
        words = [word.strip() for word in text.split(",") if word.strip()]
        return cls(tuple(_entry(word) for word in words if word != "*"), everything="*" in words)

    def allows(self, host: str, port: int) -> bool:
        """Whether a host, as `split_authority` gives it, may be called at a port, as far as that can be said before its name is looked up."""
        if self._lists(host, port):
            return True
        address = _address(host.strip("[]"))
        return self._everything and (address is None or _is_public(address))

    def allows_address(self, host: str, port: int, found: str) -> bool:
        """Whether a name, as `split_authority` gives it, may be called at an address that it was found to have."""
        address = _address(found)
        if address is None or address.is_link_local or str(address) in _METADATA:
            return False
        return self._lists(host, port) or (self._everything and _is_public(address))

    def _lists(self, host: str, port: int) -> bool:
        return any(
            each.port in {None, port} and (host.endswith(f".{each.host}") if each.below else host == each.host)
            for each in self._entries
        )


def _address(text: str) -> _Address | None:
    """An address, that of IPv4 where one of IPv6 stands for it; None: it is a name."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if any(address in each for each in _STANDS_FOR_IPV4):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.sixtofour or address


def _is_public(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address.is_site_local:
        return False
    return address.is_global and not address.is_multicast and str(address) not in _METADATA


def split_authority(authority: str) -> tuple[str, int | None]:
    """The host and the port of a URL's authority, the host in the one form that is compared; None: no port is named.

    Raises:
        InvalidArgument: it is neither a host's name nor an address, or the port is none.
    """
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise InvalidArgument(f"{authority[:80]!r} is no host; write an IPv6 address in brackets, such as [::1]")
    port = match[2]
    if port is not None and (not _PORT.fullmatch(port) or not 1 <= int(port) <= 65_535):
        raise InvalidArgument(f"port {port[:20]!r}: use 1 to 65535")
    return _host(match[1]), None if port is None else int(port)


def _host(text: str) -> str:
    if text.startswith("["):
        try:
            if "%" in text:
                raise ValueError
            return f"[{ipaddress.IPv6Address(text[1:-1])}]"
        except ValueError:
            raise InvalidArgument(f"{text[:80]!r} is no IPv6 address") from None
    if not text.isascii():
        raise InvalidArgument(f"host {text[:80]!r}: write a name of other letters in its ASCII form, xn--…")
    host = text.lower().removesuffix(".")
    labels = host.split(".")
    if len(host) > _MAX_HOST_CHARS or not all(_LABEL.fullmatch(label) for label in labels):
        raise InvalidArgument(f"{text[:80]!r} is no host's name")
    if _NUMBER.fullmatch(labels[-1]):  # as URLs are read: then the whole is an address
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise InvalidArgument(f"host {text[:80]!r}: write an address as four decimal numbers, 127.0.0.1") from None
    return host


def _entry(word: str) -> _AllowedHost:
    try:
        if "/" in word or "@" in word:
            raise InvalidArgument("name a host, such as api.example.com or api.example.com:8443, not a URL")
        below = word.startswith("*.")
        host, port = split_authority(word[2:] if below else word)
        if below and (host.startswith("[") or _NUMBER.fullmatch(host.rpartition(".")[2])):
            raise InvalidArgument("nothing lies below an address")
    except InvalidArgument as error:
        raise ConfigError(f"http_allow: {word[:80]!r}: {error}") from None
    return _AllowedHost(host, below, port)
