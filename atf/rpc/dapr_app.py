"""Calls back an application that was written for Dapr, and reads what it answers.

An application may answer any status, and each says something; so a status is a value here, not an exception.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio

from . import dapr_runtime_pb2 as d
from .connection import RECONNECT_OPTIONS
from .failure import MAX_MESSAGE_BYTES

STABLE: Final = "/dapr.proto.runtime.v1.AppCallback/OnJobEvent"
ALPHA: Final = "/dapr.proto.runtime.v1.AppCallbackAlpha/OnJobEventAlpha1"

_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # No keepalive as between roles: a gRPC server with its defaults ends a connection that is pinged more than every 5 minutes.
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    *RECONNECT_OPTIONS,
)


class DaprAnswer(NamedTuple):
    """What an application said."""

    code: str
    """The name of a gRPC status."""
    sentence: str


class DaprApp:
    """An application at an address; it is connected at the first call and again whenever that broke. Belongs to one event loop.

    Where the time of a call is over and the application has answered nothing since it began, the next call connects anew: it may be slow, or
    frozen, or behind a router that has forgotten the connection. What is under way ends on the old one.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._channel: Any = None
        self._heard = 0

    async def on_job_event(self, event: d.JobEventRequest, timeout: float) -> DaprAnswer:
        """Tells the application of a tick, by the callback of older releases where it has no other.

        Args:
            event: what it is told.
            timeout: seconds; when they are over the answer is DEADLINE_EXCEEDED, and the application may be at work on.
        """
        ends_at = asyncio.get_running_loop().time() + timeout
        answer = await self._call(STABLE, event, timeout)
        if answer.code == grpc.StatusCode.UNIMPLEMENTED.name:
            older = await self._call(ALPHA, event, max(ends_at - asyncio.get_running_loop().time(), 0))
            # Where it has neither, what it said of the newer one is of more use: an SDK names the job that has no handler.
            answer = answer if older.code == answer.code else older
        return answer

    async def _call(self, path: str, event: d.JobEventRequest, timeout: float) -> DaprAnswer:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self.address, options=_OPTIONS)
        channel, heard = self._channel, self._heard
        method = channel.unary_unary(path, request_serializer=d.JobEventRequest.SerializeToString)
        try:
            await method(event, timeout=timeout)
            self._heard += 1
        except grpc.aio.AioRpcError as error:
            if error.code() not in {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}:
                self._heard += 1
            elif error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and (self._heard, self._channel) == (heard, channel):
                self._channel = None
            return DaprAnswer(error.code().name, error.details() or "")
        return DaprAnswer(grpc.StatusCode.OK.name, "")
