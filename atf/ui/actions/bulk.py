"""Actions on all tasks that match a filter: cancel them, or have those that ended run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from atf.rpc import api, frontend_pb2 as f
from atf.times import instant
from atf.ui.bulk import MatchTally, page_by_page
from atf.ui.task_filter import ANY, FILTERS, AskedTasks, read_filter

from .action import WHY, Action, FormField, Values, number_of, said

_MORE: Final = " There are more, which it has not come to: do it again."


def redrive_request(asked: AskedTasks, values: Values) -> f.RedriveRequest:
    """Which tasks are to run again."""
    return f.RedriveRequest(filter=asked.filter, error=values.get("error", "").strip())


def cancel_request(asked: AskedTasks, _values: Values) -> f.CancelMatchingRequest:
    """Which tasks are to be cancelled."""
    return f.CancelMatchingRequest(filter=asked.filter)


async def redrive(frontend: api.Frontend, request: f.RedriveRequest) -> MatchTally:
    """Has them run again, or counts them."""
    return await page_by_page(request, frontend.redrive, lambda reply: reply.redriven)


async def cancel(frontend: api.Frontend, request: f.CancelMatchingRequest) -> MatchTally:
    """Cancels them, or counts them."""
    return await page_by_page(request, frontend.cancel_matching, lambda reply: reply.cancelled + reply.requested)


async def _retry(frontend: api.Frontend, values: Values, who: str) -> str:
    request = redrive_request(_asked(values), values)
    request.MergeFrom(f.RedriveRequest(dry_run=False, **said(values, who)))
    if values["rate"]:
        request.rate = number_of(values["rate"], "Rate")
    done = await redrive(frontend, request)
    return f"{done.done:,} of {done.looked_at:,} tasks run again.{_MORE if done.more else ''}"


async def _cancel(frontend: api.Frontend, values: Values, who: str) -> str:
    request = cancel_request(_asked(values), values)
    request.MergeFrom(f.CancelMatchingRequest(dry_run=False, **said(values, who)))
    done = await cancel(frontend, request)
    return f"{done.done:,} of {done.looked_at:,} tasks are cancelled, or asked to stop.{_MORE if done.more else ''}"


def _asked(values: Values) -> AskedTasks:
    """The tasks of a form that was sent: its durations count from the instant at which they were counted."""
    return read_filter(values, 0)


def filter_words(values: Values) -> list[str]:
    """A filter as the command line takes it: each flag with its value."""
    asked, status = _asked(values).filter, values.get("status", "")
    flags: list[tuple[str, Sequence[Any]]] = [
        ("--status", [status] if status not in {"", ANY} else ()),
        ("--since", [instant(asked.since_at_us)] if asked.since_at_us else ()),
        ("--until", [instant(asked.until_at_us)] if asked.until_at_us else ()),
        ("--label", [f"{name}={value}" for name, value in sorted(asked.labels.items())]),
        ("--key", [asked.key] if asked.key else ()),
        ("--priority", [str(each) for each in asked.priorities]),
        ("--error-type", [asked.error_type] if asked.error_type else ()),
        ("--search", [f"{name}={value}" for name, value in sorted(asked.search.items())]),
        ("--group", [asked.failure_group] if asked.failure_group else ()),
    ]
    return [word for flag, given in flags for value in given for word in (flag, value)]


def _words(verb: str) -> Callable[[Values], list[str]]:
    def words(values: Values) -> list[str]:
        name, error = values.get("lambda", ""), values.get("error", "")
        which = [*([name] if name else []), *filter_words(values), *(["--error", error] if error else [])]
        return ["atf", verb, *which, "--yes"]

    return words


ACTIONS: Final = (
    Action(
        "retry-matching",
        "Retry them all",
        "They run again, with all their attempts and the same arguments.",
        (*FILTERS, "error"),
        _words("retry"),
        _retry,
        (FormField("rate", "A second", "--rate", "5; empty: all at once"), WHY),
    ),
    Action(
        "cancel-matching",
        "Cancel them all",
        "Those that have not started never will. Those that run are asked to stop.",
        FILTERS,
        _words("cancel"),
        _cancel,
        tone="danger",
    ),
)
