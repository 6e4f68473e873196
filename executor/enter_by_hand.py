"""Enters a controller for an executor that was started by hand, with the token that its guard was given.

Started by the guard (main.py), which has no gRPC, and before the worker, which must not have the token:

    python -P -m atf.executor.enter_by_hand EXECUTOR_ID CONTROLLER

Reads the token from stdin, writes the credential to stdout, and why there is none to stderr. The controller's port is of no certificate, so whoever
listens there is shown that the token is known here, and not the token.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Final

from atf.auth.by_hand import proof
from atf.calls.retry import RetryPolicy, retry
from atf.errors import AtfError, message_of
from atf.exits import EXIT_OK, EXIT_UNAVAILABLE
from atf.process.hidden import hide_memory
from atf.rpc import controller_pb2 as c, task_pb2 as t
from atf.rpc.caller_security import Security
from atf.rpc.channel import open_channel
from atf.rpc.stubs import ControllerStub
from atf.runtime import SystemRuntime

PATIENCE_S: Final = 30.0
"""Seconds for which a controller may be away."""
_CALL_S: Final = 10.0
_AGAIN: Final = RetryPolicy(first=0.1, most=1.0)


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    hide_memory()
    executor_id, controller = arguments
    try:
        sys.stdout.write(asyncio.run(_enter(executor_id, controller, sys.stdin.read().strip())))
    except AtfError as error:
        sys.stderr.write(message_of(error))
        return EXIT_UNAVAILABLE
    return EXIT_OK


async def _enter(executor_id: str, address: str, token: str) -> str:
    channel, runtime = open_channel(address, security=Security()), SystemRuntime()
    stub = ControllerStub(channel)
    until = runtime.monotonic() + PATIENCE_S

    async def enter() -> t.Credential:
        secret = proof(token, executor_id, runtime.wall_us())
        return await stub.enter(c.EnterRequest(executor_id=executor_id, secret=secret), timeout=_CALL_S)

    try:
        return (await retry(enter, _AGAIN, runtime, until=until)).secret
    finally:
        await channel.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
