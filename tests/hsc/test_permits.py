"""Whose calls an HSC takes, and the credentials that it signs."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from atf.auth.authenticator import TokenAuthenticator
from atf.auth.caller import MOST_WAIT_S, Caller, CallerKind, acting_for
from atf.auth.executor_credentials import check
from atf.auth.grants import TokenGrant, Verb
from atf.auth.methods import RULES, check_method
from atf.auth.signing_keys import FIELD, KEPT, LIFE_US as KEY_LIFE_US, new_key, renewed, rotated, to_sign_with
from atf.auth.token_record import TokenRecord
from atf.errors import InvalidArgument, PermissionDenied, Unauthenticated
from atf.executor.credential import RENEWED_WITHIN_S
from atf.intake.asks import Answer, Ask
from atf.process.security import known_tokens
from atf.rpc import hsc_pb2 as h, task_pb2 as t
from atf.task import US
from tests.virtual import virtual

from .world import MAIL, Host, World, ids_of, sets, world

RESIZE = "photos/resize"
TOKEN_ID = "abcdefghij"


def token(*scopes: str, pools: tuple[str, ...] = ("*",)) -> Caller:
    """A worker's."""
    grant = TokenGrant(frozenset({Verb.WORK}), frozenset(scopes), frozenset(pools))
    return Caller(CallerKind.TOKEN, "token x", grant, token_id=TOKEN_ID)


def executor(executor_id: str, *scopes: str) -> Caller:
    return Caller(CallerKind.EXECUTOR, f"executor {executor_id}", token(*scopes).grant, executor_id)


@virtual(world())
async def test_a_worker_is_given_tasks_of_its_namespaces_alone(w: World) -> None:
    (mail,), (resize,) = await w.enqueue(1), await w.enqueue(1, RESIZE)
    with acting_for(token("photos")):
        for lambdas in ([MAIL], [MAIL, RESIZE]):
            with pytest.raises(PermissionDenied, match="token x: no work for shop/mail"):
                await w.ask(lambdas=lambdas)
        assert ids_of(await w.ask(lambdas=[RESIZE])) == [resize]
        refused = await w.ask("e2", lambdas=[MAIL], named=False)
        assert refused.unknown_set, "what is refused takes nobody's place"
    with acting_for(token(MAIL)):
        assert ids_of(await w.ask(lambdas=[MAIL])) == [mail]
    with acting_for(token("photos")), pytest.raises(PermissionDenied):
        await w.ask("e2", lambdas=[MAIL], named=False)


@virtual(world())
async def test_built_in_lambdas_are_granted_by_their_names(w: World) -> None:
    (task_id,) = await w.enqueue(1, "atf/command")
    with acting_for(token("*", "atf")), pytest.raises(PermissionDenied, match="no work for atf/command"):
        await w.ask(lambdas=["atf/command"])
    with acting_for(token("*", "atf/command")):
        assert ids_of(await w.ask(lambdas=["atf/command"])) == [task_id]


@virtual(world())
async def test_a_worker_serves_its_pools_alone(w: World) -> None:
    with acting_for(token("*", pools=("gpu",))):
        with pytest.raises(PermissionDenied, match="no work in the pool 'default'"):
            await w.ask()
        assert not ids_of(await w.ask(pool="gpu"))


@virtual(world())
async def test_who_may_wait_is_looked_at_again_in_time(w: World) -> None:
    """Else a token that was revoked would be given what comes within a minute."""

    async def nothing(ask: Ask, seconds: float, *, repeated: bool = False) -> Answer:  # noqa: ARG001
        waits.append(seconds)
        return Answer()

    waits: list[float] = []
    w.hsc.intake.ask = nothing  # type: ignore[method-assign]
    with acting_for(token("*")):
        replies = [await w.hsc.next_claims(w.request(wait=each)) for each in (60, 5)]
    replies.append(await w.hsc.next_claims(w.request(wait=60)))
    assert [each.again for each in replies] == [True, False, False]
    assert waits == [MOST_WAIT_S, 5, 60]


@virtual(world())
async def test_a_report_is_open_no_longer_than_a_revoked_token_may_count(w: World) -> None:
    ours, began = Host(w, "one", sets(["e1"])), w.runtime.monotonic()
    with acting_for(token("shop")):
        await w.hsc.report_host(ours.request(wait=60))
    assert w.runtime.monotonic() - began == pytest.approx(MOST_WAIT_S, abs=1)
    await ours.leave()


@virtual(world())
async def test_a_host_reports_for_its_pools_and_namespaces_alone(w: World) -> None:
    ours = Host(w, "one", sets(["e1"]), pool="gpu")
    request = ours.request(wait=0)
    quarantines = ours.request(wait=0, executors=[], sets=[])
    quarantines.quarantined.add(for_us=1, **{"lambda": MAIL})
    for who, said, why in (
        (token("shop", pools=("cpu",)), request, "pool 'gpu'"),
        (token("photos"), request, "no work for shop/mail"),
        (token("photos"), quarantines, "no work for shop/mail"),
    ):
        with acting_for(who), pytest.raises(PermissionDenied, match=why):
            await w.hsc.report_host(said)
    with acting_for(token("shop", pools=("gpu",))):
        assert (await w.hsc.report_host(request)).everywhere
    await ours.leave()


@virtual(world())
async def test_an_executor_speaks_for_itself_alone_and_nobody_ends_a_claim_without_its_nonce(w: World) -> None:
    await w.enqueue(1)
    (claim,) = (await w.ask("e1")).claims
    whole = t.ClaimRef(task_id=claim.task_id, token=claim.token)
    guessed = t.ClaimRef(task_id=claim.task_id, token=t.Token(counter=claim.token.counter, nonce="guessed"))
    done = h.Result(claim=guessed, outcome=t.SUCCEEDED)
    calls: list[tuple[Callable[..., object], Callable[[str], object]]] = [
        (w.hsc.heartbeat, lambda own: h.HeartbeatRequest(executor_id=own, claims=[h.HeldClaim(claim=guessed)])),
        (w.hsc.set_results, lambda own: h.SetResultsRequest(executor_id=own, results=[done])),
        (w.hsc.hand_back, lambda own: h.HandBackRequest(executor_id=own, claims=[guessed])),
        (w.hsc.report_loss, lambda own: h.ReportLossRequest(executor_id=own, claims=[guessed])),
    ]
    with acting_for(executor("e2", "shop")):
        for call, request in calls:
            if call != w.hsc.report_loss:  # which is no executor's at all
                with pytest.raises(PermissionDenied, match="executor e2: it can't speak for the executor 'e1'"):
                    await call(request("e1"))  # type: ignore[misc]
            reply = await call(request("e2"))  # type: ignore[misc]
            assert list(reply.verdicts) == [h.LOST]
    with acting_for(executor("e1", "shop")):
        ours = h.SetResultsRequest(executor_id="e1", results=[h.Result(claim=whole, outcome=t.SUCCEEDED)])
        assert list((await w.hsc.set_results(ours)).verdicts) == [h.OK]


@virtual(world())
async def test_first_time_is_of_the_namespaces_in_which_somebody_works(w: World) -> None:
    key = h.FirstTimeKey(task_id="0-a", namespace="shop", key="k", ttl_us=US)
    asked = h.FirstTimeRequest(executor_id="e1", keys=[key])
    with acting_for(executor("e1", "photos")), pytest.raises(PermissionDenied, match="no work for shop"):
        await w.hsc.first_time(asked)
    with acting_for(executor("e2", "shop")), pytest.raises(PermissionDenied):
        await w.hsc.first_time(asked)
    with acting_for(executor("e1", MAIL)):  # granted for a lambda of it
        assert list((await w.hsc.first_time(asked)).first) == [True]


@pytest.mark.parametrize("name", ["NextClaims", "ReportHost", "ReportLoss", "IssueCredential"])
def test_an_executor_neither_claims_nor_gives_credentials(name: str) -> None:
    path = f"/atf.v1.HSC/{name}"
    assert RULES[path].verb is Verb.WORK
    check_method(path, token("shop"))
    with pytest.raises(PermissionDenied, match="for its own claims alone"):
        check_method(path, executor("e1", "shop"))


# --- credentials ------------------------------------------------------------------------------------------------------


async def issued(w: World, executor_id: str = "e1") -> t.Credential:
    with acting_for(token("shop")):
        return await w.hsc.issue_credential(h.IssueCredentialRequest(executor_id=executor_id))


async def who_shows(w: World, secret: str) -> Caller:
    return await TokenAuthenticator(known_tokens(w.store, w.runtime), w.runtime).caller(f"Bearer {secret}", ())


@virtual(world())
async def test_where_nothing_is_shown_there_are_no_credentials(w: World) -> None:
    request = h.IssueCredentialRequest(executor_id="e1")
    assert await w.hsc.issue_credential(request) == t.Credential()
    assert (await w.store.list_tokens()) == (0, {})
    with pytest.raises(InvalidArgument, match="executor_id 'e 1': use 1 to 64"):
        await issued(w, "e 1")


@virtual(world())
async def test_a_credential_is_known_by_whoever_reads_the_store_and_ends_with_its_token(w: World) -> None:
    record = TokenRecord(id=TOKEN_ID, verbs=("work", "operate"), scopes=("shop",))
    await w.store.set_token(TOKEN_ID, msg(record))
    known = known_tokens(w.store, w.runtime)
    door = TokenAuthenticator(known, w.runtime)
    with pytest.raises(Unauthenticated):
        await door.caller("Bearer atfx_no", ())
    credential = await issued(w, "host_1.x-7-ab")  # its key is newer than what the door has read just now
    who = await door.caller(f"Bearer {credential.secret}", ())
    assert (who.executor_id, who.token_id, who.kind) == ("host_1.x-7-ab", TOKEN_ID, CallerKind.EXECUTOR)
    assert who.grant is not None
    assert who.grant.verbs == {Verb.WORK}  # to operate is its token's alone
    revoked = TokenRecord(id=TOKEN_ID, verbs=record.verbs, scopes=record.scopes, revoked_us=1)
    await w.store.set_token(TOKEN_ID, msg(revoked), msg(record))
    await known.refresh()
    with pytest.raises(Unauthenticated, match="was revoked"):
        await door.caller(f"Bearer {credential.secret}", ())


@virtual(world())
async def test_a_credential_expires(w: World) -> None:
    await w.store.set_token(TOKEN_ID, msg(TokenRecord(id=TOKEN_ID, verbs=("work",), scopes=("shop",))))
    credential = await issued(w)
    assert credential.valid_for_us == 900 * US
    assert (await who_shows(w, credential.secret)).executor_id == "e1"
    later(w, 900 * US)
    with pytest.raises(Unauthenticated, match="has expired"):
        await who_shows(w, credential.secret)


@virtual(world())
async def test_keys_are_replaced_and_the_one_before_stays_valid(w: World) -> None:
    first = await issued(w)
    later(w, KEY_LIFE_US)
    second, third = await issued(w), await issued(w)
    keys = await known_keys(w)
    assert len(keys) == KEPT
    assert check(first.secret, keys[1:])
    assert check(second.secret, keys[1:])  # since the newest is not known everywhere yet
    later(w, 60 * US)
    assert check((await issued(w)).secret, keys[:1])
    assert not check(third.secret, keys[:1])
    later(w, KEY_LIFE_US)
    await issued(w)
    assert check(first.secret, await known_keys(w)) is None


@virtual(world())
async def test_an_operator_replaces_the_keys_and_no_executor_fails(w: World) -> None:
    await w.store.set_token(TOKEN_ID, msg(TokenRecord(id=TOKEN_ID, verbs=("work",), scopes=("shop",))))
    first, after = await issued(w), list[bytes]()
    for _ in range(2):  # again, since the answer was lost
        (text,) = [found[FIELD] for _, found in [await w.store.list_tokens() or (0, {})]]
        after = rotated(msgspec.json.decode(text, type=list[bytes]), w.runtime.wall_us(), lambda count: b"r" * count)
        await w.store.set_token(FIELD, msgspec.json.encode(after), text)
    assert len(after) == 2
    shown = first
    for seconds in range(0, 600, 30):
        if seconds % RENEWED_WITHIN_S == 0:  # as late as any executor
            shown = await issued(w)
        assert (await who_shows(w, shown.secret)).executor_id == "e1"
        if seconds < 300:
            assert await who_shows(w, first.secret)
        else:
            with pytest.raises(Unauthenticated, match="was not signed here"):
                await who_shows(w, first.secret)
        later(w, 30 * US)


@virtual(world())
async def test_hscs_that_make_the_first_key_at_once_agree(w: World) -> None:
    other = w.another_hsc()
    mine = await issued(w)
    with acting_for(token("shop")):
        theirs = await other.issue_credential(h.IssueCredentialRequest(executor_id="e1"))
    keys = await known_keys(w)
    assert len(keys) == 1
    assert check(mine.secret, keys)
    assert check(theirs.secret, keys)


@virtual(world())
async def test_a_key_that_another_hsc_has_written_meanwhile_is_taken(w: World) -> None:
    read, other, lost = w.store.list_tokens, w.another_hsc(), 0

    async def read_then_lose(known: int = -1, *, keys: bool = True) -> tuple[int, dict[str, bytes]] | None:
        nonlocal lost
        found = await read(known, keys=keys)
        if lost == 0:
            lost = 1
            with acting_for(token("shop")):
                await other.issue_credential(h.IssueCredentialRequest(executor_id="e2"))
        return found

    w.store.list_tokens = read_then_lose  # type: ignore[method-assign]
    assert check((await issued(w)).secret, await known_keys(w))
    assert len(await known_keys(w)) == 1


def test_a_key_without_a_time_is_used_and_replaced() -> None:
    plain, now = b"k" * 32, 10 * KEY_LIFE_US
    assert to_sign_with([plain], now) == plain
    found = renewed([plain], now, lambda count: b"r" * count)
    assert found == [new_key(now, lambda count: b"r" * count), plain]
    assert renewed(found, now + KEY_LIFE_US - 1, lambda count: b"s" * count) is None


def later(w: World, passed_us: int) -> None:
    """The wall clock goes on, without all that an HSC does in such a time."""
    now = w.runtime.wall_us()
    w.runtime.wall_us = lambda: now + passed_us  # type: ignore[method-assign]


async def known_keys(w: World) -> list[bytes]:
    known = known_tokens(w.store, w.runtime)
    await known.refresh()
    return await known.keys()


def msg(record: TokenRecord) -> bytes:
    return msgspec.json.encode(record)
