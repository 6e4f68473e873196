"""Why a task has not started: every reason, from a task that is really in that state."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

import pytest

from atf.auth.caller import Caller, CallerKind, acting_for
from atf.auth.grants import TokenGrant, Verb
from atf.cores.pool import CorePool
from atf.errors import Unavailable
from atf.frontend.explain_words import duration
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.store.values.claims import ClaimRenewal, HeldClaim, Outcome, RunResult
from atf.task import STARTS, US
from tests.claiming import claim_ids, pop_ids
from tests.store_calls import call_function

from .conftest import START_US, Bench


@pytest.fixture(autouse=True)
async def worker(bench: Bench) -> None:
    """Of no pool; it counts as alive for an hour."""
    await bench.store.serve("", 3600)


async def explain(bench: Bench, task_id: str) -> f.ExplainTaskReply:
    return await bench.frontend.explain_task(f.ExplainTaskRequest(id=task_id))


async def test_not_due(bench: Bench) -> None:
    answer = await explain(bench, await bench.schedule("a", delay_us=90 * US))
    assert (answer.reason, answer.until_us) == ("not_due", START_US + 90 * US)
    assert "1 min 30 s from now" in answer.sentence
    assert answer.position == -1


async def test_due_but_nobody_has_pushed_it(bench: Bench) -> None:
    task_id = await bench.schedule("a")
    bench.clock.advance(5)
    answer = await explain(bench, task_id)
    assert answer.reason == "due"
    assert "5.0 s ago" in answer.sentence
    assert "no store consumer is running" in answer.sentence


async def test_behind_its_ordering_key(bench: Bench) -> None:
    first, _, third = [await bench.schedule(name, ordering_key="k") for name in ("a", "b", "c")]
    answer = await explain(bench, third)
    assert (answer.reason, answer.behind, answer.position) == ("behind", first, 2)
    assert first in answer.sentence
    assert "2 tasks of this key are before it" in answer.sentence


async def test_paused_before_and_in_its_queue(bench: Bench) -> None:
    queued = await bench.schedule("a")
    await bench.enqueue()
    await bench.frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": "photos/thumbnail"}, who="ada"))
    waiting = await bench.schedule("b")
    for task_id in (queued, waiting):
        answer = await explain(bench, task_id)
        assert answer.reason == "paused"
        assert "atf resume photos/thumbnail" in answer.sentence


async def test_paused_for_a_while_by_somebody_who_said_why(bench: Bench) -> None:
    task_id = await bench.schedule("a")
    pause = f.SetGateRequest(action=f.Gate.PAUSE, who="ada", why="it rains", for_us=30 * US)
    setattr(pause, "lambda", "photos/thumbnail")
    await bench.frontend.set_gate(pause)
    answer = await explain(bench, task_id)
    assert (answer.reason, answer.until_us) == ("paused", START_US + 30 * US)
    assert "paused, set by ada (it rains)" in answer.sentence
    assert "for another 30.0 s, or until somebody runs atf resume photos/thumbnail" in answer.sentence


async def test_paused_until_just_now(bench: Bench) -> None:
    task_id = await bench.schedule("a")
    pause = f.SetGateRequest(action=f.Gate.PAUSE, who="ada", for_us=30 * US)
    setattr(pause, "lambda", "photos/thumbnail")
    await bench.frontend.set_gate(pause)
    bench.clock.advance(31)
    answer = await explain(bench, task_id)
    assert (answer.reason, answer.until_us) == ("paused", 0)
    assert "was paused until just now" in answer.sentence


async def test_paused_where_nobody_can_tell_by_whom(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    task_id = await bench.schedule("a")
    await bench.frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": "photos/thumbnail", "who": "ada"}))
    monkeypatch.setattr(bench.store, "list_gates", AsyncMock(side_effect=Unavailable("away")))
    answer = await explain(bench, task_id)
    assert answer.reason == "paused"
    assert "its lambda is paused: nothing" in answer.sentence


async def test_the_store_has_lost_what_it_knew_of_its_lambda(bench: Bench) -> None:
    task_id = await bench.schedule("a")
    key = f"atf:{{{task_id.split('-')[0]}}}:l:photos/thumbnail"
    await bench.store.link.command("DEL", key, key=key)
    await bench.enqueue()
    answer = await explain(bench, task_id)
    assert answer.reason == "not_registered"
    assert "atf lambda register" in answer.sentence


async def test_its_lambda_runs_as_many_as_may(bench: Bench) -> None:
    await bench.register(max_running=2)
    ids = [await bench.schedule(name, ordering_key=name) for name in "abcdefgh"]
    for _ in range(8):  # partitions tell each other
        await bench.enqueue()
    answers = [await explain(bench, task_id) for task_id in ids]
    waiting = [answer for answer in answers if answer.reason == "max_running"]
    assert len(waiting) == 6
    assert "waits for a permit: 2 of 2 tasks of photos/thumbnail run" in waiting[0].sentence


async def test_its_lambda_has_used_up_its_rate(bench: Bench) -> None:
    await bench.register(rate=0.5)
    ids = [await bench.schedule(name, ordering_key="one") for name in "a"]
    ids += [await bench.schedule(name) for name in "bcdefgh"]
    for _ in range(8):
        await bench.enqueue()
    reasons = [await explain(bench, task_id) for task_id in ids]
    waiting = [answer for answer in reasons if answer.reason == "rate"]
    assert waiting
    assert "limited to 0.5 tasks a second" in waiting[0].sentence


async def test_its_burst_is_below_its_rate(bench: Bench) -> None:
    await bench.frontend.set_lambda(f.SetLambdaRequest(**{"lambda": "photos/thumbnail"}, set={"rate": "2"}))
    await bench.register(rate=1, burst=1)
    ids = [await bench.schedule(name) for name in "abcdefgh"]
    for _ in range(8):
        await bench.enqueue()
    waiting = [answer for answer in [await explain(bench, each) for each in ids] if answer.reason == "rate"]
    assert "no second sees more than 1 task of photos/thumbnail" in waiting[0].sentence
    assert "atf lambda set photos/thumbnail burst=…" in waiting[0].sentence


async def test_it_was_lost_and_its_lambda_has_used_up_its_rate(bench: Bench) -> None:
    await bench.register(rate=0.5)
    task_id = await bench.schedule("a")
    for _ in range(4):  # partitions tell each other
        await bench.enqueue()
    (claim,) = await bench.claim(task_id)
    await bench.store.report_loss([HeldClaim(claim.task_id, claim.counter, claim.nonce)], "killed")
    await bench.enqueue()
    answer = await explain(bench, task_id)
    assert answer.reason == "rate"
    assert "limited to 0.5 tasks a second" in answer.sentence


async def test_queue_full(bench: Bench) -> None:
    await bench.register(queue_limit=2)
    ids = [await bench.schedule(name, ordering_key="") for name in "abcdefgh"]
    await bench.enqueue()
    answers = [await explain(bench, task_id) for task_id in ids]
    full = [answer for answer in answers if answer.reason == "queue_full"]
    assert len(full) == 4  # two partitions of two entries each
    assert "full (2 of 2)" in full[0].sentence
    assert (full[0].queue_depth, full[0].queue_limit) == (2, 2)
    queued = [answer for answer in answers if answer.reason == "queued"]
    assert sorted(answer.position for answer in queued) == [0, 0, 1, 1]
    assert "at position" in queued[0].sentence


async def test_between_queue_and_claim(bench: Bench) -> None:
    task_id = await bench.schedule("a")
    await bench.enqueue()
    for partition in range(bench.store.partitions):
        await pop_ids(bench.store, partition, [["photos/thumbnail:1"]], 10)
    answer = await explain(bench, task_id)
    assert (answer.reason, answer.until_us) == ("between", START_US + 10 * US)
    assert "pushed again in 10.0 s" in answer.sentence


async def test_claims_are_paused(bench: Bench) -> None:
    """It goes before what is known of executors: that none is free, or that none is there, may be of before a restart."""
    await bench.register(queue_limit=1)
    queued = await bench.schedule("a")
    await bench.enqueue()
    await bench.schedule("b", ordering_key="")
    await bench.enqueue()
    await bench.store.pause_claims()
    bench.clock.advance(4)
    answer = await explain(bench, queued)
    assert (answer.reason, answer.until_us) == ("claims_paused", START_US + 16 * US)
    assert answer.sentence == (
        "It is at position 0 of 1 in its queue (0 is the front), but no task starts for at least another 12 s: claims are paused, since"
        " tasks were imported into the task store. Executors may still run them, and no task may run twice at the same time."
    )
    for task_id in [await bench.schedule(name) for name in "cdef"]:
        await bench.enqueue()
        found = await explain(bench, task_id)
        assert found.reason == "claims_paused"
        assert "no task starts for at least another 12 s" in found.sentence
    partition = int(queued.partition("-")[0])
    await call_function(bench.store, "hand_back", partition, [0])
    await bench.store.link.command("LPOP", f"rq:queue:{{{partition}}}photos/thumbnail:1", key=f"atf:{{{partition}}}")
    between = await explain(bench, queued)
    assert between.reason == "claims_paused"
    assert between.sentence.startswith("A controller has taken it from its queue, but no task starts for at least")
    bench.clock.advance(3_600)
    assert (await explain(bench, queued)).reason == "claims_paused"
    await bench.enqueue()
    assert (await explain(bench, queued)).reason == "no_pool", "executors have said nothing for an hour"


async def test_a_pause_of_claims_that_no_store_consumer_has_seen_go_by(bench: Bench) -> None:
    task_id = await bench.schedule("a")
    await bench.enqueue()
    await bench.store.pause_claims()
    bench.clock.advance(20)
    answer = await explain(bench, task_id)
    assert (answer.reason, answer.until_us) == ("claims_paused", 0)
    assert "no task starts until a store consumer has seen the pause of claims go by" in answer.sentence


async def test_a_paused_lambda_goes_before_a_pause_of_claims(bench: Bench) -> None:
    """That one ends by itself."""
    task_id = await bench.schedule("a")
    await bench.enqueue()
    await bench.store.pause_claims()
    await bench.frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": "photos/thumbnail"}, who="ada"))
    assert (await explain(bench, task_id)).reason == "paused"


async def test_a_payload_that_fits_nobody_says_which_field_since_when_what_runs_and_until_when(bench: Bench) -> None:
    old, new, name = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "photos/thumbnail"
    await bench.store.serve("", 3600, "", None, [f"{name} {old}"])
    task_id = await bench.schedule("a")
    await bench.enqueue()
    partition = int(task_id.partition("-")[0])
    await pop_ids(bench.store, partition, [[f"{name}:1"]], 10)
    (claim,) = (await claim_ids(bench.store, "e1", "n", [task_id], 1 << 20, {name: old})).claims
    held = HeldClaim(task_id, claim.counter, claim.nonce)
    result = RunResult(held, Outcome.MISFIT, error="unknown field `colour`", signature=old, grace_us=600 * US)
    await bench.store.set_results([result])
    bench.clock.advance(30)
    answer = await explain(bench, task_id)
    assert (answer.reason, answer.until_us) == ("misfit", START_US + 600 * US)
    for part in ("unknown field `colour`", "waited for 30.0 s", old, "alone", "in 9 min 30 s", "aliases"):
        assert part in answer.sentence
    await bench.store.serve("", 3600, "", None, [f"{name} {new}"])
    for pushed in (False, True):
        if pushed:
            await bench.enqueue()
        answer = await explain(bench, task_id)
        assert answer.reason == "misfit"
        assert f"Signature {new} runs now, too: it is offered to those executors" in answer.sentence
        await bench.store.pause_lambda(name)
        assert (await explain(bench, task_id)).reason == "paused"
        await bench.store.resume_lambda(name)
    assert (await explain(bench, task_id)).until_us == 0
    await bench.store.pause_claims()
    answer = await explain(bench, task_id)
    assert answer.reason == "claims_paused"
    assert answer.sentence.startswith("There are executors whose signature it may fit, but no task starts for at least")
    bench.clock.advance(3600)
    answer = await explain(bench, task_id)
    assert (answer.reason, answer.until_us) == ("misfit", 0)
    assert "when deploy_grace is over, which begins at the next look" in answer.sentence


async def cores(bench: Bench, executors: int, *claims: str) -> None:
    """The pool gpu with two cores, the first one reserved; its executors, and lambdas that claim a core."""
    request = f.SetCapacityRequest(pool="gpu", cores=2, lookahead=1, reserve={"photos/resize": 1}, rotation_us=3 * US)
    await bench.frontend.set_capacity(request)
    found = await bench.store.get_capacity("gpu")
    assert found is not None
    pool = CorePool.decode(found.state)
    pool.staff(executors, found.now_us)
    for each in claims:
        pool.claim(each, found.now_us)
    await bench.store.set_capacity(
        "gpu", found.version, pool.encode(), ([["e1"], ["e2"]][:executors], found.membership)
    )


@pytest.mark.parametrize(
    ("lambda_name", "executors", "claims", "says"),
    [
        ("photos/thumbnail", 0, (), "the pool gpu is cut into cores, and no executor is there. atf capacity show gpu"),
        ("photos/thumbnail", 2, (), "photos/thumbnail has none at present, and has made no core claim yet"),
        ("photos/thumbnail", 2, ("a/b", "photos/thumbnail"), "number 1 of 1 for core 1, which a/b has for another 1.0 s"),
        ("photos/thumbnail", 2, ("a/b", "a/c", "a/d", "photos/thumbnail"), "number 2 of those behind the queue, which is full (1"),
        ("photos/resize", 1, (), "photos/resize has core 0, whose group has no executor until the next rotation, in 3.0 s"),
        ("photos/resize", 2, (), ""),
        ("photos/thumbnail", 2, ("photos/thumbnail",), ""),
    ],
)  # fmt: skip
async def test_its_lambda_has_no_core(
    bench: Bench, lambda_name: str, executors: int, claims: tuple[str, ...], says: str
) -> None:
    for name in ("photos/thumbnail", "photos/resize"):
        await bench.register(name, pool="gpu")
    task_id = await bench.schedule("a", name=lambda_name)
    await bench.enqueue()
    await bench.store.serve("gpu", 60)
    await cores(bench, executors, *claims)
    if executors == 1:  # the one executor of the first group is at the other core
        bench.clock.advance(3)
    answer = await explain(bench, task_id)
    if says:
        assert answer.reason == "no_core"
        assert "at position 0 of 1 in its queue, and waits for a core: " in answer.sentence
        assert says in answer.sentence
    else:
        assert answer.reason == "queued"


async def test_what_has_the_core_is_named_to_who_may_read_it(bench: Bench) -> None:
    for name in ("photos/thumbnail", "photos/resize"):
        await bench.register(name, pool="gpu")
    task_id = await bench.schedule("a")
    await bench.enqueue()
    await bench.store.serve("gpu", 60)
    await cores(bench, 2, "mail/send", "photos/thumbnail")
    grant = TokenGrant(frozenset({Verb.READ}), frozenset({"photos"}))
    with acting_for(Caller(CallerKind.TOKEN, "token x", grant)):
        assert "core 1, which another lambda has for another 1.0 s" in (await explain(bench, task_id)).sentence


@pytest.mark.parametrize(
    ("waited_us", "taken", "says"), [(US // 2, False, False), (2 * US, False, True), (2 * US, True, False)]
)
async def test_the_group_on_its_lambdas_core_takes_nothing(
    bench: Bench, waited_us: int, taken: bool, says: bool
) -> None:
    await bench.register("photos/resize", pool="gpu")
    await bench.store.serve("gpu", 60)
    await cores(bench, 2)
    bench.clock.advance(30.5)  # a reserved turn waits for its lambda however long
    task_id = await bench.schedule("a", name="photos/resize")
    await bench.enqueue()
    bench.clock.advance(waited_us / US)
    if taken:
        record = await bench.store.get_capacity("gpu")
        assert record is not None
        pool = CorePool.decode(record.state)
        turn = pool.turns[0]
        assert turn is not None
        pool.handed_over(0, turn.number, record.now_us)
        await bench.store.set_capacity("gpu", record.version, pool.encode())
    answer = await explain(bench, task_id)
    assert answer.reason == "queued"
    sentence = "photos/resize has core 0, whose group has taken none of its tasks for 2.0 s"
    assert (sentence in answer.sentence, "should run the same apps" in answer.sentence) == (says, says)


async def test_a_core_claim_whose_hand_over_failed_says_so(bench: Bench) -> None:
    for name in ("photos/thumbnail", "photos/resize"):
        await bench.register(name, pool="gpu")
    task_id = await bench.schedule("a")
    await bench.enqueue()
    await bench.store.serve("gpu", 60)
    await cores(bench, 2, "photos/thumbnail", "a/b")
    bench.clock.advance(1)
    record = await bench.store.get_capacity("gpu")
    assert record is not None
    pool = CorePool.decode(record.state)
    pool.pass_time(record.now_us)
    await bench.store.set_capacity("gpu", record.version, pool.encode())
    answer = await explain(bench, task_id)
    assert answer.reason == "no_core"
    assert "turns in which its core's group took none of its tasks: 1. Its core claim is number 1" in answer.sentence


async def test_claimed_then_running_then_asked_to_stop(bench: Bench) -> None:
    task_id = await bench.schedule("a")
    (claim,) = await bench.claim(task_id, owner="executor-9")
    bench.clock.advance(0.5)
    answer = await explain(bench, task_id)
    assert (answer.reason, answer.until_us) == ("claimed", START_US + 16 * US)
    assert "Executor executor-9 claimed it 500 ms ago" in answer.sentence
    assert "lease ends in 15.5 s" in answer.sentence
    await bench.store.heartbeat([ClaimRenewal(HeldClaim(task_id, claim.counter, claim.nonce), True)])
    bench.clock.advance(2)
    answer = await explain(bench, task_id)
    assert answer.reason == "running"
    assert "Executor executor-9 has been running it for 2.0 s" in answer.sentence
    await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=[task_id]))
    assert "cancellation was asked for" in (await explain(bench, task_id)).sentence
    bench.clock.advance(60)
    assert "Its lease has expired" in (await explain(bench, task_id)).sentence


async def test_backing_off_says_why_and_until_when(bench: Bench) -> None:
    task_id = await bench.schedule("a")
    await bench.finish(
        task_id,
        Outcome.FAILED,
        error="ValueError: no such size\nTraceback (most recent call last):\n  x",
        retry_in_us=8 * US,
    )
    answer = await explain(bench, task_id)
    assert (answer.reason, answer.until_us) == ("backing_off", START_US + 8 * US)
    assert answer.sentence == "Attempt 1 failed (ValueError: no such size). The next one is due in 8.0 s."


async def test_put_off_says_why_and_until_when(bench: Bench) -> None:
    task_id = await bench.schedule("a")
    await bench.finish(task_id, Outcome.HANDED_BACK, error="the licence server is busy", retry_in_us=8 * US)
    answer = await explain(bench, task_id)
    assert (answer.reason, answer.until_us) == ("put_off", START_US + 8 * US)
    assert answer.sentence == (
        "Its last run did not end it (handed_back: the licence server is busy). It runs again in 8.0 s."
    )


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (Outcome.SUCCEEDED, "It succeeded 3.0 s ago, at attempt 1."),
        (Outcome.FAILED_FATAL, "It failed for good 3.0 s ago, after 1 attempt and 0 lost runs: bad file. atf retry "),
    ],
)
async def test_finished(bench: Bench, outcome: Outcome, sentence: str) -> None:
    task_id = await bench.schedule("a")
    await bench.finish(task_id, outcome, error="bad file" if outcome is Outcome.FAILED_FATAL else "")
    bench.clock.advance(3)
    answer = await explain(bench, task_id)
    assert (answer.reason, answer.until_us) == ("finished", 0)
    assert answer.sentence.startswith(sentence)


async def test_cancelled_says_how_to_start_it_afresh(bench: Bench) -> None:
    task_id = await bench.schedule("a", delay_us=US)
    await bench.frontend.cancel_tasks(f.CancelTasksRequest(ids=[task_id]))
    assert (
        await explain(bench, task_id)
    ).sentence == f"It was cancelled 0 ms ago. atf retry {task_id} starts it afresh."


@pytest.mark.parametrize(
    ("us", "said"),
    [
        (-5, "0 ms"),
        (340_999, "340 ms"),
        (12_500_000, "12.5 s"),
        (200 * US, "3 min 20 s"),
        (3_600 * US, "1 h"),
        (18_600 * US, "5 h 10 min"),
        (183_600 * US, "2 d 3 h"),
        (172_860 * US, "2 d"),
    ],
)
def test_durations_are_said_as_people_do(us: int, said: str) -> None:
    assert duration(us) == said


async def test_no_live_worker_belongs_to_its_pool(bench: Bench) -> None:
    await bench.register(pool="gpu")
    task_id = await bench.schedule()
    reply = await bench.frontend.explain_task(f.ExplainTaskRequest(id=task_id))
    assert reply.reason == "no_pool"
    assert "runs in the pool gpu alone, and no live worker belongs to it" in reply.sentence
    await bench.enqueue()
    assert (await bench.frontend.explain_task(f.ExplainTaskRequest(id=task_id))).reason == "no_pool"
    await bench.store.serve("gpu", 30)
    assert (await bench.frontend.explain_task(f.ExplainTaskRequest(id=task_id))).reason == "queued"


async def test_no_live_worker_runs_without_a_pool(bench: Bench) -> None:
    bench.clock.advance(3600)
    await bench.store.serve("gpu", 30, "one:7403")
    task_id = await bench.schedule()
    reply = await explain(bench, task_id)
    assert reply.reason == "no_pool"
    await bench.enqueue()
    reply = await explain(bench, task_id)
    assert reply.reason == "no_pool"
    assert "at position 0 of 1 in its queue (0 is the front), but photos/thumbnail runs in no pool" in reply.sentence
    assert "no live worker runs without one: start one with atf worker" in reply.sentence
    await bench.store.serve("", 30)
    assert (await explain(bench, task_id)).reason == "queued"


async def test_no_live_worker_of_its_pool_runs_it(bench: Bench) -> None:
    bench.clock.advance(3600)
    await bench.store.serve("", 30, "one:7403", lambdas=["photos/other"])
    task_id = await bench.schedule()
    reply = await explain(bench, task_id)
    assert reply.reason == "not_served"
    await bench.enqueue()
    reply = await explain(bench, task_id)
    assert reply.reason == "not_served"
    assert "no live worker of the pool that it runs in runs photos/thumbnail" in reply.sentence
    await bench.store.serve("", 30, "two:7403", lambdas=["photos/thumbnail"])
    assert (await explain(bench, task_id)).reason == "queued"


WHY = "app shop:app: /srv/shop.py line 3: SyntaxError: invalid syntax."


async def test_no_executor_can_start_on_the_hosts_of_its_pool(bench: Bench) -> None:
    bench.clock.advance(3600)
    task_id = await bench.schedule()
    await bench.store.serve("", 300, "one:7403", why_not=WHY)
    reply = await explain(bench, task_id)
    assert reply.reason == "cant_start"
    await bench.enqueue()
    await bench.store.serve("", 300, "two:7403", why_not=WHY)
    reply = await explain(bench, task_id)
    assert reply.reason == "cant_start"
    assert (
        "in its queue (0 is the front), but no executor can start on host one:7403, nor on two:7403: app shop:app: /srv/shop.py"
        " line 3: SyntaxError: invalid syntax. Mend that, and start the host's controller again if it has ended."
        in reply.sentence
    )


async def test_hosts_that_fail_for_different_reasons_each_have_theirs(bench: Bench) -> None:
    bench.clock.advance(3600)
    task_id = await bench.schedule()
    slow = "killed: importing its apps took longer than 3 s (start_timeout)"
    for host, why in (("a:1", WHY), ("b:1", slow), ("c:1", WHY)):
        await bench.store.serve("", 300, host, why_not=why)
    assert (
        f"no executor can start on host a:1, nor on c:1: {WHY.rstrip('.')}; nor on host b:1: {slow}. Mend that"
        in (await explain(bench, task_id)).sentence
    )


async def test_beside_a_host_that_works_one_where_no_executor_can_start_is_named(bench: Bench) -> None:
    bench.clock.advance(3600)
    task_id = await bench.schedule()
    await bench.enqueue()
    await bench.store.serve("", 300, "one:7403", why_not=WHY)
    await bench.store.serve("", 30, "two:7403", lambdas=["photos/thumbnail"])
    reply = await explain(bench, task_id)
    assert reply.reason == "queued"
    assert f"Besides, no executor can start on host one:7403: {WHY}" in reply.sentence
    bench.clock.advance(30)
    await bench.store.serve("", 30, "two:7403", lambdas=["photos/other"])
    reply = await explain(bench, task_id)
    assert reply.reason == "not_served"
    assert f"Besides, no executor can start on host one:7403: {WHY}" in reply.sentence
    await bench.store.serve("", 30, "one:7403", lambdas=["photos/thumbnail"])
    reply = await explain(bench, task_id)
    assert reply.reason == "queued"
    assert "Besides" not in reply.sentence


async def test_the_executors_of_its_pool_are_starting(bench: Bench) -> None:
    bench.clock.advance(3600)
    task_id = await bench.schedule()
    await bench.store.serve("", 30, "one:7403", why_not=STARTS)
    reply = await explain(bench, task_id)
    assert reply.reason == "starting"
    assert "the executors on one:7403 are starting, and none has asked for work yet" in reply.sentence
    (host,) = (await bench.frontend.list_hosts(f.ListHostsRequest())).hosts
    assert (host.starting, host.why_not) == (True, "")
    await bench.store.serve("", 300, "one:7403", why_not=WHY)
    (host,) = (await bench.frontend.list_hosts(f.ListHostsRequest())).hosts
    assert (host.starting, host.why_not) == (False, WHY)


async def test_every_host_of_its_pool_quarantines_its_lambda(bench: Bench) -> None:
    task_id = await bench.schedule()
    await bench.enqueue()
    await bench.store.serve("gpu", 30, "other")  # of another pool
    await bench.store.serve("", 30, "one:7403", {"photos/thumbnail": 20})
    reply = await explain(bench, task_id)
    assert reply.reason == "quarantined"
    assert "the only host, one:7403, quarantines photos/thumbnail" in reply.sentence
    assert "one:7403 tries a task again in 20.0 s" in reply.sentence
    assert reply.until_us == reply.now_us + 20 * US
    await bench.store.serve("", 30, "two:7403", {"photos/other": 20})
    assert (await explain(bench, task_id)).reason == "queued", "the other one runs it"
    await bench.store.serve("", 30, "two:7403", {"*": 0})
    reply = await explain(bench, task_id)
    assert "all 2 hosts quarantine photos/thumbnail" in reply.sentence
    assert "two:7403 tries the next one" in reply.sentence


@pytest.mark.parametrize("state", [{"why_not": WHY}, {"quarantined": {"*": 20}}, {"why_not": "="}])
async def test_hosts_are_named_to_who_may_see_all_of_them(bench: Bench, state: dict[str, Any]) -> None:
    """Their names and their errors may be another namespace's."""
    bench.clock.advance(3600)
    task_id = await bench.schedule()
    await bench.enqueue()
    await bench.store.serve("", 300, "mail-1:7403", **state)
    assert "mail-1" in (await explain(bench, task_id)).sentence
    grant = TokenGrant(frozenset({Verb.READ}), frozenset({"photos"}))
    with acting_for(Caller(CallerKind.TOKEN, "token x", grant)):
        said = (await explain(bench, task_id)).sentence
    assert "host" in said
    assert not any(each in said for each in ("mail-1", "/srv/shop.py"))


async def test_waiting_for_a_slot_of_its_concurrency_key(bench: Bench) -> None:
    ids = [await bench.schedule(name, concurrency=t.Concurrency(key="anna", limit=2)) for name in "abcd"]
    await bench.enqueue()
    reply = await explain(bench, ids[3])
    assert reply.reason == "key_busy"
    assert "a slot of its concurrency key anna: 2 of 2 are taken, and 1 task is before it" in reply.sentence
