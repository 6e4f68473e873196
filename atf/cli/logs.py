"""`atf logs`: what the runs of a task printed and logged, kept or as it comes."""

from __future__ import annotations

import sys
from contextlib import aclosing
from typing import Any

import click

from atf.client import AsyncClient
from atf.exits import EXIT_FAILED, EXIT_OK
from atf.rpc import api, frontend_pb2 as f, task_pb2 as t
from atf.visible import one_line, visible

from .encryption import codec_keys_flag, decrypted_log
from .json_values import message_json, print_json
from .options import asks, wants_json
from .remote import ask
from .task_view import status_name


@click.command()
@click.argument("task_id", metavar="TASK")
@click.option("--follow", "-f", is_flag=True, help="Go on until the task has ended; exit with 1 unless it succeeded.")
@codec_keys_flag
@asks
def logs(task_id: str, follow: bool, codec_keys: str | None) -> int:
    """Show what the runs of TASK printed and logged: the newest 16 KiB.

    Of which runs that is kept, the lambda says: @app.task(logs="failed"), which is the default, "all" or "none".
    """
    return ask(lambda stub: _follow(stub, task_id, codec_keys) if follow else _show(stub, task_id, codec_keys))


async def _show(stub: api.Frontend, task_id: str, codec_keys: str | None) -> int:
    reply = decrypted_log(task_id, await stub.get_log(f.GetLogRequest(id=task_id)), codec_keys)
    if wants_json():
        print_json(_json(reply))
        return EXIT_OK
    printed = LogPrinter()
    printed.show(reply)
    _say_why_none(reply)
    return EXIT_OK


async def _follow(stub: api.Frontend, task_id: str, codec_keys: str | None) -> int:
    printed, reply = LogPrinter(), f.GetLogReply()
    async with AsyncClient(frontend=stub, codec_keys=codec_keys) as client, aclosing(client.watch_log(task_id)) as seen:
        async for reply in seen:
            if not wants_json():
                printed.show(reply)
    if wants_json():
        print_json(_json(reply))
    else:
        _say_why_none(reply)
    return EXIT_OK if reply.status == t.SUCCESS else EXIT_FAILED


def _say_why_none(reply: f.GetLogReply) -> None:
    if not reply.runs:
        print(one_line(f"no log: {reply.why_none}"), file=sys.stderr)


class LogPrinter:
    """Prints of each run what has not been printed yet."""

    def __init__(self) -> None:
        self._printed: dict[int, int] = {}
        """By run: bytes of its log up to which it was printed, or was cut."""
        self._last = 0

    def show(self, reply: f.GetLogReply) -> None:
        """Prints what is new."""
        for run in reply.runs:
            data = run.text.encode()
            end, before = run.cut_bytes + len(data), self._printed.get(run.run, 0)
            if end <= before:
                continue
            if run.run != self._last:
                print(f"--- run {run.run}, attempt {run.attempt} ---")
                self._last = run.run
            if run.cut_bytes > before:
                print(f"… {run.cut_bytes - before:,} bytes are not kept …")
            print(visible(data[max(before - run.cut_bytes, 0) :].decode("utf-8", "ignore")), end="", flush=True)
            self._printed[run.run] = end


def _json(reply: f.GetLogReply) -> dict[str, Any]:
    runs = [message_json(each, "run attempt text cut_bytes") for each in reply.runs]
    return {"status": status_name(reply.status), "runs": runs, "why_none": reply.why_none}
