"""Serves /metrics, /livez and /readyz on threads beside the role's loop, which waits for none of it.

    /metrics   every metric of the process, as text; where auth is on, for a token that may read every namespace
    /livez     200 while the loop turns; it never asks the task store
    /readyz    200 from when the role serves until it is asked to end, also while the task store is away: calls are answered with UNAVAILABLE then

A request has 10 s to come, and there are 16 connections at most, 8 from one address: nobody can fill the process by being slow. What answers is loaded
when somebody first connects: a process that nobody scrapes spares 3 MiB.
"""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from atf.auth.routes import METRICS, ROUTES, Door
from atf.log import get_logger
from atf.rpc.listen_address import listening_socket

from .metrics import Metrics

if TYPE_CHECKING:
    import ssl

    from .http_server import Answer

LIVE_S: Final = 5.0
"""Seconds that the loop has to answer /livez in; a loop that stands still for longer lets leases and calls run out."""
READ_S: Final = 2.0
"""Seconds that a scrape waits for what is read anew for it; then it shows what was there, or nothing."""
_WAITING: Final = 16
"""Connections that nobody has taken yet, at most."""

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

    def may_read(self, shown: str, peer: str) -> Coroutine[Any, Any, str]:
        """Why whoever shows this, from there, may not read them; empty: they may. Runs on the role's loop."""
        ...


class MetricsServer:
    """The HTTP server of one process.

    Args:
        process: what it tells of.
        loop: the process's.
        tls: what connections are wrapped with; None: they are plain.

    Attributes:
        address: host:port.
    """

    def __init__(self, process: Watched, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None = None) -> None:
        self.address = ""
        self._process, self._loop, self._tls = process, loop, tls
        self._socket: socket.socket | None = None
        self._ended = False
        self._render: Answer

    async def start(self, listen: str) -> None:
        """Listens.

        Raises:
            ConfigError: it can't; the message says why and what to change.
        """
        host, listening = await listening_socket(listen, "metrics_listen", waiting=_WAITING)
        listening.setblocking(True)
        self._socket = listening
        self.address = f"{host}:{listening.getsockname()[1]}"
        threading.Thread(target=self._run, args=(listening,), name="metrics", daemon=True).start()

    def close(self) -> None:
        """Listens no more. What is being answered may go on until the process ends."""
        self._ended = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closes it

    def _run(self, listening: socket.socket) -> None:
        """Takes connections until the end. It looks at nothing while there are none."""
        with listening:
            select.select([listening], [], [])
            if self._ended:
                return
            from .http_server import HttpServer, rendering

            self._render = rendering(self._process.metrics)
            server = HttpServer(listening, self.answer, self._tls)
            while not self._ended:
                server.handle_request()

    def answer(self, asked: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """One request; runs on a thread of its own."""
        path = asked["PATH_INFO"]
        route = ROUTES.get((METRICS, "GET", path))
        if route is None:
            start("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"here are /metrics, /livez and /readyz\n"]
        if path == "/metrics":
            shown, address = asked.get("HTTP_AUTHORIZATION", ""), asked.get("REMOTE_ADDR", "")
            if why_not := self._why_not(shown, address) if route.door is Door.READER else "":
                start(
                    "401 Unauthorized",
                    [("Content-Type", "text/plain; charset=utf-8"), ("WWW-Authenticate", 'Bearer realm="atf"')],
                )
                return [f"{why_not}\n".encode()]
            self._bring_up_to_date()
            return self._render({**asked, "QUERY_STRING": ""}, start)
        if path == "/livez":
            return _say(start, self._turns(), "the loop turns", f"the loop has not turned for {LIVE_S:g} s")
        return _say(start, self._process.serves, "serves", "it does not serve yet, or is about to end")

    def _why_not(self, shown: str, address: str) -> str:
        peer = f"ipv6:[{address}]:0" if ":" in address else f"ipv4:{address}:0"
        try:
            return asyncio.run_coroutine_threadsafe(self._process.may_read(shown, peer), self._loop).result(READ_S)
        except (TimeoutError, RuntimeError):
            return "whether this token may read can't be known now: the process is busy, or about to end"

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
