"""Who may read a process's metrics: they name every lambda. /livez and /readyz are for everybody."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Coroutine
from typing import Any, Final

from atf.auth.authenticator import Authenticator
from atf.auth.grants import Verb
from atf.auth.wrong_tries import WrongTries
from atf.errors import AtfError, Unauthenticated
from atf.rpc.caller_security import own

MayRead = Callable[[str, str], Coroutine[Any, Any, str]]
"""Whether somebody may who shows this in the header `authorization`, from this peer. Answers a sentence that says why not; empty: they may."""
_OWN: Final = "show the token of this process: it has no store, and so it knows no other one"
_EVERYTHING: Final = "a token that may read every namespace is needed: atf token create --namespace '*' --can read"


async def everybody(_shown: str, _peer: str) -> str:
    """Where auth is off."""
    return ""


def holders_of_own_token(wrong_tries: WrongTries) -> MayRead:
    """Of a process that has no store: whoever has the token that this process shows to others."""

    async def may_read(shown: str, peer: str) -> str:
        mine = dict(own().metadata() or ()).get("authorization", "")
        if mine and hmac.compare_digest(mine.encode(), shown.encode("utf-8", "replace")):
            return ""
        await wrong_tries.after(peer, _OWN)
        return _OWN

    return may_read


def readers_of_everything(authenticator: Authenticator, wrong_tries: WrongTries) -> MayRead:
    """Of a process that has the store: whose token may read every namespace."""

    async def may_read(shown: str, peer: str) -> str:
        try:
            who = await authenticator.caller(shown, ())
        except AtfError as error:
            if isinstance(error, Unauthenticated):
                await wrong_tries.after(peer, str(error))
            return str(error)
        return "" if who.grant is None or who.grant.everywhere(Verb.READ) else f"{who.name}: {_EVERYTHING}"

    return may_read
