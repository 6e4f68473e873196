"""What a token looks like, what it grants, and who is let in by it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from atf.auth import secrets
from atf.auth.authenticator import TokenAuthenticator
from atf.auth.caller import ANYBODY, Caller, CallerKind, acting_for, caller, permit, permitted
from atf.auth.executor_credentials import Credential, check, of_code, sign
from atf.auth.grants import ALL, TokenGrant, Verb, scopes_of, verbs_of
from atf.auth.known_tokens import LOOKS, MOST_AGE_S, KnownTokens, TokenTable
from atf.auth.methods import DAPR, DAPR_SCHEDULER, RULES, check_method
from atf.auth.token_record import TokenRecord
from atf.errors import InvalidArgument, PermissionDenied, Unauthenticated, Unavailable
from atf.rpc import dapr_runtime_pb2, dapr_scheduler_pb2, frontend_pb2, hsc_pb2, store_consumer_pb2
from atf.testing.loop import VirtualLoop
from atf.testing.runtime import VirtualRuntime

T = TypeVar("T")

CHANCE = random.Random(1)
ID = secrets.new_id(CHANCE.randbytes)
TOKEN = secrets.new_token(ID, CHANCE.randbytes)
OTHER = secrets.new_token(ID, CHANCE.randbytes)
KEY = b"k" * 32


def record(**changes: object) -> TokenRecord:
    values: dict[str, object] = {
        "id": ID,
        "verbs": ("schedule", "work"),
        "scopes": ("photos",),
        "digest": secrets.digest_of(TOKEN),
    }
    return TokenRecord(**values | changes)  # type: ignore[arg-type]


class Tokens:
    """A store's table; counts how often it is read."""

    def __init__(self, *records: TokenRecord) -> None:
        self.table = TokenTable(1, {each.id: each for each in records}, (KEY,))
        self.reads, self.away = 0, False

    async def read(self, version: int) -> TokenTable | None:
        self.reads += 1
        if self.away:
            raise Unavailable("away")
        return None if version == self.table.version else self.table

    def now_has(self, *records: TokenRecord) -> None:
        self.table = TokenTable(self.table.version + 1, {each.id: each for each in records}, (KEY,))


def on_virtual_time(story: Callable[[VirtualRuntime], Awaitable[T]]) -> T:
    loop = VirtualLoop()

    async def play() -> T:
        return await story(VirtualRuntime(loop))

    try:
        return loop.run_until_complete(play())
    finally:
        loop.close()


def let_in(tokens: Tokens, shown: str, subjects: Sequence[str] = ()) -> Caller:
    async def play(runtime: VirtualRuntime) -> Caller:
        return await TokenAuthenticator(KnownTokens(tokens.read, runtime), runtime).caller(shown, subjects)

    return on_virtual_time(play)


def bearer(token: str) -> str:
    return f"Bearer {token}"


# --- what a token is --------------------------------------------------------------------------------------------------


def test_a_token_names_itself_and_hides_its_secret() -> None:
    shown = secrets.parse(TOKEN)
    assert shown == (ID, secrets.digest_of(TOKEN))
    assert TOKEN != OTHER


@pytest.mark.parametrize("text", ["", "atf", TOKEN[:-1], TOKEN + "a", TOKEN.upper(), "x" * 10_000, "atf_é_" + "a" * 43])
def test_what_is_no_token_is_none(text: str) -> None:
    assert secrets.parse(text) is None


@pytest.mark.parametrize(
    ("verb", "name", "may"),
    [
        (Verb.SCHEDULE, "photos/resize", True),
        (Verb.SCHEDULE, "photos", True),
        (Verb.SCHEDULE, "mail/send", False),
        (Verb.SCHEDULE, "photos2/resize", False),
        (Verb.READ, "photos/resize", False),
        (Verb.SCHEDULE, "atf/command", False),
    ],
)
def test_a_grant_is_of_verbs_and_namespaces(verb: Verb, name: str, may: bool) -> None:
    assert record().grant.allows(verb, name) is may


def test_all_namespaces_are_not_the_built_in_lambdas() -> None:
    everything = TokenGrant(frozenset({Verb.ADMIN}), frozenset({ALL}))
    assert everything.allows(Verb.SCHEDULE, "any/thing")
    assert not everything.allows(Verb.SCHEDULE, "atf/command")
    assert everything.allows(Verb.READ, "atf/command")
    assert TokenGrant(frozenset({Verb.SCHEDULE}), frozenset({ALL, "atf/command"})).allows(Verb.SCHEDULE, "atf/command")


def test_a_grant_of_nothing_or_of_what_does_not_exist_is_refused() -> None:
    for verbs in ([], ["fly"]):
        with pytest.raises(InvalidArgument, match="schedule, read"):
            verbs_of(verbs)
    with pytest.raises(InvalidArgument, match=r"namespaces of the token|characters"):
        scopes_of([])
    with pytest.raises(InvalidArgument, match="characters"):
        scopes_of(["a b"])


# --- who is let in ----------------------------------------------------------------------------------------------------


def test_a_token_lets_its_holder_in() -> None:
    found = let_in(Tokens(record(note="web")), bearer(TOKEN))
    assert (found.kind, found.name) == (CallerKind.TOKEN, f"token {ID} (web)")


@pytest.mark.parametrize(
    ("shown", "tokens", "why"),
    [
        ("", Tokens(record()), "no token was sent"),
        ("Basic abc", Tokens(record()), "is no token"),
        (bearer(OTHER), Tokens(record()), "not known"),
        (bearer(TOKEN), Tokens(), "not known"),
        (bearer(TOKEN), Tokens(record(expires_us=1)), "has expired"),
        (bearer(TOKEN), Tokens(record(revoked_us=1)), "was revoked"),
    ],
)
def test_nobody_else_is_let_in(shown: str, tokens: Tokens, why: str) -> None:
    with pytest.raises(Unauthenticated, match=why) as raised:
        let_in(tokens, shown)
    assert TOKEN[16:] not in str(raised.value)


def test_the_secret_before_a_rotation_is_good_for_a_while() -> None:
    late = record(digest=secrets.digest_of(OTHER), before=secrets.digest_of(TOKEN), before_until_us=1 << 60)
    assert let_in(Tokens(late), bearer(TOKEN)).name == f"token {ID}"
    over = record(digest=secrets.digest_of(OTHER), before=secrets.digest_of(TOKEN), before_until_us=1)
    with pytest.raises(Unauthenticated):
        let_in(Tokens(over), bearer(TOKEN))


def test_a_certificate_is_known_by_its_subject() -> None:
    tokens = Tokens(record(digest="", subject="spiffe://here/web"))
    found = let_in(tokens, "", ["spiffe://here/web"])
    assert (found.kind, found.name) == (CallerKind.CERTIFICATE, "spiffe://here/web")
    with pytest.raises(Unauthenticated, match="granted nothing"):
        let_in(tokens, "", ["spiffe://here/other"])


def test_an_executor_has_what_its_token_has_but_for_claims() -> None:
    text = sign(Credential(ID, 1 << 52, "e1"), KEY)
    found = let_in(Tokens(record()), bearer(text))
    assert (found.kind, found.executor_id) == (CallerKind.EXECUTOR, "e1")
    check_method("/atf.v1.HSC/Heartbeat", found)
    check_method("/atf.v1.Frontend/Schedule", found)
    for path in ("/atf.v1.HSC/NextClaims", "/atf.v1.HSC/ReportLoss"):
        with pytest.raises(PermissionDenied, match="its own claims"):
            check_method(path, found)


@pytest.mark.parametrize(
    ("text", "tokens", "why"),
    [
        (sign(Credential(ID, 1 << 52, "e1"), b"x" * 32), Tokens(record()), "not signed here"),
        (sign(Credential(ID, 1, "e1"), KEY), Tokens(record()), "expired"),
        (sign(Credential(ID, 1 << 52, "e1"), KEY), Tokens(record(revoked_us=1)), "was revoked"),
        (sign(Credential(ID, 1 << 52, "e1"), KEY), Tokens(), "not known"),
    ],
)
def test_another_credential_is_none(text: str, tokens: Tokens, why: str) -> None:
    with pytest.raises(Unauthenticated, match=why):
        let_in(tokens, bearer(text))


@pytest.mark.parametrize("executor_id", ["e1", "e_c1_2"])
def test_code_of_users_has_no_part_in_claims(executor_id: str) -> None:
    text = of_code(sign(Credential(ID, 1 << 52, executor_id), KEY))
    assert text == sign(Credential(ID, 1 << 52, executor_id, of_code=True), KEY)
    found = let_in(Tokens(record()), bearer(text))
    assert (found.kind, found.executor_id) == (CallerKind.CODE, executor_id)
    check_method("/atf.v1.Frontend/Schedule", found)
    check_method("/atf.v1.HSC/FirstTime", found)
    for name in ("Heartbeat", "SetResults", "HandBack", "NextClaims", "IssueCredential"):
        with pytest.raises(PermissionDenied, match=f"no {name}: code may schedule and read"):
            check_method(f"/atf.v1.HSC/{name}", found)
    assert check(text.replace(f"_c{1 << 52}_", f"_{1 << 52}_"), [KEY]) is None, "it does not become the executor's"


def test_a_credential_can_not_be_changed() -> None:
    text = sign(Credential(ID, 1 << 52, "e1"), KEY)
    assert check(text, [b"new" * 11, KEY]) == (ID, 1 << 52, "e1", False)
    assert check(text.replace("_e1_", "_e2_"), [KEY]) is None


# --- the table, as a process knows it ---------------------------------------------------------------------------------


def test_a_new_token_is_good_at_once_and_wrong_ones_cause_no_work() -> None:
    async def play(runtime: VirtualRuntime) -> int:
        tokens = Tokens()
        known = KnownTokens(tokens.read, runtime)
        assert await known.token(ID) is None
        await asyncio.sleep(1.0)
        tokens.now_has(record())
        assert await known.token(ID) is not None
        for number in range(1_000):
            assert await known.token(f"wrong{number}") is None
        return tokens.reads

    assert on_virtual_time(play) <= 3 + LOOKS


def test_a_new_secret_is_good_at_once_for_all_that_show_it_at_the_same_time() -> None:
    tokens = Tokens(record())

    async def play(runtime: VirtualRuntime) -> None:
        known = KnownTokens(tokens.read, runtime)
        door = TokenAuthenticator(known, runtime)
        await door.caller(bearer(TOKEN), ())
        await known.refresh()  # just now, by the clock
        tokens.now_has(
            record(digest=secrets.digest_of(OTHER), before=secrets.digest_of(TOKEN), before_until_us=1 << 60)
        )
        read = tokens.reads
        found = await asyncio.gather(*(door.caller(bearer(each), ()) for each in (OTHER, OTHER, TOKEN)))
        assert [each.token_id for each in found] == [ID] * 3
        assert tokens.reads == read + 1

    on_virtual_time(play)


def test_what_was_revoked_is_not_believed_for_long_while_the_store_is_away() -> None:
    async def play(runtime: VirtualRuntime) -> None:
        tokens = Tokens(record())
        known = KnownTokens(tokens.read, runtime)
        await known.refresh()
        tokens.away = True
        await asyncio.sleep(MOST_AGE_S - 1)
        assert await known.token(ID) is not None
        await asyncio.sleep(1.0)
        with pytest.raises(Unavailable, match="can't be read"):
            await known.token(ID)

    on_virtual_time(play)


# --- what a caller may call -------------------------------------------------------------------------------------------


def test_every_rpc_has_a_row_and_every_row_an_rpc() -> None:
    services = [
        frontend_pb2.DESCRIPTOR.services_by_name["Frontend"],
        hsc_pb2.DESCRIPTOR.services_by_name["HSC"],
        store_consumer_pb2.DESCRIPTOR.services_by_name["StoreConsumer"],
    ]
    found = {f"/{each.full_name}/{name}" for each in services for name in each.methods_by_name}
    dapr = dapr_runtime_pb2.DESCRIPTOR.services_by_name["Dapr"]
    scheduler = dapr_scheduler_pb2.DESCRIPTOR.services_by_name["Scheduler"]
    for service, described in ((DAPR, dapr), (DAPR_SCHEDULER, scheduler)):
        found |= {f"/{service}/{name}" for name in described.methods_by_name}
    assert RULES.keys() == found


def test_a_method_without_a_row_is_refused() -> None:
    who = Caller(CallerKind.TOKEN, "token x", TokenGrant(frozenset({Verb.ADMIN}), frozenset({ALL})))
    with pytest.raises(PermissionDenied, match="in no row"):
        check_method("/atf.v1.Frontend/Fly", who)
    check_method("/atf.v1.Frontend/Fly", ANYBODY)


def test_what_concerns_the_cluster_needs_all_namespaces() -> None:
    who = Caller(CallerKind.TOKEN, "token x", TokenGrant(frozenset({Verb.ADMIN}), frozenset({"photos"})))
    with pytest.raises(PermissionDenied, match="all namespaces"):
        check_method("/atf.v1.Frontend/DrainHost", who)


def test_every_item_is_looked_at() -> None:
    who = Caller(CallerKind.TOKEN, "token x", record().grant)
    assert caller() is ANYBODY
    permit(Verb.ADMIN, "any/thing")
    with acting_for(who):
        permit(Verb.SCHEDULE, "photos/a", "photos/b")
        with pytest.raises(
            PermissionDenied, match=r"token x: no schedule for mail/send.*--namespace mail --can schedule"
        ):
            permit(Verb.SCHEDULE, "photos/a", "mail/send")
        assert permitted(Verb.SCHEDULE, ["mail/send", "photos/a"]) == ["photos/a"]
    assert caller() is ANYBODY
