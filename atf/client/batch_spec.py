"""A batch as it is sent: what the caller gave becomes a BatchSpec, with its callbacks. Values and their checks, no I/O."""

from __future__ import annotations

from typing import Any, Final

from atf.errors import InvalidArgument
from atf.rpc import batch_pb2 as b, task_pb2 as t
from atf.sdk.batch import OF_SINGLE_TASKS
from atf.sdk.chains import Step
from atf.sdk.option_kinds import BatchOptions
from atf.sdk.option_names import check_names
from atf.sdk.options import checked_labels, duration_us, run_options
from atf.sdk.payload import short
from atf.sdk.schedulable import Schedulable, named
from atf.task import check_key

MESSAGE_ITEMS: Final = 1_000
"""Items of one message at most."""
MAX_WORKERS: Final = 1_000
MAX_CALLBACKS: Final = 8


def batch_spec(name: str, options: BatchOptions, template: t.TaskSpec | None = None) -> b.BatchSpec:
    """The description of a batch of a lambda.

    Args:
        name: "namespace/name".
        options: what the caller gave.
        template: what `thumbnail.options(...)` said of its tasks; `options` go before it.

    Raises:
        InvalidArgument: an option breaks its rule, or two do not go together.
        TypeError: there is no such option.
    """
    check_names(f"a batch of {name}", options, BatchOptions.__annotations__, OF_SINGLE_TASKS)
    spec = b.BatchSpec()
    setattr(spec, "lambda", name)
    if template is not None:
        spec.options.CopyFrom(template.options)
        spec.labels.update(template.labels)
        spec.affinity_key = template.affinity_key
    spec.options.MergeFrom(run_options(options).to_proto())
    spec.labels.update(checked_labels(options.get("labels") or {}))
    spec.max_in_flight = _count("max_in_flight", options.get("max_in_flight", 0), 2**31 - 1)
    spec.workers = _count("workers", options.get("workers", 0), MAX_WORKERS)
    if spec.max_in_flight and spec.workers:
        raise InvalidArgument("max_in_flight and workers: give one; of each of n workers one item runs at a time")
    spec.pause_us = duration_us(options.get("pause", 0), "pause")
    if spec.pause_us and not options.get("target"):
        raise InvalidArgument(
            "pause: say between what, by target=, an argument's name or what makes a text of an element"
        )
    if options.get("target") is not None and not spec.pause_us:
        raise InvalidArgument("target: it is what pause= is kept between; give a pause, or leave target out")
    if "affinity_key" in options:
        spec.affinity_key = check_key(options["affinity_key"], "affinity_key")
    _add_callbacks(spec, options)
    return spec


def _add_callbacks(spec: b.BatchSpec, options: BatchOptions) -> None:
    for name, when in (
        ("on_success", b.Callback.SUCCESS_OF_ALL),
        ("on_failure", b.Callback.ANY_FAILURE),
        ("on_complete", b.Callback.COMPLETION),
    ):
        given: Any = options.get(name)
        for each in given if isinstance(given, list | tuple) else [] if given is None else [given]:
            callback = spec.callbacks.add(when=when)
            _describe(callback, each, name)
    if len(spec.callbacks) > MAX_CALLBACKS:
        raise InvalidArgument(f"{len(spec.callbacks)} callbacks: at most {MAX_CALLBACKS}")


def _describe(callback: b.Callback, given: Any, what: str) -> None:
    if isinstance(given, str):
        callback.task.CopyFrom(named(given, {}, {}).request.spec)
    elif isinstance(given, Step | Schedulable):
        (given if isinstance(given, Step) else given.s()).describe_callback(callback, what)
    else:
        raise InvalidArgument(f"{what}={short(given)}: give a lambda, its name, `lambda.s(...)`, or a list of them")


def _count(name: str, given: object, most: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= most:
        raise InvalidArgument(f"{name} {short(given)}: give a whole number from 1 to {most}; 0: no bound of its own")
    return given
