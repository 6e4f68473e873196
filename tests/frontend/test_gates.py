"""Gates through the frontend: what is refused, who is written down, what explain says."""

from __future__ import annotations

import asyncio
import math
from typing import Any, TypeVar

import pytest

from atf.errors import FailedPrecondition, InvalidArgument, UnknownLambda
from atf.rpc import frontend_pb2 as f
from atf.store.library import MAX_GATES
from atf.store.store import Store
from atf.store.values.lambdas import LambdaRecord
from atf.task import US
from tests.store_calls import list_outbox, note_calls

from .conftest import START_US, Bench

NAME = "photos/thumbnail"


def gate(name: str = NAME, action: f.Gate.Action = f.Gate.PAUSE, **fields: Any) -> f.SetGateRequest:
    return f.SetGateRequest(**{"lambda": name, "action": action, "who": "ada", "why": "it rains", **fields})


R = TypeVar("R", f.LiftGateRequest, f.ListAuditRequest)


def of(request: R, name: str) -> R:
    setattr(request, "lambda", name)
    return request


def listed(name: str = "") -> f.ListGatesRequest:
    return f.ListGatesRequest(**{"lambda": name})


async def test_a_gate_is_set_listed_explained_and_lifted(bench: Bench) -> None:
    made = await bench.frontend.set_gate(gate(labels={"team": "web"}, for_us=90 * US))
    assert made.until_at_us == START_US + 90 * US
    task = await bench.schedule("a", labels={"team": "web"})
    await bench.enqueue()
    (found,) = (await bench.frontend.list_gates(listed(NAME))).gates
    assert (found.waiting, found.who, found.set_at_us, found.number) == (1, "ada", START_US, made.number)
    answer = await bench.frontend.explain_task(f.ExplainTaskRequest(id=task))
    assert (answer.reason, answer.until_us) == ("gated", START_US + 90 * US)
    assert answer.sentence == (
        "It is due, but a gate of its lambda keeps it: a pause of those with team=web, for another 1 min 30 s, set by ada"
        " (it rains). atf gate ls photos/thumbnail shows it."
    )
    lift = f.LiftGateRequest(**{"lambda": NAME}, labels={"team": "web"}, who="bob")
    assert (await bench.frontend.lift_gate(lift)).lifted == 1
    assert (await bench.frontend.lift_gate(lift)).lifted == 0
    assert (await bench.frontend.explain_task(f.ExplainTaskRequest(id=task))).reason == "gated"
    await bench.enqueue()
    await bench.store.serve("", 30)
    assert (await bench.frontend.explain_task(f.ExplainTaskRequest(id=task))).reason == "queued"
    entries = await bench.audit()
    assert [(each.what, each.who, each.detail) for each in entries] == [
        ("lift_gate", "bob", "pause drop delay admit"),
        ("set_gate", "ada", "pause for 1 min 30 s"),
    ]


async def test_the_log_says_until_when(bench: Bench) -> None:
    await bench.frontend.set_gate(gate(until_at_us=1_896_076_800 * US))
    (entry,) = await bench.audit()
    assert entry.detail == "pause until 2030-01-31T08:00:00Z"


async def test_the_log_keeps_what_a_drop_has_dropped(bench: Bench) -> None:
    await bench.frontend.set_gate(gate(action=f.Gate.DROP))
    await bench.schedule("a")
    await bench.schedule("b")
    await bench.enqueue()
    await bench.frontend.set_gate(gate(action=f.Gate.DROP, for_us=90 * US))
    await bench.schedule("c")
    await bench.enqueue()
    assert (await bench.frontend.lift_gate(of(f.LiftGateRequest(who="ada"), NAME))).lifted == 1
    assert [each.detail for each in await bench.audit()] == [
        "pause drop delay admit; tasks dropped: 1, by all gates of the lambda so far: 3",
        "drop for 1 min 30 s; tasks dropped: 2, by all gates of the lambda so far: 2",
        "drop",
    ]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"action": 0}, "action 0: use PAUSE"),
        ({"action": 9}, "action 9: use PAUSE"),
        ({"who": ""}, "who: say who"),
        ({"who": "x" * 101}, "who: 101 characters"),
        ({"why": "x" * 501}, "why: 501 characters"),
        ({"delay_us": 5}, "only the action DELAY"),
        ({"share": 0.5}, "only the action ADMIT"),
        ({"action": f.Gate.DELAY}, "delay by 0 s: use more than 0 s"),
        ({"action": f.Gate.DELAY, "delay_us": -1}, "delay by -1 µs: use more than 0 s"),
        ({"action": f.Gate.ADMIT}, "share 0.0: more than 0"),
        ({"action": f.Gate.ADMIT, "share": 1.0}, "to admit all lift the gate"),
        ({"action": f.Gate.ADMIT, "share": math.nan}, "share nan"),
        ({"action": f.Gate.ADMIT, "share": -math.inf}, "share -inf"),
        ({"until_at_us": START_US}, r"until 20\d\d-.*Z: that instant has passed; give a later one, or none"),
        ({"until_at_us": START_US * 1000}, "more than ten years ahead; give a nearer instant"),
        ({"for_us": 0}, "for 0 s: use more than 0 s"),
        ({"for_us": -5}, "for -5 µs: use more than 0 s"),
        ({"labels": {"": "x"}}, "label"),
        ({"request_id": "a b"}, "task id"),
    ],
)
async def test_what_makes_no_sense_is_refused(bench: Bench, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        await bench.frontend.set_gate(gate(**fields))
    assert not (await bench.frontend.list_gates(listed())).gates


async def test_an_unknown_lambda_is_told_with_the_nearest(bench: Bench) -> None:
    with pytest.raises(UnknownLambda, match="Did you mean photos/thumbnail"):
        await bench.frontend.set_gate(gate("photos/thumbnal"))
    with pytest.raises(UnknownLambda):
        await bench.frontend.lift_gate(of(f.LiftGateRequest(who="ada"), "no/body"))


async def test_too_many_gates_are_refused(bench: Bench) -> None:
    for number in range(MAX_GATES):
        await bench.frontend.set_gate(gate(labels={"n": str(number)}))
    with pytest.raises(FailedPrecondition, match="lift one of them first"):
        await bench.frontend.set_gate(gate(action=f.Gate.DROP))
    await bench.frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": NAME}, who="bob"))
    (info,) = (await bench.frontend.list_lambdas(f.ListLambdasRequest(page_size=1, **{"lambda": NAME}))).lambdas
    assert info.paused


async def test_a_pause_is_a_gate_with_who_and_why(bench: Bench) -> None:
    await bench.frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": NAME}, who="bob", why="lunch"))
    (found,) = (await bench.frontend.list_gates(listed())).gates
    assert (found.action, found.who, found.why) == (f.Gate.PAUSE, "bob", "lunch")
    await bench.frontend.resume_lambda(f.ResumeLambdaRequest(**{"lambda": NAME}, who="ada"))
    assert not (await bench.frontend.list_gates(listed())).gates


async def test_a_change_of_one_lambda_reads_no_registry(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "list_lambdas", None)  # of thousands of lambdas it would be read again after each change
    await bench.frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": NAME}, who="bob"))
    await bench.frontend.resume_lambda(f.ResumeLambdaRequest(**{"lambda": NAME}, who="ada"))
    await bench.frontend.set_gate(gate())
    assert (await bench.frontend.lift_gate(of(f.LiftGateRequest(who="bob"), NAME))).lifted == 1


async def test_a_lambda_that_is_gone_is_not_paused(bench: Bench) -> None:
    await bench.store.delete_lambda(NAME)  # the frontend's copy has it still
    for call in (
        bench.frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": NAME}, who="bob")),
        bench.frontend.resume_lambda(f.ResumeLambdaRequest(**{"lambda": NAME}, who="bob")),
        bench.frontend.set_gate(gate()),
        bench.frontend.lift_gate(of(f.LiftGateRequest(who="bob"), NAME)),
    ):
        with pytest.raises(UnknownLambda, match="no lambda 'photos/thumbnail' is registered"):
            await call


async def test_the_gates_of_many_lambdas_take_few_calls_of_the_store(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = sorted(f"many/l{number:03}" for number in range(100))
    await bench.store.register_lambdas([LambdaRecord(name, b"", 100, US, paused=False) for name in names])
    for name in names:
        await bench.store.pause_lambda(name, "bob", name)
    called = note_calls(monkeypatch)
    found = (await bench.frontend.list_gates(listed())).gates
    assert [(getattr(each, "lambda"), each.why) for each in found] == [(name, name) for name in names]
    assert called.count("list_gates") == 2 * 4, "a call for 32 lambdas and partition"


async def test_many_pauses_at_once_tell_the_other_partition_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"many/l{number:02}" for number in range(16)]
    await bench.store.register_lambdas([LambdaRecord(name, b"", 100, US, paused=False) for name in names])
    called = note_calls(monkeypatch)
    await asyncio.gather(
        *(bench.frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": name}, who="bob")) for name in names)
    )
    assert called.count("set_gate") == called.count("apply_outbox") == len(names)
    assert called.count("list_outbox") <= 3
    assert called.count("acknowledge_outbox") <= 3
    assert await list_outbox(bench.store, 0) == []
