"""What a batch is made of, before anybody sends it: its options, its callbacks, the words for where it and its items stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import md5
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from atf.errors import InvalidArgument
from atf.rpc import batch_pb2 as b
from atf.rpc import task_pb2 as t
from atf.task import NamedNumber, check_key

from .option_names import check_names
from .options import Duration, RunOptions, checked_labels, duration_us, run_options
from .payload import short

if TYPE_CHECKING:
    from .chains import Step
    from .lambdas import Schedulable

MESSAGE_ITEMS: Final = 1_000
"""Items of one message at most."""
MAX_WORKERS: Final = 1_000
MAX_CALLBACKS: Final = 8

_SEVERAL: Final = "items of a batch have none: write client.schedule_many([thumbnail.options({name}=…).prepare(each) for each in items])"
OF_SINGLE_TASKS: Final = {
    **{name: _SEVERAL.format(name=name) for name in ("delay", "at", "ordering_key", "unique")},
    "concurrency_key": "items of a batch have none: write .map(items, max_in_flight=…)",
    "key": "items of a batch have none: write .map(items, batch_id=…), with which the same call again goes on",
}
"""What to do in place of an option that items can't have."""

CallbackLike: TypeAlias = "str | Schedulable[..., Any] | Step[Any] | Sequence[str | Schedulable[..., Any] | Step[Any]]"


class BatchStatus(NamedNumber):
    """Where a batch stands."""

    CREATED = b.BATCH_CREATED
    """None of its items has been started."""
    IN_PROGRESS = b.BATCH_IN_PROGRESS
    """And while more items may come."""
    DONE = b.BATCH_DONE
    DONE_WITH_FAILURES = b.BATCH_DONE_WITH_FAILURES
    """Every item has ended, some failed for good."""
    CANCELLED = b.BATCH_CANCELLED
    """It was cancelled, and every item has ended."""
    DELETED = b.BATCH_DELETED
    """It is being deleted."""


class ItemStatus(NamedNumber):
    """Where an item stands; it follows from its task's own state."""

    CREATED = b.ITEM_CREATED
    IN_PROGRESS = b.ITEM_IN_PROGRESS
    DONE = b.ITEM_DONE
    FAILED = b.ITEM_FAILED
    """It runs again."""
    PERMANENTLY_FAILED = b.ITEM_PERMANENTLY_FAILED
    CANCELLED = b.ITEM_CANCELLED

    @property
    def finished(self) -> bool:
        """Whether the item has ended."""
        return self in {ItemStatus.DONE, ItemStatus.PERMANENTLY_FAILED, ItemStatus.CANCELLED}


class BatchOptions(RunOptions, total=False):
    """What `.map(...)` and `client.batch(...)` take. Those of RunOptions are every item's; retention counts from the batch's end."""

    batch_id: str  # 1 to 20 of A-Z a-z 0-9 _ -: with it the same call again resumes; default a new one
    batch_size: int  # items of one message, at most 1000
    labels: Mapping[str, str]  # of every item
    max_in_flight: int  # items in queues and at work at once
    pause: Duration  # between the end of an item and the start of the next one with the same target
    target: (
        str | Callable[[Any], str]
    )  # what the pause is kept between: an argument's name, or what makes a text of an element
    workers: int  # items are dealt round-robin into so many chunks, of each of which one runs at a time
    affinity_key: str  # as of a task
    on_success: CallbackLike  # when all items have succeeded
    on_failure: CallbackLike  # when an item failed for good, or was cancelled
    on_complete: CallbackLike  # when every item has ended
    durability: str  # as of a task; of every item
    keep_open: bool  # more items come in a later call; the batch does not end before


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
    from .chains import Step
    from .lambdas import Schedulable, named

    if isinstance(given, str):
        callback.task.CopyFrom(named(given, {}, {}).request.spec)
    elif isinstance(given, Step | Schedulable):
        (given if isinstance(given, Step) else given.s()).describe_callback(callback, what)
    else:
        raise InvalidArgument(f"{what}={short(given)}: give a lambda, its name, `lambda.s(...)`, or a list of them")


def link_id(batch_id: str, place: int, round_: int) -> str:
    """The id of the batch that the callback at `place`, from 0, becomes when round `round_` of a batch has ended."""
    return md5(f"{batch_id}+{place}+{round_}".encode(), usedforsecurity=False).hexdigest()[:20]


def _count(name: str, given: object, most: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= most:
        raise InvalidArgument(f"{name} {short(given)}: give a whole number from 1 to {most}; 0: no bound of its own")
    return given
