"""Reads and checks a store's URL. Connects to nothing.

    redis://[user:password@]host[:port][/db]                                one server; rediss:// with TLS
    unix:///path                                                            one server, on this machine; # % ? as %23 %25 %3F
    redis+sentinel://[user:password@]host[:port],host[:port]/master[/db]    the master that the Sentinels name
    redis+cluster://[user:password@]host[:port],host[:port]                 a Redis Cluster, found by any of its nodes

rediss+sentinel:// and rediss+cluster:// are the same with TLS. Options of the connections follow a question mark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes

from redis.asyncio.connection import Connection, SSLConnection, parse_url

from atf.errors import ConfigError

from .store_tls import TlsConnection

FORMS: Final = (
    "redis://HOST:PORT, rediss://HOST:PORT, unix:///PATH, redis+sentinel://HOST:PORT,HOST:PORT,HOST:PORT/MASTER or"
    " redis+cluster://HOST:PORT,HOST:PORT"
)
_REDIS_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@,\s]+)(?::([0-9]{1,5}))?")
_URL: Final = re.compile(r"[A-Za-z0-9+.-]*://([^/?#]*)([^?#]*)(?:\?([^#]*))?")
_MASTER: Final = re.compile(r"[A-Za-z0-9._-]+")
_OF_SENTINELS: Final = "sentinel_"
_HIDDEN: Final = "..."

Host = tuple[str, int]
"""A name or address, and a port."""


@dataclass(frozen=True)
class StoreAddress:
    """A redis URL, understood."""

    kind: str
    """single, sentinel or cluster."""
    where: str
    """For people: without user, password and options."""
    options: Mapping[str, Any]
    """Of every connection to a server of the store, as the redis library takes them; of a single one, its address too."""
    hosts: tuple[Host, ...] = ()
    """Sentinels, or nodes of the cluster."""
    master: str = ""
    """The name that the Sentinels know the master by."""
    sentinel_options: Mapping[str, Any] = field(default_factory=dict)
    """Of every connection to a Sentinel."""


def parse(url: str) -> StoreAddress:
    """Reads a redis URL.

    Raises:
        ConfigError: it has none of the forms; the message says which part is wrong, and never tells a password.
    """
    try:
        scheme = url.partition("://")[0]
        name, _, kind = scheme.partition("+")
        if kind in {"sentinel", "cluster"} and name in {"redis", "rediss"}:
            return _of_many(url, name, kind)
        if scheme not in {"redis", "rediss", "unix"}:
            raise ValueError(
                "it begins with none of redis://, rediss://, unix://, redis+sentinel:// and redis+cluster://"
            )
        return _of_one(url, scheme)
    except (ValueError, TypeError) as error:
        shown, why = safe_url(url), str(error)
        if shown.endswith(_HIDDEN):  # the library's words may tell a piece of the password then
            why = "in a user or password write other characters than letters and digits as %XX"
        raise ConfigError(f"redis_url = {shown!r}: {why}; write {FORMS}") from None


class _Parts(NamedTuple):
    """What stands between the marks of a URL."""

    netloc: str
    path: str
    query: str


def _split(url: str) -> _Parts:
    """Splits a URL. urllib's own urlsplit takes a list of hosts only as long as none of them is in brackets."""
    match = _URL.match(url)
    return _Parts(match[1], match[2], match[3] or "") if match else _Parts("", url, "")


def _of_one(url: str, scheme: str) -> StoreAddress:
    options = dict(parse_url(url))
    parts = _split(url)
    if scheme == "unix":
        if not options.get("path"):
            raise ValueError("it names no socket")
        options["path"] = os.fsdecode(unquote_to_bytes(parts.path))  # a name need not be UTF-8
    else:
        if re.search(r":0*$", parts.netloc.rpartition("@")[2]):
            raise ValueError("the port is missing")
        if not re.fullmatch(r"/?[0-9]*", parts.path):
            raise ValueError(f"the database {parts.path[1:]!r} is no number")
    return StoreAddress("single", safe_url(url), _checked(options))


def _of_many(url: str, scheme: str, kind: str) -> StoreAddress:
    parts = _split(url)
    user, at, named = parts.netloc.rpartition("@")
    default = _SENTINEL_PORT if kind == "sentinel" else _REDIS_PORT
    hosts = tuple(_host(each, default) for each in named.split(","))
    path = [unquote(each) for each in parts.path.split("/")[1:]]
    if path and not path[-1]:
        path.pop()
    master = ""
    if kind == "sentinel":
        if not path or not _MASTER.fullmatch(path[0]):
            raise ValueError("after the Sentinels, name the master as they know it")
        master = path.pop(0)
    if len(path) > 1 or not all(each.isascii() and each.isdigit() for each in path):
        raise ValueError("after that, only the number of a database may follow")
    db = int(path[0]) if path else 0
    if kind == "cluster" and db:
        raise ValueError(f"a cluster has no database {db}, only 0")
    query = f"?{parts.query}" if parts.query else ""
    # the library reads users, options and TLS settings as it does of one server; the address is put in per server
    options = dict(parse_url(f"{scheme}://{user}{at}{quote('host')}/{db}{query}"))
    for name in ("host", "port"):
        options.pop(name, None)
    own = {name.removeprefix(_OF_SENTINELS): value for name, value in options.items() if name.startswith(_OF_SENTINELS)}
    options = {name: value for name, value in options.items() if not name.startswith(_OF_SENTINELS)}
    if own and (kind != "sentinel" or own.keys() - {"username", "password"}):
        raise ValueError(f"there is no option {_OF_SENTINELS}{min(own)}")
    sentinels = {name: value for name, value in options.items() if name not in {"username", "password", "db"}} | own
    return StoreAddress(kind, safe_url(url), _checked(options), hosts, master, _checked(sentinels))


def _host(text: str, default: int) -> Host:
    match = _HOST.fullmatch(text)
    if match is None or (match[2] and not 1 <= int(match[2]) <= 65_535):
        raise ValueError(f"{text!r} is no HOST:PORT" if text else "a HOST:PORT is missing")
    return match[1].strip("[]"), int(match[2] or default)


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """The options, if the library's connections take them all."""
    if options.get("connection_class") is SSLConnection:
        options["connection_class"] = TlsConnection
    kind = options.get("connection_class", Connection)
    try:
        kind(**{name: value for name, value in options.items() if name != "connection_class"})
    except TypeError as error:
        name = str(error).rpartition("'")[0].rpartition("'")[2]
        raise ValueError(f"there is no option {name}") from None
    return options


def safe_url(url: str) -> str:
    """A redis URL without user, password and options."""
    scheme, slashes, rest = url.partition("://")
    parts = _split(url)
    if not slashes:
        return _HIDDEN if "@" in url else url
    if "@" in rest and "@" not in parts.netloc and (parts.netloc or scheme != "unix"):
        return f"{scheme}{slashes}{_HIDDEN}"  # a password with a character that ends the part it stands in
    return f"{scheme}{slashes}{parts.netloc.rpartition('@')[2]}{parts.path}"
