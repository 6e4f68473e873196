"""Every move of atf.task.MOVES from every state: the table's sources move as it says, and nothing else moves at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import pytest

from atf.store.values.claims import ClaimRenewal, HeldClaim, Outcome, RunResult, Verdict
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.tasks import TaskRecord
from atf.task import ENDED_RUNS_KEPT, FINISHED, MOVES, US, Move, Status
from tests.claiming import claim_ids, take

from .world import BACKOFF_US, ENQUEUE_TIMEOUT_US, LAMBDA, LEASE_US, QUEUE, World, dump, held

# --- how a task gets into a state -------------------------------------------------------------------------------------

TOMBSTONE: Final = "TOMBSTONE"
RETENTION_US = 3600 * US
STATES = [*(status.name for status in Status), TOMBSTONE, ""]
"""Where a task can stand; "" is an id that nobody knows."""


class Cast(NamedTuple):
    """Tasks brought into one state, with the tokens they were given on the way."""

    ids: list[str]
    last: list[HeldClaim]  # the newest token of each, right where it is held
    old: list[HeldClaim]  # the one before; the same where the state comes after a claim has ended
    ended: list[HeldClaim]  # the token whose result is the last one on record; a repetition of it is answered OK


async def cast(world: World, state: str, names: list[str], **options: Any) -> Cast:
    """Brings tasks into a state by a way that claims each of them twice, so that every kind of token exists."""
    if not state:
        nobody = [HeldClaim(f"0-{name}", 1, "x") for name in names]
        return Cast([each.task_id for each in nobody], nobody, nobody, [])
    old = await world.run(*names, retention_us=0 if state == TOMBSTONE else RETENTION_US, **options)
    ids = [each.task_id for each in old]
    await world.fail(*old)
    world.clock.advance(60)
    await world.passes()
    await world.pop()
    if state == Status.ENQUEUED.name:
        return Cast(ids, old, old, old)
    last = held(await world.claim(*ids))
    await _leave_claim(world, state, last)
    assert {task["s"] for task in (await dump(world.store)).tasks().values()} == {state}
    still_known = state in {each.name for each in FINISHED} | {Status.RETRIABLE_FAILURE.name}
    return Cast(ids, last, old, last if still_known else [])


async def _leave_claim(world: World, state: str, claims: list[HeldClaim]) -> None:
    ids = [each.task_id for each in claims]
    match state:
        case Status.PROCESSING.name:
            await world.beat(*claims)
        case Status.SUCCESS.name:
            await world.finish(Outcome.SUCCEEDED, *claims, result=b"42")
        case Status.RETRIABLE_FAILURE.name:
            await world.fail(*claims)
        case Status.FATAL_FAILURE.name:
            await world.finish(Outcome.FAILED_FATAL, *claims, error="never")
        case Status.CANCELLED.name | Status.NEW.name:
            await world.store.cancel_tasks(ids)
            await world.finish(Outcome.STOPPED, *claims)
            if state == Status.NEW.name:
                await world.store.retry_tasks(ids)
        case _ if state == TOMBSTONE:
            await world.finish(Outcome.SUCCEEDED, *claims)
            assert await world.store.sweep(0, 100) == len(ids)


UNCOUNTED: Final = {"cut", "put off", "lapse", "misfit"}
SIGNATURE: Final = "aaaaaaaaaaaa"
"""Rows that count neither an attempt nor a loss."""

# --- the moves, as calls ----------------------------------------------------------------------------------------------

Call = Callable[[World, list[HeldClaim]], Awaitable[object]]


WAIT_US = 7 * US
FINISHES = {"succeed", "fail", "time out", "fail fatally", "stop", "cut", "put off", "misfit"}


def _finish(outcome: Outcome, retry_in_us: int = BACKOFF_US) -> Call:
    result = {"error": "it rained", "retry_in_us": retry_in_us, "ran_us": 3 * US, "ended_ago_us": US}
    return lambda world, claims: world.finish(outcome, *claims, **result)


async def _schedule(world: World, claims: list[HeldClaim]) -> object:
    names = [each.task_id.partition("-")[2] for each in claims]
    return await world.store.schedule([world.task(name, delay_us=5 * US) for name in names])


async def _claim(world: World, claims: list[HeldClaim]) -> object:
    return await claim_ids(world.store, "executor-2", "another", [each.task_id for each in claims])


VERBS: dict[str, Call] = {
    "schedule": _schedule,
    "claim": _claim,
    "heartbeat": lambda world, claims: world.beat(*claims, started=False),
    "start": lambda world, claims: world.beat(*claims, started=True),
    "succeed": _finish(Outcome.SUCCEEDED),
    "fail": _finish(Outcome.FAILED),
    "time out": _finish(Outcome.TIMED_OUT),
    "fail fatally": _finish(Outcome.FAILED_FATAL),
    "stop": _finish(Outcome.STOPPED),
    "cut": _finish(Outcome.HANDED_BACK, 0),
    "put off": _finish(Outcome.HANDED_BACK, WAIT_US),
    "misfit": lambda world, claims: world.finish(
        Outcome.MISFIT, *claims, error="it rained", ended_ago_us=US, signature=SIGNATURE, grace_us=60 * US
    ),
    "hand back": lambda world, claims: world.store.hand_back(claims),
    "lose": lambda world, claims: world.store.report_loss(claims, "killed"),
    "cancel": lambda world, claims: world.store.cancel_tasks([each.task_id for each in claims]),
    "retry": lambda world, claims: world.store.retry_tasks([each.task_id for each in claims]),
}
MOVES_OF: dict[str, tuple[str, ...]] = {
    "heartbeat": ("heartbeat",),
    "start": ("start", "heartbeat"),
    "fail": ("fail", "fail for good", "stop"),
    "time out": ("fail", "fail for good", "stop"),
    "fail fatally": ("fail for good",),
    "stop": ("stop",),
    "cancel": ("cancel", "cancel a running task"),
    "lose": ("lose", "lose for good"),
}
"""The rows of MOVES that a verb carries out, where it is not the one of its name."""
TOKENED = {"heartbeat", "start", "hand back", "lose"} | FINISHES


def _sources(verb: str) -> set[str]:
    rows = MOVES_OF.get(verb, (verb,))
    return {source.name if source else "" for move in MOVES if move.name in rows for source in move.sources}


# --- what must not move -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES, ids=lambda state: state or "no_record")
async def test_nothing_else_moves_from(world: World, state: str) -> None:
    ids, last, old, ended = await cast(world, state, ["a", "b"])
    wrong = {
        "old": old,
        "wrong nonce": [each._replace(nonce="somebody's") for each in last],
        "ahead": [each._replace(counter=each.counter + 1) for each in last],
        "none": [HeldClaim(task_id, 0, "") for task_id in ids],
    }
    await world.store.claims_of("executor-2", "first")  # the partition takes note of the server
    before = await dump(world.store)
    for verb, call in VERBS.items():
        tokens = wrong if verb in TOKENED else {}
        if state not in _sources(verb):
            tokens = tokens | {"last": last}
        for kind, claims in tokens.items():
            answer = await call(world, claims)
            assert (await dump(world.store)).data == before.data, f"{verb} with token {kind!r} changed something"
            if verb in TOKENED:
                told_before = verb in FINISHES and claims == ended
                assert answer == [Verdict.OK if told_before else Verdict.LOST] * 2, f"{verb} with token {kind!r}"


@pytest.mark.parametrize("state", STATES, ids=lambda state: state or "no_record")
async def test_a_pass_before_anything_is_due_moves_nothing(world: World, state: str) -> None:
    if state == Status.NEW.name:
        await world.schedule("a", "b", delay_us=1)
    else:
        await cast(world, state, ["a", "b"])
    await world.store.enqueue(0, 0)  # the first one notes that passes end pauses
    before = await dump(world.store)
    passed = await world.store.enqueue(0, 0)
    assert (passed.enqueued, passed.enqueued_again, passed.lost) == (0, 0, 0)
    assert (await dump(world.store)).without_visits() == before.without_visits()


# --- what must move ---------------------------------------------------------------------------------------------------


async def lease_ends(world: World, _: list[HeldClaim]) -> object:
    world.clock.advance(16)
    return await world.store.enqueue(0, 0)


async def _drained(world: World, claims: list[HeldClaim]) -> object:
    status = (await world.get(claims[0].task_id)).status
    await world.beat(*claims, started=status is Status.PROCESSING, draining=True)
    return await lease_ends(world, claims)


async def _due(world: World, _: list[HeldClaim]) -> object:
    world.clock.advance(60)
    return await world.store.enqueue(0, 0)


def _gated(action: str, then: Call) -> Call:
    """With a gate that was set before."""

    async def call(world: World, claims: list[HeldClaim]) -> object:
        await world.store.register_lambdas([LambdaRecord(LAMBDA, b"", 9, ENQUEUE_TIMEOUT_US, paused=False)])
        await world.gate(action)
        return await then(world, claims)

    return call


async def _due_or_claimed(world: World, _: list[HeldClaim]) -> object:
    world.clock.advance(60)
    await world.store.enqueue(0, 0)
    return await claim_ids(world.store, "executor-2", "another", ["0-a"])


async def _lifted(world: World, claims: list[HeldClaim]) -> object:
    """The lambda is paused then, or the pass that lets the task through would push it."""
    await _due(world, claims)
    await world.gate("pause")
    await world.lift("admit")
    return await world.store.enqueue(0, 0)


def _flagged(verb: str) -> Call:
    async def call(world: World, claims: list[HeldClaim]) -> object:
        (answer,) = await world.store.cancel_tasks([claims[0].task_id])
        assert (answer.cancelled, answer.cancel_requested) == (False, True)
        return await VERBS[verb](world, claims)

    return call


def met(then: Call, attempts: int = 9) -> Call:
    """Of a task that does not fit SIGNATURE, and has waited for another one for long when it is due; it has so many attempts."""

    async def call(world: World, claims: list[HeldClaim]) -> object:
        client, since = world.store.link.client, world.clock.us
        text = f"{since} {50 * US} {BACKOFF_US} {US} {since} {SIGNATURE}"
        await client.hset("atf:{0}:t:0-a", mapping={"mf": text, "lim": f"{attempts} 3 {RETENTION_US}"})
        await client.hset(f"atf:{{0}}:l:{LAMBDA}", "mis", since + 3600 * US)
        return await then(world, claims)

    return call


JOB: Final = "shop/nightly"
"""Of partition 0."""


def of_a_job(*calls: Call) -> Call:
    """With a task that is a tick of a job."""

    async def call(world: World, claims: list[HeldClaim]) -> object:
        await world.store.schedule_jobs([world.job(JOB)])
        client = world.store.link.client
        await client.hset("atf:{0}:t:0-a", "w", f"@{JOB}")
        await client.zadd(f"atf:{{0}}:ticks:{JOB}", {"0-a": 1})
        await client.zadd("atf:{0}:ticking", {JOB: 0})
        for each in calls:
            await each(world, claims)
        return None

    return call


async def _claim_signed(world: World, _: list[HeldClaim]) -> object:
    return await claim_ids(world.store, "executor-2", "another", ["0-a"], signatures={LAMBDA: SIGNATURE})


async def paused(world: World, _: list[HeldClaim]) -> object:
    return await world.store.pause_job(JOB)


async def _resumed(world: World, _: list[HeldClaim]) -> object:
    return await world.store.resume_job(JOB)


async def _deleted(world: World, _: list[HeldClaim]) -> object:
    return await world.store.delete_jobs([JOB])


class Way(NamedTuple):
    """A way to make a move, and what a task must be made with for it."""

    move: str
    by: str
    call: Call
    options: dict[str, int] = {}  # noqa: RUF012  never written to
    pushed: bool = False  # the same pass also enqueues it again
    only: Status | None = None  # the source from which it makes that move; None: from each


_OF_ATTEMPTS = {"max_attempts": 2}
_OF_LOSSES = {"max_losses": 1}
WAYS = [
    Way("schedule", "schedule", _schedule),
    Way("enqueue", "pass", _due),
    Way("enqueue again", "pass", _due, pushed=True),
    Way("claim", "claim", _claim),
    Way("heartbeat", "heartbeat", VERBS["heartbeat"]),
    Way("start", "heartbeat", VERBS["start"]),
    Way("succeed", "finish", VERBS["succeed"]),
    Way("fail", "finish", VERBS["fail"]),
    Way("fail", "timeout", VERBS["time out"]),
    Way("fail", "stop unasked", VERBS["stop"]),
    Way("fail for good", "finish", VERBS["fail fatally"]),
    Way("fail for good", "last attempt", VERBS["fail"], _OF_ATTEMPTS),
    Way("fail for good", "last timeout", VERBS["time out"], _OF_ATTEMPTS),
    Way("cut", "finish", VERBS["cut"]),
    Way("put off", "finish", VERBS["put off"]),
    Way("misfit", "finish", VERBS["misfit"]),
    Way("hand back", "hand back", VERBS["hand back"]),
    Way("lapse", "lease", lease_ends, _OF_LOSSES, pushed=True, only=Status.CLAIMED),
    Way("lapse", "lease in a drain", _drained, _OF_LOSSES, pushed=True),
    Way("lose", "report", VERBS["lose"]),
    Way("lose", "lease", lease_ends, pushed=True, only=Status.PROCESSING),
    Way("lose for good", "report", VERBS["lose"], _OF_LOSSES),
    Way("lose for good", "lease", lease_ends, _OF_LOSSES, only=Status.PROCESSING),
    Way("cancel", "cancel", VERBS["cancel"]),
    Way("cancel a running task", "cancel", VERBS["cancel"]),
    *(
        Way("stop", verb, _flagged(verb))
        for verb in ("fail", "time out", "fail fatally", "stop", "cut", "put off", "misfit", "lose", "hand back")
    ),
    Way("gate", "pass", _gated("admit", _due)),
    Way("park", "claim", _gated("admit", _due_or_claimed)),
    Way("drop", "pass or claim", _gated("drop", _due_or_claimed)),
    Way("leave to others", "claim", met(_claim_signed)),
    Way("leave to others", "pass", met(_due)),
    Way("misfit fails", "pass", met(_due)),
    Way("misfit fails for good", "pass", met(_due, attempts=1)),
    Way("let through", "pass", _gated("admit", _lifted)),
    Way("hold", "pause", of_a_job(paused)),
    Way("hold back", "pause", of_a_job(paused), only=Status.ENQUEUED),
    *(
        Way("hold back", verb, of_a_job(paused, VERBS[verb]), only=source)
        for verb in ("cut", "put off", "lose", "hand back")
        for source in (Status.CLAIMED, Status.PROCESSING)
    ),
    Way("go on", "resume", of_a_job(paused, _resumed)),
    Way("run for the last time", "delete", of_a_job(_deleted)),
    Way("redrive", "redrive", lambda world, _: world.store.redrive([("0-a", 7 * US)], world.clock.us)),
    Way("retry", "retry", VERBS["retry"]),
]
WALKED = [
    (way, move, source)
    for way in WAYS
    for move in MOVES
    for source in move.sources
    if move.name == way.move
    and way.only in {None, source}
    and not (way.by == "hand back" and source is Status.PROCESSING)
]
CASES = [
    pytest.param(
        *each, id=f"{each[0].move}-by-{each[0].by}-from-{each[2].name if each[2] else 'nothing'}".replace(" ", "_")
    )
    for each in WALKED
]
NEXT_IN_US = {
    "the instant asked for": 5 * US,
    "now + enqueue_timeout": ENQUEUE_TIMEOUT_US,
    "when its turn comes": 7 * US,
    "now + heartbeat_timeout": LEASE_US,
    "now + backoff": BACKOFF_US,
    "now + the wait that it asked for": WAIT_US,
    "now": 0,
    "after 1 s, doubling to 30 s; now where an executor runs another signature": US,
    "as for misfit": US,
}
"""What the table's words mean here, from the instant of the move."""


_WHY_LOST = {
    ("lose", "lease"): "lost: lease expired",
    ("lose for good", "lease"): "lost: lease expired",
    ("lapse", "lease"): "lost: lease expired before the run said that it started (not counted)",
    ("lapse", "lease in a drain"): "lost: lease expired while its executor drained (not counted)",
}


def test_every_row_of_the_table_is_walked() -> None:
    assert {way.move for way in WAYS} == {move.name for move in MOVES}


@pytest.mark.parametrize(("way", "move", "source"), CASES)
async def test_a_move_goes_as_the_table_says(world: World, way: Way, move: Move, source: Status | None) -> None:
    if way.move == "enqueue" and source is Status.NEW:
        await world.schedule("a", delay_us=US)
        claims = []
    else:
        claims = (await cast(world, source.name if source else "", ["a"], **way.options)).last
    (before,) = await world.store.get_tasks(["0-a"])
    world.clock.advance(1)
    await way.call(world, claims)
    after = await world.get("0-a")
    assert after.status is (move.target or source)
    _next_instant_follows(world, way, move, before, after)
    if before is None or after.status is not before.status:
        assert after.moved_at_us[after.status] == world.clock.us
    if before is not None:
        _history_follows(world, way, move, before, after)
    await world.check()


def _next_instant_follows(world: World, way: Way, move: Move, before: TaskRecord | None, after: TaskRecord) -> None:
    if way.pushed:
        assert after.next_at_us == world.clock.us + ENQUEUE_TIMEOUT_US
    elif move.next_at == "when it was due":
        assert after.next_at_us == after.scheduled_at_us
    elif move.next_at in {None, "none until the gate lets it pass", "none until its job goes on"}:
        assert after.next_at_us == 0
    elif move.next_at in {"unchanged", "when it would have been due"}:
        assert before is not None
        assert after.next_at_us == before.next_at_us
    else:
        assert after.next_at_us == world.clock.us + NEXT_IN_US[move.next_at]


def _history_follows(world: World, way: Way, move: Move, before: TaskRecord, after: TaskRecord) -> None:
    gave_up = move.name in {"misfit fails", "misfit fails for good"}
    attempted = move.name in {"succeed", "fail", "fail for good"} or (
        move.name == "stop" and way.by not in UNCOUNTED | {"lose", "hand back"}
    )
    by_its_way = move.name in {"stop", "hold back"}
    cut = move.name in UNCOUNTED or (by_its_way and way.by in UNCOUNTED)
    lost = move.name in {"lose", "lose for good"} or (by_its_way and way.by == "lose")
    retried = move.name in {"retry", "redrive"}
    assert after.attempts == (0 if retried else before.attempts + attempted + gave_up)
    assert after.losses == (0 if retried else before.losses + lost)
    assert after.runs == before.runs + {"claim": 1}.get(move.name, 0) - (
        way.by == "hand back" and before.status is Status.CLAIMED
    )
    assert after.fence == before.fence or (move.name == "claim" and after.fence > before.fence)
    ended = after.ended_runs[len(before.ended_runs) :]
    assert len(ended) == attempted + lost + cut
    unfit = "misfit" in {move.name, way.by}
    if cut and move.name != "lapse":
        assert ended[0].why == ("misfit" if unfit else "handed_back") + ": it rained"
    if attempted or (cut and move.name != "lapse"):
        now, ran_us = world.clock.us, 0 if unfit else 3 * US
        assert (ended[0].owner, ended[0].started_at_us, ended[0].ended_at_us) == (
            "executor-1",
            now - US - ran_us,
            now - US,
        )
        assert ended[0].attempt == before.attempts + 1
    if lost or move.name == "lapse":
        started = before.moved_at_us[Status.PROCESSING] if before.status is Status.PROCESSING else 0
        assert (ended[0].started_at_us, ended[0].ended_at_us) == (started, world.clock.us)
        assert ended[0].why == _WHY_LOST.get((move.name, way.by), "lost: killed")


# --- what comes twice -------------------------------------------------------------------------------------------------


async def test_schedule_is_idempotent_by_id_and_refuses_another_request(world: World) -> None:
    (first,) = await world.store.schedule([world.task("a", delay_us=5 * US)])
    world.clock.advance(2)
    same, other = await world.store.schedule(
        [world.task("a", delay_us=5 * US), world.task("a", digest=b"other", spec=b"other")]
    )
    assert (first.existed, first.conflict) == (False, False)
    assert (same.existed, same.conflict, same.scheduled_at_us) == (True, False, first.scheduled_at_us)
    assert other.conflict
    assert (await world.get("0-a")).spec == b"spec"
    assert (await world.store.counts("shop/mail"))[Status.NEW] == 1


async def test_the_same_id_twice_in_one_call_is_one_task(world: World) -> None:
    first, second = await world.store.schedule([world.task("a"), world.task("a")])
    assert (first.existed, second.existed) == (False, True)
    await world.check()


async def test_of_one_call_those_tasks_are_stored_that_are_not_there_yet(world: World) -> None:
    await world.schedule("b")
    some = await world.store.schedule([world.task(each, spec=each.encode()) for each in "abc"])
    assert [each.existed for each in some] == [False, True, False]
    more = await world.store.schedule(
        [world.task("d"), world.task("e"), world.task("d", digest=b"other", spec=b"other")]
    )
    assert [(each.existed, each.conflict) for each in more] == [(False, False), (False, False), (True, True)]
    assert [(await world.get(f"0-{each}")).spec for each in "abcde"] == [b"a", b"spec", b"c", b"spec", b"spec"]
    await world.check()


async def test_a_claim_repeated_answers_the_same(world: World) -> None:
    await world.schedule("a", "b", spec=b"the spec")
    await world.passes()
    first = await take(world.store, QUEUE, owner="executor-1", nonce="n")
    ids = [each.task_id for each in first]
    world.clock.advance(3)
    assert await take(world.store, QUEUE, owner="executor-1", nonce="n") == first
    assert (await claim_ids(world.store, "executor-2", "m", ids)).lost == ids
    assert (await world.get(ids[0])).next_at_us == world.clock.us + LEASE_US
    assert (await world.get(ids[0])).runs == 1


async def test_an_id_given_twice_is_claimed_once(world: World) -> None:
    """A queue may hold an id twice (cancelled, then retried, in a backlog); its executor must not get it twice."""
    (task_id,) = await world.schedule("a")
    await world.passes()
    await world.store.cancel_tasks([task_id])
    await world.store.retry_tasks([task_id])
    await world.passes()
    assert await world.queued() == [task_id, task_id]
    assert await world.take() == [task_id]
    assert await world.queued() == []


async def test_a_result_repeated_by_its_token_is_ok_until_the_next_claim(world: World) -> None:
    claims = await world.run("a")
    assert await world.fail(*claims) == [Verdict.OK]
    before = await dump(world.store)
    assert await world.finish(Outcome.SUCCEEDED, *claims, result=b"too late") == [Verdict.OK]
    assert (await dump(world.store)).data == before.data
    world.clock.advance(60)
    await world.passes()
    await world.claim("0-a", owner="executor-2")
    assert await world.fail(*claims) == [Verdict.LOST]


async def test_a_result_given_twice_in_one_call_counts_once(world: World) -> None:
    (claim,) = await world.run("a")
    result = RunResult(claim, Outcome.FAILED, error="x", retry_in_us=BACKOFF_US)
    assert await world.store.set_results([result, result]) == [Verdict.OK, Verdict.OK]
    assert (await world.get("0-a")).attempts == 1


async def test_a_flagged_task_hears_of_it_with_its_heartbeat_and_may_still_succeed(world: World) -> None:
    (claim,) = await world.run("a")
    await world.store.cancel_tasks(["0-a"])
    assert await world.store.heartbeat([ClaimRenewal(claim, started=True)]) == [Verdict.CANCEL]
    assert (await world.get("0-a")).cancel_requested
    await world.finish(Outcome.SUCCEEDED, claim, result=b"done", encoding=1)
    record = await world.get("0-a")
    assert (record.status, record.result, record.result_encoding) == (Status.SUCCESS, b"done", 1)
    (answer,) = await world.store.cancel_tasks(["0-a"])
    assert (answer.status, answer.cancelled) == (Status.SUCCESS, False)


# --- history ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ("KeyError: 'c'\nTraceback (most recent call last):\n  File", "failed: KeyError: 'c'"),
        ("a\tb\u2028c", "failed: a\tb\u2028c"),
        ("", "failed"),
        ("ü" * 200, "failed: " + "ü" * 127 + "…"),
        ("x" + "ü" * 200, "failed: x" + "ü" * 127 + "…"),
        ("x" * 256, "failed: " + "x" * 256),
    ],
)
async def test_an_ended_run_keeps_what_its_error_says_first(world: World, error: str, why: str) -> None:
    """Also when the task is retried, and its own error gone."""
    (claim,) = await world.run("a", max_attempts=1)
    await world.finish(Outcome.FAILED, claim, error=error)
    await world.store.retry_tasks(["0-a"])
    record = await world.get("0-a")
    assert (record.error, [run.why for run in record.ended_runs]) == ("", [why])


async def test_the_last_ended_runs_are_kept_in_order(world: World) -> None:
    (claim,) = await world.run("a", max_attempts=50, max_losses=50)
    for number in range(ENDED_RUNS_KEPT + 3):
        if number % 2:
            await world.store.report_loss([claim], f"killed {number}")
        else:
            await world.finish(Outcome.FAILED, claim, error="x", ran_us=number)
        world.clock.advance(1)
        await world.passes()
        (claim,) = held(await world.claim("0-a", owner=f"executor-{number}"))
    record = await world.get("0-a")
    assert len(record.ended_runs) == ENDED_RUNS_KEPT
    assert record.runs == ENDED_RUNS_KEPT + 4
    assert [run.owner for run in record.ended_runs] == [
        f"executor-{number}" for number in range(2, ENDED_RUNS_KEPT + 2)
    ]
    assert [run.why for run in record.ended_runs[:2]] == ["lost: killed 3", "failed: x"]
    assert record.ended_runs[-1].ended_at_us > record.ended_runs[0].ended_at_us


async def test_progress_is_kept_and_an_empty_one_changes_nothing(world: World) -> None:
    (claim,) = await world.run("a")
    await world.beat(claim, progress="3 of 7")
    await world.beat(claim)
    assert (await world.get("0-a")).progress == "3 of 7"


async def test_a_heartbeat_that_names_a_claim_twice_leaves_it_in_one_place(world: World) -> None:
    first, second = await world.run("a", "b", started=False)
    beats = [ClaimRenewal(first, started=True), ClaimRenewal(second, started=False), ClaimRenewal(second, started=True)]
    assert await world.store.heartbeat(beats) == [Verdict.OK] * 3
    await world.check()
    assert await world.statuses([first.task_id, second.task_id]) == ["PROCESSING", "PROCESSING"]


async def test_a_started_task_stays_started_since_the_first_heartbeat_that_said_so(world: World) -> None:
    (claim,) = await world.run("a")
    started_at = world.clock.us
    world.clock.advance(1)
    assert await world.beat(claim) == [Verdict.OK]
    assert await world.beat(claim, started=False) == [Verdict.OK]  # a late copy of an early heartbeat
    record = await world.get("0-a")
    assert (record.status, record.moved_at_us[Status.PROCESSING]) == (Status.PROCESSING, started_at)


async def test_a_retry_after_too_many_losses_gives_all_of_them_again(world: World) -> None:
    claims = await world.run("a", max_losses=1)
    await world.store.report_loss(claims, "killed")
    record = await world.get("0-a")
    assert (record.status, record.losses) == (Status.FATAL_FAILURE, 1)
    assert record.error == "lost with its executor 1 times; last: killed"
    await world.store.retry_tasks(["0-a"])
    record = await world.get("0-a")
    assert (record.losses, record.attempts, record.error) == (0, 0, "")
    assert len(record.ended_runs) == 1  # what it went through is kept


# --- batches ----------------------------------------------------------------------------------------------------------


async def test_batches_over_partitions_answer_in_their_order(world: World) -> None:
    names = [f"t{number}" for number in range(300)]
    items = [world.task(name, partition=number % 2) for number, name in enumerate(names)]
    scheduled = await world.store.schedule(items)
    ids = [each.id for each in scheduled]
    assert ids == [f"{number % 2}-{name}" for number, name in enumerate(names)]
    for partition in (0, 1):
        await world.passes(partition)
        assert len(await world.pop(partition=partition)) == 150
    batch = await claim_ids(world.store, "executor-1", "n", ids)
    tokens = {each.task_id: each for each in held(batch.claims)}
    mixed = [tokens[task_id] if number % 3 else HeldClaim(task_id, 1, "x") for number, task_id in enumerate(ids)]
    expected = [Verdict.OK if number % 3 else Verdict.LOST for number in range(300)]
    assert await world.beat(*mixed) == expected
    assert await world.finish(Outcome.SUCCEEDED, *mixed) == expected
    assert await world.statuses(ids) == ["SUCCESS" if number % 3 else "CLAIMED" for number in range(300)]
    await world.check()


async def test_a_call_without_items_does_nothing(world: World) -> None:
    assert await world.store.schedule([]) == []
    assert await world.store.get_tasks([]) == []
    assert await claim_ids(world.store, "executor-1", "n", []) == ([], [], [])


async def test_a_claim_stops_before_its_bytes_run_out(world: World) -> None:
    ids = await world.schedule("a", "b", "c", spec=b"x" * 1000)
    await world.passes()
    await world.pop()
    batch = await claim_ids(world.store, "executor-1", "n", ids, 2600)
    assert [each.task_id for each in batch.claims] == ids[:2]
    assert batch.deferred == ids[2:]
    assert await world.statuses(ids) == ["CLAIMED", "CLAIMED", "ENQUEUED"]
    assert (await claim_ids(world.store, "executor-1", "m", batch.deferred, 2600)).claims[0].task_id == ids[2]


async def test_a_task_larger_than_the_bound_is_still_claimed_alone(world: World) -> None:
    ids = await world.schedule("a", "b", spec=b"x" * 5000)
    await world.passes()
    await world.pop()
    batch = await claim_ids(world.store, "executor-1", "n", ids, 1000)
    assert ([each.task_id for each in batch.claims], batch.deferred) == (ids[:1], ids[1:])
