"""The HSC on the real store functions: what each call decides, and that one bad item never fails its batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import fakeredis
import pytest

from atf.config.settings import StoreSettings, Timing
from atf.errors import FailedPrecondition, InvalidArgument
from atf.hsc.encoding import fill_claim
from atf.rpc import hsc_pb2 as h, task_pb2 as t
from atf.runtime import SystemRuntime, end
from atf.store.store import Store
from atf.store.values.tasks import NewTask, TaskRecord
from atf.task import MAX_BATCH, MAX_HELD, US, Status
from atf.testing.wiring import Wiring
from tests.asking import asks
from tests.claiming import claim_ids
from tests.known import know

START_US = 1_800_000_000 * US
OK, LOST, CANCEL = h.OK, h.LOST, h.CANCEL
MALFORMED = ["", "a", "7-a", "0-a/b", "x" * 5_000, "0-" + "a" * 65, "0-ä"]


class Bench:
    """An HSC, its store, and tasks that are ready to be claimed."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now_us = START_US
        store.now = lambda: self.now_us
        self.hsc = Wiring(SystemRuntime(), Timing()).hsc(store)

    async def enqueued(self, count: int, spec: bytes = b"spec") -> list[str]:
        items = [
            NewTask(f"t{n}", n % 2, "photos/thumbnail", 1, spec, b"d", None, 0, 3, 3, 60 * US) for n in range(count)
        ]
        ids = [each.id for each in await self.store.schedule(items)]
        for partition in (0, 1):
            while (await self.store.enqueue(partition, 0)).enqueued:
                pass
        return ids

    async def claimed(self, count: int) -> list[t.Claim]:
        """Tasks that are claimed for an executor."""
        ids, claims = await self.enqueued(count), list[t.Claim]()
        for start in range(0, count, MAX_BATCH):
            found = await claim_ids(self.store, "e1", f"n{start}", ids[start : start + MAX_BATCH])
            for each in found.claims:
                claims.append(t.Claim())
                fill_claim(claims[-1], each)
        return claims

    async def record(self, task_id: str) -> TaskRecord:
        (record,) = await self.store.get_tasks([task_id])
        assert record is not None
        return record


def ref(claim: t.Claim, **token: Any) -> t.ClaimRef:
    return t.ClaimRef(
        task_id=claim.task_id,
        token=t.Token(**{"counter": claim.token.counter, "nonce": claim.token.nonce, **token}),
    )


def malformed() -> list[t.ClaimRef]:
    return [t.ClaimRef(task_id=each, token=t.Token(counter=1, nonce="n1")) for each in MALFORMED]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    fake = fakeredis.FakeServer(version=(7, 4))
    settings = StoreSettings(partitions=2, push_when_scheduled=False)  # a retry without a wait is seen as one
    store = await Store.open(settings, Timing(), SystemRuntime(), fake=fake)
    await know(store, "photos/thumbnail")
    yield Bench(store)
    await store.close()


async def test_heartbeats_renew_start_and_tell_of_cancellation(bench: Bench) -> None:
    claims = await bench.claimed(3)
    await bench.store.cancel_tasks([claims[1].task_id])
    bench.now_us += 10 * US
    beats = [h.HeldClaim(claim=ref(claim), started=True, progress="é" * 600) for claim in claims]
    beats[2].claim.token.counter -= 1
    reply = await bench.hsc.heartbeat(h.HeartbeatRequest(executor_id="e1", claims=beats))
    assert list(reply.verdicts) == [OK, CANCEL, LOST]
    record = await bench.record(claims[0].task_id)
    assert record.status is Status.PROCESSING
    assert record.next_at_us == START_US + 26 * US
    assert record.progress == "é" * 512  # cut to 1 KiB, between characters


async def test_one_heartbeat_lists_all_that_an_executor_holds(bench: Bench) -> None:
    claims = await bench.claimed(600)
    assert len(claims) == 600
    beats = [h.HeldClaim(claim=ref(claim)) for claim in claims]
    reply = await bench.hsc.heartbeat(h.HeartbeatRequest(executor_id="e1", claims=beats))
    assert list(reply.verdicts) == [OK] * 600


async def test_results_are_recorded_once_and_the_old_token_changes_nothing(bench: Bench) -> None:
    one, two = await bench.claimed(2)
    results = [
        h.Result(claim=ref(one), outcome=t.SUCCEEDED, result=b"42", ran_us=5),
        h.Result(claim=ref(two, counter=two.token.counter - 1), outcome=t.SUCCEEDED, result=b"no"),
    ]
    for _ in range(2):  # repeated after a lost answer, it answers the same
        reply = await bench.hsc.set_results(h.SetResultsRequest(executor_id="e1", results=results))
        assert list(reply.verdicts) == [OK, LOST]
    assert (await bench.record(one.task_id)).result == b"42"
    assert len((await bench.record(one.task_id)).ended_runs) == 1
    assert (await bench.record(two.task_id)).status is Status.CLAIMED


@pytest.mark.parametrize(
    ("outcome", "status", "why"),
    [
        (t.FAILED, Status.RETRIABLE_FAILURE, "failed"),
        (t.TIMED_OUT, Status.RETRIABLE_FAILURE, "timed_out"),
        (t.FAILED_FATAL, Status.FATAL_FAILURE, "failed_fatal"),
    ],
)
async def test_each_outcome_has_its_move(bench: Bench, outcome: t.Outcome, status: Status, why: str) -> None:
    (claim,) = await bench.claimed(1)
    result = h.Result(claim=ref(claim), outcome=outcome, error="é" * 3_000, retry_in_us=7 * US)
    await bench.hsc.set_results(h.SetResultsRequest(executor_id="e1", results=[result]))
    record = await bench.record(claim.task_id)
    assert (record.status, record.ended_runs[0].why) == (status, f"{why}: {'é' * 127}…")
    assert record.error == "é" * 2_048  # cut to 4 KiB, between characters
    assert record.next_at_us == (START_US + 7 * US if status is Status.RETRIABLE_FAILURE else 0)


async def test_a_stopped_run_ends_cancelled_where_that_was_asked_for(bench: Bench) -> None:
    (claim,) = await bench.claimed(1)
    await bench.store.cancel_tasks([claim.task_id])
    result = h.Result(claim=ref(claim), outcome=t.STOPPED)
    await bench.hsc.set_results(h.SetResultsRequest(executor_id="e1", results=[result]))
    assert (await bench.record(claim.task_id)).status is Status.CANCELLED


async def test_a_run_that_is_handed_back_counts_nothing_and_waits_as_long_as_it_asked(bench: Bench) -> None:
    at_once, later = await bench.claimed(2)
    results = [
        h.Result(claim=ref(at_once), outcome=t.HANDED_BACK, error="the executor drains", ran_us=US),
        h.Result(claim=ref(later), outcome=t.HANDED_BACK, retry_in_us=7 * US),
    ]
    for _ in range(2):
        reply = await bench.hsc.set_results(h.SetResultsRequest(executor_id="e1", results=results))
        assert list(reply.verdicts) == [OK, OK]
    first, second = [await bench.record(each.task_id) for each in (at_once, later)]
    assert (first.status, first.next_at_us, first.ended_runs[0].why) == (
        Status.ENQUEUED,
        START_US,
        "handed_back: the executor drains",
    )
    assert (second.status, second.next_at_us) == (Status.NEW, START_US + 7 * US)
    assert {(each.attempts, each.losses, each.runs) for each in (first, second)} == {(0, 0, 1)}


async def test_a_run_that_was_cancelled_before_its_body_began_is_no_attempt(bench: Bench) -> None:
    before, after = await bench.claimed(2)
    await bench.store.cancel_tasks([before.task_id, after.task_id])
    results = [
        h.Result(claim=ref(before), outcome=t.STOPPED, error="cancelled before it started", never_began=True),
        h.Result(claim=ref(after), outcome=t.STOPPED, error="cancelled", ran_us=US),
    ]
    for _ in range(2):
        reply = await bench.hsc.set_results(h.SetResultsRequest(executor_id="e1", results=results))
        assert list(reply.verdicts) == [OK, OK]
    first, second = [await bench.record(each.task_id) for each in (before, after)]
    assert (first.status, first.attempts, first.losses, first.runs) == (Status.CANCELLED, 0, 0, 1)
    assert (first.error, first.ended_runs[0].why) == (
        "cancelled before it started",
        "stopped: cancelled before it started",
    )
    assert (first.ended_runs[0].started_at_us, first.ended_runs[0].ended_at_us) == (0, START_US)
    assert (second.status, second.attempts) == (Status.CANCELLED, 1)


async def test_of_a_run_that_ended_otherwise_never_begun_means_nothing(bench: Bench) -> None:
    (claim,) = await bench.claimed(1)
    result = h.Result(claim=ref(claim), outcome=t.FAILED, never_began=True)
    await bench.hsc.set_results(h.SetResultsRequest(executor_id="e1", results=[result]))
    assert (await bench.record(claim.task_id)).attempts == 1


async def test_a_run_that_never_began_and_whose_flag_the_store_has_forgotten_runs_again(bench: Bench) -> None:
    (claim,) = await bench.claimed(1)
    result = h.Result(claim=ref(claim), outcome=t.STOPPED, never_began=True)
    await bench.hsc.set_results(h.SetResultsRequest(executor_id="e1", results=[result]))
    record = await bench.record(claim.task_id)
    assert (record.status, record.attempts, record.losses) == (Status.ENQUEUED, 0, 0)


async def test_a_heartbeat_of_an_executor_that_drains_marks_its_claims(bench: Bench) -> None:
    marked, other = await bench.claimed(2)
    for each, draining in ((marked, True), (other, False)):
        beat = h.HeldClaim(claim=ref(each), started=True)
        await bench.hsc.heartbeat(h.HeartbeatRequest(executor_id="e1", claims=[beat], draining=draining))
    bench.now_us += 16 * US
    for partition in (0, 1):
        await bench.store.enqueue(partition, 0)
    assert [(await bench.record(each.task_id)).losses for each in (marked, other)] == [0, 1]


async def test_durations_out_of_bounds_do_no_harm(bench: Bench) -> None:
    (claim,) = await bench.claimed(1)
    result = h.Result(claim=ref(claim), outcome=t.FAILED, retry_in_us=-5, ran_us=-(1 << 60), ended_ago_us=-(1 << 60))
    await bench.hsc.set_results(h.SetResultsRequest(executor_id="e1", results=[result]))
    record = await bench.record(claim.task_id)
    assert record.next_at_us == START_US
    assert record.ended_runs[0].ended_at_us == START_US


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"outcome": t.OUTCOME_UNSPECIFIED}, "outcome 0 is none of"),
        ({"outcome": 99}, "outcome 99 is none of"),
        ({"outcome": t.SUCCEEDED, "result": b"x" * 65_537}, "65537 bytes, at most 65536"),
        ({"outcome": t.SUCCEEDED, "encoding": 9}, "encoding 9"),
    ],
)
async def test_a_result_that_breaks_a_rule_is_refused(bench: Bench, fields: dict[str, Any], message: str) -> None:
    (claim,) = await bench.claimed(1)
    with pytest.raises(InvalidArgument, match=message):
        await bench.hsc.set_results(
            h.SetResultsRequest(executor_id="e1", results=[h.Result(claim=ref(claim), **fields)])
        )
    assert (await bench.record(claim.task_id)).status is Status.CLAIMED


async def test_what_never_started_is_handed_back_and_counts_nothing(bench: Bench) -> None:
    claims = await bench.claimed(2)
    await bench.hsc.heartbeat(
        h.HeartbeatRequest(executor_id="e1", claims=[h.HeldClaim(claim=ref(claims[1]), started=True)])
    )
    reply = await bench.hsc.hand_back(h.HandBackRequest(executor_id="e1", claims=[ref(each) for each in claims]))
    assert list(reply.verdicts) == [OK, LOST]
    record = await bench.record(claims[0].task_id)
    assert (record.status, record.attempts, record.losses) == (Status.ENQUEUED, 0, 0)


async def test_a_loss_counts_apart_from_attempts_and_says_why(bench: Bench) -> None:
    (claim,) = await bench.claimed(1)
    request = h.ReportLossRequest(executor_id="e1", claims=[ref(claim)], why="killed by signal 9\tnow\n" + "x" * 999)
    reply = await bench.hsc.report_loss(request)
    assert list(reply.verdicts) == [OK]
    (run,) = reply.runs
    assert (run.task_id, run.losses, run.max_losses, run.last) == (request.claims[0].task_id, 1, 3, False)
    record = await bench.record(claim.task_id)
    assert (record.status, record.attempts, record.losses) == (Status.ENQUEUED, 0, 1)
    assert record.ended_runs[0].why.startswith("lost: killed by signal 9 now x")
    assert len(record.ended_runs[0].why) < 300
    assert list((await bench.hsc.report_loss(request)).verdicts) == [LOST]


async def test_malformed_ids_are_lost_in_every_call_and_the_good_ones_go_on(bench: Bench) -> None:
    one, two, three, four = await bench.claimed(4)
    bad = malformed()
    lost = [LOST] * len(bad)

    beats = [h.HeldClaim(claim=each) for each in [*bad, ref(one)]]
    assert list((await bench.hsc.heartbeat(h.HeartbeatRequest(executor_id="e1", claims=beats))).verdicts) == [*lost, OK]

    results = [h.Result(claim=each, outcome=t.SUCCEEDED) for each in [ref(two), *bad]]
    reply = await bench.hsc.set_results(h.SetResultsRequest(executor_id="e1", results=results))
    assert list(reply.verdicts) == [OK, *lost]

    back = h.HandBackRequest(executor_id="e1", claims=[*bad, ref(three)])
    assert list((await bench.hsc.hand_back(back)).verdicts) == [*lost, OK]

    loss = h.ReportLossRequest(executor_id="e1", claims=[bad[0], ref(four), *bad[1:]])
    assert list((await bench.hsc.report_loss(loss)).verdicts) == [LOST, OK, *lost[1:]]


async def test_nothing_to_do_is_fine(bench: Bench) -> None:
    assert not (await bench.hsc.heartbeat(h.HeartbeatRequest(executor_id="e1"))).verdicts
    assert not (await bench.hsc.set_results(h.SetResultsRequest(executor_id="e1"))).verdicts
    assert not (await bench.hsc.hand_back(h.HandBackRequest(executor_id="e1"))).verdicts
    assert not (await bench.hsc.report_loss(h.ReportLossRequest(executor_id="e1"))).verdicts


async def test_calls_that_are_too_large_or_nameless_are_refused(bench: Bench) -> None:
    hsc, claim = bench.hsc, t.ClaimRef(task_id="0-a")
    with pytest.raises(InvalidArgument, match="257 results: at most 256"):
        await hsc.set_results(h.SetResultsRequest(executor_id="e1", results=[h.Result(claim=claim)] * 257))
    with pytest.raises(InvalidArgument, match="4097 claims: at most 4096"):
        await hsc.heartbeat(h.HeartbeatRequest(executor_id="e1", claims=[h.HeldClaim(claim=claim)] * (MAX_HELD + 1)))
    for bad in ("", "two words", "tab\there", "x" * 129):
        with pytest.raises(InvalidArgument, match="executor_id"):
            await hsc.heartbeat(h.HeartbeatRequest(executor_id=bad))


async def test_nobody_who_counts_on_longer_leases_than_there_are_gets_one(bench: Bench) -> None:
    (task_id,) = await bench.enqueued(1)
    with pytest.raises(FailedPrecondition, match=r"heartbeat_timeout = 16 s, and this HSC to 16 s"):
        await bench.hsc.next_claims(asks(heartbeat_timeout_us=16 * US + 1))
    assert (await bench.record(task_id)).status is Status.ENQUEUED

    duty = asyncio.create_task(bench.hsc.run())
    asked = asks(heartbeat_timeout_us=15 * US, wait_us=9 * US)  # counts on less than it gets
    (given,) = (await bench.hsc.next_claims(asked)).claims
    await end([duty])
    beat = h.HeartbeatRequest(executor_id="e1", claims=[h.HeldClaim(claim=ref(given))], heartbeat_timeout_us=20 * US)
    before = await bench.record(task_id)
    bench.now_us += US
    with pytest.raises(FailedPrecondition, match=r"= 20 s, and this HSC to 16 s.*ATF_HEARTBEAT_TIMEOUT"):
        await bench.hsc.heartbeat(beat)
    assert await bench.record(task_id) == before
    beat.heartbeat_timeout_us = 16 * US
    assert list((await bench.hsc.heartbeat(beat)).verdicts) == [OK]


async def test_results_of_several_executors_share_a_call_of_the_store(bench: Bench) -> None:
    claims = [each for each in await bench.claimed(40) if each.task_id.startswith("0-")]
    calls: list[int] = []
    real = bench.store.link.call

    async def counted(verb: str, *args: Any, **more: Any) -> Any:
        reply = await real(verb, *args, **more)
        if verb == "set_results":
            calls.append(len(reply) - 2)  # behind them stands the queue, and how many ended there
        return reply

    bench.store.link.call = counted  # type: ignore[method-assign]
    requests = [
        h.SetResultsRequest(executor_id="e1", results=[h.Result(claim=ref(each), outcome=t.SUCCEEDED)])
        for each in claims
    ]
    replies = await asyncio.gather(*map(bench.hsc.set_results, requests))
    assert [list(each.verdicts) for each in replies] == [[OK]] * 20
    assert calls == [20]
