"""Decides which requests are answered, and with which headers: against other sites, other names of this machine, and content of others.

A page of another site may have a browser send anything to a loopback port. So:
    Host       must be a name of loopback, or one that the pages were told of: a name that was rebound to this machine is refused
    Origin     of a POST must be the very place that the page came from
    the token  of a POST stands in the form and in a cookie that other sites can neither read nor send (SameSite)
There is no CORS, so no other site reads an answer.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from atf.config.web import is_address, is_loopback
from atf.errors import AtfError

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
        " base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Tells other sites as little as no-referrer, under which a browser would send its own forms with "Origin: null".
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
    "Server": "atf",
}
"""Of every answer; a static file has a Cache-Control of its own."""

HSTS: Final = ("Strict-Transport-Security", "max-age=31536000")
"""Of what is answered by TLS: browsers come by it from then on. Not on loopback, whose other ports they would ask for TLS, too."""
CSRF_COOKIE: Final = "atf_csrf"
CSRF_FIELD: Final = "csrf"


class Refused(AtfError):
    """A request that the pages do not answer; the sentence says why."""

    code = "PERMISSION_DENIED"


class OwnHosts:
    """The names under which browsers may reach the pages.

    Args:
        listen: where they listen, host:port. Off loopback each address is one of theirs, too: no other site can have it.
        public: names that they were told of, each with its port where a proxy serves it at another one than 443.
    """

    def __init__(self, listen: str, public: frozenset[str]) -> None:
        host = listen.rpartition(":")[0].lower()
        self._public, self._listen = public, host
        self._names = frozenset(map(name_of, public))
        self._addresses = not is_loopback(host)

    def has(self, name: str) -> bool:
        """Whether a name, without its port, is one of them."""
        return (
            is_loopback(name) or name == self._listen or name in self._names or (self._addresses and is_address(name))
        )

    def behind_proxy(self, scheme: str, place: str) -> bool:
        """Whether a proxy may serve them at an origin, which then sends another Host: another port of that name may be anybody's."""
        return scheme == "https" and place.lower().removesuffix(":443") in self._public


def check_host(host: str, own: OwnHosts) -> None:
    """Whether a request was meant for this server.

    Raises:
        Refused: its Host names another one.
    """
    name = name_of(host)
    if not own.has(name):
        raise Refused(
            f"the host {name[:80]!r} is none of these pages'. If browsers reach them under it, name it in public_hosts"
        )


def check_origin(origin: str, host: str, own: OwnHosts, *, secure: bool) -> None:
    """Whether the page that sent a form is one of these.

    Args:
        origin: where that page came from.
        host: where the form was sent to.
        own: the pages' names.
        secure: whether it came by TLS: then that page did, too.

    Raises:
        Refused: it is another one's, or nobody says whose it is.
    """
    try:
        parts = urlsplit(origin)
    except ValueError:
        raise Refused(f"a form of {origin[:80]!r}, which is no origin") from None
    if parts.scheme not in {"https", *(() if secure else ("http",))} or not parts.netloc:
        raise Refused("a form without an Origin: use these pages in a browser, or the command that stands beside it")
    if parts.netloc.lower() != host.lower() and not own.behind_proxy(parts.scheme, parts.netloc):
        raise Refused(
            f"a form of {origin[:80]!r}, which is another site. If a proxy serves these pages there, by https, name its host in public_hosts, with its"
            " port unless that is 443"
        )


def check_token(sent: str, cookie: str) -> None:
    """Whether a form came from a page that this browser got.

    Raises:
        Refused: its token is missing or another one.
    """
    if not cookie or not hmac.compare_digest(sent.encode(errors="replace"), cookie.encode(errors="replace")):
        raise Refused("this form's token is missing or old: load its page again, and send the form from there")


def name_of(host: str) -> str:
    """A host without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()
