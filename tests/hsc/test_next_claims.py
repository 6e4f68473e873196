"""NextClaims: what an ask may say, which sets are known, and what becomes of asks when the HSC ends."""

from __future__ import annotations

import asyncio

import pytest

from atf.errors import FailedPrecondition, InvalidArgument, Unavailable
from atf.rpc import hsc_pb2 as h, task_pb2 as t
from atf.rpc.lambda_sets import MAX_KNOWN_LAMBDAS, KnownSets, LambdaSet, digest_of
from atf.store.values.lambdas import LambdaRecord
from atf.task import US, Status
from tests.virtual import virtual

from .world import MAIL, World, ids_of, world


@virtual(world())
async def test_a_claim_comes_with_all_that_an_executor_needs(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    (claim,) = (await w.hsc.next_claims(w.request("e1", nonce="mine"))).claims
    assert (claim.task_id, claim.spec, claim.attempt, claim.token.nonce) == (task_id, b"spec", 1, "mine")
    record = await w.record(task_id)
    assert (record.status, record.owner) == (Status.CLAIMED, "e1")


@virtual(world())
async def test_a_set_is_named_once_and_then_known_by_its_digest_alone(w: World) -> None:
    request = w.request(named=False, lambdas=[MAIL, "shop/bill"])
    assert (await w.hsc.next_claims(request)).unknown_set
    (task_id,) = await w.enqueue(1, "shop/bill")
    assert ids_of(await w.hsc.next_claims(w.request(lambdas=["shop/bill", MAIL]))) == [task_id]
    (task_id,) = await w.enqueue(1, "shop/bill")
    assert ids_of(await w.hsc.next_claims(request)) == [task_id]


@virtual(world())
async def test_a_set_with_another_digest_than_its_own_is_refused(w: World) -> None:
    with pytest.raises(InvalidArgument, match="the digest of these lambdas is"):
        await w.hsc.next_claims(w.request(lambda_set=digest_of({"shop/other": ""})))


@virtual(world())
async def test_a_task_that_fits_other_signatures_alone_is_not_given(w: World) -> None:
    old, new = "a" * 12, "b" * 12
    await w.enqueue(1)
    reply = await w.ask(signature=old)
    await w.store.serve("", 60, "", None, [f"{MAIL} {old}", f"{MAIL} {new}"])
    ref = t.ClaimRef(task_id=reply.claims[0].task_id, token=reply.claims[0].token)
    misfit = h.Result(claim=ref, outcome=t.MISFIT, error="no", signature=old)
    await w.hsc.set_results(h.SetResultsRequest(executor_id="e1", results=[misfit]))
    await w.consume()
    assert ids_of(await w.ask("e1", signature=old)) == []
    assert len(ids_of(await w.ask("e2", signature=new))) == 1


@virtual(world())
async def test_a_call_that_breaks_a_rule_is_refused_with_the_rule(w: World) -> None:
    for fields, rule in (
        ({"max_tasks": 0}, "max_tasks 0: use 1 to 256"),
        ({"max_bytes": -1}, "max_bytes -1: use 1 or more"),
        ({"wait_us": 61 * US}, "wait_us .*60 s"),
        ({"waited_us": -1}, "waited_us -1"),
        ({"executor_id": ""}, "executor_id"),
        ({"nonce": "a b"}, "nonce 'a b'"),
        ({"nonce": "n" * 65}, "nonce .*1 to 64"),
        ({"lambda_set": "x"}, "lambda_set 'x'"),
        ({"lambdas": ["mail"]}, "namespace/name"),
        ({"lambdas": [], "signatures": ["d"]}, "give them with the lambdas"),
        ({"signatures": ["d", "d"]}, "2 signatures of 1 lambdas"),
        ({"signatures": ["A B"]}, "signature 'A B'"),
        ({"without": ["mail"]}, "namespace/name"),
        ({"pool": "a b"}, "pool"),
        ({"pool": "default"}, "leave the pool out"),
        ({"host": "a b"}, "host 'a b'"),
    ):
        with pytest.raises(InvalidArgument, match=rule):
            await w.hsc.next_claims(w.request(**fields))


@virtual(world())
async def test_an_executor_that_counts_on_longer_leases_gets_no_task(w: World) -> None:
    with pytest.raises(FailedPrecondition, match="heartbeat_timeout = 17 s, and this HSC to 16 s"):
        await w.hsc.next_claims(w.request(heartbeat_timeout_us=17 * US))


@virtual(world())
async def test_a_pool_gets_its_own_tasks_alone(w: World) -> None:
    await w.store.register_lambdas([LambdaRecord(MAIL, b"x", 5, 10 * US, paused=False, settings="pool=gpu")])
    (task_id,) = await w.enqueue(1)
    assert ids_of(await w.ask("e1")) == []
    assert ids_of(await w.ask("e2", pool="gpu")) == [task_id]


@virtual(world())
async def test_an_ask_that_was_given_up_claims_nothing_and_gives_back_what_it_had(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    assert ids_of(await w.hsc.next_claims(w.request("e1", nonce="n1"))) == [task_id]
    waits = w.asking("e1", nonce="n2", lambdas=["shop/bill"], wait=60)
    await asyncio.sleep(0.1)
    await w.hsc.hand_back(h.HandBackRequest(executor_id="e1", nonces=["n1", "n2"]))
    record = await w.record(task_id)
    assert (record.status, record.attempts, record.losses) == (Status.ENQUEUED, 0, 0)
    assert ids_of(await waits) == []
    again = w.asking("e2", wait=60)
    while not again.done():
        await w.consume()
        await asyncio.sleep(0.1)
    assert ids_of(await again) == [task_id]
    assert w.runtime.monotonic() < 2
    assert ids_of(await w.hsc.next_claims(w.request("e1", nonce="n1", repeated=True))) == []
    with pytest.raises(InvalidArgument, match="257 nonces"):
        await w.hsc.hand_back(h.HandBackRequest(executor_id="e1", nonces=["n"] * 257))
    with pytest.raises(InvalidArgument, match="nonce ''"):
        await w.hsc.hand_back(h.HandBackRequest(executor_id="e1", nonces=[""]))


@virtual(world())
async def test_any_hsc_knows_what_a_nonce_has_claimed(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    request = w.request("e1")
    reply = await w.hsc.next_claims(request)
    request.repeated = True
    again = await w.another_hsc().next_claims(request)
    assert again.claims == reply.claims
    assert ids_of(again) == [task_id]


@virtual(world())
async def test_one_that_ends_sends_who_waits_to_others_and_records_what_ends(w: World) -> None:
    (task_id,) = await w.enqueue(1)
    reply = await w.ask("e1")
    waits = w.asking("e1", wait=60)
    await asyncio.sleep(1)
    await w.hsc.drain()
    with pytest.raises(Unavailable, match="ask another one"):
        await waits
    with pytest.raises(Unavailable, match="ask another one"):
        await w.ask("e1")
    ref = t.ClaimRef(task_id=task_id, token=reply.claims[0].token)
    done = h.Result(claim=ref, outcome=t.SUCCEEDED)
    told = await w.hsc.set_results(h.SetResultsRequest(executor_id="e1", results=[done]))
    assert list(told.verdicts) == [h.OK]


def test_the_sets_that_were_asked_for_longest_ago_are_forgotten() -> None:
    known, size = KnownSets(), 4_096
    first, *others = (
        LambdaSet({f"shop/l{number}-{each}": "" for each in range(size)}) for number in range(MAX_KNOWN_LAMBDAS // size)
    )
    known.learn(first)
    for each in others:
        known.learn(each)
    assert known.get(first.digest) is first
    known.learn(LambdaSet({MAIL: ""}))
    assert known.get(others[0].digest) is None
    assert known.get(first.digest) is first
    assert known.get(others[1].digest) is not None
