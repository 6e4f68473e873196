"""Says what a caller of the HSC may ask for: a worker's token by its namespaces and pools, an executor's credential in that executor's name alone.

A claim is protected beside that by its nonce, which every verb of claims compares: whoever has not been given it can end nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from atf.auth.caller import caller
from atf.auth.grants import TokenGrant, Verb
from atf.rpc.lambda_sets import LambdaSet

_MOST_KNOWN: Final = 4_096


class PermittedSets:
    """The sets of lambdas that callers may run. A set of thousands is looked through once for each grant."""

    def __init__(self) -> None:
        self._known: set[tuple[TokenGrant, str]] = set()

    def permit(self, pool: str, sets: Iterable[LambdaSet]) -> None:
        """Lets pass a worker of a pool that runs these.

        Raises:
            PermissionDenied: it may not serve that pool, or not run one of the lambdas.
        """
        who = caller()
        if who.grant is None:
            return
        who.permit_pool(pool)
        for each in sets:
            key = (who.grant, each.digest)
            if key not in self._known:
                for name in sorted(each.lambdas):
                    who.permit(Verb.WORK, name)
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known.add(key)
