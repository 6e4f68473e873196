"""Tokens are made, listed, given other secrets, and revoked; the store never sees a secret."""

from __future__ import annotations

import pytest

from atf.auth import secrets
from atf.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from atf.frontend import tokens
from atf.rpc import frontend_pb2 as f
from atf.task import US

from .conftest import Bench

ID, DIGEST = "abcdefghij", "a" * 64
DAY_US = 86_400 * US


def asked(**fields: object) -> f.CreateTokenRequest:
    usual: dict[str, object] = {
        "id": ID,
        "digest": DIGEST,
        "verbs": ["read", "schedule"],
        "scopes": ["photos"],
        "who": "ada",
    }
    return f.CreateTokenRequest(**usual | fields)  # type: ignore[arg-type]


async def listed(bench: Bench) -> list[str]:
    return [each.id for each in (await bench.frontend.list_tokens(f.ListTokensRequest())).tokens]


async def test_a_token_is_made_once_however_often_it_is_asked_for(bench: Bench) -> None:
    made = await bench.frontend.create_token(asked(expires_in_us=DAY_US, note="web"))
    assert (list(made.verbs), list(made.scopes), list(made.pools), made.by) == (
        ["read", "schedule"],
        ["photos"],
        ["*"],
        "ada",
    )
    assert made.expires_us == made.created_us + DAY_US
    bench.clock.advance(1)
    assert await bench.frontend.create_token(asked(expires_in_us=DAY_US, note="web")) == made
    with pytest.raises(AlreadyExists, match="another token's"):
        await bench.frontend.create_token(asked(digest="b" * 64))
    assert await listed(bench) == [ID]


async def test_a_secret_is_replaced_and_the_one_before_is_good_for_a_while(bench: Bench) -> None:
    await bench.frontend.create_token(asked())
    found = await bench.frontend.rotate_token(f.RotateTokenRequest(id=ID, digest="b" * 64, overlap_us=DAY_US))
    assert found.before_until_us == found.created_us + DAY_US
    again = await bench.frontend.rotate_token(f.RotateTokenRequest(id=ID, digest="b" * 64, overlap_us=DAY_US))
    assert again == found, "the answer was lost"


async def test_a_token_is_revoked_once_and_kept_for_a_while(bench: Bench) -> None:
    await bench.frontend.create_token(asked())
    gone = await bench.frontend.revoke_token(f.RevokeTokenRequest(id=ID))
    assert gone.revoked_us > 0
    bench.clock.advance(1)
    assert await bench.frontend.revoke_token(f.RevokeTokenRequest(id=ID)) == gone
    with pytest.raises(InvalidArgument, match="was revoked: make another"):
        await bench.frontend.rotate_token(f.RotateTokenRequest(id=ID, digest="b" * 64))
    bench.clock.advance(tokens.KEPT_DAYS * 86_400 + 1)
    await bench.frontend.create_token(asked(id="klmnopqrst"))
    assert await listed(bench) == ["klmnopqrst"]


async def test_a_subject_has_one_token(bench: Bench) -> None:
    await bench.frontend.create_token(asked(digest="", subject="spiffe://here/web"))
    with pytest.raises(AlreadyExists, match="has a token already"):
        await bench.frontend.create_token(asked(id="klmnopqrst", digest="", subject="spiffe://here/web"))
    with pytest.raises(InvalidArgument, match="known by a certificate"):
        await bench.frontend.rotate_token(f.RotateTokenRequest(id=ID, digest="b" * 64))


async def test_what_is_not_there_is_not_found(bench: Bench) -> None:
    for call in (
        bench.frontend.revoke_token(f.RevokeTokenRequest(id="none")),
        bench.frontend.rotate_token(f.RotateTokenRequest(id="none", digest=DIGEST)),
    ):
        with pytest.raises(NotFound, match="atf token ls"):
            await call


async def test_there_are_so_many_at_most(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_TOKENS", 1)
    await bench.frontend.create_token(asked())
    with pytest.raises(FailedPrecondition, match="as many as may be"):
        await bench.frontend.create_token(asked(id="klmnopqrst"))
    assert await bench.frontend.create_token(asked())


def test_a_made_token_is_one_that_can_be_shown() -> None:
    token = secrets.new_token(ID, lambda count: b"\xff" * count)
    assert (secrets.parse(token) or ("",))[0] == ID
