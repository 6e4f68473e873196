"""Executors of two releases behind one controller: a task that does not fit one of them goes to the other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atf.errors import InvalidArgument, Unavailable
from atf.rpc import task_pb2 as t
from atf.store.values.claims import HeldClaim, Outcome, RunResult, Verdict
from atf.task import US, Status
from tests.virtual import virtual

from .world import World, ids_of, world

OLD, NEW = "aaaaaaaaaaaa", "bbbbbbbbbbbb"


async def misfit(w: World, claim: t.Claim, digest: str) -> None:
    held = HeldClaim(claim.task_id, claim.token.counter, claim.token.nonce)
    result = RunResult(held, Outcome.MISFIT, error="no", signature=digest, grace_us=600 * US)
    assert await w.store.set_results([result]) == [Verdict.OK]


async def unfit(w: World) -> str:
    """A task that the executor of the old release could not read."""
    (task_id,) = await w.enqueue(1)
    reply = await w.ask(signatures=[OLD])
    assert ids_of(reply) == [task_id]
    await misfit(w, reply.claims[0], OLD)
    await w.consume()
    return task_id


@virtual(world())
async def test_it_is_given_to_the_executor_of_the_other_release_that_waits_and_to_no_other(w: World) -> None:
    newer = w.asking("e2", signatures=[NEW], wait=30)
    older = w.asking("e3", signatures=[OLD], wait=2)
    await asyncio.sleep(1)  # both are known by now
    newer.cancel()
    (task_id,) = await w.enqueue(1)
    reply = await older
    assert ids_of(reply) == [task_id]
    older, newer = w.asking("e3", signatures=[OLD], wait=5, ack=1), w.asking("e2", signatures=[NEW], wait=5)
    await asyncio.sleep(0.1)
    began = w.runtime.monotonic()
    await misfit(w, reply.claims[0], OLD)
    await w.consume()
    assert ids_of(await newer) == [task_id]
    assert w.runtime.monotonic() - began < 0.1
    assert ids_of(await older) == []


@virtual(world())
async def test_a_signature_that_is_new_here_is_said_at_once(w: World) -> None:
    task_id = await unfit(w)
    assert (await w.record(task_id)).next_at_us > w.runtime.wall_us()
    call = w.asking("e2", signatures=[NEW], wait=30)
    await asyncio.sleep(0.1)
    found = await w.store.explain_task(task_id)
    assert found is not None
    assert sorted(found.signatures) == [OLD, NEW]
    await asyncio.sleep(1)
    await w.consume()
    assert ids_of(await call) == [task_id]


@virtual(world())
async def test_a_signature_is_said_again_soon_where_the_store_did_not_hear_of_it(w: World) -> None:
    task_id, direct, said = await unfit(w), w.store.link.call, [0]

    async def loses_two(verb: str, *args: Any, **more: Any) -> Any:
        said[0] += verb == "serve"
        if verb == "serve" and said[0] <= 2:
            raise Unavailable("the task store does not answer")
        return await direct(verb, *args, **more)

    w.store.link.call = loses_two  # type: ignore[method-assign]
    call = w.asking("e2", signatures=[NEW], wait=30)
    await asyncio.sleep(5)
    assert said == [3]
    await w.consume()
    assert ids_of(await call) == [task_id]


@virtual(world())
async def test_an_id_that_reaches_the_wrong_executor_is_left_to_others_at_its_claim(w: World) -> None:
    """Ids that were popped for a call which went away are held for the next one, whichever release that runs."""
    task_id = await unfit(w)
    call = w.asking("e2", signatures=[NEW], wait=30)
    await asyncio.sleep(1)
    w.controller.poller.put_back({task_id: "shop/mail:1"})
    assert ids_of(await w.ask("e3", signatures=[OLD], wait=0.5)) == []
    await w.consume()
    assert ids_of(await call) == [task_id]


@virtual(world())
async def test_executors_that_say_nothing_are_given_all(w: World) -> None:
    task_id = await unfit(w)
    await w.store.serve("", 60, "", None, [f"shop/mail {NEW}"])
    await asyncio.sleep(1)
    await w.consume()
    assert (await w.record(task_id)).status is Status.ENQUEUED
    assert await w.store.pop(0, [["shop/mail:1"]], 9) == []
    assert (await w.store.claim("e4", "n", [task_id], 1 << 20)).claims


@virtual(world())
async def test_what_an_executor_runs_counts_no_more_when_it_has_died(w: World) -> None:
    w.guarded.update({"e1", "e2"})
    await w.ask("e1", signatures=[OLD], wait=0)
    await w.ask("e2", signatures=[NEW], wait=0)
    assert w.controller.cores.here.signed() == {f"shop/mail {OLD}", f"shop/mail {NEW}"}
    w.controller.cores.left("e2")
    assert w.controller.cores.here.signed() == {f"shop/mail {OLD}"}


@virtual(world())
async def test_there_is_one_signature_for_each_lambda(w: World) -> None:
    with pytest.raises(InvalidArgument, match="1 signatures of 2 lambdas"):
        await w.ask(lambdas=["shop/mail", "shop/bill"], signatures=[OLD])
    with pytest.raises(InvalidArgument, match="signature 'A B'"):
        await w.ask(signatures=["A B"])
