"""`atf status`: the whole cluster on one screen, and by one exit code whether anything is wrong."""

from __future__ import annotations

import sys
import time
from typing import Final

import click

from atf.client.judge import StatusLine, judge
from atf.errors import AtfError
from atf.exits import EXIT_FAILED, EXIT_OK
from atf.rpc import frontend_pb2 as f
from atf.task import US
from atf.times import length
from atf.visible import one_line

from .budgets import burning
from .json_values import message_json, print_json
from .options import asks, duration, option, wants_json
from .remote import ask
from .slo import budgets_now

_BUDGETS_S: Final = 1.0
"""Seconds that metrics may take to answer; without them the rest is shown."""
_SHOWN: Final = 20
"""Lines of a section, such as hosts or lambdas; the others are counted."""


@click.command()
@option("--late", "T", "A task that is due waits too long after this.", duration, default="5m", show_default=True)
@option("--recent", "T", "Failures of this time count as wrong; 0: none do.", duration, default="1h", show_default=True)
@click.option("--watch", is_flag=True, help="Show it again every two seconds, until Ctrl-C.")
@asks
def status(late: float, recent: float, watch: bool) -> int:
    """Show how the whole cluster stands: the store, roles, hosts, what waits, what failed. "!" stands before what is wrong,
    "?" before what is worth a look.

    Exits with 0 where all is well, with 1 where something is wrong, and with 4 where no frontend answers, or the one that does can't
    reach the store. Wrong is: a server that roles do not work with or that is nearly full; no live store consumer, HSC or controller; a host
    that quarantines lambdas, or on which no executor can start; tasks that wait longer than --late and are not kept on purpose, or that nobody
    runs; a host that has been silent for 15 s; failures within --recent; jobs that nobody runs; error budgets that go
    as fast as an alert would have it, where `atf slo` can tell. Worth a look is, and changes no exit code:
    a lambda that is paused or has a gate while its tasks have been due for a minute; one whose tasks are mostly to be retried; an error budget that
    is gone since the processes started.
    """
    while True:
        code = EXIT_FAILED
        try:
            code = _once(late, recent, clear=watch and sys.stdout.isatty())
        except AtfError as error:
            if not watch:
                raise
            print(one_line(f"! {error}"), flush=True)
        if not watch:
            return code
        time.sleep(2)


def _once(late: float, recent: float, *, clear: bool) -> int:
    request = f.GetStatusRequest(recent_us=round(recent * US))
    found = ask(lambda stub: stub.get_status(request))
    sections = judge(found, round(late * US), length(round(recent * US))) | {"promises": _promises()}
    every = [line for lines in sections.values() for line in lines]
    wrong, look = [line for line in every if line.wrong], [line for line in every if line.look and not line.wrong]
    if wants_json():
        told = {"wrong": [str(line) for line in wrong], "look": [str(line) for line in look]}
        print_json({"well": not wrong, **told, **message_json(found)})
        return EXIT_FAILED if wrong else EXIT_OK
    if clear:
        click.clear()
    shown = [line for name, lines in sections.items() for line in _cut(name, lines)]
    width = max(len(line.about) for line in shown)
    for line in shown:
        print(one_line(f"{_mark(line)} {line.about:<{width}}  {line.text}"))
    said = [f"{len(wrong)} wrong"] * bool(wrong) + [f"{len(look)} worth a look"] * bool(look)
    print(", ".join(said) or "all is well", end="")
    print(
        "; failed tasks and why: atf ls --status dead" if any(each.dead for each in found.lambdas) else "", flush=True
    )
    return EXIT_FAILED if wrong else EXIT_OK


def _mark(line: StatusLine) -> str:
    return "!" if line.wrong else "?" if line.look else " "


def _promises() -> list[StatusLine]:
    """Error budgets that go too fast, where `atf slo` can tell."""
    lines = []
    for each in budgets_now(_BUDGETS_S):
        if said := burning(each):
            now = "start" not in each.burn  # else it may have been last week
            command = "atf slo" if each.of == "Schedule" else f"atf slo {each.of}"
            lines.append(StatusLine("promises", f"{each.of}: {said} ({command})", wrong=now, look=not now))
    return lines


def _cut(section: str, lines: list[StatusLine]) -> list[StatusLine]:
    """What of a section fits on a screen: the first line, then what is wrong, what is worth a look, and the others."""
    ordered = lines[:1] + sorted(lines[1:], key=lambda line: (not line.wrong, not line.look))
    rest = ordered[_SHOWN:]
    wrong = sum(line.wrong for line in rest)
    said = f"and {len(rest)} more" + (f", {wrong} of them wrong" if wrong else "")
    return [*ordered[:_SHOWN], *([StatusLine(section, said, wrong > 0)] if rest else [])]
