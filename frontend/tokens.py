"""Answers the RPCs about tokens. The secrets themselves never come here: whoever makes one sends its SHA-256 alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from atf.auth.caller import caller
from atf.auth.grants import ALL, Verb, scopes_of, verbs_of
from atf.auth.signing_keys import FIELD, made_at, others_until, rotated
from atf.auth.token_record import MAX_NOTE, MAX_SUBJECT, TokenRecord
from atf.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Unavailable
from atf.rpc import frontend_pb2 as f
from atf.runtime import new_id
from atf.task import MAX_AHEAD_US, US, check_pool
from atf.times import length

from .audit import signature
from .parts import FrontendParts
from .validate import shown

MAX_TOKENS: Final = 10_000
"""That an installation keeps, ended ones too: every frontend and HSC holds them all."""
KEPT_DAYS: Final = 30
"""For which a token that has ended is still listed."""
_ID: Final = re.compile(r"[a-z2-7]{10}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_DAY_US: Final = 86_400 * US
_MOST_SCOPES: Final = 100
_SEAL_BITS: Final = 256
_TRIES: Final = 10


class TokenRpcs(FrontendParts):
    """The calls about tokens."""

    async def create_token(self, request: f.CreateTokenRequest, *, timeout: float = 10) -> f.AccessToken:
        """Makes a token; the same again is answered with what there is."""
        made = self._made(request, signature(request)[0], await self._now_us())
        found = await self._without_old(await self._token_texts(), made.created_us)
        if len(found) >= MAX_TOKENS and made.id not in found:
            raise FailedPrecondition(
                f"there are {MAX_TOKENS:,} tokens, as many as may be. Revoke some: ended ones go after {KEPT_DAYS} days"
            )
        if made.subject and any(
            each.subject == made.subject and each.id != made.id for each in map(_read, found.values())
        ):
            raise AlreadyExists(f"the subject {made.subject!r} has a token already: revoke that, or see atf token ls")
        async with self._audit.write("create_token", request, detail=_said(made)) as draft:
            draft.changed = await self._store.set_token(made.id, msgspec.json.encode(made))
            if not draft.changed:
                there = _read((await self._token_texts())[made.id])
                if not there.same_as(made):
                    raise AlreadyExists(f"the id {made.id} is another token's: make another one")
                return view(there)
        return view(made)

    async def list_tokens(self, request: f.ListTokensRequest, *, timeout: float = 10) -> f.ListTokensReply:
        """All of them, the newest first."""
        found = sorted(map(_read, (await self._token_texts()).values()), key=lambda each: (-each.created_us, each.id))
        return f.ListTokensReply(tokens=map(view, found))

    async def rotate_token(self, request: f.RotateTokenRequest, *, timeout: float = 10) -> f.AccessToken:
        """Gives a token another secret."""
        _check_digest(request.digest)
        if not 0 <= request.overlap_us <= MAX_AHEAD_US:
            raise InvalidArgument(f"overlap {length(request.overlap_us)}: use 0 s to ten years")
        now_us = await self._now_us()

        def rotated(token: TokenRecord) -> TokenRecord:
            why = token.ended(now_us)
            if why or not token.digest:
                raise InvalidArgument(
                    f"the {token.name} {why or 'is known by a certificate and has no secret'}: make another one"
                )
            if token.digest == request.digest:
                return token  # the answer was lost
            until = now_us + request.overlap_us
            return msgspec.structs.replace(token, digest=request.digest, before=token.digest, before_until_us=until)

        async with self._audit.write("rotate_token", request, detail=shown(request.id)) as draft:
            found, draft.changed = await self._changed_token(request.id, rotated)
        return view(found)

    async def revoke_token(self, request: f.RevokeTokenRequest, *, timeout: float = 10) -> f.AccessToken:
        """Ends a token."""
        now_us = await self._now_us()

        def revoked(token: TokenRecord) -> TokenRecord:
            return token if token.revoked_us else msgspec.structs.replace(token, revoked_us=now_us)

        async with self._audit.write("revoke_token", request, detail=shown(request.id)) as draft:
            found, draft.changed = await self._changed_token(request.id, revoked)
        return view(found)

    async def rotate_signing_key(
        self, request: f.RotateSigningKeyRequest, *, timeout: float = 10
    ) -> f.RotateSigningKeyReply:
        """Makes another key for the credentials of executors."""
        now_us = await self._now_us()
        async with self._audit.write("rotate_signing_key", request) as draft:
            for _ in range(_TRIES):
                _, found = await self._store.list_tokens() or (0, {})
                text = found.get(FIELD, b"")
                before = msgspec.json.decode(text or b"[]", type=list[bytes])
                after = rotated(before, now_us, self._runtime.random.randbytes)
                draft.changed = after != before
                if not draft.changed or await self._store.set_token(FIELD, msgspec.json.encode(after), text):
                    return f.RotateSigningKeyReply(made_at_us=made_at(after[0]), others_until_us=others_until(after[0]))
        raise Unavailable("others change the keys at the same time; try again")

    async def get_caller(self, request: f.GetCallerRequest, *, timeout: float = 10) -> f.CallerInfo:
        """Who calls, and what that may do."""
        who = caller()
        if who.grant is None:
            return f.CallerInfo(name=who.name, everything=True)
        grant = who.grant
        verbs = [each for each in Verb if grant.can(each)]
        return f.CallerInfo(name=who.name, verbs=verbs, scopes=sorted(grant.scopes), pools=sorted(grant.pools))

    async def _token_texts(self) -> dict[str, bytes]:
        _, found = await self._store.list_tokens() or (0, {})
        return {name: text for name, text in found.items() if name != FIELD}

    async def _without_old(self, texts: dict[str, bytes], now_us: int) -> dict[str, bytes]:
        """Removes those that have ended long ago; returns the others."""
        left = {}
        for name, text in texts.items():
            token = _read(text)
            ended_us = token.revoked_us or token.expires_us
            if ended_us and ended_us + KEPT_DAYS * _DAY_US < now_us:
                await self._store.set_token(name, b"", text)
            else:
                left[name] = text
        return left

    async def _changed_token(
        self, token_id: str, change: Callable[[TokenRecord], TokenRecord]
    ) -> tuple[TokenRecord, bool]:
        """A token as it is after a change, and whether that made a difference."""
        for _ in range(_TRIES):
            text = (await self._token_texts()).get(token_id)
            if text is None:
                raise NotFound(f"no token {shown(token_id)!r}: atf token ls lists them")
            before = _read(text)
            after = change(before)
            if after == before or await self._store.set_token(token_id, msgspec.json.encode(after), text):
                return after, after != before
        raise Unavailable("others change the token at the same time; try again")

    def _made(self, request: f.CreateTokenRequest, by: str, now_us: int) -> TokenRecord:
        if not _ID.fullmatch(request.id):
            raise InvalidArgument(f"id {shown(request.id)!r}: ten of the characters a-z 2-7")
        if bool(request.digest) == bool(request.subject):
            raise InvalidArgument("a token is known by its digest or by a certificate's subject: give one of them")
        if request.digest:
            _check_digest(request.digest)
        if len(request.subject) > MAX_SUBJECT:
            raise InvalidArgument(f"subject: at most {MAX_SUBJECT} characters")
        if len(request.note) > MAX_NOTE:
            raise InvalidArgument(f"note: at most {MAX_NOTE} characters")
        if not 0 <= request.expires_in_us <= MAX_AHEAD_US:
            raise InvalidArgument(f"expires_in {length(request.expires_in_us)}: use 0 (never) to ten years")
        if len(request.scopes) > _MOST_SCOPES or len(request.pools) > _MOST_SCOPES:
            raise InvalidArgument(f"at most {_MOST_SCOPES} namespaces, and as many pools, in one token")
        if len(request.verbs) > len(Verb):
            raise InvalidArgument(f"verbs: at most {len(Verb)}")
        for pool in set(request.pools) - {ALL, "default"}:
            check_pool(pool)
        return TokenRecord(
            id=request.id,
            verbs=tuple(sorted(verbs_of(request.verbs))),
            scopes=tuple(sorted(scopes_of(request.scopes))),
            pools=tuple(sorted(set(request.pools))) or (ALL,),
            digest=request.digest,
            subject=request.subject,
            expires_us=now_us + request.expires_in_us if request.expires_in_us else 0,
            created_us=now_us,
            by=by,
            note=request.note,
            seal=new_id(self._runtime.random, _SEAL_BITS),
        )


def view(token: TokenRecord) -> f.AccessToken:
    """A token as callers see it: all but its digests."""
    return f.AccessToken(
        id=token.id,
        verbs=token.verbs,
        scopes=token.scopes,
        pools=token.pools,
        subject=token.subject,
        expires_us=token.expires_us,
        revoked_us=token.revoked_us,
        created_us=token.created_us,
        before_until_us=token.before_until_us,
        by=token.by,
        note=token.note,
    )


def _read(text: bytes) -> TokenRecord:
    return msgspec.json.decode(text, type=TokenRecord)


def _check_digest(digest: str) -> None:
    if not _DIGEST.fullmatch(digest):
        raise InvalidArgument("digest: the SHA-256 of the token, 64 hexadecimal digits in lower case")


def _said(token: TokenRecord) -> str:
    return f"{token.id}: {','.join(token.verbs)} for {','.join(token.scopes)}"
