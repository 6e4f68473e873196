"""GetLog and WatchLog: what they show, when they end, and what they say where there is nothing."""

from __future__ import annotations

from typing import Any

import pytest

from atf.auth.caller import Caller, CallerKind, acting_for
from atf.auth.grants import TokenGrant, Verb
from atf.errors import ResourceExhausted, TaskNotFound
from atf.frontend import logs
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.store.values.claims import ClaimRenewal, HeldClaim, KeptRunLog, Outcome

from .conftest import Bench

NAME = "photos/thumbnail"
LOG = KeptRunLog(1, 1, "12:00:00.000 hello\n", 3)


async def log_of(bench: Bench, task_id: str) -> f.GetLogReply:
    return await bench.frontend.get_log(f.GetLogRequest(id=task_id))


def watch(bench: Bench, task_id: str) -> Any:
    return bench.frontend.watch_log(f.WatchLogRequest(id=task_id))


async def test_a_task_s_log_is_shown_and_its_record_says_that_there_is_one(bench: Bench) -> None:
    task_id = await bench.schedule()
    await bench.finish(task_id, Outcome.FAILED_FATAL, error="no", log=LOG)
    shown = t.RunLog(run=1, attempt=1, text=LOG.text, cut_bytes=3)
    assert await log_of(bench, task_id) == f.GetLogReply(runs=[shown], status=t.FATAL_FAILURE)
    assert (await bench.stored(task_id)).has_log


async def test_what_was_kept_before_the_code_said_what_is_redacted_is_redacted_when_it_is_shown(bench: Bench) -> None:
    task_id = await bench.schedule(payload=b'{"pin": "98765"}')
    await bench.finish(task_id, Outcome.FAILED_FATAL, error="no", log=KeptRunLog(1, 1, "pin 98765\n", 0))
    await bench.register(NAME, redact=["pin"])
    assert [each.text for each in (await log_of(bench, task_id)).runs] == ["pin [redacted]\n"]
    assert [each.runs[0].text async for each in watch(bench, task_id)] == ["pin [redacted]\n"]


@pytest.mark.parametrize(
    ("kept", "outcome", "says"),
    [
        (t.LOGS_OF_FAILED, None, "it has not run yet"),
        (t.LOGS_OF_FAILED, Outcome.SUCCEEDED, f"it succeeded, .* atf lambda set {NAME} logs=all"),
        (t.LOGS_OF_FAILED, Outcome.FAILED_FATAL, "its runs printed and logged nothing"),
        (t.LOGS_OF_ALL, Outcome.SUCCEEDED, "its runs printed and logged nothing"),
        (t.LOGS_OF_NONE, Outcome.FAILED_FATAL, f'logs="none" says.* atf lambda set {NAME} logs=failed'),
    ],
)
async def test_where_there_is_none_it_says_why_and_how_to_have_one(
    bench: Bench, kept: t.KeptLogs, outcome: Outcome | None, says: str
) -> None:
    await bench.register(NAME, logs=kept)
    task_id = await bench.schedule()
    if outcome is not None:
        await bench.finish(task_id, outcome)
    reply = await log_of(bench, task_id)
    assert not reply.runs
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(reply.why_none)


async def test_of_one_that_runs_it_says_how_to_follow_it(bench: Bench) -> None:
    task_id = await bench.schedule()
    await bench.claim(task_id)
    assert f"atf logs {task_id} --follow" in (await log_of(bench, task_id)).why_none


async def test_who_watches_sees_what_a_run_says_while_it_goes_on_and_then_its_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_LOOK_S", 0.001)
    task_id = await bench.schedule()
    (claim,) = await bench.claim(task_id)
    held = HeldClaim(task_id, claim.counter, claim.nonce)
    seen = watch(bench, task_id)
    assert (await anext(seen)).status == t.CLAIMED
    await bench.store.heartbeat([ClaimRenewal(held, True, log=LOG)])
    said = await anext(seen)
    assert (said.status, [each.text for each in said.runs]) == (t.PROCESSING, [LOG.text])
    await bench.end(claim, Outcome.SUCCEEDED, log=LOG._replace(text=LOG.text + "bye\n"))
    assert [(each.status, each.runs[0].text[-4:]) async for each in seen] == [(t.SUCCESS, "bye\n")]


async def test_so_many_may_watch_at_one_frontend_and_who_leaves_makes_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MAX_WATCHERS", 1)
    task_id = await bench.schedule()
    first = watch(bench, task_id)
    assert (await anext(first)).status == t.NEW
    with pytest.raises(ResourceExhausted, match=f"atf logs {task_id}"):
        await anext(watch(bench, task_id))
    await first.aclose()
    second = watch(bench, task_id)
    assert (await anext(second)).status == t.NEW
    bench.frontend.drain()
    assert [each async for each in second] == [], "they go to another frontend"


async def test_one_caller_leaves_others_room_to_watch(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_OF_ONE", 1)
    task_id = await bench.schedule()
    grant = TokenGrant(frozenset({Verb.READ_PAYLOAD}), frozenset({"*"}))
    one, other = (Caller(CallerKind.TOKEN, name, grant) for name in ("token a", "token b"))
    of_one = Caller(CallerKind.EXECUTOR, "executor 1 by token a", grant, "1", behind="token a")
    with acting_for(one):
        first = watch(bench, task_id)
        assert (await anext(first)).status == t.NEW
    for who in (one, of_one):
        with acting_for(who), pytest.raises(ResourceExhausted, match=f"token a has 1 calls .*atf logs {task_id}"):
            await anext(watch(bench, task_id))
    with acting_for(other):
        await anext(watch(bench, task_id))
    await first.aclose()
    with acting_for(of_one):
        await anext(watch(bench, task_id))


async def test_there_is_no_log_of_a_task_that_is_not_there(bench: Bench) -> None:
    with pytest.raises(TaskNotFound):
        await log_of(bench, "0-nobody")
    with pytest.raises(TaskNotFound):
        await anext(watch(bench, "0-nobody"))
