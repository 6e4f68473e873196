"""Answers HTTP connections of a listening socket on threads, and renders metrics. Loaded when somebody first connects (server.py)."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from atf.log import get_logger

from .exposition import registry_of
from .metrics import Metrics

IDLE_S: Final = 10.0
MAX_CONNECTIONS: Final = 16

Answer = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""Answers a request, as WSGI has it."""

_log = get_logger(duty="metrics")


def rendering(metrics: Metrics) -> Answer:
    """What answers a request with all metrics of a process."""
    found: Answer = make_wsgi_app(registry_of(metrics))
    return found


class _Handler(WSGIRequestHandler):
    timeout = IDLE_S

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
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)
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

    def verify_request(self, _request: Any, _client: Any) -> bool:
        return self._room.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, *_: object) -> None:
        """Somebody hung up."""
        _log.debug("a connection broke off", exc_info=True)
