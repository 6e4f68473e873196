"""`atf status`: the whole cluster on one screen, and by one exit code whether anything is wrong."""

from __future__ import annotations

import sys
import time
from typing import Final, NamedTuple

import click
from google.protobuf.json_format import MessageToDict

from atf.errors import AtfError
from atf.exits import EXIT_FAILED, EXIT_OK
from atf.rpc import frontend_pb2 as f
from atf.task import US
from atf.times import length
from atf.visible import one_line

from .options import as_json, duration, frontend_flag
from .output import print_json
from .remote import ask

_FULL: Final = 0.9
"""The share of its memory from which a server counts as nearly full."""
_ROLES: Final = ("frontend", "store-consumer", "hsc", "controller")
_SHOWN: Final = 20
"""Lambdas and jobs that one line each is printed of; the others are counted."""
_MIB: Final = 1 << 20


class Line(NamedTuple):
    """A line of the screen."""

    about: str
    text: str
    wrong: bool = False


@click.command()
@click.option(
    "--late",
    type=duration,
    default="5m",
    show_default=True,
    metavar="T",
    help="A task that is due waits too long after this.",
)
@click.option(
    "--recent",
    type=duration,
    default="1h",
    show_default=True,
    metavar="T",
    help="Failures of this time count as wrong.",
)
@click.option("--watch", is_flag=True, help="Show it again every two seconds, until Ctrl-C.")
@frontend_flag
@as_json
def status(late: float, recent: float, watch: bool, frontend: str | None, as_json: bool) -> int:
    """Show how the whole cluster stands: the store, roles, hosts, what waits, what failed. "!" stands before what is wrong.

    Exits with 0 where all is well, with 1 where something is wrong, and with 4 where no frontend answers. Wrong is: a server that roles do
    not work with or that is nearly full; no live store consumer, HSC or controller; a host that sets lambdas aside; tasks that wait longer
    than --late and are not kept on purpose, or that nobody runs; failures within --recent; jobs that nobody runs.
    """
    while True:
        code = EXIT_FAILED
        try:
            code = _once(late, recent, frontend, as_json, clear=watch and sys.stdout.isatty())
        except AtfError as error:
            if not watch:
                raise
            print(one_line(f"! {error}"), flush=True)
        if not watch:
            return code
        time.sleep(2)


def _once(late: float, recent: float, frontend: str | None, as_json: bool, *, clear: bool) -> int:
    request = f.GetStatusRequest(recent_us=round(recent * US))
    found = ask(frontend, lambda stub: stub.get_status(request))
    lines = judge(found, round(late * US), length(round(recent * US)))
    wrong = [line for line in lines if line.wrong]
    if as_json:
        shown = MessageToDict(found, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
        print_json({"well": not wrong, "wrong": [f"{line.about}: {line.text}" for line in wrong], **shown})
        return EXIT_FAILED if wrong else EXIT_OK
    if clear:
        click.clear()
    width = max(len(line.about) for line in lines)
    for line in lines:
        print(one_line(f"{'!' if line.wrong else ' '} {line.about:<{width}}  {line.text}"))
    print(f"{len(wrong)} wrong" if wrong else "all is well", flush=True)
    return EXIT_FAILED if wrong else EXIT_OK


def judge(found: f.GetStatusReply, late_us: int, recent: str) -> list[Line]:
    """The lines of the screen.

    Args:
        found: what the frontend answered.
        late_us: how long a task that is due may wait.
        recent: how long ago a failure counts as recent, in words.
    """
    return [*_store(found), *_roles(found), *_hosts(found), *_lambdas(found, late_us, recent), *_jobs(found)]


def _store(found: f.GetStatusReply) -> list[Line]:
    lines = [_memory(each) for each in found.memory] or [Line("store", "its memory is not known")]
    lines += [Line("store", each.sentence, each.state == "refuse") for each in found.findings]
    if found.partitions_away:
        lines.append(Line("store", f"{found.partitions_away} of {found.partitions} partitions can't be reached", True))
    if found.claims_in_us:
        lines.append(
            Line("store", f"no task starts for {length(found.claims_in_us // US * US + US)}: claims are paused", True)
        )
    return lines


def _memory(each: f.StoreMemory) -> Line:
    used = f"{each.where}: {each.used_bytes / _MIB:,.0f} MiB"
    if not each.max_bytes:
        return Line("store", f"{used}, no bound set")
    share = each.used_bytes / each.max_bytes
    return Line("store", f"{used} of {each.max_bytes / _MIB:,.0f} MiB ({share:.0%})", share >= _FULL)


def _roles(found: f.GetStatusReply) -> list[Line]:
    lines = []
    for role in _ROLES:
        counts = {each.version: each.processes for each in found.roles if each.role == role}
        said = ", ".join(f"{number} of {version}" for version, number in sorted(counts.items()))
        lines.append(Line("roles", f"{role}: {said or 'none is alive'}", not counts))
    return lines


def _hosts(found: f.GetStatusReply) -> list[Line]:
    lines = []
    for each in found.hosts:
        aside = [f"{getattr(one, 'lambda')}".replace("*", "everything") for one in each.aside]
        said = f"{each.executors} executors" + (", drains" if each.draining else "")
        said += f", sets {', '.join(aside)} aside, since executors died there" if aside else ""
        lines.append(Line("hosts", f"{each.name} (pool {each.pool}): {said}", bool(aside)))
    return lines or [Line("hosts", "none is alive: no task runs", True)]


def _lambdas(found: f.GetStatusReply, late_us: int, recent: str) -> list[Line]:
    lines = [_lambda(each, found.now_us, late_us, recent) for each in found.lambdas]
    lines.sort(key=lambda line: not line.wrong)
    total = [sum(getattr(each, name) for each in found.lambdas) for name in ("waiting", "later", "running", "dead")]
    sum_of = "{} due, {} later, {} running, {} dead letters".format(*total)
    head = Line("lambdas", f"{found.lambdas_known} registered; {sum_of}")
    return [head, *lines[:_SHOWN], *_more("lambdas", lines)]


def _lambda(each: f.LambdaStatus, now_us: int, late_us: int, recent: str) -> Line:
    kept, said, wrong = each.paused or each.gated, [], False
    if each.paused:
        said.append("paused")
    elif each.gated:
        said.append("has a gate")
    if each.waiting:
        waits = max(now_us - each.due_since_us, 0) if each.due_since_us else 0
        said.append(f"{each.waiting} due, the first for {length(waits // US * US)}")
        wrong = not kept and waits > late_us
    if not each.served and (each.waiting or each.running):
        said.append("no live worker runs it")
        wrong = wrong or not kept
    if each.later:
        said.append(f"{each.later} later")
    if each.running:
        said.append(f"{each.running} running")
    if each.failed_recently:
        said.append(f"{each.failed_recently} failed within {recent}: atf get {each.failed_id}")
        wrong = True
    elif each.dead:
        said.append(f"{each.dead} dead letters: atf ls {getattr(each, 'lambda')} --status FATAL_FAILURE")
    return Line(getattr(each, "lambda"), ", ".join(said), wrong)


def _jobs(found: f.GetStatusReply) -> list[Line]:
    lines = [Line("job " + each.name, f"{each.why}: atf job rm {each.name} ends it", True) for each in found.jobs]
    more = [Line("jobs", "only the first 1,000 were looked at")] if found.more_jobs else []
    return [*lines[:_SHOWN], *_more("jobs", lines), *more]


def _more(about: str, lines: list[Line]) -> list[Line]:
    rest = lines[_SHOWN:]
    wrong = sum(line.wrong for line in rest)
    said = f"and {len(rest)} more" + (f", {wrong} of them wrong" if wrong else "")
    return [Line(about, said, wrong > 0)] if rest else []
