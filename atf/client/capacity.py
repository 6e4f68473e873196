"""The cores of worker pools, as a client sets and sees them."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.sdk.messages import value_of
from atf.sdk.options import duration_us
from atf.task import DEFAULT_POOL, US

from .whoami import signed

if TYPE_CHECKING:
    from .calls import Calls


@dataclass(frozen=True)
class CoreInfo:
    """A core at one instant."""

    number: int
    state: str
    """free, scheduled (its lambda has been chosen, nothing of it was handed over yet) or occupied."""
    lambda_name: str
    """Whose turn it is; empty: nobody's."""
    reserved: bool
    group: int
    """That works on it."""
    since: datetime | None
    until: datetime | None
    """When the turn times out, or its hand-over has failed; None: never."""
    next_up_on_available: str
    """The lambda that has it next, should the turn conclude now; empty: none."""
    next_up_on_time_out: str
    """And should it time out now."""


@dataclass(frozen=True)
class CapacityInfo:
    """The cores of a pool at one instant."""

    pool: str
    cores: builtins.list[CoreInfo]
    """None: its executors run whatever comes."""
    groups: builtins.list[builtins.list[str]]
    """Executors, by the number of their group."""
    queue: builtins.list[tuple[str, int]]
    """Lambdas that wait for a core, in order, and the core that each was dealt to."""
    beyond: builtins.list[str]
    """Those behind them."""
    reserved: dict[str, int]
    lookahead: int
    rotation: int
    """k: group i is on core (i + k) mod n."""
    next_rotation_at: datetime | None
    away: builtins.list[str] = field(default_factory=builtins.list)
    """Lambdas of `reserved` that run in another pool by now, or are not registered: their cores stand idle."""
    max_retries: int = 0
    """Hand-overs of one core claim that may fail."""
    hand_over: float = 0
    """Seconds until a hand-over has failed."""
    reserved_timeout: float = 0
    """Seconds that a turn on a reserved core lasts at most."""
    multiplexed_timeout: float = 0
    """And on a multiplexed one."""
    rotation_interval: float = 0
    """Seconds between two rotations of the groups."""
    dropped: int = 0
    """Core claims so far whose hand-overs failed too often."""
    timed_out: int = 0
    """Turns so far whose time was up."""

    @classmethod
    def from_proto(cls, capacity: f.Capacity) -> CapacityInfo:
        return value_of(
            cls,
            capacity,
            cores=[
                value_of(CoreInfo, each, number=number, state=f.CoreState.Name(each.state).lower())
                for number, each in enumerate(capacity.cores)
            ],
            groups=[list(each.executors) for each in capacity.groups],
            queue=[(getattr(each, "lambda"), each.core) for each in capacity.queue],
            beyond=[getattr(each, "lambda") for each in capacity.beyond],
            away=list(capacity.away),
            rotation_interval=capacity.rotation_us / US,
        )


class CapacityCalls:
    """The calls of AsyncClient about cores."""

    _calls: Calls

    async def capacity(self, pool: str = DEFAULT_POOL) -> CapacityInfo:
        """The cores of a pool.

        Args:
            pool: its name; "default": that of the hosts which were given none.

        Raises:
            NotFound: nobody uses a pool of this name; or it has no cores: its executors run whatever comes.
        """
        return CapacityInfo.from_proto(await self._calls.get_capacity(f.GetCapacityRequest(pool=pool)))

    async def set_capacity(
        self,
        pool: str = DEFAULT_POOL,
        *,
        cores: int | None = None,
        reserve: Mapping[str, int] | None = None,
        lookahead: int | None = None,
        max_retries: int | None = None,
        hand_over: float | None = None,
        reserved_timeout: float | None = None,
        multiplexed_timeout: float | None = None,
        rotation: float | None = None,
        why: str = "",
        who: str = "",
    ) -> CapacityInfo:
        """Sets the cores of a pool; what is not given stays as it is. Every core claim is kept.

        Args:
            pool: its name; "default": that of the hosts which were given none.
            cores: equal shares of the pool's executors; 0: none any more.
            reserve: cores of its own by lambda, 0 for none; lambdas that are not named keep theirs.
            lookahead: core claims that may wait for one core.
            max_retries: hand-overs of one core claim that may fail.
            hand_over: seconds until a hand-over has failed.
            reserved_timeout: seconds after which a turn on a reserved core counts as timed out; its owner keeps the core.
            multiplexed_timeout: seconds that a turn on a multiplexed core lasts at most.
            rotation: seconds between two rotations of the groups: several times the longest task of the pool.
            why, who: for the audit log.

        Raises:
            InvalidArgument: a value breaks a rule.
            UnknownLambda: no such lambda is registered.
            NotFound: nobody uses a pool of this name, and cores are not 0; or it has no cores, and no number of them was given.
        """
        try:
            request = f.SetCapacityRequest(
                pool=pool,
                cores=cores,
                reserve=reserve,
                lookahead=lookahead,
                max_retries=max_retries,
                **signed(who, why),
            )
        except (TypeError, ValueError) as error:
            raise InvalidArgument(
                f"cores, reserve, lookahead, max_retries: give whole numbers, cores up to 64: {error}"
            ) from None
        for name, seconds in (
            ("hand_over_us", hand_over),
            ("reserved_timeout_us", reserved_timeout),
            ("multiplexed_timeout_us", multiplexed_timeout),
            ("rotation_us", rotation),
        ):
            if seconds is not None:
                setattr(request, name, duration_us(seconds, name.removesuffix("_us")))
        return CapacityInfo.from_proto(await self._calls.set_capacity(request))

    async def pools_with_cores(self) -> builtins.list[str]:
        """The pools that have cores."""
        return list((await self._calls.list_capacity(f.ListCapacityRequest())).pools)
