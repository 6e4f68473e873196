"""Answers NextClaims: what executors ask for becomes an ask of the intake (atf/intake), and what was claimed for it an answer."""

from __future__ import annotations

from typing import Final

from atf.auth.caller import caller
from atf.errors import InvalidArgument
from atf.intake.asks import FRESH_S, Ask, AskKind
from atf.intake.intake import Intake
from atf.rpc import hsc_pb2 as h
from atf.rpc.lambda_sets import MAX_LAMBDAS, KnownSets, LambdaSet, check_digest
from atf.runtime import Runtime
from atf.task import MAX_BATCH, MAX_NONCE_CHARS, US, check_lambda, check_pool

from .encoding import MAX_CLAIM_BYTES, check_count, check_token, fill_claim
from .permits import PermittedSets
from .pools import Pools

MAX_WAIT_US: Final = 60 * US
MAX_WAITED_US: Final = 86_400 * US
"""More does not lead to a better place in the line."""


class NextClaims:
    """The asks of one HSC.

    Args:
        intake: serves them.
        pools: whose executors they are.
        sets: the sets of lambdas that are known.
        runtime: clocks.
        fresh: seconds for which an ask may be given something.
    """

    def __init__(
        self, *, intake: Intake, pools: Pools, sets: KnownSets, runtime: Runtime, fresh: float = FRESH_S
    ) -> None:
        self._fresh = fresh
        self._intake = intake
        self._pools = pools
        self._sets = sets
        self._runtime = runtime
        self._permitted = PermittedSets()

    async def answer(self, request: h.NextClaimsRequest) -> h.NextClaimsReply:
        """Waits for work, at most wait_us.

        Raises:
            InvalidArgument: it breaks a rule.
            PermissionDenied: the caller may not run one of the lambdas, or not serve the pool.
            Unavailable: ask again, with the same nonce, as repeated; perhaps another HSC.
        """
        received = self._runtime.monotonic()
        check(request)
        runs = self._known(request)
        if runs is None:
            return h.NextClaimsReply(unknown_set=True)
        self._permitted.permit(request.pool, [runs])
        cores = self._pools.of(request.pool)
        if cores.here.asked(request.host, request.executor_id, runs):
            cores.came()
        ask = Ask(
            owner=request.executor_id,
            nonce=request.nonce,
            kind=AskKind(request.pool, runs, frozenset(request.without)),
            host=request.host,
            room=request.max_tasks,
            max_bytes=min(request.max_bytes or MAX_CLAIM_BYTES, MAX_CLAIM_BYTES),
            received=received,
            since=received - min(request.waited_us, MAX_WAITED_US) / US,
            fresh=self._fresh,
        )
        wait = request.wait_us / US
        most = caller().longest(wait)
        answer = await self._intake.ask(ask, most, repeated=request.repeated)
        asks_again = most < wait and not answer.claims  # by then its token may have been revoked
        reply = h.NextClaimsReply(again=answer.again or asks_again, over=answer.over)
        for each in answer.claims:
            fill_claim(reply.claims.add(), each)
        return reply

    def _known(self, request: h.NextClaimsRequest) -> LambdaSet | None:
        if request.lambdas:
            named = LambdaSet.named(request.lambda_set, request.lambdas, request.signatures)
            self._permitted.permit(request.pool, [named])  # before it takes the place of another one
            return self._sets.learn(named)
        return self._sets.get(request.lambda_set)


def check(request: h.NextClaimsRequest) -> None:
    """Every field but the set's lambdas.

    Raises:
        InvalidArgument: one breaks a rule.
    """
    check_token("executor_id", request.executor_id)
    check_token("nonce", request.nonce, MAX_NONCE_CHARS)
    if not 1 <= request.max_tasks <= MAX_BATCH:
        raise InvalidArgument(f"max_tasks {request.max_tasks}: use 1 to {MAX_BATCH}")
    if request.max_bytes < 0:
        raise InvalidArgument(f"max_bytes {request.max_bytes}: use 1 or more, or 0 for as many as a message holds")
    if not 0 <= request.wait_us <= MAX_WAIT_US:
        raise InvalidArgument(f"wait_us {request.wait_us}: use 0 to {MAX_WAIT_US} (60 s)")
    if request.waited_us < 0:
        raise InvalidArgument(f"waited_us {request.waited_us}: use how long the executor has waited, 0 or more")
    check_digest(request.lambda_set, "lambda_set")
    if request.signatures and not request.lambdas:
        raise InvalidArgument("signatures: give them with the lambdas that they are of")
    check_count("lambdas in `without`", len(request.without), MAX_LAMBDAS)
    for name in request.without:
        check_lambda(name)
    if request.pool:
        check_pool(request.pool)
    if request.host:
        check_token("host", request.host)
