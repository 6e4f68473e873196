"""Answers HTTP connections of a listening socket on threads, and renders metrics. Loaded when somebody first connects (server.py)."""

from __future__ import annotations

import io
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from atf.config.web import is_loopback
from atf.log import get_logger

from .exposition import registry_of
from .metrics import Metrics

HEAD_S: Final = 10.0
"""Seconds in which a request must have come, from when its connection was taken."""
MAX_CONNECTIONS: Final = 16
MAX_OF_ADDRESS: Final = 8
"""Of them from one address, so that it leaves some to others; this machine may have all, where a proxy asks for everybody."""

Answer = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""Answers a request, as WSGI has it."""

_log = get_logger(duty="metrics")


def rendering(metrics: Metrics) -> Answer:
    """What answers a request with all metrics of a process."""
    found: Answer = make_wsgi_app(registry_of(metrics))
    return found


class _Timely(io.RawIOBase):
    """What comes over a connection within HEAD_S; it is of no help to send it byte by byte."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._until = connection, time.monotonic() + HEAD_S

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(WSGIRequestHandler):
    timeout = HEAD_S

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_Timely(self.connection))

    def log_message(self, *_: object) -> None:
        """A scrape is no news."""


class HttpServer(ThreadingWSGIServer):
    """A thread for each connection, and so many of these at most.

    Args:
        listening: the socket, which listens already.
        answer: answers a request, on a thread of its own.
        tls: what connections are wrapped with; None: they are plain.
    """

    def __init__(self, listening: socket.socket, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._open: Counter[str] = Counter()
        """Connections by address."""
        self._counting = threading.Lock()
        self.address_family = listening.family
        super().__init__(listening.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_address = listening.getsockname()
        # Not by HTTPServer's own way, which looks up the host's name; that may take seconds.
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()
        self.set_app(answer)

    def get_request(self) -> tuple[socket.socket, Any]:
        accepted, address = self.socket.accept()
        if self._tls is not None:  # the handshake comes with the first read, on the connection's own thread
            accepted = self._tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
        return accepted, address

    def verify_request(self, _request: Any, client_address: Any) -> bool:
        host = client_address[0]
        with self._counting:
            if self._open.total() >= MAX_CONNECTIONS or (self._open[host] >= MAX_OF_ADDRESS and not is_loopback(host)):
                return False
            self._open[host] += 1
            return True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._counting:
                self._open -= Counter([client_address[0]])  # leaves out what is 0

    def handle_error(self, *_: object) -> None:
        """Somebody hung up."""
        _log.debug("a connection broke off", exc_info=True)
