"""The front of a task's spec: left out in the store where it is the usual one, and back for whoever reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from atf.rpc import task_pb2 as t
from atf.rpc.stored_spec import front, packed, serialized, whole

QUEUE = "photos/thumbnail:1"
USUAL = t.TaskOptions(
    priority=1,
    max_attempts=10,
    max_losses=3,
    timeout_us=0,
    backoff=t.Backoff(base_us=1_000_000, factor=2, max_us=600_000_000, jitter=0.1),
    retention_us=86_400_000_000,
)


def spec(options: t.TaskOptions, payload: bytes = b"", labels: Mapping[str, str] | None = None) -> t.TaskSpec:
    made = t.TaskSpec(options=options, payload=payload, labels=labels)
    setattr(made, "lambda", "photos/thumbnail")
    return made


def other(**fields: Any) -> t.TaskOptions:
    options = t.TaskOptions()
    options.CopyFrom(USUAL)
    options.MergeFrom(t.TaskOptions(**fields))
    return options


def test_a_usual_task_keeps_its_payload_alone() -> None:
    made = serialized(spec(USUAL, payload=b'["cat.jpg"]'))
    assert packed(QUEUE, made) == b'\x01\x12\x0b["cat.jpg"]'
    assert t.TaskSpec.FromString(whole(QUEUE, packed(QUEUE, made))) == spec(USUAL, payload=b'["cat.jpg"]')


@pytest.mark.parametrize(
    "options",
    [
        other(max_attempts=3),
        other(timeout_us=30_000_000),
        other(retention_us=0),
        other(backoff=t.Backoff(base_us=7, factor=3, max_us=9, jitter=1)),
    ],
)
def test_other_options_take_a_few_bytes_more(options: t.TaskOptions) -> None:
    made = packed(QUEUE, serialized(spec(options, payload=b"1")))
    assert made[:1] == b"\x01"
    assert len(made) < 48
    assert t.TaskSpec.FromString(whole(QUEUE, made)) == spec(options, payload=b"1")


@pytest.mark.parametrize(
    "options", [t.TaskOptions(priority=1), other(backoff=t.Backoff(base_us=1, factor=2, max_us=1)), t.TaskOptions()]
)
def test_options_that_no_piece_can_say_are_written_out(options: t.TaskOptions) -> None:
    options.backoff.jitter = 0
    made = serialized(spec(options, labels={"a": "b"}))
    assert packed(QUEUE, made) == made
    assert t.TaskSpec.FromString(made) == spec(options, labels={"a": "b"})


def test_a_spec_of_another_queue_is_kept_as_it_is() -> None:
    made = serialized(spec(USUAL))
    assert packed("photos/thumbnail:2", made) == made


@pytest.mark.parametrize("damaged", [b"", b"\x01", b"\x02", b"\x01\x02", b"\xff"])
def test_what_is_no_spec_comes_back_byte_for_byte(damaged: bytes) -> None:
    assert whole(QUEUE, packed(QUEUE, damaged)) == damaged


def test_the_usual_front_never_changes() -> None:
    """Specs in a store were written with it."""
    assert (
        front("photos/thumbnail", USUAL).hex()
        == "0a1070686f746f732f7468756d626e61696c222d0801100a180320002a1c08c0843d11000000000000004018808c8d9e02219a9999999999b93f3080c0ddeec102"
    )
