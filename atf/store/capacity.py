"""The cores of pools: one record a pool, which is replaced only by who has read it as it is; and what lambdas wait for executors.

All pools are in the registry partition. What a record says is atf/cores/pool.py's matter: it is text here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from atf.errors import AtfError, Unavailable
from atf.store.servers.sockets import Arg
from atf.task import MAX_BATCH, US

from .calls import by_partition
from .partitions import REGISTRY_PARTITION, Partitions

MAX_HOSTS: Final = 1_024
_DRAIN_REMEMBERED_S: Final = 30 * 86_400.0
"""Seconds for which a host that drains and is gone is known to drain, should it come back."""


DRAINS: Final = 2
"""What the functions answer of a host that is to drain."""


class WaitingTasks:
    """What a partition says of a lambda; the numbers are those of the function."""

    NOTHING: Final = 0
    TAKEN: Final = 1  # all that it has are with controllers or executors
    QUEUED: Final = 2
    UNKNOWN: Final = 3


class ServeAnswer(NamedTuple):
    """What the store made of what a host said of itself."""

    drains: bool | None  # whether the host is to drain; None: not known, since the registry partition is away
    everywhere: bool  # whether every partition has noted it


class RenewedHosts(NamedTuple):
    """What the store made of it that some hosts live."""

    unknown: set[str]  # of which some partition knows nothing: all that they said is to be told anew
    drains: set[str] | None  # which are to drain; None: not known, since the registry partition is away
    everywhere: bool  # whether every partition has noted it


class HostRecord(NamedTuple):
    """A live worker host, as it has said of itself."""

    name: str
    pool: str
    until_us: int  # when it counts as gone, unless it is heard of again
    quarantined: dict[
        str, int
    ]  # the lambdas that it quarantines ("*": all): until when, µs; in the past: it is on trial
    signatures: dict[
        str, list[str]
    ]  # of the lambdas of which live executors run several signatures, which of them run here
    executors: int = 0  # that run there
    drain_until_us: int | None = None  # None: it takes tasks; 0: it drains until that is ended
    why_not: str = ""  # why no executor can start there; "": they can; STARTS: they start


class CapacityRecord(NamedTuple):
    """The cores of a pool, and its members."""

    now_us: int  # the store's TIME
    version: int
    state: bytes  # b"": that of the version that is known
    deal: int
    groups: list[list[str]] | None  # None: those of the deal that is known
    membership: int  # grows with each change of the members
    to_deal: list[str] | None  # the members, where the groups are of others or were dealt for another number of cores


class KnownCapacity(NamedTuple):
    """What the caller of `get_capacity` has read before."""

    version: int = 0
    deal: int = 0


NOTHING_KNOWN: Final = KnownCapacity()


class CapacityVerbs(Partitions):
    """The verbs of Store about cores."""

    async def get_capacity(
        self,
        pool: str,
        known: KnownCapacity = NOTHING_KNOWN,
        *,
        here: Sequence[str] = (),
        gone: Sequence[str] = (),
        stay_us: int = 1,
    ) -> CapacityRecord | None:
        """Reads a pool's cores, and notes which executors are its members.

        Args:
            pool: its name.
            known: what need not be told again.
            here: members.
            gone: they are none any more.
            stay_us: how long those that are here stay, unless they are named again.

        Returns:
            None where no cores are set for the pool.
        """
        names = [*((each, True) for each in here), *((each, False) for each in gone)]
        reply: Any = None
        for start in range(0, max(len(names), 1), MAX_BATCH):
            some = names[start : start + MAX_BATCH]
            args: list[Arg] = [pool, known.version, known.deal, stay_us, sum(is_here for _, is_here in some)]
            reply = await self._call("get_capacity", REGISTRY_PARTITION, [*args, *(name for name, _ in some)])
            if not reply:
                return None
        now, version, state, deal, groups, membership, stale, to_deal = reply
        dealt = msgspec.json.decode(groups, type=list[list[str]]) if groups else None
        members = [each.decode() for each in to_deal] if stale else None
        return CapacityRecord(int(now), int(version), bytes(state), int(deal), dealt, int(membership), members)

    async def set_capacity(
        self,
        pool: str,
        version: int,
        state: bytes,
        dealt: tuple[Sequence[Sequence[str]], int] | None = None,
        *,
        deal_anew: bool = False,
    ) -> int:
        """Replaces a pool's record.

        Args:
            pool: its name.
            version: that was read; 0: there was none.
            state: what it says from now on; b"": no cores are set any more.
            dealt: groups, where they were dealt anew, and the membership that they were dealt to.
            deal_anew: somebody has to deal them.

        Returns:
            its version now; 0: somebody else has written it meanwhile, and nothing was changed.
        """
        groups: Arg = "" if dealt is None else msgspec.json.encode(dealt[0])
        membership: Arg = ("-1" if deal_anew else "") if dealt is None else dealt[1]
        return int(await self._call("set_capacity", REGISTRY_PARTITION, [pool, version, state, groups, membership]))

    async def list_capacity(self) -> list[str]:
        """The names of the pools that have cores."""
        return sorted(name.decode() for name in await self._call("list_capacity", REGISTRY_PARTITION, []))

    async def live_pools(self) -> list[str]:
        """The names of the pools of which workers are alive; "" where some are of none."""
        return sorted(name.decode() for name in await self._call("live_pools", REGISTRY_PARTITION, []))

    async def list_hosts(self) -> tuple[int, list[HostRecord]]:
        """The store's time, µs, and the live worker hosts by name; MAX_HOSTS of them at most."""
        now, found = await self._call("list_hosts", REGISTRY_PARTITION, [MAX_HOSTS])
        hosts = []
        for name, until, said, run, drain, why_not in zip(*(found[place::6] for place in range(6)), strict=True):
            says = dict(each.split("=", 1) for each in said.decode().split())
            pool, executors = says.pop("pool", ""), int(says.pop("executors", 0))
            quarantined = {each: int(us) for each, us in says.items()}
            runs = [each.split(" ") for each in run.decode().split(",") if each]
            signatures = {each: sorted(digests) for each, *digests in runs}
            drains = int(drain) if drain else None
            hosts.append(
                HostRecord(
                    name.decode(), pool, int(until), quarantined, signatures, executors, drains, why_not.decode()
                )
            )
        return int(now), sorted(hosts)

    async def renew_hosts(
        self, pool: str, seconds: float, hosts: Sequence[str], lambdas: Sequence[str] = (), *, alive: bool = True
    ) -> RenewedHosts:
        """Notes that worker hosts of a pool live: what `serve` said of each holds for so long from now.

        Args:
            pool: theirs.
            seconds: how long that counts.
            hosts: their names.
            lambdas: that they serve, as of `serve`; "*": some did not say.
            alive: whether workers are alive there.
        """

        async def renew(partition: int, _: Sequence[int]) -> list[list[int] | None]:
            told: list[int] = []
            for start in range(0, max(len(hosts), len(lambdas)), MAX_BATCH):
                some = hosts[start : start + MAX_BATCH]
                args: list[Arg] = [
                    pool,
                    round(seconds * US),
                    int(alive),
                    len(some),
                    *some,
                    *lambdas[start : start + MAX_BATCH],
                ]
                try:
                    told += await self._call("renew_hosts", partition, args)
                except Unavailable:  # it is said again
                    return [None]
            return [told]

        told = await by_partition(range(self.partitions), int, renew)
        answered = [dict(zip(hosts, each, strict=True)) for each in told if each is not None]
        at_registry = told[REGISTRY_PARTITION]
        return RenewedHosts(
            {host for each in answered for host, known in each.items() if not known},
            None if at_registry is None else {host for host, known in answered[0].items() if known == DRAINS},
            None not in told,
        )

    async def drain_host(self, host: str, *, drains: bool, seconds: float = 0) -> bool:
        """Has a worker host drain, or take tasks again.

        Args:
            host: its controller's name.
            drains: whether it is to drain.
            seconds: for how long; 0: until that is ended.

        Returns:
            False where it was to take tasks again and did not drain.
        """
        args: list[Arg] = [host, int(drains), round(seconds * US), round(_DRAIN_REMEMBERED_S * US)]
        return int(await self._call("drain_host", REGISTRY_PARTITION, args)) == 1

    async def waiting(self, partition: int, pool: str, lambdas: Sequence[str]) -> list[int]:
        """What a partition has for executors of a pool, of each of at most 256 lambdas: see WaitingTasks."""
        return list(await self._call("waiting", partition, [pool, *lambdas]))

    async def waiting_tasks(self, pool: str, lambdas: Sequence[str]) -> dict[str, int]:
        """What the store has of each lambda, over all partitions; one that a partition does not tell of has something."""
        found = dict.fromkeys(lambdas, WaitingTasks.NOTHING)
        for start in range(0, len(lambdas), MAX_BATCH):
            part = lambdas[start : start + MAX_BATCH]
            asked = (self.waiting(partition, pool, part) for partition in range(self.partitions))
            for partition, answer in enumerate(await asyncio.gather(*asked, return_exceptions=True)):
                if isinstance(answer, BaseException) and not isinstance(answer, AtfError):
                    raise answer
                told = [WaitingTasks.TAKEN] * len(part) if isinstance(answer, BaseException) else answer
                for name, state in zip(part, told, strict=True):
                    if state != WaitingTasks.UNKNOWN:
                        found[name] = max(found[name], state)
                    elif partition == REGISTRY_PARTITION and found[name] == WaitingTasks.NOTHING:
                        found[name] = WaitingTasks.UNKNOWN
        return found
