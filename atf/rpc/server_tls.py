"""A server's certificate, which is read again when its files have changed: connections from then on get the new one, and no call is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc

from atf.config.settings import SecuritySettings
from atf.errors import ConfigError
from atf.log import get_logger

from .caller_security import WatchedFiles

_log = get_logger()


def server_credentials(settings: SecuritySettings) -> Any | None:
    """What gRPC takes for a server; None: it has no TLS.

    Raises:
        ConfigError: a file can't be read.
    """
    if not settings.tls_cert:
        return None
    asks = settings.auth == "mtls"
    paths = [settings.tls_cert, settings.tls_key, *([settings.tls_client_ca] if asks else [])]
    files = WatchedFiles(paths)
    try:
        files.changed()
        first = _read(paths)
    except OSError as error:
        raise ConfigError(
            f"{error.filename}: a file of tls_cert, tls_key or tls_client_ca can't be read: {error.strerror}"
        ) from None

    def fetch() -> Any | None:  # gRPC asks at each connection; None: as before
        try:
            return _read(paths) if files.changed() else None
        except OSError as error:
            _log.warning("the new certificate can't be read", error=str(error))
            return None

    return grpc.dynamic_ssl_server_credentials(first, fetch, require_client_authentication=asks)


def _read(paths: list[str]) -> Any:
    chain, key, *roots = (Path(each).read_bytes() for each in paths)
    return grpc.ssl_server_certificate_configuration([(key, chain)], root_certificates=roots[0] if roots else None)
