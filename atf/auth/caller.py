"""Who makes the call that is under way, and what it may do.

The server sets it before a role's method runs; the method asks `permit` for every lambda that the call names or finds. Where nobody has set
it, the process calls itself, or the installation has no tokens: then everything is permitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from atf.errors import PermissionDenied

from .grants import ALL, TokenGrant, Verb


class CallerKind(Enum):
    """What a caller is known by."""

    ANYBODY = "anybody"
    """Nothing: tokens are off, or it is this process."""
    TOKEN = "token"  # noqa: S105  no secret
    CERTIFICATE = "certificate"
    EXECUTOR = "executor"
    """The credential of one executor, which a controller got for it."""
    CODE = "code"
    """What the code of users shows in an executor, which has made it of its own."""


@dataclass(frozen=True)
class Caller:
    """Who calls.

    Attributes:
        kind: what it is known by.
        name: for the audit; empty: nothing is known.
        grant: what it may do; None: everything.
        executor_id: of an executor's credential.
        token_id: of the token that is behind it.
        seal: of that token; see TokenRecord. No `repr` shows it.
        behind: the name of that token, where `name` is an executor's.
    """

    kind: CallerKind = CallerKind.ANYBODY
    name: str = ""
    grant: TokenGrant | None = None
    executor_id: str = ""
    token_id: str = ""
    seal: str = field(default="", repr=False)
    behind: str = ""

    @property
    def account(self) -> str:
        """Whose limits its calls count for: an executor's for its token's, since whoever has that can make credentials of any number of executors."""
        return self.behind or self.name

    def longest(self, seconds: float) -> float:
        """For how long a call may wait that would wait so long for anybody."""
        return seconds if self.grant is None else min(seconds, MOST_WAIT_S)

    def may(self, verb: Verb, lambda_name: str) -> bool:
        """Whether it has a verb for a lambda or, where that has no slash, for a namespace."""
        return self.grant is None or self.grant.allows(verb, lambda_name)

    def may_everywhere(self, verb: Verb) -> bool:
        """Whether it has a verb for all namespaces."""
        return self.grant is None or self.grant.everywhere(verb)

    def is_unbounded(self, verb: Verb) -> bool:
        """Whether there is no lambda for which it lacks a verb."""
        return self.grant is None or self.grant.is_unbounded(verb)

    def sees(self, lambda_name: str) -> bool:
        """Whether it has any verb in the namespace of a lambda. What is of another one does not exist for it."""
        return self.grant is None or self.grant.sees(lambda_name.partition("/")[0])

    def scopes(self, verb: Verb) -> list[str]:
        """For which namespaces, which end with a slash, and lambdas it has a verb; empty: for all. As the store takes them (scopes.lua).

        Raises:
            PermissionDenied: for none.
        """
        if self.grant is None or self.is_unbounded(verb):
            return []
        if not self.grant.can(verb):
            self.permit(verb, ALL)
        return self.grant.scopes_of(verb)

    def seen(self) -> list[str]:
        """The namespaces, which end with a slash, of which it sees anything at all; empty: all. As the store takes them (scopes.lua)."""
        return [] if self.grant is None else self.grant.seen()

    def permit(self, verb: Verb, lambda_name: str) -> None:
        """Lets pass what it may do.

        Raises:
            PermissionDenied: it may not; the sentence names the verb and the namespace.
        """
        if not self.may(verb, lambda_name):
            raise PermissionDenied(f"{self.name}: no {verb} for {lambda_name}. {_mend(verb, lambda_name)}")

    def permit_everywhere(self, verb: Verb) -> None:
        """The same for what concerns the whole cluster.

        Raises:
            PermissionDenied: it may not.
        """
        if not self.may_everywhere(verb):
            raise PermissionDenied(f"{self.name}: no {verb} for all namespaces (*), which this needs")

    def permit_pool(self, pool: str) -> None:
        """Lets pass a worker host of a pool.

        Raises:
            PermissionDenied: it may not work there.
        """
        if self.grant is not None and not self.grant.serves(pool):
            raise PermissionDenied(f"{self.name}: no {Verb.WORK} in the pool {pool or 'default'!r}")


def _mend(verb: Verb, lambda_name: str) -> str:
    scope = lambda_name.partition("/")[0]
    return f"A token that may has `--namespace {scope} --can {verb}`"


MOST_WAIT_S: Final = 15.0
"""Seconds for which a call that showed a token may wait. A token that was revoked is known everywhere after known_tokens.READ_EVERY_S: so it is
of no use any more after less than 30 s."""
ANYBODY: Final = Caller()
_now: ContextVar[Caller] = ContextVar("caller", default=ANYBODY)


def caller() -> Caller:
    """Who makes the call that is under way."""
    return _now.get()


def called_by(who: Caller) -> None:
    """From now on, in this asyncio task, `who` calls."""
    _now.set(who)


@contextmanager
def acting_for(who: Caller) -> Iterator[None]:
    """What is done within is done for somebody."""
    before = _now.set(who)
    try:
        yield
    finally:
        _now.reset(before)


def permit(verb: Verb, *lambda_names: str) -> None:
    """Lets pass what the caller may do to all of these lambdas.

    Raises:
        PermissionDenied: to one it may not.
    """
    who = _now.get()
    if who.grant is not None:
        for each in lambda_names:
            who.permit(verb, each)


def permit_some(verb: Verb, *namespaces: str) -> None:
    """Lets pass what the caller may do to something at least in each of these namespaces.

    Raises:
        PermissionDenied: in one it may not.
    """
    who = _now.get()
    if who.grant is not None:
        for each in namespaces:
            if not who.grant.touches(verb, each):
                who.permit(verb, each)


def permit_executor(executor_id: str) -> None:
    """Lets pass who speaks for an executor: itself, or its controller.

    Raises:
        PermissionDenied: it is another executor.
    """
    who = _now.get()
    if who.executor_id and who.executor_id != executor_id:
        raise PermissionDenied(f"{who.name}: it can't speak for the executor {executor_id!r}")


def permitted(verb: Verb, lambda_names: Iterable[str]) -> list[str]:
    """Those of the lambdas to which the caller may do it, in their order."""
    who = _now.get()
    return [each for each in lambda_names if who.may(verb, each)]
