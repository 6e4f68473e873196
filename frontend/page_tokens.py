"""Seals the tokens of pages for callers that may not see everything.

A page goes on behind a job, a batch, a key or a group of failures, and that may be of a lambda that its caller may not see. So its token says where in a form
that nobody but a frontend can read, and that counts for the same caller and the same call alone. Who may see everything gets it as it is.
"""

from __future__ import annotations

from atf.auth.caller import Caller, caller
from atf.auth.grants import Verb
from atf.errors import FailedPrecondition

from .validate import bad_page_token


def sealed(call: str, position: str) -> str:
    """What a caller gets that asks for the next page of a call; "" after the last one.

    Raises:
        FailedPrecondition: its token has nothing to seal with.
    """
    who = caller()
    if not position or who.is_unbounded(Verb.READ):
        return position
    from atf.auth import seals  # here: few need it, and it takes some MiB

    return seals.sealed(position, _seal(who), call)


def opened(call: str, token: str) -> str:
    """The position in the token of a page.

    Raises:
        InvalidArgument: this caller has not got it from this call.
    """
    who = caller()
    if not token or who.is_unbounded(Verb.READ):
        return token
    from atf.auth import seals

    position = seals.unsealed(token, _seal(who), call)
    if position is None:
        raise bad_page_token(token)
    return position


def _seal(who: Caller) -> str:
    if not who.seal:
        raise FailedPrecondition(f"{who.name} was made without a seal for pages: create another one (atf token create)")
    return who.seal
