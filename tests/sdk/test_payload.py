from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

import atf
from atf.rpc import task_pb2 as t
from atf.sdk.payload import decode_result
from atf.task import MAX_PAYLOAD_BYTES, MAX_RESULT_BYTES

app = atf.App("pay")


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float = 0.5


class Form(msgspec.Struct):
    at: datetime
    points: list[Point]


@app.task
def typed(form: Form, colour: Colour = Colour.RED, wait: timedelta = timedelta(0), *, when: date | None = None) -> Form:
    return form


@app.task
def loose(value: Any = 3, other=None):  # type: ignore[no-untyped-def]
    return value


@app.task
def raw(data: bytes) -> bytes:
    return data


@app.task
def mixed(data: bytes, name: str) -> None: ...


def round_trip(known: atf.Lambda[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    spec = known.prepare(*args, **kwargs).request.spec
    return known.decode(spec.payload, spec.encoding)


def test_typed_arguments_arrive_as_what_they_were() -> None:
    form = Form(datetime(2031, 1, 2, tzinfo=UTC), [Point(1), Point(2, 3.5)])
    given_values = {"form": form, "colour": Colour.RED, "wait": timedelta(seconds=90), "when": date(2031, 5, 6)}
    assert round_trip(typed, **given_values) == given_values


def test_arguments_left_out_are_left_to_the_handlers_defaults() -> None:
    assert round_trip(loose) == {}
    assert typed.prepare(Form(datetime(2031, 1, 1, tzinfo=UTC), [])).request.spec.payload == (
        b'{"form":{"at":"2031-01-01T00:00:00Z","points":[]}}'
    )


@pytest.mark.parametrize("value", [None, [], {"a": [1, {"b": None}]}, 2**70, -1.5, "ü\u2028", "nan", [True], "null"])
def test_anything_of_json_travels_where_there_is_no_annotation(value: Any) -> None:
    assert round_trip(loose, value, other=value) == {"value": value, "other": value}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=50)
@given(json_values)
def test_any_json_value_survives_the_way_there_and_back(value: Any) -> None:
    assert round_trip(loose, value) == {"value": value}
    assert decode_result("x", *loose.encode_result(value)) == value


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def loop() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


_CANT = "JSON can't hold "
UNHOLDABLE = [
    (math.nan, "JSON can't hold nan"),
    ([1, {"a": (2, math.inf)}], "JSON can't hold inf"),
    ({-math.inf: 1}, "JSON can't hold -inf"),
    ([None, Point(1, math.nan)], "JSON can't hold nan"),
    (object(), "type object have no form"),
    (1j, "complex"),
    ({(1, 2): 3}, "type tuple have no form"),
    ("\ud800", "surrogates"),
    (deep(100_000), "nested too deeply"),
    (loop(), "holds itself"),
]


@pytest.mark.parametrize(("value", "says"), UNHOLDABLE, ids=[says for _, says in UNHOLDABLE])
def test_what_json_cannot_hold_is_refused_by_the_arguments_name(value: Any, says: str) -> None:
    with pytest.raises(atf.InvalidArgument, match=rf"pay/loose\(\): argument 'other': .*{says}"):
        loose.prepare(None, other=value)
    with pytest.raises(
        atf.InvalidArgument, match=f"pay/loose returned what JSON can't hold: .*{says.removeprefix(_CANT)}"
    ):
        loose.encode_result(value)


def test_raw_bytes_travel_as_they_are() -> None:
    request = raw.prepare(b"\x00\xff").request
    assert (request.spec.payload, request.spec.encoding) == (b"\x00\xff", t.RAW)
    assert raw.decode(b"\x00\xff", t.RAW) == {"data": b"\x00\xff"}
    assert raw.decode(b'{"data":"AP8="}', t.JSON) == {"data": b"\x00\xff"}  # from a caller that has only JSON
    assert raw.encode_result(b"\xff") == (b"\xff", t.RAW)


def test_bytes_beside_other_arguments_travel_in_json() -> None:
    assert mixed.prepare(b"\x00", "n").request.spec.encoding == t.JSON
    assert round_trip(mixed, b"\x00", "n") == {"data": b"\x00", "name": "n"}


def test_raw_bytes_must_be_bytes() -> None:
    with pytest.raises(TypeError, match=r"pay/raw\(\): argument 'data' must be bytes, got 'text'"):
        raw.prepare("text")  # type: ignore[arg-type]


def test_a_payload_is_bounded_at_a_mebibyte() -> None:
    assert raw.prepare(bytes(MAX_PAYLOAD_BYTES)).request.spec.ByteSize() > MAX_PAYLOAD_BYTES
    with pytest.raises(atf.InvalidArgument, match="1048577 bytes, at most 1048576"):
        raw.prepare(bytes(MAX_PAYLOAD_BYTES + 1))
    with pytest.raises(atf.InvalidArgument, match=r"pay/loose.*at most 1048576"):
        loose.prepare("x" * MAX_PAYLOAD_BYTES)


def test_a_result_is_bounded_at_64_kib() -> None:
    assert len(loose.encode_result("x" * (MAX_RESULT_BYTES - 2))[0]) == MAX_RESULT_BYTES
    with pytest.raises(
        atf.InvalidArgument,
        match=r"^pay/loose returned 65537 bytes, .* at most 65536 \(64 KiB\): .* return a reference to it$",
    ):
        loose.encode_result("x" * (MAX_RESULT_BYTES - 1))


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (
            b'{"form":{"at":"2031-01-01T00:00:00Z","points":[{"x":"1"}]}}',
            r"argument 'form' at \.points\[0\]\.x: Expected `int`",
        ),
        (b'{"form":{"at":"soon","points":[]}}', "argument 'form' at .at: Invalid RFC3339"),
        (b"{}", "missing required field `form`"),
        (b'{"form":{"at":"2031-01-01T00:00:00Z","points":[]},"extra":1}', "unknown field `extra`"),
        (b"[]", "Expected `object`"),
        (b"", "truncated"),
        (b'{"form":\xff}', "malformed|decode"),
        (b"[" * 100_000, "Expected `object`|nested too deeply"),
    ],
)
def test_a_payload_that_does_not_fit_says_where(payload: bytes, says: str) -> None:
    with pytest.raises(atf.InvalidArgument, match=f"pay/typed: the payload (does not fit|can.t be read): .*({says})"):
        typed.decode(payload, t.JSON)


def test_a_deep_payload_is_refused_and_raw_bytes_for_json_arguments_too() -> None:
    with pytest.raises(atf.InvalidArgument, match="nested too deeply"):
        loose.decode(b'{"value":' + b"[" * 100_000, t.JSON)
    with pytest.raises(atf.InvalidArgument, match="raw bytes"):
        loose.decode(b"{}", t.RAW)


def test_results_come_back_in_the_type_of_the_return_annotation() -> None:
    form = Form(datetime(2031, 1, 2, tzinfo=UTC), [Point(1)])
    assert typed.prepare(form).decode(*typed.encode_result(form)) == form
    with pytest.raises(atf.InvalidArgument, match="the result of pay/typed does not fit"):
        typed.prepare(form).decode(b'{"at":3}', t.JSON)
