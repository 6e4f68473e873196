"""Serves /metrics, /livez and /readyz on threads beside the role's loop, which waits for none of it.

    /metrics   every metric of the process, as text
    /livez     200 while the loop turns; it never asks the task store
    /readyz    200 from when the role serves until it is asked to end, also while the task store is away: calls are answered with UNAVAILABLE then

A connection that says nothing for IDLE_S is closed, and there are MAX_CONNECTIONS at most: nobody can fill the process by being slow.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from atf.errors import ConfigError
from atf.log import get_logger
from atf.rpc.listen_address import free_address

from .exposition import registry_of
from .metrics import Metrics

LIVE_S: Final = 5.0
"""Seconds that the loop has to answer /livez in; a loop that stands still for longer lets leases and calls run out."""
READ_S: Final = 2.0
"""Seconds that a scrape waits for what is read anew for it; then it shows what was there, or nothing."""
IDLE_S: Final = 10.0
MAX_CONNECTIONS: Final = 16

_log = get_logger(duty="metrics")


class Watched(Protocol):
    """The process whose metrics are served."""

    metrics: Metrics

    @property
    def serves(self) -> bool:
        """Whether it serves now."""
        ...

    def read_gauges(self) -> Coroutine[Any, Any, None]:
        """Brings gauges up to date; runs on the role's loop."""
        ...


class MetricsServer:
    """The HTTP server of one process.

    Args:
        process: what it tells of.
        loop: the process's.

    Attributes:
        address: host:port.
    """

    def __init__(self, process: Watched, loop: asyncio.AbstractEventLoop) -> None:
        self.address = ""
        self._process, self._loop = process, loop
        self._metrics = make_wsgi_app(registry_of(process.metrics))
        self._server: _Server | None = None

    async def start(self, listen: str) -> None:
        """Listens.

        Raises:
            ConfigError: it can't; the message says why and what to change.
        """
        host, port = await free_address(listen, "metrics_listen")
        found = await self._loop.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
        family, *_, address = found[0]
        try:
            self._server = _Server(family, address[:2])
        except OSError as error:  # it was free a moment ago
            raise ConfigError(
                f"can't listen on {listen}: {error.strerror}. Choose another address for metrics_listen"
            ) from None
        self._server.set_app(self.answer)
        self.address = f"{host}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.run, name="metrics", daemon=True).start()

    def close(self) -> None:
        """Listens no more. What is being answered may go on until the process ends."""
        if self._server is not None:
            self._server.end()

    def answer(self, asked: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """One request; runs on a thread of its own."""
        path = asked["PATH_INFO"]
        if path == "/metrics":
            self._bring_up_to_date()
            found: Iterable[bytes] = self._metrics({**asked, "QUERY_STRING": ""}, start)
            return found
        if path == "/livez":
            return _say(start, self._turns(), "the loop turns", f"the loop has not turned for {LIVE_S:g} s")
        if path == "/readyz":
            return _say(start, self._process.serves, "serves", "it does not serve yet, or is about to end")
        start("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"here are /metrics, /livez and /readyz\n"]

    def _turns(self) -> bool:
        turned = threading.Event()
        try:
            self._loop.call_soon_threadsafe(turned.set)
        except RuntimeError:  # it is closed
            return False
        return turned.wait(LIVE_S)

    def _bring_up_to_date(self) -> None:
        reading = self._process.read_gauges()
        try:
            asyncio.run_coroutine_threadsafe(reading, self._loop).result(READ_S)
        except TimeoutError:
            pass  # the store is slow, or the loop is
        except Exception as error:  # noqa: BLE001  what else there is to see is shown all the same
            reading.close()
            _log.debug("gauges can't be read", error=repr(error))


def _say(start: Callable[..., Any], well: bool, yes: str, no: str) -> list[bytes]:
    start("200 OK" if well else "503 Service Unavailable", [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{yes if well else no}\n".encode()]


class _Handler(WSGIRequestHandler):
    timeout = IDLE_S

    def log_message(self, *_: object) -> None:
        """A scrape is no news."""


class _Server(ThreadingWSGIServer):
    """A thread for each connection, and so many of these at most."""

    request_queue_size = MAX_CONNECTIONS

    def __init__(self, family: int, address: Any) -> None:
        self.address_family = socket.AddressFamily(family)
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._ended = False
        super().__init__(address, _Handler)

    def run(self) -> None:
        """Takes connections until its end. Unlike `serve_forever`, it looks at nothing while there are none."""
        while not self._ended:
            self.handle_request()

    def end(self) -> None:
        """Wakes `run`, which ends."""
        self._ended = True
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def server_bind(self) -> None:
        """As of a plain server: HTTPServer's own looks up the host's name, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

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
