"""Carries packets between a worker, its fork server and the processes of isolated runs.

    worker → fork server    run NUMBER, with four descriptors: the run's socket, the memory that holds its claim, its stdout and its stderr · kill NUMBER
    fork server → worker    ready · refused WHY (one of the two, once) · ended NUMBER EXIT_CODE (-n for signal n) · unborn NUMBER WHY
    run → worker            progress TEXT · log LINE CUT · first_time KEY TTL_US · outcome KIND FIELD... · alone: it ends at once, and nothing of it is missing or left
    worker → run            cancel TIMED_OUT · drain · answer FIRST · error REASON SENTENCE

Owns that form, and how an outcome crosses; nothing else.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, Final, get_args

import msgspec

from atf.executor.outcome import Outcome, RunFailed

MAX_PACKET_BYTES: Final = 128 << 10
"""The longest packet is an outcome: 64 KiB of result at most."""
DESCRIPTORS: Final = 4
"""That a run is given."""
_OUTCOMES: Final[dict[str, type[Any]]] = {each.__name__: each for each in get_args(Outcome)}


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a socket for packets.

    Raises:
        OSError: no descriptors are left.
    """
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def receive(connection: socket.socket, flags: int = 0) -> bytes:
    """The next packet; empty: the other end is gone.

    Raises:
        BlockingIOError: there is none, and the flags say not to wait.
    """
    while True:
        try:
            return connection.recv(MAX_PACKET_BYTES, flags)
        except (
            ConnectionResetError
        ):  # said once, before the packets that are left, where the other end had not read all
            continue


def pack(word: str, *fields: Any) -> bytes:
    """A packet."""
    return msgspec.msgpack.encode((word, *fields))


def tell_server(control: socket.socket, word: str, number: int, descriptors: Sequence[int] = ()) -> bool:
    """Says something of a run to the fork server. False: it is gone."""
    try:
        socket.send_fds(control, [pack(word, number)], descriptors)
    except OSError:
        return False
    return True


def unpack(packet: bytes) -> list[Any]:
    """The word of a packet, and its fields."""
    said: list[Any] = msgspec.msgpack.decode(packet)
    return said


def pack_outcome(outcome: Outcome) -> bytes:
    """How a run ended, as a packet; a failure where the lambda has put something into it that can't cross."""
    try:
        return pack("outcome", type(outcome).__name__, *outcome)
    except (TypeError, ValueError, OverflowError) as error:
        failed = RunFailed(f"how the run ended can't be told: {type(error).__name__}: {error}")
        return pack("outcome", type(failed).__name__, *failed)


def outcome_of(kind: str, fields: list[Any]) -> Outcome:
    """The outcome that crossed as `kind` and its fields."""
    outcome: Outcome = _OUTCOMES[kind](*fields)
    return outcome
