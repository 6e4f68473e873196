"""Decides which requests are answered, and with which headers: against other sites, other names of this machine, and content of others.

A page of another site may have a browser send anything to a loopback port. So:
    Host       must be a name of loopback, or one that a proxy was set to use: a name that was rebound to this machine is refused
    Origin     of a POST must be the very place that the page came from
    the token  of a POST stands in the form and in a cookie that other sites can neither read nor send (SameSite)
There is no CORS, so no other site reads an answer.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from atf.config.web import is_loopback
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

CSRF_COOKIE: Final = "atf_csrf"
CSRF_FIELD: Final = "csrf"


class Refused(AtfError):
    """A request that the pages do not answer; the sentence says why."""

    code = "PERMISSION_DENIED"


def check_host(host: str, public: frozenset[str]) -> None:
    """Whether a request was meant for this server.

    Raises:
        Refused: its Host names another one.
    """
    name = name_of(host)
    if not (is_loopback(name) or name in public):
        raise Refused(
            f"the host {name[:80]!r} is none of these pages'. If a proxy on this machine serves them under it, name it in public_hosts"
        )


def check_origin(origin: str, host: str, public: frozenset[str]) -> None:
    """Whether the page that sent a form is one of these.

    Raises:
        Refused: it is another one's, or nobody says whose it is.
    """
    parts = urlsplit(origin)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise Refused("a form without an Origin: use these pages in a browser, or the command that stands beside it")
    if parts.netloc.lower() != host.lower() and name_of(parts.netloc) not in public:
        raise Refused(f"a form of {parts.netloc[:80]!r}, which is another site")


def check_token(sent: str, cookie: str) -> None:
    """Whether a form came from a page that this browser got.

    Raises:
        Refused: its token is missing or another one.
    """
    if not cookie or not hmac.compare_digest(sent.encode(), cookie.encode()):
        raise Refused("this form's token is missing or old: load its page again, and send the form from there")


def name_of(host: str) -> str:
    """A host without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()
