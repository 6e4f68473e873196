"""A server's certificate, which is read again when its files have changed: connections from then on get the new one, and no call is cut."""

from __future__ import annotations

from typing import Any

import grpc

from atf.config.settings import SecuritySettings
from atf.errors import ConfigError
from atf.log import get_logger

from .tls_files import WatchedFiles, read_files

_log = get_logger()


def server_credentials(settings: SecuritySettings) -> Any | None:
    """What gRPC takes for a server; None: it has no TLS.

    Raises:
        ConfigError: a file can't be read, or the key is another's.
    """
    if not settings.tls_cert:
        return None
    asks = settings.auth == "mtls"
    paths = [settings.tls_cert, settings.tls_key, *([settings.tls_client_ca] if asks else [])]
    files = WatchedFiles(paths)
    files.changed()
    first = _made(read_files(paths))

    def fetch() -> Any | None:  # gRPC asks at each connection; None: as before
        if not files.changed():
            return None
        try:
            return _made(read_files(paths))
        except ConfigError as error:
            files.look_again()  # a certificate and its key are two files: one may be new, and the other on its way
            _log.warning("the new certificate can't be taken yet", error=str(error))
            return None

    return grpc.dynamic_ssl_server_credentials(first, fetch, require_client_authentication=asks)


def _made(contents: list[bytes]) -> Any:
    chain, key, *roots = contents
    return grpc.ssl_server_certificate_configuration([(key, chain)], root_certificates=roots[0] if roots else None)
