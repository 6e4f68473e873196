"""Permits what a call finds by an id or a name: its lambda is not in the request, so it is looked up before anything is changed.

What a caller has no verb at all for, in its whole namespace, is answered as if it did not exist. Who may do it everywhere pays no look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from atf.auth.caller import caller
from atf.auth.grants import Verb
from atf.errors import AtfError
from atf.store.store import Store

_READ_TOGETHER: Final = 32
"""Records, with results of 64 KiB and payloads of 1 MiB each."""


def permit_found(verb: Verb, lambda_name: str, missing: Callable[[], AtfError]) -> None:
    """Lets pass what a caller may do to something that was found, of this lambda.

    Raises:
        PermissionDenied: it may do something else in the namespace, but not this.
        AtfError: it may do nothing there: what `missing` says of something that does not exist.
    """
    who = caller()
    if not who.may(verb, lambda_name):
        if not who.sees(lambda_name):
            raise missing()
        who.permit(verb, lambda_name)


async def permitted_tasks(store: Store, verb: Verb, ids: Sequence[str]) -> Sequence[str]:
    """Those of some tasks to which the caller may do it. Those that don't exist for it are left out.

    Raises:
        PermissionDenied: it may do something else in the namespace of one of them, but not this.
    """
    who = caller()
    if who.is_unbounded(verb):
        return ids
    found: list[str] = []
    for start in range(0, len(ids), _READ_TOGETHER):
        for record in await store.get_tasks(ids[start : start + _READ_TOGETHER], who.seen()):
            if record is None:
                continue
            if who.may(verb, record.lambda_name):
                found.append(record.id)
            elif who.sees(record.lambda_name):
                who.permit(verb, record.lambda_name)
    return found
