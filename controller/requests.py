"""What calls of NextWork and Enter may say."""

from __future__ import annotations

import re
from typing import Final

from atf.auth.secrets import MAX_CHARS
from atf.errors import FailedPrecondition, InvalidArgument
from atf.rpc import controller_pb2 as c
from atf.task import MAX_BATCH, MAX_NONCE_CHARS, US, check_lambda, check_name

MAX_WAIT_US: Final = 60 * US
MAX_LAMBDAS: Final = 4_096
"""Of one executor: so many names of the greatest length are half of what a message may have."""
MAX_ACK: Final = 1 << 53
_STREAM: Final = re.compile(r"[a-z]{0,16}")
_NONCE: Final = re.compile(rf"[!-~]{{1,{MAX_NONCE_CHARS}}}")
_SIGNATURE: Final = re.compile(r"[a-z0-9_-]{1,32}")


def check_request(request: c.NextWorkRequest) -> None:
    """Every field.

    Raises:
        InvalidArgument: one breaks a rule.
    """
    check_name(request.executor_id, "executor_id")
    if not _STREAM.fullmatch(request.stream):
        raise InvalidArgument(f"stream {request.stream[:40]!r}: use at most 16 letters, a to z")
    if not _NONCE.fullmatch(request.nonce):
        raise InvalidArgument(f"nonce {request.nonce[:80]!r}: use 1 to {MAX_NONCE_CHARS} printable characters of ASCII")
    if not 1 <= request.max_tasks <= MAX_BATCH:
        raise InvalidArgument(f"max_tasks {request.max_tasks}: use 1 to {MAX_BATCH}")
    if not 0 <= request.wait_us <= MAX_WAIT_US:
        raise InvalidArgument(f"wait_us {request.wait_us}: use 0 to {MAX_WAIT_US} (60 s)")
    if not 0 <= request.ack <= MAX_ACK:  # numbers go on from there
        raise InvalidArgument(f"ack {request.ack}: use the number of the last answer, or 0")
    if not 0 <= request.set <= MAX_ACK:
        raise InvalidArgument(f"set {request.set}: number the lambdas' sets from 1; 0 is none")
    _check_lambdas(request)


def check_enter(request: c.EnterRequest) -> None:
    """Every field of a call of Enter.

    Raises:
        InvalidArgument: one breaks a rule.
    """
    check_name(request.executor_id, "executor_id")
    if not 1 <= len(request.secret) <= MAX_CHARS:
        raise InvalidArgument(f"secret: {len(request.secret)} characters; use 1 to {MAX_CHARS}")


def _check_lambdas(request: c.NextWorkRequest) -> None:
    if not request.lambdas and not request.set:
        raise InvalidArgument("lambdas: name at least one that the executor can run")
    if len(request.lambdas) > MAX_LAMBDAS:
        raise InvalidArgument(f"{len(request.lambdas)} lambdas: at most {MAX_LAMBDAS} in one executor")
    for name in request.lambdas:
        check_lambda(name)
    if len(request.signatures) != len(request.lambdas):
        raise InvalidArgument(
            f"{len(request.signatures)} signatures of {len(request.lambdas)} lambdas: give one of each, in their order"
        )
    for each in request.signatures:
        if not _SIGNATURE.fullmatch(each):
            raise InvalidArgument(f"signature {each[:40]!r}: use 1 to 32 of the characters a-z 0-9 _ -")


def check_host(request: c.NextWorkRequest, boot_id: str, pool: str, heartbeat_timeout_us: int) -> None:
    """Whether the executor fits a controller of this boot id, pool and heartbeat timeout.

    Raises:
        FailedPrecondition: it runs on another host, where CLOCK_BOOTTIME is another clock, belongs to another pool, or takes leases
            to last longer or shorter than they do.
    """
    if request.boot_id != boot_id:
        raise FailedPrecondition(
            "the executor runs on another host than this controller, or its host has been started anew since; leases are"
            " dated by the host's own clock, so each host needs a controller of its own: start one there"
        )
    if request.pool not in {"", pool}:
        raise FailedPrecondition(
            f"the executor belongs to the pool {request.pool[:64]!r}, and this controller to {pool!r}: start it with the"
            " controller's --pool, or with none"
        )
    asked_us, ours_us = request.heartbeat_timeout_us, heartbeat_timeout_us
    if asked_us != ours_us:
        raise FailedPrecondition(
            f"the executor is set to heartbeat_timeout = {asked_us / US:g} s, and this controller to {ours_us / US:g} s: they"
            " must agree on how long a lease lasts. Start the executor with the controller's (ATF_HEARTBEAT_TIMEOUT)"
        )
