"""What an operator sets of a lambda, and what holds then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from atf.errors import InvalidArgument, UnknownLambda
from atf.frontend.settings import SETTINGS, admission_settings, in_force, overridden, said
from atf.rpc import frontend_pb2 as f, task_pb2 as t

from .conftest import Bench

NAME = "photos/thumbnail"
FULL = {
    "queue_limit": "7",
    "enqueue_timeout": "2.5",
    "owner": "web team = us",
    "runbook": "https://wiki/a b?c=d&e=%41",
    "rate": "12.5",
    "burst": "20",
    "max_pending": "1000",
    "max_running": "3",
    "shares": "0:0.5,2:0.1",
    "pool": "gpu",
    "placement": "sticky",
    "stop_on_fatal": "yes",
    "gate_at_fatal": "0.25",
    "logs": "all",
    "slo": "2.5s 99.5%",
}
SPEC = f.LambdaSpec(
    name=NAME,
    queue_limit=7,
    enqueue_timeout_us=2_500_000,
    owner="web team = us",
    runbook="https://wiki/a b?c=d&e=%41",
    rate=12.5,
    burst=20,
    max_pending=1_000,
    max_running=3,
    shares={2: 0.1, 0: 0.5},
    pool="gpu",
    placement=f.STICKY,
    stop_on_fatal=True,
    gate_at_fatal=0.25,
    logs=t.LOGS_OF_ALL,
    slo="2.5s 99.5%",
)
ADMISSION = {
    "rate": "12.5",
    "burst": "20",
    "pending": "1000",
    "running": "3",
    "shares": "0:0.5,2:0.1",
    "pool": "gpu",
    "placement": "sticky",
    "stop": "1",
    "fatal": "0.25",
    "logs": "all",
}


def test_whatever_an_operator_sets_is_as_if_the_code_said_it() -> None:
    assert set(FULL) == set(SETTINGS)
    text = overridden(f.LambdaSpec(name=NAME), "", FULL, [])
    assert in_force(f.LambdaSpec(name=NAME), text) == SPEC
    assert said(text) == FULL
    assert admission_settings(SPEC) == ADMISSION
    assert admission_settings(f.LambdaSpec(name=NAME, queue_limit=5, owner="us")) == {}
    assert overridden(SPEC, text, {}, ["all"]) == ""


def test_tiny_numbers_are_told_as_they_were_set() -> None:
    tiny = {"rate": "0.00001", "shares": "2:0.00001", "gate_at_fatal": "0.000001"}
    assert said(overridden(f.LambdaSpec(name=NAME), "", tiny, [])) == tiny


def test_a_bound_that_the_code_has_can_be_lifted() -> None:
    text = overridden(SPEC, "", dict.fromkeys(FULL, "none"), [])
    # Of logs "none" is a value like the others.
    lifted = f.LambdaSpec(name=NAME, queue_limit=100_000, enqueue_timeout_us=10_000_000, logs=t.LOGS_OF_NONE)
    assert in_force(SPEC, text) == lifted
    assert said(text) == dict.fromkeys(FULL, "none") | {
        "queue_limit": "100000",
        "enqueue_timeout": "10",
        "pool": "default",
    }
    assert overridden(SPEC, text, {"rate": "2"}, [each for each in FULL if each != "rate"]) == "rate=2"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rate": "0"}, "rate '0': use a number of more than 0, such as 100 or 0.5, or none"),
        ({"rate": "100001"}, "rate 100001"),
        ({"rate": "nan"}, "rate 'nan'"),
        ({"rate": "1e3"}, "rate '1e3'"),
        ({"rate": "-1"}, "rate '-1'"),
        ({"burst": "5"}, "burst 5: of no use without a rate; leave the burst out, too (atf lambda set: burst=none)"),
        (
            {"rate": "5.5", "burst": "5"},
            "burst 5: less than the rate, 5.5, so that 5 a second would go out at most; give 6",
        ),
        ({"max_running": "0"}, "max_running '0': use a whole number from 1 to 1000000, or none"),
        ({"max_pending": "9" * 5_000}, "max_pending"),
        ({"queue_limit": "1000001"}, "queue_limit '1000001': use a whole number from 1 to 1000000"),
        ({"enqueue_timeout": "0.01"}, "enqueue_timeout 10 ms: at least 100 ms"),
        ({"shares": "0.5"}, "write priority:share"),
        ({"shares": "high:0.5,0:0.1"}, "priority 0 stands there twice"),
        ({"shares": "high:0.6,low:0.6"}, "they add up to 1.2"),
        ({"shares": "lowest:0.6"}, "priority 'lowest'"),
        ({"pool": "a b"}, "pool 'a b': use 1 to 64 of the characters A-Z a-z 0-9 . _ -, or default"),
        ({"placement": "near"}, "use any, sticky, spread"),
        ({"logs": "some"}, "logs 'some': use failed (of runs that fail, the default), all (of every run) or none"),
        ({"stop_on_fatal": "1"}, "use yes or no"),
        ({"owner": ""}, "owner '': use characters that can be seen"),
        ({"owner": "x" * 201}, "owner: 201 characters, at most 200"),
        ({"version": "3"}, "there is no setting 'version'; there are queue_limit, "),
        ({"ratio": "3"}, "there is no setting 'ratio'"),
    ],
    ids=lambda each: str(each)[:40],
)
async def test_what_means_nothing_is_refused_and_nothing_changes(bench: Bench, changes: Any, says: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await set_lambda(bench, changes)
    assert says in str(refused.value)
    assert (await listed(bench)).overrides == {}


async def test_a_setting_holds_at_once_and_until_it_is_unset(bench: Bench) -> None:
    await bench.register(rate=5, queue_limit=8)
    changed = await set_lambda(bench, {"rate": "7.5", "queue_limit": "2"})
    assert changed == await listed(bench)
    assert changed.overrides == {"rate": "7.5", "queue_limit": "2"}
    assert (changed.spec.rate, changed.in_force.rate, changed.in_force.queue_limit) == (5, 7.5, 2)
    await bench.register(rate=6)  # another version of the code
    assert (await listed(bench)).in_force.rate == 7.5
    await set_lambda(bench, {}, "rate")
    assert (await listed(bench)).in_force.rate == 6
    with pytest.raises(InvalidArgument, match="rate: set it or unset it, not both"):
        await set_lambda(bench, {"rate": "1"}, "rate")
    with pytest.raises(InvalidArgument, match="there is no setting 'ratio'"):
        await set_lambda(bench, {}, "ratio")


async def test_a_rate_does_not_go_beyond_the_burst_of_the_code_in_silence(bench: Bench) -> None:
    await bench.register(rate=100, burst=150)
    with pytest.raises(InvalidArgument, match=r"burst 150: less than the rate, 200, .* give 200 or more.*burst=none"):
        await set_lambda(bench, {"rate": "200"})
    with pytest.raises(InvalidArgument, match=r"burst 150: of no use without a rate.*burst=none"):
        await set_lambda(bench, {"rate": "none"})
    held = (await set_lambda(bench, {"rate": "200", "burst": "none"})).in_force
    assert (held.rate, held.burst) == (200, 0)
    held = (await set_lambda(bench, {"rate": "none"})).in_force
    assert (held.rate, held.burst) == (0, 0)
    held = (await set_lambda(bench, {"rate": "150", "burst": "150"})).in_force
    assert (held.rate, held.burst) == (150, 150)


async def test_new_code_registers_beside_a_rate_that_an_operator_set(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[dict[str, Any]] = []
    said_by_nobody = SimpleNamespace(info=lambda *_, **__: None, warning=lambda _, **fields: warned.append(fields))
    monkeypatch.setattr("atf.frontend.registration._log", said_by_nobody)
    await set_lambda(bench, {"rate": "200"})
    await bench.register(rate=100, burst=150)
    await bench.register(rate=100, burst=150)
    assert warned == [{"name": NAME, "burst": 150, "rate": 200}], "once: nothing has changed the second time"
    held = (await set_lambda(bench, {"max_running": "3"})).in_force
    assert (held.rate, held.burst, held.max_running) == (200, 150, 3)
    with pytest.raises(InvalidArgument, match="burst 150: less than the rate, 190"):
        await set_lambda(bench, {"rate": "190"})


async def test_nobody_sets_anything_of_a_lambda_that_is_not_there(bench: Bench) -> None:
    with pytest.raises(UnknownLambda):
        await bench.frontend.set_lambda(f.SetLambdaRequest(**{"lambda": "photos/none"}, set={"rate": "1"}))


async def test_two_operators_at_once_lose_neither_s_change(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    stale, read = await bench.store.list_lambdas(), bench.store.list_lambdas
    await set_lambda(bench, {"rate": "5"})
    answers = [stale]

    async def lambdas() -> Any:
        return answers.pop() if answers else await read()

    await bench.frontend.list_lambdas(f.ListLambdasRequest())
    monkeypatch.setattr(bench.store, "list_lambdas", lambdas)
    assert (await set_lambda(bench, {"max_running": "2"})).overrides == {"rate": "5", "max_running": "2"}


async def set_lambda(bench: Bench, settings: dict[str, str], *unset: str) -> f.LambdaInfo:
    return await bench.frontend.set_lambda(f.SetLambdaRequest(**{"lambda": NAME}, set=settings, unset=unset))


async def listed(bench: Bench) -> f.LambdaInfo:
    reply = await bench.frontend.list_lambdas(f.ListLambdasRequest(page_size=1, **{"lambda": NAME}))
    return reply.lambdas[0]
