"""Which pools of executors there are: a name that nobody uses is a slip of the pen, and is called one."""

from __future__ import annotations

from atf.errors import NotFound
from atf.store.store import Store

from .lambdas import Lambdas, did_you_mean


class Pools:
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
            f" it{did_you_mean(name, names) or '.'} atf controller --pool {name} starts one"
        )

    async def _names(self) -> set[str]:
        await self._lambdas.refresh()
        alive = await self._store.live_pools()  # hosts are listed only up to a number, and where they have names
        named = (spec.pool for known in self._lambdas.all() for spec in (known.spec, known.in_force))
        return {*await self._store.pools(), *alive, *named} - {""}
