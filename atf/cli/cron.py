"""`atf cron next`: when a job would fire, from the words of a command line. It needs no cluster; the arithmetic is atf/schedule's."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

import click

from atf.errors import InvalidArgument
from atf.exits import EXIT_BAD_INPUT, EXIT_OK
from atf.runtime import SystemRuntime
from atf.schedule.dst import Cron, TicksAroundChange, ticks_around_changes
from atf.schedule.instants import EPOCH, parse_instant, text_of
from atf.schedule.plan import UTC, Plan
from atf.schedule.refusal import GivenText
from atf.schedule.zones import offset_s
from atf.task import US
from atf.times import length
from atf.visible import visible

from .json_values import print_json
from .options import as_json, no_header, option, refuse_unused, wants_json
from .output import print_table

MAX_COUNT: Final = 10_000
MAX_AROUND: Final = 100
"""Of ticks on each side of a change: up to sixty times as many are passed to find them."""


@click.group()
def cron() -> None:
    """Preview when a recurring job would fire, without a cluster."""


@cron.command("next")
@click.argument("schedule", required=False)
@option("--due-time", "T", "The first fire: an instant, or a duration after --from.")
@option("--ttl", "T", "Fire until then: an instant, or a duration after the due time, else after --from.")
@option("--repeats", "N", "Fire so often at most.")
@option("--tz", "ZONE", "By whose clocks, such as Europe/Paris.  [default: the schedule's TZ=, or UTC]")
@option("--from", "INSTANT", "When the job is registered.  [default: now]", name="base")
@option("--count", "N", "How many fires to show.  [default: 5; 3 on each side with --around-dst]")
@option("--format", "unix", "The schedule is a crontab's: five fields, minutes first.")
@option("--gap", "POLICY", "Of hours that clocks pass over: skip or run_after.  [default: skip]")
@option("--fold", "POLICY", "Of hours that come twice: first, second or both.  [default: both]")
@click.option(
    "--around-dst", is_flag=True, help="Show the ticks around the changes of the clocks in the year of --from."
)
@as_json
@no_header
def next_command(base: str | None, count: str | None, around_dst: bool, **fields: Any) -> int:
    """Show when a job with SCHEDULE would fire next.

    SCHEDULE has six fields, seconds first, or is @daily, @every 1h30m, or a reminder's period such as R4/PT3S.

    \b
    atf cron next "0 30 8 * * MON-FRI" --tz Europe/Paris
    atf cron next "@every 90m" --due-time 2030-01-31T08:00:00Z --ttl 12h
    atf cron next "0 30 2 * * *" --tz America/New_York --gap run_after --around-dst
    """
    try:
        fields["repeats"] = _number("repeats", fields["repeats"])
        base_us = SystemRuntime().wall_us() if base is None else parse_instant(GivenText("from", base))
        plan = Plan.parse(base_us=base_us, **fields)
        shown = _number("count", count, MAX_COUNT if not around_dst else MAX_AROUND)
        if around_dst:
            refuse_unused(fields, ("due_time", "ttl", "repeats"), "with --around-dst")
            _show_changes(plan, shown or 3, fields["schedule"] or "")
        else:
            _show_fires(plan, shown or 5, fields)
    except InvalidArgument as error:  # its second and third line show the place
        if wants_json():
            print_json({"error": str(error)})
        else:
            print(f"atf: {visible(str(error))}", file=sys.stderr)
        return EXIT_BAD_INPUT
    return EXIT_OK


def _show_fires(plan: Plan, count: int, fields: dict[str, Any]) -> None:
    ticks = list(islice(plan, count))
    if wants_json():
        print_json({"next": [text_of(tick) for tick in ticks]})
        return
    if not ticks:
        _say_why(plan, fields)
        return
    print_table([*_clocks(plan), "wait"], [[*_when(plan, tick), _wait(tick - plan.base_us)] for tick in ticks])
    if len(ticks) < count:
        print("then it has ended", file=sys.stderr)


def _say_why(plan: Plan, fields: dict[str, Any]) -> None:
    """Why there is no fire at all: what would be answered to a registration."""
    try:
        Plan.parse(base_us=plan.base_us, strict=True, **fields)
    except InvalidArgument as error:
        print(f"it never fires: {visible(str(error))}", file=sys.stderr)


def _show_changes(plan: Plan, count: int, schedule: str) -> None:
    if not isinstance(plan.schedule, Cron):
        mend = "give a cron expression or a macro with --around-dst"
        raise GivenText("schedule", schedule).refuse(0, "changes of the clocks do not matter to it", mend)
    found = ticks_around_changes(plan.schedule, plan.base_us, count)
    if wants_json():
        ticks = (tick for each in found for tick in each.before_us + each.after_us)
        print_json({"next": [text_of(tick) for tick in ticks], "changes": [_change_json(each) for each in found]})
        return
    if not found:
        print(f"{plan.schedule.zone.key}: the clocks are not changed in that year", file=sys.stderr)
        return
    rows = []
    for each in found:
        rows += [[*_when(plan, tick), ""] for tick in each.before_us]
        rows.append([*_when(plan, each.change.at_s * US), f"set {_moved(each)}"])
        rows += [[*_when(plan, tick), ""] for tick in each.after_us]
    print_table([*_clocks(plan), "clocks"], rows)


def _change_json(each: TicksAroundChange) -> dict[str, Any]:
    change = each.change
    return {
        "at": text_of(change.at_s * US),
        "offset_before_s": change.before_s,
        "offset_after_s": change.after_s,
        "before": [text_of(tick) for tick in each.before_us],
        "after": [text_of(tick) for tick in each.after_us],
    }


def _moved(each: TicksAroundChange) -> str:
    seconds = each.change.after_s - each.change.before_s
    return f"{'forward' if seconds > 0 else 'back'} by {length(abs(seconds) * US)}"


def _clocks(plan: Plan) -> list[str]:
    """The columns that `_when` fills."""
    named = isinstance(plan.schedule, Cron) and plan.schedule.zone is not UTC
    return ["local time", "UTC"] if named else ["UTC"]


def _when(plan: Plan, at_us: int) -> list[str]:
    """An instant by the clocks of the schedule's zone, if it has one, and in UTC."""
    if not isinstance(plan.schedule, Cron) or plan.schedule.zone is UTC:
        return [text_of(at_us)]
    offset = offset_s(plan.schedule.zone, at_us // US)
    local: datetime = EPOCH + timedelta(microseconds=at_us, seconds=offset)
    hours, minutes = divmod(abs(offset) // 60, 60)
    sign = "-" if offset < 0 else "+"
    return [f"{local:%a} {local.isoformat(' ')} {sign}{hours:02}:{minutes:02}", text_of(at_us)]


def _wait(us: int) -> str:
    return f"{length(-us)} ago" if us < 0 else f"in {length(us)}"


def _number(field: str, text: str | None, most: int | None = None) -> int | None:
    """The whole number that a flag gives."""
    if text is None:
        return None
    given = GivenText(field, text).checked(32)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise given.refuse(0, "it is no whole number", "write such as 3")
    if most is not None and not 1 <= int(text) <= most:
        raise given.refuse(0, f"it is {'under 1' if int(text) < 1 else f'over {most}'}", f"give 1 to {most}")
    return int(text)
