"""Commands on tasks that exist: get, ls, count, wait, explain."""

from __future__ import annotations

import functools
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import click

from atf.client import AsyncClient
from atf.client.registration import listed
from atf.client.retrying import LATE, TRY_TIMEOUT
from atf.errors import DeadlineExceeded, InvalidArgument, TaskNotFound, Unavailable
from atf.exits import EXIT_FAILED, EXIT_OK
from atf.process.streams import protect_stdout
from atf.rpc import api, frontend_pb2 as f, task_pb2 as t
from atf.sdk.failure import summary_of
from atf.sdk.messages import of_lambda
from atf.task import MAX_BATCH, WORDS, Status, check_lambda
from atf.visible import one_line

from .encryption import codec_keys_flag, decrypt
from .json_values import message_json
from .options import any_lambda_argument, asks, duration, limit_flag, lists, wants_json
from .output import show, show_rows, when
from .remote import ask
from .task_filter import FLAGS, filter_flags, retry_words, task_filter
from .task_view import show_task, status_name, task_json, waits_json, waits_text

_CANDIDATES: Final = 10
"""Tasks of a lambda of which one that still waits is explained."""
_PAGES: Final = 20
"""Pages that one command asks for where few of the tasks match."""
_IN_YEAR = slice(len("2026-"), len("2026-01-31 12:00:00"))
_Shown = tuple[t.Task, int, Sequence[f.WaitPart]]
"""What show_task takes."""
_COUNTED: Final = ("waiting", "running", "dead", "done", "cancelled")
"""Words that together mean every task once."""
Columns = dict[str, Callable[[t.Task], Any]]
_COLUMNS: Final[Columns] = {
    "task": lambda task: task.id,
    "lambda": lambda task: getattr(task, "lambda"),
    "status": lambda task: status_name(task.status),
    "attempts": lambda task: task.attempts,
    "scheduled for": lambda task: when(task.scheduled_at_us),
    "finished": lambda task: when(task.finished_at_us),
    "error": lambda task: summary_of(task.error),
}


@click.command()
@click.argument("task_id", metavar="TASK|LAMBDA")
@codec_keys_flag
@asks
def get(task_id: str, codec_keys: str | None) -> None:
    """Show one task: where it stands, its runs, its result or error. Of LAMBDA: the task that failed for good last."""
    of_lambda = "/" in task_id
    if of_lambda:
        check_lambda(task_id)
    task, of_failed, waits = ask(lambda stub: _last_failed(stub, task_id) if of_lambda else _get(stub, task_id))
    decrypt(codec_keys, task)
    show_task(task, of_failed, waits)


async def _get(stub: api.Frontend, task_id: str, of_failed: int = 0) -> _Shown:
    task = await stub.get_task(f.GetTaskRequest(id=task_id, with_spec=True))
    explained = await stub.explain_task(f.ExplainTaskRequest(id=task_id))
    return task, of_failed, explained.waits


async def _last_failed(stub: api.Frontend, name: str) -> _Shown:
    """The task of a lambda that failed for good last, and of how many."""
    (info,) = (await listed(stub, name)).lambdas  # says whether there is such a lambda, and which are meant
    found = await stub.get_status(f.GetStatusRequest())
    for each in found.lambdas:
        if getattr(each, "lambda") == name and each.failed_id:
            return await _get(stub, each.failed_id, info.counts.get("FATAL_FAILURE", 0))
    raise TaskNotFound(f"no task of {name} has failed for good; atf ls {name} lists those that there are")


@click.command()
@any_lambda_argument
@filter_flags
@click.option("--oldest-first", is_flag=True, help="Begin with the oldest.")
@limit_flag
@lists
def ls(lambda_name: str, limit: int, oldest_first: bool, **flags: Any) -> None:
    """List tasks, newest first: of LAMBDA, of a namespace as NAME/*, or of all.

    Tasks are in the order in which they were made. With --status, finished tasks are in the order of their ends, others in that of their next instant.

    \b
    atf ls --status failed --since 1h
    atf ls shop/mail --status dead --error-type TimeoutError
    atf ls --search order_id=7
    """
    asked = task_filter(lambda_name, flags)
    found = ask(lambda stub: _list(stub, f.ListTasksRequest(filter=asked, oldest_first=oldest_first), limit))
    decrypt(flags["codec_keys"], *found.tasks)
    narrow = sys.stdout.isatty() and not wants_json()
    if not wants_json():
        _say_which(found, lambda_name, flags, limit)
    if found.tasks or not narrow:
        show_rows(found.tasks, task_json, _narrow(lambda_name, asked) if narrow else _COLUMNS)
    dead = [task for task in found.tasks if task.status == t.FATAL_FAILURE]
    if narrow and dead and list(asked.statuses) == [t.FATAL_FAILURE]:
        print(one_line(f"one of them in full: atf get {dead[0].id}"))
        print(one_line(f"run all again: {shlex.join(retry_words(lambda_name, flags))}"))


@click.command()
@any_lambda_argument
@lists
def count(lambda_name: str) -> None:
    """Count tasks: of LAMBDA, of a namespace as NAME/*, or of all. The numbers are exact, and a second old at most."""
    reply = ask(lambda stub: stub.count_tasks(f.CountTasksRequest(**of_lambda(lambda_name))))
    columns: dict[str, Callable[[f.LambdaCounts], Any]] = {"lambda": lambda each: getattr(each, "lambda")}
    columns |= {word: functools.partial(_counted, word) for word in _COUNTED}
    show_rows(reply.lambdas, lambda each: message_json(each, "lambda counts"), columns)


def _counted(word: str, each: f.LambdaCounts) -> int:
    return sum(each.counts.get(status.name, 0) for status in WORDS[word])


class _Found(NamedTuple):
    """What was listed."""

    tasks: list[t.Task]
    looked_at: int
    of: int
    more: bool  # they were not all looked at


async def _list(stub: api.Frontend, request: f.ListTasksRequest, limit: int) -> _Found:
    """As many pages as it takes, but for filters that few of very many tasks match."""
    tasks: list[t.Task] = []
    looked_at = of = 0
    for _ in range(_PAGES):
        request.page_size = min(limit - len(tasks), MAX_BATCH)
        page = await stub.list_tasks(request)
        tasks += page.tasks
        looked_at, of = looked_at + page.looked_at, page.of
        request.page_token = page.next_page_token
        if not request.page_token or len(tasks) >= limit:
            break
    return _Found(tasks, looked_at, of, bool(request.page_token))


def _say_which(found: _Found, lambda_name: str, flags: dict[str, Any], limit: int) -> None:
    """What the table does not say, on stderr."""
    if not found.tasks:
        others = any(value for name, value in flags.items() if name not in {"status", "codec_keys"})
        which = "matches" if others else f"is {flags['status'].lower()}" if flags["status"] else "is here"
        print(one_line(f"no task{f' of {lambda_name}' if lambda_name else ''} {which}"), file=sys.stderr)
    if len(found.tasks) >= limit:
        print(f"the first {limit}; --limit N shows more", file=sys.stderr)
    elif found.more:
        print(
            f"looked at {found.looked_at} of {found.of} tasks; --since or a lambda narrows that down", file=sys.stderr
        )


def _narrow(lambda_name: str, asked: f.TaskFilter) -> Columns:
    """For a screen of 80 columns: without what was asked for, which is the same in each row, and with one instant."""
    ended = bool(asked.statuses) and all(Status(each).finished for each in asked.statuses)
    instant = "finished" if ended else "scheduled for"
    one_lambda = lambda_name and not lambda_name.endswith("/*")
    names = ["task", *([] if one_lambda else ["lambda"]), *(["status"] if len(asked.statuses) != 1 else [])]
    made = _COLUMNS[instant]
    return {
        **{name: _COLUMNS[name] for name in names},
        instant: lambda task: made(task)[_IN_YEAR],
        "error": _COLUMNS["error"],
    }


@click.command()
@click.argument("ids", metavar="TASK...", nargs=-1, required=True)
@click.option("--timeout", type=duration, help="Wait at most this long, then exit with 4.  [default: for ever]")
@click.option("--any", "any_of", is_flag=True, help="Return when the first has finished, not when all have.")
@codec_keys_flag
@lists
def wait(ids: tuple[str, ...], timeout: float | None, any_of: bool, codec_keys: str | None) -> int:
    """Wait until tasks have finished; the exit code is 1 if one of them failed or was cancelled."""
    tasks = wait_for(ids, timeout, any_of=any_of)
    decrypt(codec_keys, *tasks)
    names = ("task", "status", "finished", "error")
    show_rows(tasks, task_json, {name: _COLUMNS[name] for name in names})
    return code_of(tasks)


def wait_for(ids: Sequence[str], timeout: float | None, *, any_of: bool = False) -> list[t.Task]:
    """The tasks once they have finished, in the order of their ids; with `any_of` those that finished first.

    Raises:
        DeadlineExceeded: `timeout` seconds went by before.
    """
    protect_stdout()  # the exit code says how they ended, whoever still reads
    if any_of and len(ids) > MAX_BATCH:
        raise InvalidArgument(f"--any takes at most {MAX_BATCH} tasks")
    return ask(lambda stub: _wait(stub, list(dict.fromkeys(ids)), timeout, any_of))


async def _wait(stub: api.Frontend, ids: list[str], timeout: float | None, any_of: bool) -> list[t.Task]:
    """By the SDK, which goes on while the frontend is away; whoever sits before it is told so at the beginning."""
    end = None if timeout is None else time.monotonic() + timeout
    first = TRY_TIMEOUT if timeout is None else min(TRY_TIMEOUT, max(timeout, LATE))
    try:
        await stub.wait_tasks(f.WaitTasksRequest(ids=ids[:MAX_BATCH], timeout_us=1), timeout=first)
    except (Unavailable, DeadlineExceeded) as error:
        print(f"atf: {one_line(str(error))}; it is asked again until it answers", file=sys.stderr, flush=True)
    found, away = {}, ""
    async with AsyncClient(frontend=stub) as client:
        left = None if end is None else max(0.0, end - time.monotonic())
        try:
            found = {task.id: task for task in await client.wait_tasks(ids, timeout=left, first=any_of)}
        except TimeoutError as error:
            away = f", and the frontend is away: {error.__cause__}"
    if len(found) < (1 if any_of else len(ids)):
        raise DeadlineExceeded(
            f"{len(ids) - len(found)} of {len(ids)} tasks had not finished after {timeout:g} s{away}"
        )
    return [found[each] for each in ids if each in found]


def code_of(tasks: Iterable[t.Task]) -> int:
    """The exit code that says how tasks finished."""
    return EXIT_OK if all(task.status == t.SUCCESS for task in tasks) else EXIT_FAILED


@click.command()
@click.argument("task_id", metavar="TASK|LAMBDA")
@codec_keys_flag
@asks
def explain(task_id: str, codec_keys: str | None) -> None:
    """Say why a task has not started, or what it does. Of LAMBDA: of one of its oldest tasks that wait now."""
    of_lambda = "/" in task_id
    if of_lambda:
        check_lambda(task_id)
    reply = ask(lambda stub: _explain_waiting(stub, task_id) if of_lambda else _explain(stub, task_id))
    decrypt(codec_keys, reply.task)
    fields = message_json(reply, "reason sentence until_us position queue_depth queue_limit behind now_us")
    waited = [f"It has waited: {text}."] if (text := waits_text(reply.waits)) else []
    which = [f"Task {reply.task.id}:"] if of_lambda else []
    show({"task": task_json(reply.task), **fields, "waits": waits_json(reply.waits)}, *which, reply.sentence, *waited)


async def _explain(stub: api.Frontend, task_id: str) -> f.ExplainTaskReply:
    return await stub.explain_task(f.ExplainTaskRequest(id=task_id))


async def _explain_waiting(stub: api.Frontend, name: str) -> f.ExplainTaskReply:
    """Of a task of a lambda that waits: some start between the list and the question."""
    await listed(stub, name)  # says whether there is such a lambda, and which are meant
    asked = task_filter(name, {**dict.fromkeys(FLAGS), "labels": (), "priority": (), "search": (), "status": "waiting"})
    page = await stub.list_tasks(f.ListTasksRequest(filter=asked, oldest_first=True, page_size=_CANDIDATES))
    for task in sorted(page.tasks, key=lambda task: task.scheduled_at_us):
        reply = await _explain(stub, task.id)
        if Status(reply.task.status) in WORDS["waiting"]:
            return reply
    raise TaskNotFound(f"no task of {name} waits now; atf ls {name} lists its tasks")
