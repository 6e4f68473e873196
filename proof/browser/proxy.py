"""A proxy in front of the pages, as people put one there: it hands on what lies below a path, under a name of its own, and knows nothing else."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

NAME: Final = "ops.example.test"
"""The name of its host; the browser is told that it is this machine."""
PATH: Final = "/atf"
_HOPS: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})
_WAIT_S: Final = 30


class _ProxyServer(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A browser hangs up when it leaves a page."""


@contextlib.contextmanager
def proxy_of(pages: str) -> Iterator[str]:
    """Hands on to the pages at host:port; gives the proxy's own address, as a browser has it."""

    class HandsOn(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._hand_on()

        def do_POST(self) -> None:
            self._hand_on()

        def log_message(self, *_: object) -> None:
            """It says nothing."""

        def _hand_on(self) -> None:
            if not self.path.startswith(f"{PATH}/") and self.path != PATH:
                self.send_error(404, "the proxy has nothing there")
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            upstream = http.client.HTTPConnection(pages, timeout=_WAIT_S)
            try:
                upstream.request(self.command, self.path, body, dict(self.headers))
                answer = upstream.getresponse()
                data = answer.read()
            finally:
                upstream.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _HOPS:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server: Any = _ProxyServer(("127.0.0.1", 0), HandsOn)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://{NAME}:{server.server_port}{PATH}"
    finally:
        server.shutdown()
        server.server_close()
