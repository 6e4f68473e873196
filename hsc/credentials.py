"""Signs the credentials of executors, with keys that all roles know by the task store.

The first credential that is asked for makes the first key. Later ones replace it in time (atf/auth/signing_keys.py).
"""

from __future__ import annotations

import asyncio

import msgspec

from atf.auth.caller import caller
from atf.auth.executor_credentials import Credential, check_executor_id, sign
from atf.auth.known_tokens import SOONEST_S
from atf.auth.signing_keys import FIELD, believed, made_at, renewed, to_sign_with
from atf.errors import Unavailable
from atf.rpc import task_pb2 as t
from atf.runtime import Runtime
from atf.store.store import Store
from atf.task import US

_TRIES = 5


class CredentialIssuer:
    """Signs credentials.

    Args:
        store: where the keys are.
        runtime: clocks, chance.
        life: seconds for which a credential is valid.
    """

    def __init__(self, store: Store, runtime: Runtime, life: float) -> None:
        self._store, self._runtime, self._life_us = store, runtime, round(life * US)
        self._version, self._read = -1, b""

    async def issue(self, executor_id: str) -> t.Credential:
        """A credential for an executor of whoever calls; an empty one where callers show nothing.

        Raises:
            InvalidArgument: the id is none.
            Unavailable: the keys change all the time.
        """
        check_executor_id(executor_id)
        who = caller()
        if who.grant is None:
            return t.Credential()
        now = self._runtime.wall_us()
        key = to_sign_with(believed(await self._keys(now), now), now)
        if (
            young := SOONEST_S - (now - made_at(key)) / US
        ) > 0:  # the first one: others may have read the tokens just before
            await asyncio.sleep(min(young, SOONEST_S))
        secret = sign(Credential(who.token_id, now + self._life_us, executor_id), key)
        return t.Credential(secret=secret, valid_for_us=self._life_us)

    async def _keys(self, now: int) -> list[bytes]:
        """The keys, the newest first; makes another one where that is due."""
        for _ in range(_TRIES):
            found = await self._store.list_tokens(self._version)
            if found is not None:
                self._version, self._read = found[0], found[1].get(FIELD, b"")
            keys = msgspec.json.decode(self._read or b"[]", type=list[bytes])
            following = renewed(keys, now, self._runtime.random.randbytes)
            if following is None:
                return keys
            if await self._store.set_token(FIELD, msgspec.json.encode(following), self._read):
                return following
        raise Unavailable("the keys that credentials are signed with are changed all the time: ask again")
