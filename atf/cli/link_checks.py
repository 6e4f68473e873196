"""What `atf doctor` says of certificates and of links that others can read, from the settings of this host."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from atf.auth.certificate_ends import first_end
from atf.config.settings import SecuritySettings, StoreSettings
from atf.config.web import is_loopback
from atf.errors import ConfigError
from atf.rpc.caller_security import SYSTEM
from atf.rpc.tls_files import check_pair
from atf.store.servers.address import safe_url
from atf.store.servers.check_results import CheckResult, ok, refuse, warn

SOON_DAYS: Final = 30
_OF_STORE: Final = ("ssl_ca_certs", "ssl_certfile")
"""Options of a redis URL that name files with certificates."""
_CALLED: Final = ("server", "hsc", "frontend", "controller")


def certificates(security: SecuritySettings, redis_url: str, now: datetime) -> list[CheckResult]:
    """When each certificate that is set here ends."""
    files = {name: getattr(security, name) for name in ("tls_cert", "tls_client_ca", "tls_ca")}
    files |= {f"{name} of redis_url": path for name, path in _store_files(redis_url).items()}
    found = [_certificate(name, path, now) for name, path in files.items() if path and path != SYSTEM]
    if security.tls_cert:
        try:
            check_pair(security.tls_cert, security.tls_key)
        except ConfigError as error:
            found.append(refuse("certificate", "no pair", str(error), "give the key that belongs to the certificate"))
    return found


def plain_links(
    security: SecuritySettings, roles: Iterable[tuple[str, Any]], store: StoreSettings | None
) -> list[CheckResult]:
    """Which links with other machines are not encrypted.

    Args:
        security: of this host.
        roles: by name, their settings.
        store: where the task store is; None: unknown.
    """
    found = []
    for role, settings in roles:
        listens = getattr(settings, "listen", "")
        if listens and not security.tls_cert and not is_loopback(_host(listens)):
            mend = "set tls_cert and tls_key, as docs/how-to/tls.md says"
            found.append(warn("tls", f"{role} listens", f"{role} listens on {listens} without TLS", mend))
        for name in _CALLED:
            address = getattr(settings, name, "")
            away = [each for each in address.split(",") if each and not is_loopback(_host(each.strip()))]
            if away and not security.tls_ca and ":" in address:
                mend = "set tls_ca to the file with the certificates of those who sign the servers'"
                found.append(warn("tls", f"{role} calls", f"{role} calls its {name}, {away[0]}, without TLS", mend))
    if store is not None and (where := _plain_store(store.redis_url)):
        mend = (
            "write rediss:// where its server has TLS, with ssl_ca_certs and, if it asks, ssl_certfile and ssl_keyfile"
        )
        found.append(warn("tls", "store", f"the task store at {where} is reached without TLS", mend))
    return found


def _certificate(name: str, path: str, now: datetime) -> CheckResult:
    try:
        end = first_end(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it has no certificate that can be read"
        return refuse("certificate", "unreadable", f"{name} = {path}: {why}", "name a PEM file with certificates")
    days = (end - now).total_seconds() / 86_400
    text, mend = (
        f"{name} = {path} ends on {end:%Y-%m-%d %H:%M} UTC",
        "put a new one in its place; nothing need be restarted",
    )
    if days <= 0:
        return refuse("certificate", "expired", text.replace(" ends ", " ended "), mend)
    if days < SOON_DAYS:
        return warn("certificate", f"{days:.1f} days", text, mend)
    return ok("certificate", f"{days:.0f} days", text)


def _store_files(redis_url: str) -> dict[str, str]:
    options = parse_qs(redis_url.partition("?")[2])
    return {name: options[name][0] for name in _OF_STORE if name in options}


def _plain_store(redis_url: str) -> str:
    """Where a store is that is reached over a network without TLS, for people; else empty."""
    if redis_url.startswith(("rediss", "unix")):
        return ""
    shown = safe_url(redis_url)
    hosts = urlsplit(shown.replace("+sentinel", "").replace("+cluster", "")).netloc.split(",")
    return "" if all(is_loopback(_host(each)) for each in hosts) else shown


def _host(address: str) -> str:
    host, colon, port = address.rpartition(":")
    return host if colon and port.isdigit() else address


def now() -> datetime:
    """The time of this host, by which its certificates are judged."""
    return datetime.now(UTC)
