"""Who shows wrong tokens is slowed down, and can't fill the log or the memory; who shows a right one notices nothing."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from atf.auth import secrets
from atf.auth.authenticator import TokenAuthenticator
from atf.auth.grants import Verb
from atf.auth.known_tokens import LOOKS, SOONEST_S, KnownTokens, TokenTable
from atf.auth.wrong_tries import BURST, HOLD_S, LINES, MOST_ADDRESSES, MOST_HELD, WINDOW_S, WrongTries
from atf.errors import Unauthenticated
from atf.rpc.server_security import Check, ServerSecurity
from atf.testing.runtime import VirtualRuntime

from .test_tokens import OTHER, TOKEN, Tokens, bearer, on_virtual_time, record

PEER = "ipv4:10.0.0.1:4711"


async def seconds(runtime: VirtualRuntime, tries: WrongTries, peer: str = PEER) -> float:
    began = runtime.monotonic()
    await tries.after(peer, "why")
    return runtime.monotonic() - began


def test_an_address_is_slowed_down_after_a_while_and_others_are_not() -> None:
    async def story(runtime: VirtualRuntime) -> None:
        tries = WrongTries(runtime)
        assert [await seconds(runtime, tries, f"ipv4:10.0.0.1:{port}") for port in range(BURST)] == [0] * BURST
        assert await seconds(runtime, tries) == pytest.approx(HOLD_S)
        assert await seconds(runtime, tries, "ipv4:10.0.0.2:4711") == 0
        await asyncio.sleep(WINDOW_S)
        assert await seconds(runtime, tries) == 0

    on_virtual_time(story)


def test_this_machine_is_not_slowed_down() -> None:
    async def story(runtime: VirtualRuntime) -> None:
        tries = WrongTries(runtime)
        for peer in ("ipv4:127.0.0.1:1", "ipv6:%5B::1%5D:1", "ipv6:[::1]:1", "unix:"):
            assert sum([await seconds(runtime, tries, peer) for _ in range(BURST + 5)]) == 0

    on_virtual_time(story)


def test_no_more_are_held_back_than_may_be() -> None:
    async def story(runtime: VirtualRuntime) -> None:
        tries = WrongTries(runtime)
        for _ in range(BURST):
            await tries.after(PEER, "why")
        took = await asyncio.gather(*(seconds(runtime, tries) for _ in range(MOST_HELD + 7)))
        assert sum(each < HOLD_S / 2 for each in took) == 7

    on_virtual_time(story)


def test_memory_and_log_are_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(runtime: VirtualRuntime) -> WrongTries:
        tries = WrongTries(runtime)
        for each in range(MOST_ADDRESSES + 50):
            await tries.after(f"ipv4:10.{each >> 16}.{each >> 8 & 255}.{each & 255}:1", "why")
        return tries

    tries = on_virtual_time(story)
    held = [each for each in vars(tries).values() if isinstance(each, dict)]
    assert [len(each) for each in held] == [MOST_ADDRESSES]
    written = capsys.readouterr()
    assert (written.out + written.err).count("was not let in") == LINES


def test_a_right_token_is_never_held_back() -> None:
    async def story(runtime: VirtualRuntime) -> None:
        tokens = Tokens(record())
        check = door(tokens, runtime)
        for _ in range(BURST + 5):
            with pytest.raises(Unauthenticated):
                await check(call(OTHER))
            began = runtime.monotonic()
            await check(call(TOKEN))
            assert runtime.monotonic() == began
        assert tokens.reads <= 1 + LOOKS + 5 * HOLD_S / SOONEST_S

    on_virtual_time(story)


def test_a_new_secret_is_valid_at_once() -> None:
    async def story(runtime: VirtualRuntime) -> None:
        tokens = Tokens(record())
        known = KnownTokens(tokens.read, runtime)
        authenticator = TokenAuthenticator(known, runtime)
        await authenticator.caller(bearer(TOKEN), ())
        tokens.now_has(
            record(
                digest=secrets.digest_of(OTHER), before=secrets.digest_of(TOKEN), before_until_us=runtime.wall_us() + 1
            )
        )
        for shown in (OTHER, TOKEN):
            assert (await authenticator.caller(bearer(shown), ())).token_id == record().id
        await asyncio.sleep(1)
        with pytest.raises(Unauthenticated):
            await authenticator.caller(bearer(TOKEN), ())

    on_virtual_time(story)


def test_wrong_tokens_ask_the_store_once_a_second_at_most() -> None:
    async def story(runtime: VirtualRuntime) -> None:
        tokens = Tokens()
        check = door(tokens, runtime)
        for _ in range(50):
            with pytest.raises(Unauthenticated):
                await check(call(TOKEN, "ipv4:127.0.0.1:1"))
        assert tokens.reads == 1 + LOOKS
        await asyncio.sleep(2 * SOONEST_S)
        for _ in range(50):
            with pytest.raises(Unauthenticated):
                await check(call(TOKEN, "ipv4:127.0.0.1:1"))
        assert tokens.reads == 1 + LOOKS + 2

    on_virtual_time(story)


def test_what_is_made_just_after_a_reading_is_valid_at_once() -> None:
    async def story(runtime: VirtualRuntime) -> None:
        tokens = Tokens()
        known = KnownTokens(tokens.read, runtime)
        await known.refresh()
        tokens.now_has(record())
        assert (await TokenAuthenticator(known, runtime).caller(bearer(TOKEN), ())).token_id == record().id

    on_virtual_time(story)


def test_all_that_show_a_new_token_at_once_are_let_in() -> None:
    async def story(runtime: VirtualRuntime) -> None:
        async def slowly(version: int) -> TokenTable | None:
            await asyncio.sleep(0.1)
            return await tokens.read(version)

        tokens = Tokens()
        known = KnownTokens(slowly, runtime)
        await known.refresh()
        await asyncio.sleep(2)
        tokens.now_has(record())
        authenticator = TokenAuthenticator(known, runtime)
        found = await asyncio.gather(*(authenticator.caller(bearer(TOKEN), ()) for _ in range(3)))
        assert {each.token_id for each in found} == {record().id}
        assert tokens.reads == 2

    on_virtual_time(story)


def test_a_holder_that_is_remembered_is_forgotten_with_its_token() -> None:
    async def story(runtime: VirtualRuntime) -> None:
        tokens = Tokens(record())
        known = KnownTokens(tokens.read, runtime)
        authenticator = TokenAuthenticator(known, runtime)
        first = await authenticator.caller(bearer(TOKEN), ())
        assert await authenticator.caller(bearer(TOKEN), ()) is first
        tokens.now_has(record(scopes=("mail",)))
        await known.refresh()
        assert (await authenticator.caller(bearer(TOKEN), ())).may(Verb.SCHEDULE, "mail")
        tokens.now_has(record(revoked_us=1))
        await known.refresh()
        with pytest.raises(Unauthenticated, match="revoked"):
            await authenticator.caller(bearer(TOKEN), ())

    on_virtual_time(story)


def door(tokens: Tokens, runtime: VirtualRuntime) -> Check:
    authenticator = TokenAuthenticator(KnownTokens(tokens.read, runtime), runtime)
    check = ServerSecurity(authenticator, wrong_tries=WrongTries(runtime)).checks("/atf.v1.Frontend/Schedule")
    assert check is not None
    return check


def call(token: str, peer: str = PEER) -> Any:
    """What gRPC knows of a call."""
    return SimpleNamespace(
        invocation_metadata=lambda: (("authorization", bearer(token)),), auth_context=dict, peer=lambda: peer
    )
