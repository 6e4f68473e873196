"""TLS of connections to the store. The files that its URL names are read again when they have changed: connections from then on go by the new ones.

A connection that stands holds: neither side looks at certificates again. Until a certificate and its key fit each other, what was read before counts.
"""

from __future__ import annotations

import ssl
from functools import lru_cache
from typing import Any, Final

import redis.connection as blocking
import redis.exceptions as rx
from redis.asyncio.connection import RedisSSLContext, SSLConnection

from atf.log import get_logger
from atf.rpc.tls_files import WatchedFiles

_MOST: Final = 16
"""Of contexts that are kept: a process has one store, and perhaps Sentinels of it."""
_OPTIONS: Final = "ssl_"
_log = get_logger()


class TlsConnection(SSLConnection):
    """A connection by TLS of the library's asyncio half."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.ssl_context = _shared(options)


class BlockingTlsConnection(blocking.SSLConnection):
    """The same of its blocking half."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.tls = _shared(options)

    def _wrap_socket_with_ssl(self, sock: Any) -> ssl.SSLSocket:
        return self.tls.get().wrap_socket(sock, server_hostname=self.host)


class FollowingContext(RedisSSLContext):
    """What connections are wrapped with, made anew when a file has changed.

    Args:
        said: what a URL says, as the library has read it.
    """

    def __init__(self, said: RedisSSLContext) -> None:
        for name in RedisSSLContext.__slots__:
            setattr(self, name, getattr(said, name))
        paths = [each for each in (said.ca_certs, said.certfile, said.keyfile) if each]
        self._files = WatchedFiles(paths) if paths else None

    def get(self) -> ssl.SSLContext:
        """The newest that could be made.

        Raises:
            rx.ConnectionError: none could be yet; the sentence says why.
        """
        changed = self._files is not None and self._files.changed()
        if changed or self.context is None:
            try:
                self.context = self._made()
            except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
                why = f"the files of ssl_ca_certs, ssl_certfile and ssl_keyfile can't be used: {error}"
                if self.context is None or self._files is None:
                    raise rx.ConnectionError(why) from None
                self._files.look_again()  # a certificate and its key are two files: one may be new, and the other on its way
                _log.warning("the store's new certificate can't be taken yet", error=why)
        return self.context

    def _made(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = self.min_version or ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_hostname
        context.verify_mode = self.cert_reqs
        for flag in self.include_verify_flags or ():
            context.verify_flags |= flag
        for flag in self.exclude_verify_flags or ():
            context.verify_flags &= ~flag
        if self.ca_certs or self.ca_data or self.ca_path:  # those alone, and not who is known to the machine
            context.load_verify_locations(self.ca_certs, self.ca_path, self.ca_data)
        else:
            context.load_default_certs()
        if self.certfile or self.keyfile:
            context.load_cert_chain(self.certfile or "", self.keyfile, self.password)
        if self.ciphers is not None:
            context.set_ciphers(self.ciphers)
        return context


def _shared(options: dict[str, Any]) -> FollowingContext:
    own = {name: tuple(each) if isinstance(each, list) else each for name, each in options.items()}
    return shared_context(tuple(sorted(each for each in own.items() if each[0].startswith(_OPTIONS))))


@lru_cache(_MOST)
def shared_context(options: tuple[tuple[str, Any], ...]) -> FollowingContext:
    """The one for all connections with these `ssl_…` options."""
    return FollowingContext(SSLConnection(**dict(options)).ssl_context)
