"""What user code does, as a value and on the wire."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given, strategies as some

import atf
from atf.executor.held import HeldTask
from atf.executor.outcome import (
    DoesNotFit,
    GaveUp,
    Outcome,
    Returned,
    RunFailed,
    RunStopped,
    RunTimedOut,
    backoff_us,
    of_exception,
    to_result,
)
from atf.executor.perform import Performer, Unawaited
from atf.rpc import task_pb2 as t
from atf.runtime import SystemRuntime
from atf.sdk.context import Context
from atf.task import MAX_AHEAD_US
from tests.executor.world import claim

app = atf.App("o")
OPTIONS = t.TaskOptions(backoff=t.Backoff(base_us=1_000_000, factor=2, max_us=60_000_000, jitter=0))


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@app.task
def shrug(kind: str) -> Any:
    raise {
        "value": ValueError("no such path"),
        "fatal": atf.Fatal("never"),
        "retry": atf.Retry("later", after=3),
        "exit": SystemExit(2),
        "interrupt": KeyboardInterrupt(),
        "unspeakable": Unspeakable(),
        "surrogate": ValueError("\udcff"),
    }[kind]


class Odd(bytes):
    def __bytes__(self) -> bytes:
        raise RuntimeError("not now")


VALUES: dict[str, Any] = {
    "set": object(),
    "nan": math.nan,
    "big": "x" * 70_000,
    "bytes": b"\x00\xff",
    "none": None,
    "odd": Odd(),
}


@app.task
def give(what: str) -> Any:
    return VALUES[what]


@app.task
async def give_async(what: str) -> Any:
    return VALUES[what]


@dataclass
class Range:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")


@app.task
def checked(range: Range) -> int:
    return range.low


@app.task
def typed(path: str, *, size: int = 1) -> str:
    return f"{path}{size}"


@app.task
async def cancel_itself() -> None:
    raise asyncio.CancelledError


@app.task
def tell(ctx: Context) -> list[Any]:
    ctx.progress("half")
    return [ctx.task_id, ctx.attempt, ctx.run, ctx.fence, ctx.scheduled_at.isoformat(), ctx.cancelled]


PERFORMER = Performer(app.lambdas, SystemRuntime())


def held(name: str, payload: bytes = b"{}") -> HeldTask:
    return HeldTask(claim("0-a", f"o/{name}", payload, counter=7, attempt=2, losses=1), 0, 0.0)


def run(name: str, payload: bytes = b"{}") -> Outcome:
    outcome = PERFORMER.run(held(name, payload))
    assert not isinstance(outcome, Unawaited)
    return outcome


@pytest.mark.parametrize(
    ("kind", "outcome", "says"),
    [
        ("value", t.FAILED, "ValueError: no such path"),
        ("fatal", t.FAILED_FATAL, "Fatal: never"),
        ("retry", t.FAILED, "later"),
        ("exit", t.FAILED, "SystemExit: 2"),
        ("interrupt", t.FAILED, "KeyboardInterrupt"),
        ("unspeakable", t.FAILED, "Unspeakable: (its message can't be shown)"),
        ("surrogate", t.FAILED, "ValueError: \\udcff\n"),
    ],
)
def test_every_way_to_fail_is_a_value(kind: str, outcome: t.Outcome, says: str) -> None:
    got = to_result(run("shrug", b'{"kind":"%s"}' % kind.encode()), OPTIONS, 1, random.Random(0))
    assert got[0] == outcome
    assert got[3].startswith(says)


def test_the_error_shows_where_in_the_users_code_and_nothing_of_ours() -> None:
    outcome = run("shrug", b'{"kind":"value"}')
    assert isinstance(outcome, RunFailed)
    assert "test_outcome.py" in outcome.error
    assert "in shrug" in outcome.error
    assert "perform.py" not in outcome.error


TOO_LARGE = " returned 70002 bytes, and a result has at most 65536 (64 KiB): store what is large elsewhere, and return a reference to it"


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("set", " returned what JSON can't hold: "),
        ("nan", " returned what JSON can't hold: nan"),
        ("big", TOO_LARGE),
        ("odd", " returned can't be encoded: RuntimeError: not now"),
    ],
)
@pytest.mark.parametrize("name", ["give", "give_async"])
async def test_what_can_not_be_kept_is_fatal_and_says_so(name: str, what: str, says: str) -> None:
    payload = b'{"what":"%s"}' % what.encode()
    outcome = run(name, payload) if name == "give" else await PERFORMER.run_async(held(name, payload))
    assert isinstance(outcome, GaveUp)
    assert outcome.error.startswith(f"{'what ' if what == 'odd' else ''}o/{name}{says}")
    assert what != "big" or outcome.error == f"o/{name}{TOO_LARGE}", "one sentence, and nothing before or behind it"


def test_results_are_json_or_raw() -> None:
    assert run("give", b'{"what":"bytes"}') == Returned(b"\x00\xff", t.RAW)
    assert run("give", b'{"what":"none"}') == Returned(b"null", t.JSON)
    assert run("typed", b'{"path":"a","size":3}') == Returned(b'"a3"', t.JSON)


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        (b'{"path":"a","size":"big"}', "size"),
        (b'{"size":1}', "path"),
        (b'{"path":"a","colour":"red"}', "colour"),
        (b"[]", "object"),
    ],
)
def test_a_payload_that_does_not_fit_is_no_attempt_and_names_the_place_and_the_signature(
    payload: bytes, place: str
) -> None:
    outcome = run("typed", payload)
    assert isinstance(outcome, DoesNotFit)
    assert place in outcome.error
    assert outcome.signature == app.lambdas["o/typed"].digest
    assert to_result(outcome, t.TaskOptions(), 1, random.Random(1))[:4] == (t.MISFIT, b"", 0, outcome.error)


def test_a_payload_that_nobody_can_read_is_fatal() -> None:
    outcome = run("typed", b"{")
    assert isinstance(outcome, GaveUp)
    assert "payload" in outcome.error


def test_a_value_that_code_of_the_handlers_types_refuses_is_a_failed_attempt() -> None:
    """Another release's code may take it, under the same signature."""
    assert run("checked", b'{"range":{"low":1,"high":2}}') == Returned(b"1", t.JSON)
    outcome = run("checked", b'{"range":{"low":3,"high":2}}')
    assert isinstance(outcome, RunFailed)
    assert "low is above high" in outcome.error


async def test_a_coroutine_that_cancels_itself_has_failed() -> None:
    outcome = await PERFORMER.run_async(held("cancel_itself"))
    assert isinstance(outcome, RunFailed)
    assert "CancelledError" in outcome.error


def test_a_handler_that_asks_for_its_context_gets_it() -> None:
    task = held("tell")
    outcome = PERFORMER.run(task)
    assert outcome == Returned(b'["0-a",2,3,7,"2023-11-14T22:13:20+00:00",false]', t.JSON)
    assert task.progress == "half"


@pytest.mark.parametrize(
    ("flags", "expected"), [(("cancelled",), RunStopped), (("cancelled", "timed_out"), RunTimedOut)]
)
def test_a_run_that_was_told_to_stop_and_raises_has_stopped(flags: tuple[str, ...], expected: type[Any]) -> None:
    task = held("shrug", b'{"kind":"value"}')
    for flag in flags:
        setattr(task, flag, True)
    assert isinstance(PERFORMER.run(task), expected)


@pytest.mark.parametrize(
    ("after", "wait_us"),
    [
        (3, 3_000_000),
        (0, 0),
        (-5, 0),
        (timedelta(minutes=1), 60_000_000),
        (math.inf, MAX_AHEAD_US),
        (math.nan, 2_000_000),
        (None, 2_000_000),
    ],
)
def test_a_lambda_may_name_its_wait(after: Any, wait_us: int) -> None:
    outcome = of_exception(atf.Retry(after=after))
    assert to_result(outcome, OPTIONS, 2, random.Random(0))[4] == wait_us


@given(
    attempt=some.integers(0, 10_000),
    base=some.integers(0, 1 << 62),
    factor=some.floats(),
    most=some.integers(0, 1 << 62),
    jitter=some.floats(),
    seed=some.integers(),
)
@example(attempt=2, base=0, factor=math.inf, most=0, jitter=0, seed=0)
@example(attempt=2, base=1, factor=math.nan, most=1, jitter=math.nan, seed=0)
@example(attempt=10_000, base=1, factor=2, most=1, jitter=0, seed=0)
def test_no_backoff_is_negative_or_endless(
    attempt: int, base: int, factor: float, most: int, jitter: float, seed: int
) -> None:
    options = t.TaskOptions(backoff=t.Backoff(base_us=base, factor=factor, max_us=most, jitter=jitter))
    assert 0 <= backoff_us(options, attempt, random.Random(seed)) <= min(2 * most, MAX_AHEAD_US)


def test_backoff_doubles_up_to_its_bound_with_jitter_around_it() -> None:
    waits = [backoff_us(OPTIONS, attempt, random.Random(0)) for attempt in (1, 2, 3, 6, 7, 100)]
    assert waits == [1_000_000, 2_000_000, 4_000_000, 32_000_000, 60_000_000, 60_000_000]
    shaken = t.TaskOptions(backoff=t.Backoff(base_us=1_000_000, factor=2, max_us=60_000_000, jitter=0.1))
    chance = random.Random(1)
    seen = [backoff_us(shaken, 1, chance) for _ in range(500)]
    assert 900_000 <= min(seen) < 920_000
    assert 1_080_000 < max(seen) <= 1_100_000
