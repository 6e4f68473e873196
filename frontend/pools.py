"""Knows which pools of executors there are, and refuses names that nobody uses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from atf.auth.caller import caller
from atf.auth.grants import Verb
from atf.errors import NotFound, Unavailable
from atf.store.store import Store

from .lambdas import Lambdas, did_you_mean

_WARNINGS: Final = 16
"""Pools that one registration is warned of: the names nearest to each are looked for among all."""
_NAMED: Final = 3
"""Lambdas that a warning names."""


class KnownPools:
    """The pools by name. One is known that has cores, that a registered lambda names, or that a live controller belongs to."""

    def __init__(self, store: Store, lambdas: Lambdas) -> None:
        self._store = store
        self._lambdas = lambdas

    async def check_known(self, name: str) -> None:
        """Lets pass the name of a pool that somebody uses, and the empty one.

        Raises:
            NotFound: nobody uses it; the message names the nearest.
        """
        if not name or name in (names := await self._names()):
            return
        raise NotFound(
            f"there is no pool {name!r}: it has no cores, no registered lambda names it, and no live controller belongs to"
            f" it{did_you_mean(name, self._seen(names)) or '.'} atf worker --pool {name} starts one"
        )

    async def warnings(self, registered: Collection[str]) -> list[str]:
        """A sentence for each pool without cores that some lambdas run in and no live controller belongs to, up to _WARNINGS.

        Code may name a pool that is yet to come up, so it is not refused; nor does a store that can't be asked keep anybody.
        """
        naming: dict[str, list[str]] = {}
        others = set()
        for known in self._lambdas.all():
            if known.record.name not in registered:
                others.add(known.in_force.pool)
            elif known.in_force.pool:
                naming.setdefault(known.in_force.pool, []).append(known.record.name)
        if not naming:
            return []
        try:
            used = {*await self._store.list_capacity(), *await self._store.live_pools()}
        except Unavailable:
            return []
        near = self._seen((used | others.difference(naming)) - {""})
        return [
            f"{_listed(naming[pool])} in the pool {pool!r}, which has no cores, and to which no live controller belongs: until one"
            f" does, tasks wait{did_you_mean(pool, near) or '.'} atf worker --pool {pool} starts one"
            for pool in sorted(naming.keys() - used)[:_WARNINGS]
        ]

    def _seen(self, names: Collection[str]) -> Collection[str]:
        """Those of some pools at which a caller may be hinted: who may not read everything knows those of its own lambdas alone."""
        who = caller()
        if who.may_everywhere(Verb.READ):
            return names
        own = (each for each in self._lambdas.all() if who.sees(each.record.name))
        return set(names) & {spec.pool for each in own for spec in (each.spec, each.in_force)}

    async def _names(self) -> set[str]:
        await self._lambdas.refresh()
        alive = await self._store.live_pools()  # hosts are listed only up to a number, and where they have names
        named = (spec.pool for known in self._lambdas.all() for spec in (known.spec, known.in_force))
        return {*await self._store.list_capacity(), *alive, *named} - {""}


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    listed = ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{listed} {'run' if len(names) > 1 else 'runs'}"
