"""Says who makes a call, by what came along with it: a token, an executor's credential, or a client's certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from atf.errors import Unauthenticated
from atf.runtime import Runtime

from .caller import Caller, CallerKind
from .executor_credentials import PREFIX as EXECUTOR_PREFIX, check
from .grants import TokenGrant, Verb
from .known_tokens import KnownTokens
from .secrets import SCHEME, parse
from .signing_keys import believed
from .token_record import TokenRecord

_OF_EXECUTORS: Final = frozenset({Verb.SCHEDULE, Verb.READ, Verb.READ_PAYLOAD, Verb.WORK})
"""What of its token's verbs an executor has. WORK lets it register lambdas; that it can't claim is the HSC's rule (methods.py)."""

_MOST_HOLDERS: Final = 10_000


class Authenticator(Protocol):
    """Knows callers."""

    async def caller(self, shown: str, subjects: Sequence[str]) -> Caller:
        """Who calls.

        Args:
            shown: the header `authorization`; empty: none came.
            subjects: the names in the client's certificate, which was checked.

        Raises:
            Unauthenticated: nobody who is known here; the sentence says what was wrong.
            Unavailable: it can't be known now.
        """
        ...


class TokenAuthenticator:
    """Knows callers by the installation's tokens.

    Args:
        known: the tokens.
        runtime: clocks.
    """

    def __init__(self, known: KnownTokens, runtime: Runtime) -> None:
        self._known, self._runtime = known, runtime
        self._holders: dict[str, tuple[TokenRecord, Caller]] = {}
        """By token: made once for each change of it, since reading its scopes takes longer than the rest of a check."""

    async def caller(self, shown: str, subjects: Sequence[str]) -> Caller:
        """As of Authenticator."""
        if not shown:
            return await self._of_certificate(subjects)
        text = shown[len(SCHEME) :] if shown[: len(SCHEME)].lower() == SCHEME.lower() else ""
        if text.startswith(EXECUTOR_PREFIX + "_"):
            return await self._executor(text)
        token = parse(text)
        if token is None:
            raise Unauthenticated(
                "what was sent is no token: send `authorization: Bearer atf_…`, as `atf token create` showed it"
            )
        record = await self._known.token(token.id)
        if record is not None and not record.is_shown(token, self._runtime.wall_us()):
            record = await self._known.token(token.id, again=True)
        if record is None or not record.is_shown(token, self._runtime.wall_us()):
            raise Unauthenticated(f"the token {token.id} is not known here")
        self._check(record)
        return self._holder(record)

    def _holder(self, record: TokenRecord) -> Caller:
        known = self._holders.get(record.id)
        if known is not None and known[0] is record:
            return known[1]
        if len(self._holders) >= _MOST_HOLDERS:
            self._holders.clear()
        made = Caller(CallerKind.TOKEN, record.name, record.grant, token_id=record.id, seal=record.seal)
        self._holders[record.id] = (record, made)
        return made

    async def _of_certificate(self, subjects: Sequence[str]) -> Caller:
        for each in subjects:
            record = await self._known.of_subject(each)
            if record is not None:
                self._check(record)
                return Caller(CallerKind.CERTIFICATE, each, record.grant, token_id=record.id, seal=record.seal)
        if subjects:
            raise Unauthenticated(
                f"the certificate of {subjects[0][:200]} is granted nothing: atf token create --subject {subjects[0][:200]} …"
            )
        raise Unauthenticated("no token was sent: set ATF_TOKEN, or ATF_TOKEN_FILE to a file that holds it")

    async def _executor(self, text: str) -> Caller:
        now_us = self._runtime.wall_us()
        credential = check(text, believed(await self._known.keys(), now_us))
        if credential is None:  # the key may be a new one
            credential = check(text, believed(await self._known.keys(again=True), now_us))
        if credential is None:
            raise Unauthenticated("the executor's credential was not signed here")
        if credential.expires_us <= now_us:
            raise Unauthenticated("the executor's credential has expired")
        record = await self._known.token(credential.token_id)
        if record is None:
            raise Unauthenticated(f"the token {credential.token_id}, by which the executor works, is not known here")
        self._check(record)
        grant = record.grant
        verbs = frozenset(each for each in _OF_EXECUTORS if grant.can(each))
        kind = CallerKind.CODE if credential.of_code else CallerKind.EXECUTOR
        name = f"{'code in ' * credential.of_code}executor {credential.executor_id} by {record.name}"
        own = TokenGrant(verbs, grant.scopes, grant.pools)
        return Caller(kind, name, own, credential.executor_id, record.id, record.seal, record.name)

    def _check(self, record: TokenRecord) -> None:
        why = record.ended(self._runtime.wall_us())
        if why:
            raise Unauthenticated(f"the {record.name} {why}: atf token create makes another one")
