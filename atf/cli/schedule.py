"""`atf schedule`: a task from the words of a command line."""

from __future__ import annotations

import sys
from typing import Any

import click

from atf.durability import Durability
from atf.errors import InvalidArgument
from atf.exits import EXIT_OK
from atf.rpc import api, frontend_pb2 as f
from atf.task import MAX_CONCURRENCY
from atf.visible import one_line

from .encryption import encrypted_task
from .json_values import message_json
from .options import asks, duration, lambda_argument, option, wants_json
from .output import show
from .remote import ask
from .task_request import arguments_flags, build_request, fit
from .task_view import show_task
from .tasks import code_of, wait_for


@click.command()
@lambda_argument
@arguments_flags
@option("--raw", "FILE", "Send the bytes of a file as they are; - reads stdin.")
@click.option("--delay", type=duration, help="Run after this long: seconds, or 500ms, 30s, 5m, 2h, 1d.")
@option("--at", "TIME", "Run at this instant, such as 2030-01-31T08:00 (local time) or ...08:00Z.")
@option("--priority", "P", "high, normal, low, or 0 (first) to 9.  [default: the lambda's]")
@option("--key", "KEY", "Idempotency key: scheduling the same again with it does nothing.")
@option("--ordering-key", "NAME", "Tasks of one key run one after the other, in the order they were accepted.")
@option("--affinity-key", "NAME", "Of a sticky lambda: prefer the host that had its last task.")
@option("--concurrency-key", "NAME", "Of the tasks of one key, one runs at a time; or as many as the limit says.")
@option("--concurrency-limit", "N", "So many run at once.  [default: 1]", click.IntRange(1, MAX_CONCURRENCY))
@click.option(
    "--concurrency-policy", type=click.Choice(["queue", "skip", "cancel_running"]),
    help="Whether one that finds no room waits, is cancelled, or waits and has the oldest stopped.  [default: queue]",
)  # fmt: skip
@option("--unique", "NAME", "One task of a key within a window: a second call finds the first one's.")
@click.option("--window", type=duration, help="The length of that window: seconds, or 500ms, 30s, 5m, 2h, 1d.")
@click.option("--debounce", is_flag=True, help="Put that task off until a window has passed without a call.")
@option(
    "--label", "NAME=VALUE", "A note on the task, never encrypted. May be given again.", name="labels", multiple=True
)
@option(
    "--max-attempts", "N", "Give up after this many attempts.  [default: the lambda's]", click.IntRange(1, 2**31 - 1)
)
@click.option("--timeout", type=duration, help="Stop a run after this long; 0: never.  [default: the lambda's]")
@option(
    "--durability",
    "CLASS",
    "Return when it is as safe as this: relaxed, disk or replicated.  [default: the frontend's]",
)
@click.option("--wait", is_flag=True, help="Wait for the end, and print the result.")
@click.option("--wait-timeout", type=duration, help="Wait at most this long, then exit with 4.")
@asks
def schedule(lambda_name: str, wait: bool, wait_timeout: float | None, **given: Any) -> int:
    """Schedule a task of LAMBDA (namespace/name) and print its id.

    \b
    atf schedule photos/thumbnail -a path=cat.jpg -a size=128
    atf schedule photos/thumbnail --payload '{"path": "cat.jpg"}' --delay 5m --priority low
    atf schedule photos/import --raw album.zip --wait
    """
    if wait_timeout is not None and not wait:
        raise InvalidArgument("--wait-timeout: of no use without --wait; give both, or neither")
    request = build_request(lambda_name, **given)

    async def work(stub: api.Frontend) -> f.ScheduleReply:
        await fit(stub, request.spec, given["arguments"])
        return await stub.schedule(encrypted_task(request))

    reply = ask(work)
    if not wait:
        met = Durability(reply.durability).word if reply.durability else ""
        show({**message_json(reply, "id existed scheduled_at_us"), "durability": met}, reply.id)
        return EXIT_OK
    if not wants_json():
        print(one_line(reply.id), file=sys.stderr)
    (task,) = wait_for([reply.id], wait_timeout)
    show_task(task)
    return code_of([task])
