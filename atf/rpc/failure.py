"""Carries an error back to its caller: as a gRPC status with google.rpc.ErrorInfo in its details.

The reading half, part of the client; the server writes the same form (server.py).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from atf.errors import (
    BY_CODE,
    BY_REASON,
    AtfError,
    DeadlineExceeded,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    TooManyPending,
    Unavailable,
)
from atf.process.descriptors import is_out_of_descriptors, sentence
from atf.task import MAX_BATCH_BYTES, US

from . import status_pb2
from .tls_failure import tls_reason

DETAILS_KEY: Final = "grpc-status-details-bin"
"""The trailing metadata that holds a google.rpc.Status."""
ERROR_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"
DOMAIN: Final = AtfError.domain

_NOT_TAKEN: Final = "CANCELLED"
"""What gRPC's server says of a call that it refuses since too many wait (server.py, max_pending_requests)."""
MAX_MESSAGE_BYTES: Final = MAX_BATCH_BYTES + (1 << 20)
"""What a message may have on the wire: the bound of a batch, and room for what surrounds its payloads."""

_BY_CODE: Final = BY_CODE | {"OUT_OF_RANGE": InvalidArgument, "ABORTED": Unavailable}


def to_error(error: Any, address: str, path: str, timeout: float) -> AtfError:
    """The AtfError that a failed call stands for.

    Args:
        error: what gRPC raised.
        address: of the server that was called.
        path: of the method.
        timeout: seconds the call had.
    """
    code, message = error.code(), error.details() or ""
    details = _details(error)
    known = BY_REASON.get(_reason(details))
    if known is not None:
        return _late(known(message), details)
    method = path.rpartition("/")[2]
    match code:
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED:
            if is_out_of_descriptors(message):
                return Unavailable(f"{method}: {sentence()}; so it can't connect to {address}")
            if message == _NOT_TAKEN:
                return Unavailable(f"{method}: {address} is too busy and has not taken the call")
            # gRPC nests its reasons: "failed to connect to all addresses; last error: ...: Connection refused"
            why = tls_reason(message) or message.rpartition(": ")[2].rstrip("]") or "no reason given"
            return Unavailable(f"{method}: can't reach {address} ({why})")
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return DeadlineExceeded(f"{method}: no answer from {address} within {timeout:g} s")
        case grpc.StatusCode.INTERNAL if _is_of_grpc(message, details):
            return Unavailable(f"{method}: the connection to {address} broke ({message or 'no reason given'})")
        case grpc.StatusCode.UNIMPLEMENTED:
            return FailedPrecondition(f"{address} does not know {path[1:]}: is it another role, or an older version?")
        case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in message:
            return InvalidArgument(f"{method}: a message is at most {MAX_MESSAGE_BYTES >> 20} MiB; {message}")
    return _BY_CODE.get(code.name, Internal)(message or f"{method}: {address} answered {code}")


class ConnectionSign(Enum):
    """What a failed call says of the connection that it was made on."""

    BROKEN = "broken"
    """gRPC itself calls it so."""
    SILENT = "silent"
    """The time of the call was over, and it had no answer."""
    AWAY = "away"
    """There is none; gRPC opens another one by itself."""
    ALIVE = "alive"
    """The peer has answered."""


def sign_of(error: Any) -> ConnectionSign:
    """What a failed call says of its connection."""
    details = _details(error)
    if details:
        return ConnectionSign.ALIVE
    match error.code():
        case grpc.StatusCode.INTERNAL if _is_of_grpc(error.details() or "", details):
            return ConnectionSign.BROKEN
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return ConnectionSign.SILENT
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED:
            return ConnectionSign.AWAY
    return ConnectionSign.ALIVE


def _is_of_grpc(message: str, details: list[tuple[str, bytes]]) -> bool:
    """Whether an INTERNAL is of a connection. A server of ours sends details; a message that can't be read is an "Exception deserializing"."""
    return not details and not message.startswith("Exception ")


def _details(error: Any) -> list[tuple[str, bytes]]:
    """Type and content of each detail that came with an error."""
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY:
            try:
                return [(each.type_url, each.value) for each in status_pb2.RpcStatus.FromString(value).details]
            except DecodeError:
                return []  # not ours; the status code says enough
    return []


def _reason(details: list[tuple[str, bytes]]) -> str:
    """The reason of the ErrorInfo of ours that came with an error; "" if none did."""
    try:
        infos = [status_pb2.ErrorInfo.FromString(value) for kind, value in details if kind == ERROR_INFO]
    except DecodeError:
        return ""
    return next((info.reason for info in infos if info.domain == DOMAIN), "")


def _late(error: AtfError, details: list[tuple[str, bytes]]) -> AtfError:
    """The error, with when to try again where that was said."""
    if isinstance(error, TooManyPending):
        try:
            found = [status_pb2.RetryInfo.FromString(value) for kind, value in details if kind == RETRY_INFO]
        except DecodeError:
            return error
        error.retry_after_s = sum(each.retry_delay.ToMicroseconds() for each in found) / US
    return error
