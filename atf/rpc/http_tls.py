"""TLS of what a process serves by HTTP: with the certificate of its gRPC server, which is read again when it has changed."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from atf.config.settings import SecuritySettings
from atf.errors import ConfigError
from atf.log import get_logger

from .tls_files import WatchedFiles, read_files

_log = get_logger()


def http_context(settings: SecuritySettings, *, of_callers: bool = False) -> ssl.SSLContext | None:
    """What connections are wrapped with; None: they are plain.

    Args:
        settings: the certificate, and whom it asks for one.
        of_callers: whether it serves those who call the gRPC server as well. With auth = mtls they show a certificate here, too; people's browsers,
            and what reads metrics or asks whether the process lives, show none.

    Raises:
        ConfigError: a file can't be read, or the key is another's.
    """
    if not settings.tls_cert:
        return None
    asks = of_callers and settings.auth == "mtls"
    paths = [settings.tls_cert, settings.tls_key, *([settings.tls_client_ca] if asks else [])]
    files = WatchedFiles(paths)
    files.changed()
    first = current = _made(paths)

    def renew(
        connection: Any, _name: str | None, _context: ssl.SSLContext
    ) -> None:  # for each handshake, also without a name
        nonlocal current
        if files.changed():
            try:
                current = _made(paths)
            except ConfigError as error:
                files.look_again()  # a certificate and its key are two files: one may be new, and the other on its way
                _log.warning("the new certificate can't be taken yet", error=str(error))
        connection.context = current

    first.sni_callback = renew
    return first


def _made(paths: list[str]) -> ssl.SSLContext:
    read_files(paths)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(*paths[:2])
    for authority in paths[2:]:
        context.load_verify_locations(authority)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def names_in(certificate: Mapping[str, Any] | None) -> list[str]:
    """The names in a caller's certificate, which was checked.

    Args:
        certificate: as `ssl` gives it; None: none was shown.
    """
    found = certificate or {}
    common = (value for part in found.get("subject", ()) for name, value in part if name == "commonName")
    return [*(value for _, value in found.get("subjectAltName", ())), *common]
