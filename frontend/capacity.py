"""Answers the RPCs about the cores of pools.

What cores are and who comes next is atf/cores/pool.py; controllers carry it out.
"""

from __future__ import annotations

from typing import Final

import msgspec

from atf.cores.groups import deal, group_on
from atf.cores.pool import MAX_CORES, CoreClaim, CorePool, CoreSettings
from atf.errors import FailedPrecondition, InvalidArgument, NotFound, Unavailable, UnknownLambda
from atf.rpc import frontend_pb2 as f
from atf.store.capacity import CapacityRecord
from atf.store.values.explained import ExplainedTask
from atf.task import check_lambda, check_name, pool_called, pool_stored

from .explain_words import ExplainAnswer
from .explain_workers import no_core
from .parts import FrontendParts
from .validate import shown

SEED_BYTES: Final = 16
_TRIES: Final = 100
"""Of one change: controllers write the record, too, some tens of times a second at the most."""
_NUMBERS: Final = (
    *("cores", "lookahead", "max_retries"),
    *("hand_over_us", "reserved_timeout_us", "multiplexed_timeout_us", "rotation_us"),
)


class CapacityRpcs(FrontendParts):
    """The calls about cores."""

    async def get_capacity(self, request: f.GetCapacityRequest, *, timeout: float = 10) -> f.Capacity:
        """The cores of a pool, and who has them."""
        return await self._get_capacity(_pool_name(request.pool))

    async def list_capacity(self, request: f.ListCapacityRequest, *, timeout: float = 10) -> f.ListCapacityReply:
        """The pools that have cores."""
        return f.ListCapacityReply(pools=[pool_called(each) for each in await self._store.list_capacity()])

    async def _get_capacity(self, name: str) -> f.Capacity:
        record = await self._store.get_capacity(name)
        if record is None:
            await self._pools.check_known(name)
            raise _no_cores(name)
        pool = CorePool.decode(record.state)
        reserved, found = pool.settings.reserved, view(name, pool, record)
        await self._lambdas.load(reserved)
        here = {known.record.name for known in self._lambdas.all() if known.in_force.pool == name}
        found.away.extend(sorted(reserved.keys() - here))  # they never run on the pool's cores
        return found

    async def _check_may_leave(self, lambda_name: str, name: str) -> None:
        """Keeps a lambda in a pool that has reserved cores for it."""
        record = await self._store.get_capacity(name)
        if record is not None and lambda_name in CorePool.decode(record.state).settings.reserved:
            raise FailedPrecondition(
                f"cores of the pool {pool_called(name)} are reserved for {lambda_name}, and would stand idle: end that first, by"
                f" atf capacity set {pool_called(name)} --reserve {lambda_name}=0"
            )

    async def _lacks_core(self, found: ExplainedTask) -> ExplainAnswer | None:
        """Why no executor may run a queued task's lambda now, where its pool has cores. None also where that can't be read now."""
        try:
            await self._lambdas.load([found.record.lambda_name])
            pool = self._pool_of(found.record.lambda_name)
            record = await self._store.get_capacity(pool)
        except (Unavailable, UnknownLambda):
            return None
        return no_core(found, pool, CorePool.decode(record.state), record.now_us) if record is not None else None

    def _pool_of(self, lambda_name: str) -> str:
        return self._lambdas.get(lambda_name).in_force.pool

    async def set_capacity(self, request: f.SetCapacityRequest, *, timeout: float = 10) -> f.Capacity:
        """Changes a pool's cores: every claim is kept."""
        name = _pool_name(request.pool)
        ending = request.HasField("cores") and request.cores == 0
        others = [field.name for field, _ in request.ListFields() if field.name not in {"pool", "cores", "who", "why"}]
        if ending and others:
            raise InvalidArgument(
                f"cores 0 takes all cores of the pool away, so {others[0]} means nothing beside it: leave it out, or use 1 to"
                f" {MAX_CORES} cores"
            )
        if not ending:  # else the call may be a repeat, after which a pool that had nothing but cores is unknown
            await self._pools.check_known(name)
        await self._check_reserved(request)
        async with self._audit.write("set_capacity", request, detail=_said(request)) as draft:
            draft.changed = await self._change_capacity(name, request, ending=ending)
        return f.Capacity(pool=pool_called(name)) if ending else await self._get_capacity(name)

    async def _change_capacity(self, name: str, request: f.SetCapacityRequest, *, ending: bool) -> bool:
        """Whether this made a difference."""
        for _ in range(_TRIES):
            record = await self._store.get_capacity(name)
            pool = CorePool.decode(record.state) if record is not None else None
            if ending:
                if record is None or await self._store.set_capacity(name, record.version, b""):
                    return record is not None
                continue
            settings = _settings(request, pool)
            if pool is not None and settings == pool.settings:
                return False
            if await self._write_capacity(name, record, pool, settings):
                return True
        raise Unavailable("others change the pool's cores at the same time; try again")

    async def _write_capacity(
        self, name: str, record: CapacityRecord | None, pool: CorePool | None, settings: CoreSettings
    ) -> bool:
        if record is None or pool is None:
            made = CorePool.make(settings, await self._store.time_us())
            return bool(await self._store.set_capacity(name, 0, made.encode(), deal_anew=True))
        dealt = [each for group in record.groups or [] for each in group]
        members = dealt if record.to_deal is None else record.to_deal
        pool.change(settings, record.now_us)
        pool.staff(len(members), record.now_us)
        groups = deal(members, settings.cores, self._runtime.random.randbytes(SEED_BYTES))
        return bool(await self._store.set_capacity(name, record.version, pool.encode(), (groups, record.membership)))

    async def _check_reserved(self, request: f.SetCapacityRequest) -> None:
        names = sorted(request.reserve)
        for name in names:
            check_lambda(shown(name))
        # What is not known any more can still be taken off.
        wanted = [name for name in names if request.reserve[name] != 0]
        await self._lambdas.load(wanted)
        for name in wanted:
            pool = pool_called(self._pool_of(name))
            if pool != pool_called(request.pool):
                raise InvalidArgument(
                    f"the lambda {name} runs in the pool {pool}, not in {pool_called(request.pool)}: reserve its cores"
                    " there, or set its pool first"
                )


def _said(request: f.SetCapacityRequest) -> str:
    """What the audit log says of a change."""
    said = [f"pool {pool_called(request.pool)}"]
    said += [f"{name}={getattr(request, name)}" for name in _NUMBERS if request.HasField(name)]
    said += [f"reserve {name}={count}" for name, count in sorted(request.reserve.items())]
    return ", ".join(said)


def _pool_name(name: str) -> str:
    return pool_stored(check_name(shown(name), "pool")) if name else name


def _no_cores(name: str) -> NotFound:
    return NotFound(
        f"the pool {pool_called(name)} has no cores: its executors run whatever comes. atf capacity set {pool_called(name)} --cores N"
        " gives it some"
    )


def _settings(request: f.SetCapacityRequest, pool: CorePool | None) -> CoreSettings:
    """What is set now, with what is asked for."""
    if pool is None and not request.HasField("cores"):
        raise _no_cores(request.pool)
    given = {name: getattr(request, name) for name in _NUMBERS if request.HasField(name)}
    settings = msgspec.structs.replace(pool.settings, **given) if pool is not None else CoreSettings(**given)
    for name, count in request.reserve.items():
        if count < 0:
            raise InvalidArgument(f"reserved cores of {name} {count}: use 1 or more, or 0 for none")
    reserved = {**settings.reserved, **request.reserve}
    return msgspec.structs.replace(
        settings, reserved={name: count for name, count in reserved.items() if count}
    ).check()


def view(name: str, pool: CorePool, record: CapacityRecord) -> f.Capacity:
    """A pool as callers see it, at the store's time of the record."""
    settings, now = pool.settings, record.now_us
    rotation, next_us = pool.rotation.at(now), pool.rotation.next_us(now)
    return f.Capacity(
        pool=pool_called(name),
        cores=[_core(pool, core, now) for core in range(settings.cores)],
        groups=[f.CoreGroup(executors=each) for each in record.groups or []],
        queue=[_claim(each) for each in pool.queue],
        beyond=[_claim(each) for each in pool.beyond],
        reserved=settings.reserved,
        lookahead=settings.lookahead,
        max_retries=settings.max_retries,
        hand_over_us=settings.hand_over_us,
        reserved_timeout_us=settings.reserved_timeout_us,
        multiplexed_timeout_us=settings.multiplexed_timeout_us,
        rotation_us=settings.rotation_us,
        rotation=rotation,
        rotated_at_us=next_us - settings.rotation_us,
        next_rotation_at_us=next_us,
        now_us=now,
        dropped=pool.dropped,
        timed_out=pool.timed_out,
    )


def _core(pool: CorePool, core: int, now_us: int) -> f.Core:
    made = f.Core(
        reserved=core < pool.settings.first_multiplexed,
        group=group_on(core, pool.rotation.at(now_us), pool.settings.cores),
        next_up_on_available=pool.next_up_on_available(core, now_us) or "",
        next_up_on_time_out=pool.next_up_on_time_out(core, now_us) or "",
    )
    turn = pool.turns[core]
    if turn is not None:
        made.state = f.OCCUPIED if turn.occupied else f.SCHEDULED
        made.since_us, made.until_us, made.retries = turn.since_us, pool.due_us(core) or 0, turn.retries
        setattr(made, "lambda", turn.lambda_name)
    return made


def _claim(claim: CoreClaim) -> f.CoreClaim:
    return f.CoreClaim(**{"lambda": claim.lambda_name}, core=claim.core, retries=claim.retries)
