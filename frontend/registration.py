"""The registry as callers ask for it: lambdas are registered, listed, and set otherwise than their code says."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from atf.errors import InvalidArgument, Unavailable
from atf.log import get_logger
from atf.rpc import frontend_pb2 as f
from atf.sdk.isolation import chokes
from atf.store.claim_pause import ClaimPause
from atf.store.values.explained import QueueDepth
from atf.store.values.lambdas import LambdaRecord
from atf.task import DEFAULT_ENQUEUE_TIMEOUT_US, DEFAULT_QUEUE_LIMIT, MAX_BATCH, Status, check_lambda

from .capacity import CapacityRpcs
from .lambdas import KnownLambda, spec_of
from .settings import ALL, admission_settings, in_force, overridden, said
from .status import is_served
from .validate import (
    MAX_REGISTERED_AT_ONCE,
    bad_page_token,
    check_lambda_spec,
    known_fields,
    lambda_of,
    page_size,
    shown,
)
from .view import ANSWER_BYTES

_log = get_logger()


class LambdaRpcs(CapacityRpcs):
    """The calls on the registry."""

    async def register_lambdas(
        self, request: f.RegisterLambdasRequest, *, timeout: float = 10
    ) -> f.RegisterLambdasReply:
        """Makes lambdas known, all or none of them; what is known already is brought up to date."""
        if len(request.lambdas) > MAX_REGISTERED_AT_ONCE:
            raise InvalidArgument(f"{len(request.lambdas)} lambdas: at most {MAX_REGISTERED_AT_ONCE} in one call")
        for spec in request.lambdas:
            check_lambda_spec(spec)
        changed = await self._store.register_lambdas([_record(spec) for spec in request.lambdas])
        await self._lambdas.refresh()
        if forgotten := [spec.name for spec in request.lambdas if self._lambdas.find(spec.name) is None]:
            # It has come back with less than it had acknowledged; whoever registers asks again, and goes on only then.
            raise Unavailable(
                f"the task store has forgotten what was just registered ({forgotten[0]}): it was restarted. Try again"
            )
        if changed:
            _log.info("register_lambdas", lambdas=len(request.lambdas), changed=changed)
            self._warn_of_chokes(spec.name for spec in request.lambdas)
        return f.RegisterLambdasReply(warnings=await self._pools.warnings({spec.name for spec in request.lambdas}))

    def _warn_of_chokes(self, names: Iterable[str]) -> None:
        """What an operator has set may not go with what new code says; that must not keep an executor from starting."""
        for held in (self._lambdas.get(name).in_force for name in names):
            if chokes(held):
                _log.warning(
                    "a burst below the rate bounds a lambda in its place: atf lambda set NAME burst=…, or none",
                    name=held.name,
                    burst=held.burst,
                    rate=held.rate,
                )

    async def list_lambdas(self, request: f.ListLambdasRequest, *, timeout: float = 10) -> f.ListLambdasReply:
        """A page of lambdas with their counts and queues. It is shorter than asked for if their specs are large."""
        size = page_size(request.page_size, default=MAX_BATCH)
        if request.page_token:
            _check_token(request.page_token)
        name = lambda_of(request)
        await self._lambdas.refresh()
        if name:
            chosen: Sequence[KnownLambda] = [self._lambdas.get(check_lambda(shown(name)))]
            more = False
        else:
            chosen, more = _page(self._lambdas.all(), request.page_token, size)
        counts = await self._store.counts_of([known.record.name for known in chosen])
        queues: dict[str, list[QueueDepth]] = defaultdict(list)
        for depth in await self._store.queues():
            queues[depth.lambda_name].append(depth)
        served = await self._store.served()
        infos = [
            _info(known, counts[known.record.name], queues[known.record.name], is_served(known, served))
            for known in chosen
        ]
        pause = ClaimPause.longest_of(await self._store.claim_pauses())
        return f.ListLambdasReply(
            lambdas=infos,
            next_page_token=chosen[-1].record.name if more else "",
            claims_paused=pause.sentence if pause else "",
        )

    async def set_lambda(self, request: f.SetLambdaRequest, *, timeout: float = 10) -> f.LambdaInfo:
        """Sets what goes before what a lambda's code says."""
        name = lambda_of(request)
        await self._lambdas.known(name)

        def change(record: LambdaRecord) -> str:
            return overridden(spec_of(record), record.overrides, request.set, request.unset)

        if {"pool", ALL} & {*request.set, *request.unset}:
            await self._check_move(name, change)
        await self._store.set_lambda(name, change)
        _log.info("set_lambda", name=name, set=dict(request.set), unset=list(request.unset))
        (info,) = (await self.list_lambdas(f.ListLambdasRequest(page_size=1, **{"lambda": name}))).lambdas
        return info

    async def _check_move(self, name: str, change: Callable[[LambdaRecord], str]) -> None:
        """Whether a lambda may go to the pool that this change gives it."""
        await self._lambdas.refresh()
        known = self._lambdas.get(name)
        pool = in_force(known.spec, change(known.record)).pool
        if pool != known.in_force.pool:
            await self._pools.check_known(pool)
            await self._check_may_leave(name, known.in_force.pool)


def _check_token(token: str) -> None:
    try:
        check_lambda(shown(token))
    except InvalidArgument:
        raise bad_page_token(token) from None


def _page(every: Sequence[KnownLambda], token: str, size: int) -> tuple[Sequence[KnownLambda], bool]:
    """The lambdas after the name that is the token, as many as one answer holds; and whether there are more."""
    first = last = bisect_right(every, token, key=lambda each: each.record.name)
    taken = 0
    while last < len(every) and last - first < size and taken < ANSWER_BYTES:
        taken += 2 * len(every[last].record.spec)  # it comes twice: as the code says, and in force
        last += 1
    return every[first:last], last < len(every)


def _record(spec: f.LambdaSpec) -> LambdaRecord:
    return LambdaRecord(
        name=spec.name,
        spec=known_fields(spec).SerializeToString(deterministic=True),
        queue_limit=spec.queue_limit or DEFAULT_QUEUE_LIMIT,
        enqueue_timeout_us=spec.enqueue_timeout_us or DEFAULT_ENQUEUE_TIMEOUT_US,
        paused=False,  # the store leaves it as it stands
        settings=" ".join(f"{name}={value}" for name, value in sorted(admission_settings(spec).items())),
    )


def _info(known: KnownLambda, counts: dict[Status, int], queues: Sequence[QueueDepth], served: bool) -> f.LambdaInfo:
    limit = known.record.queue_limit
    return f.LambdaInfo(
        spec=known.spec,
        overrides=said(known.record.overrides),
        in_force=known.in_force,
        paused=known.record.paused,
        served=served,
        counts={status.name: count for status, count in counts.items()},
        queues=[
            f.QueueInfo(name=each.name, partition=each.partition, priority=each.priority, depth=each.depth, limit=limit)
            for each in queues
        ],
    )
