"""What reads payloads, options, ids, and what processes of ATF write for each other: any bytes are read, or refused clearly."""

from __future__ import annotations

import datetime as dt
import inspect
import json
import mmap
import os
import random
import string
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from atf import App, Context, task
from atf.cli.task_view import show_task
from atf.client.calls import answer_of
from atf.controller.guards import Slow, event_of
from atf.controller.losses import Death, report_death
from atf.demo.record import DemoRecord
from atf.errors import AtfError, Internal as InternalError, InvalidArgument
from atf.executor.guarding.start_notes import StartNotes
from atf.executor.guarding.worker_end import WorkerEnd, death
from atf.executor.held import HeldTask
from atf.executor.outcome import DoesNotFit, GaveUp, Returned, of_exception, to_result
from atf.executor.perform import Performer, Unawaited
from atf.executor.table import HEADER_BYTES, SLOT_BYTES, SlotState, Table
from atf.rpc import frontend_pb2 as f, status_pb2, task_pb2 as t
from atf.rpc.failure import DETAILS_KEY, to_error
from atf.runtime import SystemRuntime
from atf.sdk.options import Backoff, duration_us, instant_us, priority_number
from atf.sdk.payload import decode_result, encode_result
from atf.sdk.requests import request_template
from atf.sdk.schedulable import named
from atf.sdk.signature import Codec
from atf.store import keys
from atf.store.records import task_record

from .examples import BROKEN_TEXTS, JSON_VALUES, NUMBERS, SCALARS, TEXTS, VALUES, fuzz, understood_or
from .texts import BOMBS

# --- payloads ---------------------------------------------------------------------------------------------------------

app = App("shop")


class Item(msgspec.Struct):
    name: str
    inner: Item | None = None


@app.task
def free(path: Any, size: Any = None) -> Any:
    return [path, size]


@app.task
def strict(path: str, size: int = 1, *, at: dt.datetime | None = None, kind: Literal["a", "b"] = "a") -> dict[str, int]:
    return {path: size}


@app.task
def nested(item: Item, items: list[dict[str, Item]], pair: tuple[int, float], blob: bytes = b"") -> Item:
    return item


@app.task
def raw(data: bytes) -> bytes:
    return data


@app.task
async def nothing() -> None:
    return None


LAMBDAS: list[Any] = [free, strict, nested, raw, nothing]
PAYLOADS = st.one_of(
    st.binary(max_size=200),
    st.sampled_from(sorted(BOMBS)).map(BOMBS.__getitem__),
    st.dictionaries(
        st.sampled_from(["path", "size", "item", "items", "pair", "at", "kind", "data"]), JSON_VALUES, max_size=4
    ).map(lambda value: json.dumps(value).encode()),
)


@fuzz
@given(known=st.sampled_from(LAMBDAS), payload=PAYLOADS, encoding=st.integers(0, 3))
def test_a_payload_becomes_arguments_or_is_refused(known: Any, payload: bytes, encoding: int) -> None:
    with understood_or(InvalidArgument):
        assert inspect.signature(known).bind(**known.decode(payload, encoding))
    with understood_or(InvalidArgument):
        Codec(known.fn, known.name, Context).decode_result(payload, encoding)
    with understood_or(InvalidArgument):
        decode_result("shop/free", payload, encoding)


@fuzz
@given(
    known=st.sampled_from(LAMBDAS),
    args=st.lists(VALUES, max_size=3),
    kwargs=st.dictionaries(st.sampled_from(["path", "size", "item", "x"]), VALUES),
)
def test_arguments_become_a_payload_that_can_be_read_or_are_refused(
    known: Any, args: list[Any], kwargs: dict[str, Any]
) -> None:
    with understood_or(InvalidArgument, TypeError):
        request = known.prepare(*args, **kwargs).request
        known.decode(request.spec.payload, request.spec.encoding)


@fuzz
@given(value=VALUES)
def test_what_a_lambda_returns_becomes_a_result_or_is_refused(value: Any) -> None:
    with understood_or(InvalidArgument):
        result, encoding = encode_result("shop/free", value)
        decode_result("shop/free", result, encoding)
    with understood_or(InvalidArgument, TypeError):
        named("shop/free", value, {})


def _itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def _deep(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


HELD_BY_NO_JSON = {
    "itself": _itself(),
    "too deep": _deep(100_000),
    "half a character": "\ud800",
    "no number": float("nan"),
    "too many digits": 10**5000,
    "an object": object(),
    "a complex key": {1j: 1},
    "a key of several": {(1,): 1},
}


@pytest.mark.parametrize("what", HELD_BY_NO_JSON)
def test_what_json_can_not_hold_is_refused_where_it_is_given(what: str) -> None:
    value = HELD_BY_NO_JSON[what]
    with pytest.raises((InvalidArgument, TypeError)) as caught:
        free.prepare(value)
    assert len(str(caught.value)) < 1_000
    with pytest.raises(InvalidArgument):
        encode_result("shop/free", value)


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("known", LAMBDAS, ids=lambda known: known.name)
def test_a_bomb_ends_its_run_and_not_the_executor(known: Any, bomb: str) -> None:
    claim = t.Claim(task_id="0-a", spec=spec_of(known.name, BOMBS[bomb]), attempt=1, run=1)
    held = HeldTask(claim, 0, 0.0)
    outcome = Performer({known.name: known}, SystemRuntime()).run(held) if not known.is_async else None
    assert outcome is None or isinstance(outcome, Returned | GaveUp | DoesNotFit)


def spec_of(name: str, payload: bytes) -> bytes:
    fields: dict[str, Any] = {"lambda": name, "payload": payload}
    return t.TaskSpec(**fields).SerializeToString()


NUMBER = st.integers(-(1 << 63), (1 << 63) - 1)


@fuzz
@given(
    spec=st.one_of(
        st.binary(max_size=60),
        PAYLOADS.map(lambda body: spec_of("shop/free", body)),
    ),
    at=NUMBER,
    timeout=NUMBER,
    counter=NUMBER,
)
def test_any_claim_comes_to_an_outcome(spec: bytes, at: int, timeout: int, counter: int) -> None:
    claim = t.Claim(task_id="0-a", token=t.Token(counter=counter), spec=spec, scheduled_at_us=at, attempt=1)
    held = HeldTask(claim, 0, 0.0)
    outcome = Performer({"shop/free": free}, SystemRuntime()).run(held)
    assert not isinstance(outcome, Unawaited)
    held.timeout = timeout / 1e6
    code, result, _, error, wait = to_result(outcome, held.spec.options, 1, random.Random(1))
    assert code in t.Outcome.values()
    assert bool(result) != bool(error)
    assert 0 <= wait <= task.MAX_AHEAD_US


@fuzz
@given(after=VALUES, message=BROKEN_TEXTS)
def test_any_word_of_a_lambda_on_how_it_failed_is_understood(after: Any, message: str) -> None:
    from atf import Fatal, Retry

    retry = Retry(message)
    retry.after_s = after
    for error in (
        retry,
        Fatal(message),
        ValueError(message),
        SystemExit(message),
        type("\u202e", (Exception,), {})(message),
    ):
        _, _, _, text, wait = to_result(of_exception(error), t.TaskOptions(), 1, random.Random(1))
        assert 0 < len(text.encode()) <= task.MAX_ERROR_BYTES
        assert 0 <= wait <= task.MAX_AHEAD_US
        t.Task(error=text)


# --- options, names, ids ----------------------------------------------------------------------------------------------

OPTIONS = [
    "delay",
    "at",
    "priority",
    "key",
    "ordering_key",
    "concurrency_key",
    "labels",
    "timeout",
    "max_attempts",
    "max_losses",
    "backoff",
    "retention",
]


@fuzz
@given(
    options=st.dictionaries(
        st.sampled_from(OPTIONS),
        st.one_of(VALUES, st.timedeltas(), st.datetimes(timezones=st.timezones()), st.datetimes()),
        max_size=3,
    )
)
def test_options_make_a_request_or_are_refused(options: Any) -> None:
    with understood_or(InvalidArgument, TypeError):
        f.ScheduleRequest.FromString(request_template("shop/mail", options).SerializeToString())


@fuzz
@given(value=st.one_of(SCALARS, st.timedeltas(), st.datetimes(timezones=st.timezones()), st.dates()))
def test_times_and_numbers_are_within_their_bounds_or_refused(value: Any) -> None:
    with understood_or(InvalidArgument):
        assert 0 <= duration_us(value, "delay") <= task.MAX_AHEAD_US
    with understood_or(InvalidArgument):
        assert 0 <= instant_us(value) < 1 << 63
    with understood_or(InvalidArgument):
        assert 0 <= priority_number(value) <= 9
    for fields in ({"base": value}, {"factor": value}, {"max": value}, {"jitter": value}):
        with understood_or(InvalidArgument):
            Backoff(**fields).to_proto()


ALPHABET = set(string.ascii_letters + string.digits + "_-")


@fuzz
@given(text=BROKEN_TEXTS, partitions=st.integers(1, 16_384))
def test_names_and_ids_are_of_their_alphabet_or_refused(text: str, partitions: int) -> None:
    for check, more in ((task.check_id, ""), (lambda name: task.check_name(name, "x"), "."), (task.check_lambda, "./")):
        with understood_or(InvalidArgument):
            assert set(check(text)) <= ALPHABET | set(more)
    with understood_or(InvalidArgument):
        assert 0 <= task.partition_of(text, partitions) < partitions
    assert len(task.clip(text, 9).encode()) <= 9
    found = keys.parse_rq_name(text)
    assert found is None or keys.rq_name(found[0], keys.queue(*found[1:])).endswith(f":{found[2]}")


# --- what processes of ATF write for each other -----------------------------------------------------------------------


@fuzz
@given(data=st.data(), slots=st.integers(1, 4))
def test_a_table_that_somebody_wrote_over_is_read_as_far_as_it_can_be(data: Any, slots: int) -> None:
    size = HEADER_BYTES + slots * SLOT_BYTES
    buffer = bytearray(size)
    table = Table(buffer)
    for slot in range(slots):
        table.fill(slot, f"0-{slot}", slot, "nonce")
        table.overrun(slot, SlotState.TIMED_OUT, "timed out", 5)
    for _ in range(data.draw(st.integers(1, 12))):
        at = data.draw(st.integers(0, size - 1))
        junk = data.draw(st.binary(min_size=1, max_size=40))[: size - at]
        buffer[at : at + len(junk)] = junk
    heard(json.dumps(death("executor-1", 7, WorkerEnd(137, "killed", data.draw(st.booleans())), table)))


def test_a_slot_that_can_not_be_read_hides_no_other() -> None:
    buffer = mmap.mmap(-1, HEADER_BYTES + 3 * SLOT_BYTES)
    table = Table(buffer)
    for slot in range(3):
        table.fill(slot, f"0-{slot}", slot, "nonce")
    buffer[HEADER_BYTES + SLOT_BYTES] = 77
    assert [entry.task_id for entry in table.entries()] == ["0-0", "0-2"]
    buffer[HEADER_BYTES + 24] = 0xFF
    assert [entry.task_id for entry in table.entries()] == ["0-2"]


CLAIMS = st.one_of(
    JSON_VALUES,
    st.lists(st.tuples(TEXTS, st.integers(), TEXTS), max_size=2),
    st.lists(st.tuples(TEXTS, NUMBERS, TEXTS, NUMBERS, TEXTS), max_size=2),
)
EVENTS = st.fixed_dictionaries(
    {"event": st.sampled_from(["dead", "started", "slow", "draining", "x"])},
    optional={
        **dict.fromkeys(("executor", "why", "failed_start", "pid", "ordered"), st.one_of(TEXTS, JSON_VALUES)),
        "code": st.one_of(st.integers(), st.floats(), JSON_VALUES),
        **dict.fromkeys(("held", "cut", "started", "stopped", "timed_out", "suspects"), CLAIMS),
    },
)


class Kept:
    """Takes a dead executor's reports, and makes the messages that they would travel in."""

    def hand_back(self, executor: str, claims: Any) -> None:
        f.ScheduleRequest(id=executor).SerializeToString()
        assert all(each.SerializeToString() is not None for each in claims)

    def report_loss(self, executor: str, _claims: Any, why: str, *, shared: bool = False) -> None:
        f.ScheduleRequest(id=executor + why).SerializeToString()

    def set_results(self, _executor: str, results: Any) -> None:
        assert all(each.SerializeToString() is not None for each in results)


def heard(line: str) -> None:
    match event_of(line):
        case Death() as death:
            report_death(death, [], Kept())  # type: ignore[arg-type]
            f.WorkerHost(why_not=death.failed_start).SerializeToString()
        case Slow(why):
            f.WorkerHost(why_not=why).SerializeToString()


@fuzz
@given(
    written=st.lists(
        st.one_of(
            st.binary(max_size=200), st.sampled_from([b"!", b"=", b"\n", b'!"why"\n', b"(most recent call first):\n"])
        )
    )
)
def test_whatever_user_code_writes_over_its_notes_the_guard_reads_on(written: list[bytes]) -> None:
    notes = StartNotes.new()
    try:
        os.write(notes.descriptor, b"".join(written))
        f.ScheduleRequest(id=notes.error() + notes.last() + notes.place()).SerializeToString()
    finally:
        os.close(notes.descriptor)


@fuzz
@given(event=EVENTS)
def test_any_event_of_a_guard_is_taken_or_passed_over(event: dict[str, Any]) -> None:
    heard(json.dumps(event))


@fuzz
@given(
    line=st.one_of(
        TEXTS,
        JSON_VALUES.map(json.dumps),
        st.sampled_from(sorted(BOMBS)).map(lambda name: BOMBS[name].decode("utf-8", "replace")),
    )
)
def test_any_line_of_a_guard_is_taken_or_passed_over(line: str) -> None:
    heard(line)


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"event": "dead", "executor": "e", "code": 1e999}',
        '{"event": "dead", "executor": "e", "code": 0, "timed_out": [["0-a", 1, "n", 1e999, ""]]}',
        '{"event": "dead", "executor": "\\ud800", "code": 0}',
        '{"event": "dead", "executor": "e", "code": 0, "why": "\\ud800", "started": [["0-a", 1, "n"]]}',
        '{"event": "dead", "executor": "e", "code": 0, "timed_out": [["0-a", 1, "n", 1e30, "\\ud800"]]}',
        '{"event": "dead", "executor": "a b", "code": 0}',
    ],
)
def test_these_lines_do_not_end_the_reading_of_a_guards_lines(line: str) -> None:
    heard(line)


FIELDS = [
    "s",
    "q",
    "at",
    "spec",
    "d",
    "lim",
    "k",
    "c",
    "n",
    "o",
    "r",
    "a",
    "l",
    "e",
    "res",
    "enc",
    "err",
    "p",
    "R",
    "t1",
    "t5",
    "x",
]


@fuzz
@given(
    good=st.booleans(),
    fields=st.dictionaries(
        st.sampled_from(FIELDS),
        st.one_of(
            st.binary(max_size=30),
            NUMBERS.filter(lambda n: abs(n) < 1e300 or n != n).map(lambda n: str(n).encode()),
            TEXTS.map(str.encode),
        ),
        max_size=6,
    ),
    score=st.sampled_from([b"", b"inf", b"1e15", b"nan", b"x", b"\xff", b"1e999"]),
)
def test_a_record_of_the_store_is_read_or_said_to_be_damaged(
    good: bool, fields: dict[str, bytes], score: bytes
) -> None:
    record: dict[str, bytes] = {"s": b"NEW", "q": b"shop/mail:1", "at": b"5"} if good else {}
    reply = [score, *(part for name, value in (record | fields).items() for part in (name.encode(), value))]
    with understood_or(InternalError):
        task_record("0-a", reply)


@fuzz
@given(
    code=st.sampled_from(
        ["UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN", "RESOURCE_EXHAUSTED", "OK", "ABORTED"]
    ),
    message=st.one_of(st.none(), TEXTS),
    details=st.one_of(
        st.binary(max_size=60),
        st.tuples(TEXTS, st.binary(max_size=40)).map(
            lambda pair: status_pb2.RpcStatus(details=[{"type_url": pair[0], "value": pair[1]}]).SerializeToString()
        ),
        st.tuples(TEXTS, TEXTS).map(
            lambda pair: status_pb2.RpcStatus(
                details=[
                    {
                        "type_url": "type.googleapis.com/google.rpc.ErrorInfo",
                        "value": status_pb2.ErrorInfo(reason=pair[0], domain="atf").SerializeToString(),
                    }
                ]
            ).SerializeToString()
        ),
    ),
)
def test_any_failure_of_a_call_is_an_error_of_ours(code: str, message: str | None, details: bytes) -> None:
    import grpc

    failed = SimpleNamespace(
        code=lambda: grpc.StatusCode[code], details=lambda: message, trailing_metadata=lambda: ((DETAILS_KEY, details),)
    )
    assert isinstance(to_error(failed, "h:1", "/atf.v1.Frontend/GetTask", 1.0), AtfError)


@fuzz
@given(code=TEXTS, message=TEXTS, reason=TEXTS)
def test_any_answer_of_a_batch_is_a_reply_or_an_error_of_ours(code: str, message: str, reason: str) -> None:
    assert isinstance(answer_of(f.ScheduleResult(error=f.Error(code=code, message=message, reason=reason))), AtfError)


@fuzz
@given(data=st.binary(max_size=300))
def test_any_task_that_can_be_decoded_can_be_shown(data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    from google.protobuf.message import DecodeError

    try:
        shown = t.Task.FromString(data)
    except DecodeError:
        return
    show_task(shown)
    capsys.readouterr()


LINES = st.one_of(
    st.binary(max_size=30),
    st.tuples(
        st.sampled_from([b"S", b"E", b"X", b""]),
        st.sampled_from([b"5", b"-1", b"x", b""]),
        st.sampled_from([b"0-a", b"\xff", b""]),
        st.sampled_from([b"1", b"x"]),
        st.sampled_from([b"", b"9", b"failed", b"x"]),
    ).map(b" ".join),
)


@fuzz
@given(lines=st.lists(LINES, max_size=5))
def test_a_record_of_the_demo_is_read_or_said_to_be_damaged(lines: list[bytes], tmp_path_factory: Any) -> None:
    directory: Path = tmp_path_factory.mktemp("record")
    (directory / "7-1").write_bytes(b"\n".join(lines))
    with understood_or(InternalError):
        DemoRecord(directory).poll()
