"""Translates between the messages of the HSC's protocol and what the task store takes and answers, and checks what callers send."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, cast

from atf import task as rules
from atf.errors import InvalidArgument
from atf.rpc import hsc_pb2 as h, task_pb2 as t
from atf.sdk.kept_logs import KEPT_LOGS
from atf.sdk.tracing import TRACEPARENT_CHARS
from atf.store.values.claims import ClaimedTask, HeldClaim, KeptRunLog, Outcome, RunResult, Verdict
from atf.store.values.tasks import TaskRecord
from atf.task import US, Status, clip

MAX_RAN_US: Final = 366 * 86_400 * US
MAX_LOG_CUT_BYTES: Final = 1 << 50
MAX_CLAIM_BYTES: Final = rules.MAX_BATCH_BYTES - (64 << 10)
"""Of claims in one answer; what surrounds them comes on top."""
_OUTCOMES: Final = {int(each): each for each in Outcome}
_ENCODINGS: Final = frozenset({t.JSON, t.RAW})
_SIGNATURE: Final = re.compile(r"[a-z0-9_-]{1,32}")
_WORD: Final = re.compile(r"[!-~]{1,128}")


def check_token(name: str, value: str, most: int = 128) -> None:
    """An id, a nonce or a host's name.

    Raises:
        InvalidArgument: it is none.
    """
    if len(value) > most or not _WORD.fullmatch(value):
        raise InvalidArgument(f"{name} {value[:200]!r}: use 1 to {most} printable characters of ASCII without spaces")


def check_count(name: str, count: int, most: int) -> None:
    """How many there are in one call.

    Raises:
        InvalidArgument: too many.
    """
    if count > most:
        raise InvalidArgument(f"{count} {name}: at most {most} in one call")


def claim_of(claim: t.ClaimRef) -> HeldClaim:
    """What somebody says it holds."""
    token = claim.token
    return HeldClaim(claim.task_id, token.counter, token.nonce)


def fill_claim(claim: t.Claim, claimed: ClaimedTask) -> None:
    """A claim as its executor is given it."""
    claim.task_id, claim.spec, claim.scheduled_at_us = claimed.task_id, claimed.spec, claimed.scheduled_at_us
    claim.attempt, claim.run, claim.losses, claim.alone = claimed.attempt, claimed.run, claimed.losses, claimed.alone
    if claimed.logs:
        claim.logs = KEPT_LOGS.get(claimed.logs, t.LOGS_OF_FAILED)
    token = claim.token
    token.counter, token.nonce = claimed.counter, claimed.nonce


def check_signature(digest: str) -> None:
    """The digest of a signature.

    Raises:
        InvalidArgument: it is none.
    """
    if not _SIGNATURE.fullmatch(digest):
        raise InvalidArgument(f"signature {digest[:40]!r}: use 1 to 32 of the characters a-z 0-9 _ -")


def result_of(result: h.Result, grace_us: int) -> RunResult:
    """How a run ended; where its payload did not fit, the task may wait `grace_us` for an executor that it fits.

    Raises:
        InvalidArgument: it breaks a rule.
    """
    held, value, encoding, error = claim_of(result.claim), result.result, result.encoding, result.error
    outcome = _OUTCOMES.get(result.outcome)
    if outcome is None:
        raise InvalidArgument(f"result of {held.task_id!r}: outcome {result.outcome} is none of SUCCEEDED to MISFIT")
    if len(value) > rules.MAX_RESULT_BYTES:
        raise InvalidArgument(
            f"result of {held.task_id!r}: {len(value)} bytes, at most {rules.MAX_RESULT_BYTES} (64 KiB)"
        )
    if encoding not in _ENCODINGS:
        raise InvalidArgument(f"result of {held.task_id!r}: encoding {encoding}; use JSON (0) or RAW (1)")
    retry_us, ended_us = _clamped(result.retry_in_us, rules.MAX_AHEAD_US), _clamped(result.ended_ago_us, MAX_RAN_US)
    if outcome is Outcome.MISFIT:
        check_signature(result.signature)
        misfit = RunResult(held, outcome, error=error, retry_in_us=retry_us, ended_ago_us=ended_us)
        return misfit._replace(signature=result.signature, grace_us=grace_us)
    began = not (outcome is Outcome.STOPPED and result.never_began)
    ran_us = _clamped(result.ran_us, MAX_RAN_US)
    found = RunResult(held, outcome, value, encoding, clip(error) if error else "", retry_us, ran_us, ended_us, began)
    if result.traceparent:
        found = found._replace(traceparent=result.traceparent[:TRACEPARENT_CHARS])
    return found._replace(log=log_of(result.log)) if result.HasField("log") else found


def log_of(log: t.RunLog) -> KeptRunLog | None:
    """A run's log within its bounds; None: there is nothing in it."""
    text, cut_bytes = log.text, log.cut_bytes
    if len(data := text.encode()) > rules.MAX_LOG_BYTES:
        text = data[-rules.MAX_LOG_BYTES :].decode("utf-8", "ignore")
        cut_bytes += len(data) - len(text.encode())
    if not text:
        return None
    return KeptRunLog(max(log.run, 1), max(log.attempt, 1), text, _clamped(cut_bytes, MAX_LOG_CUT_BYTES))


def lost_run(record: TaskRecord) -> h.LostRun:
    """What can be said of a run that was lost."""
    return h.LostRun(
        task_id=record.id,
        **{"lambda": record.lambda_name},
        attempt=record.attempts + 1,
        losses=record.losses,
        max_losses=record.most_losses,
        last=record.status is Status.FATAL_FAILURE,
    )


def _clamped(us: int, most: int) -> int:
    return us if 0 <= us <= most else min(max(us, 0), most)


def encoded(verdicts: Iterable[Verdict]) -> list[h.Verdict]:
    """Verdicts as they travel: their numbers are the same."""
    return cast("list[h.Verdict]", list(verdicts))
