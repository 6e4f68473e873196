"""Actions on all tasks that match a filter: retry the dead of a lambda, or of a group of failures."""

from __future__ import annotations

from typing import Final

from atf.errors import InvalidArgument
from atf.rpc import api, frontend_pb2 as f
from atf.times import instant
from atf.ui.bulk import MatchTally, page_by_page
from atf.ui.task_filter import FILTERS, AskedTasks, read_filter
from atf.ui.words import lambda_of

from .action import WHY, Action, FormField, Values, number_of, said


def redrive_request(asked: AskedTasks, error: str) -> f.RedriveRequest:
    """Which dead tasks are to run again.

    Raises:
        InvalidArgument: the filter names no lambda, or what dead letters can't be searched by.
    """
    given = asked.filter
    name = lambda_of(given)
    if not (name or given.failure_group) or name.endswith("/*"):
        raise InvalidArgument("name one lambda: dead tasks run again lambda by lambda")
    if given.priorities or given.key or given.error_type:
        raise InvalidArgument(
            "dead tasks are searched by labels, time and the text of their error alone: leave out the other filters"
        )
    request = f.RedriveRequest(
        labels=given.labels,
        error=error,
        failure_group=given.failure_group,
        failed_from_at_us=given.since_at_us,
        failed_until_at_us=given.until_at_us,
    )
    setattr(request, "lambda", name)
    return request


async def redrive(frontend: api.Frontend, request: f.RedriveRequest) -> MatchTally:
    """Has them run again, or counts them."""
    return await page_by_page(request, frontend.redrive, lambda reply: reply.redriven)


async def _retry(frontend: api.Frontend, values: Values, who: str) -> str:
    request = redrive_request(read_filter(values, 0), values["error"])
    request.MergeFrom(f.RedriveRequest(dry_run=False, **said(values, who)))
    if values["rate"]:
        request.rate = number_of(values["rate"], "Rate")
    done = await redrive(frontend, request)
    more = " There are more, which it has not come to: do it again." if done.more else ""
    return f"{done.done:,} of {done.looked_at:,} dead tasks run again.{more}"


def _retry_words(values: Values) -> list[str]:
    request = redrive_request(read_filter(values, 0), values["error"])
    times = {"--failed-from": request.failed_from_at_us, "--failed-until": request.failed_until_at_us}
    words = [word for flag, at_us in times.items() if at_us for word in (flag, instant(at_us))]
    words += [word for name, value in sorted(request.labels.items()) for word in ("--label", f"{name}={value}")]
    group = ["--group", request.failure_group] if request.failure_group else []
    return [
        "atf",
        "retry",
        *filter(None, [lambda_of(request)]),
        *group,
        *words,
        *(["--error", request.error] if request.error else []),
        "--yes",
    ]


ACTIONS: Final = (
    Action(
        "retry-matching",
        "Retry them all",
        "They run again, with all their attempts and the same arguments.",
        (*FILTERS, "error"),
        _retry_words,
        _retry,
        (FormField("rate", "A second", "--rate", "5; empty: all at once"), WHY),
    ),
)
