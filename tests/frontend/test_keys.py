"""Ordering keys that have stopped, as callers see them."""

from __future__ import annotations

from typing import Any

import pytest

from atf.errors import FailedPrecondition, InvalidArgument, UnknownLambda
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.store.values.claims import Outcome

from .conftest import Bench

NAME = "photos/thumbnail"


def of(kind: Any, **fields: Any) -> Any:
    return kind(**{"lambda": NAME, **fields})


async def stopped(bench: Bench) -> list[str]:
    """A key `anna` that has stopped at the first of three tasks."""
    await bench.register(stop_on_fatal=True)
    ids = [await bench.schedule(name, ordering_key="anna") for name in "abc"]
    await bench.finish(ids[0], Outcome.FAILED_FATAL, error="no such account")
    return ids


async def listed(bench: Bench, **fields: Any) -> list[f.KeyInfo]:
    return list((await bench.frontend.list_keys(of(f.ListKeysRequest, **fields))).keys)


async def test_a_stopped_key_is_listed_with_what_stopped_it(bench: Bench) -> None:
    ids = await stopped(bench)
    (info,) = await listed(bench)
    expected = f.KeyInfo(
        key="anna",
        stopped=True,
        stopped_at_us=bench.clock.now_us,
        task_id=ids[0],
        error="no such account",
        unfinished=2,
    )
    assert info == expected
    assert await listed(bench, key="anna") == [info]
    assert await listed(bench, key="bert") == []


async def test_a_key_that_goes_on_is_shown_where_it_is_asked_for(bench: Bench) -> None:
    task_id = await bench.schedule("a", ordering_key="anna")
    assert await listed(bench) == []
    assert await listed(bench, key="anna") == [f.KeyInfo(key="anna", task_id=task_id, unfinished=1)]


async def test_it_is_resumed(bench: Bench) -> None:
    ids = await stopped(bench)
    reply = await bench.frontend.resume_key(of(f.ResumeKeyRequest, key="anna", task_id=ids[0]))
    assert (reply.task_id, reply.retried) == (ids[0], True)
    again = await bench.frontend.resume_key(of(f.ResumeKeyRequest, key="anna", task_id=ids[0]))
    assert not again.retried  # the same call once more is fine, and does nothing
    for each in ids:
        await bench.finish(each)
    assert await bench.counts() == {"SUCCESS": 3}


async def test_it_goes_on_without_the_task_that_stopped_it(bench: Bench) -> None:
    ids = await stopped(bench)
    assert (await bench.frontend.skip_key(of(f.SkipKeyRequest, key="anna"))).task_id == ids[0]
    for each in ids[1:]:
        await bench.finish(each)
    assert await bench.counts() == {"FATAL_FAILURE": 1, "SUCCESS": 2}


@pytest.mark.parametrize("call", ["resume_key", "skip_key"])
async def test_what_can_t_be_mended_is_refused(bench: Bench, call: str) -> None:
    kind = {"resume_key": f.ResumeKeyRequest, "skip_key": f.SkipKeyRequest}[call]
    mend = getattr(bench.frontend, call)
    with pytest.raises(FailedPrecondition, match=f"key 'anna' of {NAME} has not stopped; atf key ls {NAME} lists"):
        await mend(of(kind, key="anna"))
    ids = await stopped(bench)
    with pytest.raises(FailedPrecondition, match=f"has stopped at task {ids[0]}, not at {ids[1]}"):
        await mend(of(kind, key="anna", task_id=ids[1]))
    with pytest.raises(InvalidArgument, match=r"key 'a.nb'"):
        await mend(of(kind, key="a\nb"))
    with pytest.raises(UnknownLambda):
        await mend(kind(**{"lambda": "photos/none", "key": "anna"}))


async def test_it_is_explained(bench: Bench) -> None:
    ids = await stopped(bench)
    behind = await bench.frontend.explain_task(f.ExplainTaskRequest(id=ids[2]))
    assert (behind.reason, behind.behind, behind.position) == ("key_stopped", "", 2)
    assert f"task {ids[0]} failed for good. atf key resume {NAME} anna runs that task again" in behind.sentence
    failed = await bench.frontend.explain_task(f.ExplainTaskRequest(id=ids[0]))
    assert f"Its ordering key anna has stopped at it: atf key skip {NAME} anna" in failed.sentence


async def test_concurrency_keys_for_which_tasks_wait_are_listed(bench: Bench) -> None:
    async def busy(**fields: Any) -> list[f.ConcurrencyKeyInfo]:
        return list((await bench.frontend.list_concurrency_keys(of(f.ListConcurrencyKeysRequest, **fields))).keys)

    for number, key in enumerate(["anna", "anna", "anna", "bert", "bert", "bert", "carl"]):
        await bench.schedule(f"t{number}", concurrency=t.Concurrency(key=key, limit=2))
    assert await busy() == []
    await bench.enqueue()
    waiting = [f.ConcurrencyKeyInfo(key=key, taken=2, limit=2, waiting=1) for key in ("anna", "bert")]
    assert sorted(await busy(), key=lambda each: each.key) == waiting
    assert await busy(key="bert") == waiting[1:]
    assert await busy(key="carl") == [f.ConcurrencyKeyInfo(key="carl", taken=1, limit=2)]
    assert await busy(key="dora") == []
    with pytest.raises(UnknownLambda):
        await busy(**{"lambda": "photos/thumbnails"})
