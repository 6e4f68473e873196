"""How a task's spec stands in the store: without what the task's queue says, and without the usual options.

A spec is written front first: the lambda, then the options. Where that begins with the usual front of the task's queue, the store keeps a
mark in its place, and puts it back for whoever reads the spec. A message may be written in pieces: of a field that comes twice the later
value counts.
"""

from __future__ import annotations

import functools
from typing import Final

from google.protobuf.message import DecodeError

from . import task_pb2 as t

_USUAL: Final = t.TaskOptions(
    max_attempts=10,
    max_losses=3,
    timeout_us=0,
    backoff=t.Backoff(base_us=1_000_000, factor=2, max_us=600_000_000, jitter=0.1),
    retention_us=86_400_000_000,
)
"""The options that a mark stands for. They never change, or specs in a store would be read otherwise: should the defaults change, these no longer
are the usual ones, and tasks take a few bytes more.
"""
_LAMBDA: Final = b"\x0a"
"""The tag of a spec's field `lambda`."""
_LEFT_OUT: Final = b"\x01"
"""Stands for the usual front. No message begins so."""
_AS_IT_IS: Final = b"\x02"
"""Stands before a spec that begins like one of these marks, and is damaged."""


def serialized(spec: t.TaskSpec) -> bytes:
    """A spec, front first."""
    rest = t.TaskSpec()
    rest.CopyFrom(spec)
    rest.ClearField("lambda")
    rest.ClearField("options")
    return front(getattr(spec, "lambda"), spec.options) + rest.SerializeToString(deterministic=True)


def front(lambda_name: str, options: t.TaskOptions) -> bytes:
    """The lambda and the options: the usual front, then what is other, wherever that says the same."""
    return _front(lambda_name, options.SerializeToString(deterministic=True))


@functools.lru_cache(maxsize=1024)
def _front(lambda_name: str, options: bytes) -> bytes:
    wanted = _spec(lambda_name, t.TaskOptions.FromString(options))
    other = t.TaskSpec()
    for field, value in wanted.options.ListFields():
        if field.name == "backoff" and value != _USUAL.backoff:
            other.options.backoff.CopyFrom(value)
        elif field.name not in {"priority", "backoff"} and value != getattr(_USUAL, field.name):
            setattr(other.options, field.name, value)
    short = _usual(f"{lambda_name}:{wanted.options.priority}") + other.SerializeToString(deterministic=True)
    if t.TaskSpec.FromString(short) == wanted:
        return short
    return wanted.SerializeToString(deterministic=True)  # a zero in place of a usual value does not show in a piece


@functools.lru_cache(maxsize=1024)
def _usual(queue: str) -> bytes:
    lambda_name, _, priority = queue.rpartition(":")
    spec = _spec(lambda_name, _USUAL)
    spec.options.priority = int(priority)
    return spec.SerializeToString(deterministic=True)


def _spec(lambda_name: str, options: t.TaskOptions) -> t.TaskSpec:
    spec = t.TaskSpec(options=options)
    setattr(spec, "lambda", lambda_name)  # a word of Python's
    return spec


def lambda_of(spec: bytes) -> str:
    """The lambda of a whole spec, which is read without the rest of it: it comes first, where a frontend has written the spec."""
    if spec[:1] == _LAMBDA and len(spec) > 1:
        length, start = spec[1], 2
        if length >= 0x80 and len(spec) > 2:  # a varint of two bytes
            length, start = (length & 0x7F) | spec[2] << 7, 3
        name = spec[start : start + length]
        if len(name) == length < 1 << 14:
            return name.decode("utf-8", "replace")
    try:
        return str(getattr(t.TaskSpec.FromString(spec), "lambda"))
    except DecodeError:
        return ""


def packed(queue: str, spec: bytes) -> bytes:
    """A spec as the store has it."""
    usual = _usual(queue)
    if spec.startswith(usual):
        return _LEFT_OUT + spec[len(usual) :]
    return _AS_IT_IS + spec if spec[:1] in {_LEFT_OUT, _AS_IT_IS} else spec


def whole(queue: str, stored: bytes) -> bytes:
    """A spec that the store has as `stored`."""
    mark = stored[:1]
    if mark == _LEFT_OUT:
        return _usual(queue) + stored[1:]
    return stored[1:] if mark == _AS_IT_IS else stored
