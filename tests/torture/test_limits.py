"""Every bound on what a caller sends, at nothing, at the bound and one beyond it, over a real connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import grpc
import pytest
from google.protobuf.message import Message

from atf.controller.requests import MAX_WAIT_US
from atf.frontend.gates import MIN_SHARE
from atf.frontend.redrive import MIN_RATE
from atf.hsc.encoding import MAX_LOG_CUT_BYTES
from atf.rpc import frontend_pb2 as f, hsc_pb2 as h, task_pb2 as t
from atf.store.values.lists import TaskQuery
from atf.task import (
    MAX_AHEAD_US,
    MAX_ERROR_BYTES,
    MAX_LOG_BYTES,
    MAX_PROGRESS_BYTES,
    MAX_WHY_CHARS,
    Status,
)

from . import bounds_of_jobs
from .bounds import BOUNDS, Bound, next_work, page_of_tasks, spec_with
from .bounds_of_jobs import OF
from .numbers import amounts_of
from .world import EXECUTOR, INVALID, OK, PRECONDITION, World, opened, schedule

ALL: Final = {**BOUNDS, **bounds_of_jobs.BOUNDS}


def beyond(bound: Bound, world: World) -> Iterator[tuple[int, Message]]:
    """Requests with one more than most and one less than least, as far as there are any: -1 only where a field can hold it."""
    for amount in (bound.most + 1, bound.least - 1):
        try:
            request = bound.request(world, amount)
        except ValueError:  # no field of the wire has this number
            continue
        if amount >= 0 or any(amount in amounts for amounts in amounts_of(request).values()):
            yield amount, request


def test_each_bound_is_one_bound() -> None:
    assert len(ALL) == len(BOUNDS) + len(bounds_of_jobs.BOUNDS)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("what", ALL)
@pytest.mark.asyncio(loop_scope="module")
async def test_at_its_bounds_it_is_taken_and_beyond_them_refused(what: str, untouched: World) -> None:
    bound = ALL[what]
    for amount, request in beyond(bound, untouched):
        before = untouched.stored()
        answer = await untouched.ask(bound.full_method, request)
        assert answer.code is INVALID, (amount, answer)
        assert bound.says in answer.sentence, (amount, answer)
        assert untouched.stored() == before
    for amount in {bound.least, bound.most}:
        async with opened() as world:
            answer = await world.ask(bound.full_method, bound.request(world, amount))
            assert answer.code is OK, (amount, answer)


@pytest.mark.parametrize(
    "fields",
    [
        *({"rate": bad} for bad in (-1, float("nan"), float("inf"), -float("inf"), 1e-6, 1e300)),
        *({"gate_at_fatal": bad} for bad in (-0.1, 1.1, float("nan"), float("inf"))),
        *({"shares": {1: bad}} for bad in (0, -0.1, 1.1, float("nan"), float("inf"))),
        *({name: -1} for name in ("burst", "max_pending", "max_running", "version", "placement")),
        {"shares": {0: 0.6, 1: 0.6}},
        {"shares": {-1: 0.6}},
        {"burst": 5, "rate": 0},
        *({"slo": bad} for bad in ("5s", "7s 99%", "5s 89%", "5s 100%", "x" * 1_000_000)),
    ],
    ids=str,
)
@pytest.mark.asyncio(loop_scope="module")
async def test_settings_of_a_lambda_that_mean_nothing_are_refused_by_name(
    fields: dict[str, Any], untouched: World
) -> None:
    before = untouched.stored()
    spec = f.LambdaSpec(name="a/b", **fields)
    answer = await untouched.ask("Frontend.RegisterLambdas", f.RegisterLambdasRequest(lambdas=[spec]))
    assert answer.code is INVALID
    assert next(iter(fields)) in answer.sentence or "priority" in answer.sentence
    assert "a/b" in answer.sentence
    assert untouched.stored() == before


@pytest.mark.asyncio(loop_scope="module")
async def test_waits_are_cut_and_not_refused_where_the_frontend_answers_them() -> None:
    async with opened() as world:
        cancelled = f.CancelTasksRequest(ids=[world.new])
        await world.answer("Frontend.CancelTasks", cancelled)
        longest = f.WaitTasksRequest(ids=[world.new], timeout_us=(1 << 63) - 1)
        assert len((await world.answer("Frontend.WaitTasks", longest)).tasks) == 1
        negative = await world.ask("Frontend.WaitTasks", f.WaitTasksRequest(ids=[world.new], timeout_us=-1))
        assert (negative.code, negative.sentence) == (INVALID, "timeout_us -1: at least 0")
        for wait in (-1, MAX_WAIT_US + 1):
            answer = await world.ask("Controller.NextWork", next_work(world, wait_us=wait))
            assert answer.code is INVALID
            assert "wait_us" in answer.sentence


@pytest.mark.asyncio(loop_scope="module")
async def test_instants_are_at_most_ten_years_ahead(untouched: World) -> None:
    hour_us, now_us = 3_600_000_000, untouched.runtime.wall_us()
    for ahead_us, code in ((MAX_AHEAD_US + hour_us, INVALID), (MAX_AHEAD_US - hour_us, OK)):
        async with opened() as world:
            task, gate = schedule("a"), untouched.valid("Frontend.SetGate")
            task.at_us = gate.until_at_us = now_us + ahead_us  # type: ignore[attr-defined]
            for method, request in (("Frontend.Schedule", task), ("Frontend.SetGate", gate)):
                answer = await world.ask(method, request)
                assert answer.code is code, (method, answer)
                assert code is OK or "more than ten years ahead" in answer.sentence


@pytest.mark.parametrize(
    ("number", "code"),
    [(-1, INVALID), (0, OK), (t.RELAXED, OK), (t.DISK, PRECONDITION), (t.REPLICATED, PRECONDITION), (4, INVALID)],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_durability_is_one_of_those_there_are(number: Any, code: grpc.StatusCode) -> None:
    """The store of these tests is in memory, and has none but the least."""
    async with opened() as world:
        before, task = world.stored(), schedule("a")
        task.durability = number
        answer = await world.ask("Frontend.Schedule", task)
        assert answer.code is code
        assert code is OK or "durability" in answer.sentence
        assert (world.stored() == before) == (code is not OK)


@pytest.mark.parametrize("share", [0, MIN_SHARE / 2, 1, 1.5, -0.1, float("nan"), float("inf")])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_gate_admits_some_and_not_all(share: float, untouched: World) -> None:
    gate = f.SetGateRequest(**OF, action=f.Gate.ADMIT, share=share, who="ada")
    answer = await untouched.ask("Frontend.SetGate", gate)
    assert (answer.code, "share" in answer.sentence) == (INVALID, True)


@pytest.mark.parametrize("share", [MIN_SHARE, 1 - MIN_SHARE])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_gate_may_admit_very_few_or_nearly_all(share: float) -> None:
    async with opened() as world:
        await world.answer("Frontend.SetGate", f.SetGateRequest(**OF, action=f.Gate.ADMIT, share=share, who="ada"))


@pytest.mark.parametrize("rate", [MIN_RATE * 0.9, float("nan"), float("inf"), -float("inf"), MIN_RATE])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_redrive_is_not_slower_than_its_least_rate(rate: float, untouched: World) -> None:
    answer = await untouched.ask("Frontend.Redrive", f.RedriveRequest(filter=OF, who="ada", dry_run=True, rate=rate))
    assert answer.code is (OK if rate == MIN_RATE else INVALID)
    assert answer.code is OK or "rate" in answer.sentence


@pytest.mark.parametrize("us", [-(1 << 63), -1, (1 << 63) - 1])
@pytest.mark.asyncio(loop_scope="module")
async def test_the_times_of_a_run_are_cut(us: int) -> None:
    """A run that has ended must be recorded, however long it says it took."""
    async with opened() as world:
        failed = h.Result(claim=world.held, outcome=t.FAILED, retry_in_us=us, ran_us=us, ended_ago_us=us)
        await world.answer("HSC.SetResults", h.SetResultsRequest(executor_id=EXECUTOR, results=[failed]))
        now_us, (record,) = await world.store.time_us(), await world.store.get_tasks([world.held.task_id])
        assert record is not None
        assert record.status is (
            Status.RETRIABLE_FAILURE if us > 0 else Status.ENQUEUED
        )  # due at once, so pushed at once
        assert 0 < record.next_at_us <= now_us + MAX_AHEAD_US


@pytest.mark.parametrize("number", [0, -1, -(1 << 31), (1 << 31) - 1])
@pytest.mark.asyncio(loop_scope="module")
async def test_the_numbers_of_a_log_are_cut(number: int) -> None:
    """A run that has ended must be recorded, and a lease renewed, whatever is said of the log."""
    async with opened() as world:
        log = t.RunLog(run=number, attempt=number, text="x", cut_bytes=number << 31)
        beat = h.HeartbeatRequest(executor_id=EXECUTOR, claims=[h.HeldClaim(claim=world.held, log=log)])
        await world.answer("HSC.Heartbeat", beat)
        ended = h.Result(claim=world.held, outcome=t.FAILED_FATAL, log=log)
        await world.answer("HSC.SetResults", h.SetResultsRequest(executor_id=EXECUTOR, results=[ended]))
        kept = await world.store.get_log(world.held.task_id)
        assert kept is not None
        (run,) = kept.runs
        assert (run.run, run.attempt) == (max(1, number), max(1, number))
        assert 0 <= run.cut_bytes <= MAX_LOG_CUT_BYTES


@pytest.mark.parametrize("bad", ["é", "\U0001f600", "\0", "\x1b", "a\n"])
@pytest.mark.asyncio(loop_scope="module")
async def test_texts_that_are_only_for_people_are_cut(bad: str) -> None:
    """A run that has ended must be recorded, however long its error is."""
    async with opened() as world:
        beat = h.HeartbeatRequest(
            executor_id=EXECUTOR,
            claims=[
                h.HeldClaim(
                    claim=world.held, started=True, progress=bad * 2_000, log=t.RunLog(run=1, text=bad * 17_000)
                )
            ],
        )
        await world.answer("HSC.Heartbeat", beat)
        ended = h.Result(claim=world.held, outcome=t.FAILED_FATAL, error=bad * 9_000)
        await world.answer("HSC.SetResults", h.SetResultsRequest(executor_id=EXECUTOR, results=[ended]))
        (record,) = await world.store.get_tasks([world.held.task_id])
        assert record is not None
        kept = await world.store.get_log(world.held.task_id)
        assert kept is not None
        (log,) = kept.runs
        assert log.cut_bytes + len(log.text.encode()) == len(bad.encode()) * 17_000
        texts = (record.progress, MAX_PROGRESS_BYTES), (record.error, MAX_ERROR_BYTES), (log.text, MAX_LOG_BYTES)
        for text, most in texts:
            assert most - 4 < len(text.encode()) <= most
            assert (bad * 17_000).find(text) >= 0


@pytest.mark.parametrize("bad", ["é", "\U0001f600", "\0", "\x1b", "a\tb\nc\r\x85\u2028\v"])
@pytest.mark.asyncio(loop_scope="module")
async def test_the_reason_of_a_loss_is_cut_and_stays_one_field_of_one_line(bad: str) -> None:
    async with opened() as world:
        lost = h.ReportLossRequest(executor_id=EXECUTOR, claims=[world.held], why=bad * 500)
        await world.answer("HSC.ReportLoss", lost)
        task = await world.answer("Frontend.GetTask", f.GetTaskRequest(id=world.held.task_id))
        (run,) = task.ended_runs
        assert run.owner == EXECUTOR
        assert run.why.startswith(f"lost: {bad[0]}")
        assert len(run.why) <= MAX_WHY_CHARS + len("lost: ")


@pytest.mark.parametrize("text", ["\0", "\x1b[2J", "\u202e", "<b>", "[bold]", "a\nb", "\U0001f600", "\u2028"])
@pytest.mark.asyncio(loop_scope="module")
async def test_labels_and_signatures_come_back_as_they_were_sent(text: str) -> None:
    async with opened() as world:
        reply = await world.answer("Frontend.Schedule", schedule("a", labels={text: text}, payload=text.encode()))
        task = await world.answer("Frontend.GetTask", f.GetTaskRequest(id=reply.id, with_spec=True))
        assert dict(task.spec.labels) == {text: text}
        assert task.spec.payload == text.encode()
        await world.answer("Frontend.RegisterLambdas", spec_with(signature=text))
        infos = await world.answer("Frontend.ListLambdas", f.ListLambdasRequest(page_size=1, **{"lambda": "other/one"}))
        assert infos.lambdas[0].spec.signature == text


@pytest.mark.asyncio(loop_scope="module")
async def test_page_tokens_of_our_own_form_never_reach_the_store_as_nonsense() -> None:
    async with opened() as world:
        of = TaskQuery("photos/thumbnail").digest
        for score in ("nan", "1e999", "--1", "0x10", "1_000", "", " 1", "(1", "\u0661"):
            for last in ("0-a", "", "0-a/b", "zzz"):
                answer = await world.ask("Frontend.ListTasks", page_of_tasks(page_token=f"{of}.1.{score}.{last}"))
                assert answer.code is INVALID, (last, score, answer)
        for token in ("0-gone", "zzz", "1-x.2"):
            for score in ("0", "-1", "inf", "9" * 16):
                answer = await world.ask("Frontend.ListTasks", page_of_tasks(page_token=f"{of}.0.{score}.{token}"))
                assert answer.code is OK, (token, answer)
