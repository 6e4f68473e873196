"""TLS of what a process serves by HTTP: with the certificate of its gRPC server, which is read again when it has changed."""

from __future__ import annotations

import ssl
from typing import Any

from atf.config.settings import SecuritySettings
from atf.errors import ConfigError
from atf.log import get_logger

from .tls_files import WatchedFiles, read_files

_log = get_logger()


def http_context(settings: SecuritySettings) -> ssl.SSLContext | None:
    """What connections are wrapped with; None: they are plain. It asks for no certificate: readers show a token.

    Raises:
        ConfigError: a file can't be read, or the key is another's.
    """
    if not settings.tls_cert:
        return None
    paths = [settings.tls_cert, settings.tls_key]
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
    context.load_cert_chain(*paths)
    return context
