"""Requests made of a lambda's name and options alone, and what of them holds for single tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from atf.durability import durability_of
from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.task import check_key, id_of_key

from .option_kinds import CallOptions
from .option_names import check_names
from .options import (
    Concurrency,
    Unique,
    checked_labels,
    duration_us,
    instant_us,
    run_options,
)
from .payload import short


def request_template(name: str, options: CallOptions) -> f.ScheduleRequest:
    """A request without its payload.

    Raises:
        InvalidArgument: an option breaks its rule.
        TypeError: there is no such option.
    """
    check_names(name, options, CallOptions.__annotations__)
    if "delay" in options and "at" in options:
        raise TypeError(f"{name}: give delay or at, not both")
    labels = checked_labels(options.get("labels") or {})
    spec = t.TaskSpec(options=run_options(options).to_proto(), labels=labels)
    setattr(spec, "lambda", name)  # a keyword of the language
    _set_keys(spec, options)
    request = f.ScheduleRequest(id=id_of_key(options["key"]) if "key" in options else "", spec=spec)
    if "durability" in options:
        request.durability = cast("t.Durability", int(durability_of(options["durability"])))
    if "delay" in options:
        request.delay_us = duration_us(options["delay"], "delay")
    elif "at" in options:
        request.at_us = instant_us(options["at"])
    return request


def of_single_tasks(request: f.ScheduleRequest, *, keyed: bool = True) -> Iterator[str]:
    """The options of a request that only a task with a call of its own can have.

    Args:
        request: what was asked for.
        keyed: whether an id that it has is a `key`.
    """
    spec = request.spec
    if request.id and keyed:
        yield "key"
    if when := request.WhichOneof("when"):
        yield when.removesuffix("_us")
    if request.durability:
        yield "durability"
    if spec.ordering_key:
        yield "ordering_key"
    if spec.HasField("concurrency"):
        yield "concurrency_key"
    if spec.HasField("unique"):
        yield "unique"


def _set_keys(spec: t.TaskSpec, options: CallOptions) -> None:
    if "ordering_key" in options:
        spec.ordering_key = check_key(options["ordering_key"], "ordering_key")
    if "concurrency_key" in options:
        asked = options["concurrency_key"]
        key = asked if isinstance(asked, Concurrency) else Concurrency(asked)
        spec.concurrency.CopyFrom(key.to_proto())
    if "unique" in options:
        if not isinstance(options["unique"], Unique):
            raise InvalidArgument(f"unique {short(options['unique'])}: give an atf.Unique")
        spec.unique.CopyFrom(options["unique"].to_proto())
    if "affinity_key" in options:
        spec.affinity_key = check_key(options["affinity_key"], "affinity_key")
