"""An application that was written for Dapr, made of nothing but Dapr's own package, whose environment it runs in.

    python -P proof/dapr/application.py PORT LEDGER

It takes its jobs by the package's extension for applications where that is there, else by the package's generated stubs. Of each event it
writes a line to LEDGER: {"name", "data", "port"}, and what else its callback is told. "fails-twice" fails the first two times.
"""

from __future__ import annotations

import json
import sys
from concurrent import futures
from typing import Any

import grpc

NAMES = ("once", "thrice", "fails-twice", "steady", "by-http")


def main() -> None:
    port, ledger = int(sys.argv[1]), sys.argv[2]
    failures = {"fails-twice": 2}

    def heard(name: str, data: bytes, **more: Any) -> None:
        failed = failures.get(name, 0) > 0
        with open(ledger, "a", encoding="utf-8") as file:  # noqa: PTH123  one write, one line
            file.write(json.dumps({"name": name, "data": data.hex(), "port": port, "failed": failed, **more}) + "\n")
        if failed:
            failures[name] -= 1
            raise RuntimeError("not this time")

    try:
        from dapr.ext.grpc import App
    except ImportError:
        by_stubs(port, heard)
    else:
        app = App()
        for name in NAMES:
            app.job_event(name)(lambda event: heard(event.name, event.get_data_as_string().encode(), way="extension"))
        app.run(port, "127.0.0.1")


def by_stubs(port: int, heard: Any) -> None:
    from dapr.proto import appcallback_service_v1, appcallback_v1

    class Callback(appcallback_service_v1.AppCallbackServicer):  # type: ignore[misc]
        def OnJobEvent(self, request: Any, _context: Any) -> Any:  # noqa: N802  as Dapr calls it
            more = {"method": request.method, "content_type": request.content_type, "type_url": request.data.type_url}
            heard(request.name, request.data.value, verb=request.http_extension.verb, way="stubs", **more)
            return appcallback_v1.JobEventResponse()

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    appcallback_service_v1.add_AppCallbackServicer_to_server(Callback(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
