"""A gRPC call that does nothing, from one process of Python to another one: below its time no client of a frontend can come.

Both ends are set as the SDK's and the frontend's are: a caller that blocks its thread, and a server on uvloop.

    python -P -m proof.benchmarks.empty_call serve           says its port, and ends with its input
    python -P -m proof.benchmarks.empty_call call PORT       makes as many calls as each line of its input says
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import uvloop

from atf.bench import proc
from atf.rpc.connection import CHANNEL_OPTIONS, blocking_connection
from atf.rpc.server import SERVER_OPTIONS

from .known import ROOT
from .ledger import payload

_SERVICE: Final = "atf.bench.Empty"
_METHOD: Final = "Call"
_LONGEST_ANSWER: Final = 64 << 20
_TIMEOUT_S: Final = 10


class EmptyCall:
    """A server and a caller. Made by `running`."""

    def __init__(self, server: Process, caller: Process) -> None:
        self._server, self._caller = server, caller

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls) -> AsyncIterator[EmptyCall]:
        """Within the block there is one."""
        async with contextlib.AsyncExitStack() as stack:
            server = await stack.enter_async_context(_process("serve"))
            port = json.loads(await _line(server))
            yield cls(server, await stack.enter_async_context(_process("call", str(port))))

    async def calls(self, count: int) -> dict[str, Any]:
        """Makes calls, one after the other; `begun`, `ended` and how long each took, in ns."""
        assert self._caller.stdin is not None
        self._caller.stdin.write(b"%d\n" % count)
        told: dict[str, Any] = json.loads(await _line(self._caller))
        return told

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU that each has used."""
        return proc.cpu_by_role({"client": [self._caller.pid], "server": [self._server.pid]})


@contextlib.asynccontextmanager
async def _process(*arguments: str) -> AsyncIterator[Process]:
    command = [sys.executable, "-P", "-m", __name__, *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=env, limit=_LONGEST_ANSWER)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _line(process: Process) -> bytes:
    assert process.stdout is not None
    return await process.stdout.readline()


async def _serve() -> None:
    async def answer(data: bytes, _: Any) -> bytes:
        return data

    server = grpc.aio.server(options=SERVER_OPTIONS)
    handlers = {_METHOD: grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(None)


def _call(port: str) -> None:
    with blocking_connection(f"127.0.0.1:{port}")(CHANNEL_OPTIONS, None) as channel:
        method = channel.unary_unary(f"/{_SERVICE}/{_METHOD}")
        for line in sys.stdin:
            calls, begun = [], time.monotonic_ns()
            for number in range(int(line)):
                before = time.monotonic_ns()
                method(payload(number).encode(), timeout=_TIMEOUT_S)
                calls.append(time.monotonic_ns() - before)
            print(json.dumps({"begun": begun, "ended": time.monotonic_ns(), "calls_ns": calls}), flush=True)


if __name__ == "__main__":
    uvloop.run(_serve()) if sys.argv[1] == "serve" else _call(sys.argv[2])
