"""Commands on the cores of worker pools: capacity (set, show, ls)."""

from __future__ import annotations

from typing import Any

import click

from atf.client.whoami import signed, whoami
from atf.rpc import frontend_pb2 as f
from atf.task import DEFAULT_POOL, US
from atf.visible import one_line

from .json_values import message_json, print_json
from .nouns import Noun
from .options import duration, lists, option, wants_json, why_flag
from .output import print_table, show_rows
from .remote import ask


@click.group(cls=Noun)
def capacity() -> None:
    """The cores of worker pools: equal shares of their executors, lambdas' own (reserved) or shared in turns (multiplexed). No pool has any unless they are set."""


def _seconds(_context: click.Context, _parameter: click.Parameter, given: str | None) -> int | None:
    return None if given is None else round(duration(given) * US)


def _reserve(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for each in given:
        name, _, count = each.partition("=")
        if not count.isascii() or not count.isdigit() or len(count) > 4:
            raise click.BadParameter(f"{each[:80]!r}: write LAMBDA=CORES, such as photos/thumbnail=2, or =0 for none")
        found[name] = int(count)
    return found


@capacity.command("set")
@click.argument("pool", metavar="POOL")
@option("--cores", "N", "Equal shares of the pool's executors; 0: none any more.", int)
@option("--reserve", "LAMBDA=N", "Cores of its own; several are allowed.", multiple=True, callback=_reserve)
@option("--lookahead", "N", "Core claims that may wait for one core; default 3.", int)
@option("--max-retries", "N", "Hand-overs of one core claim that may fail; default 3.", int)
@option("--hand-over", "TIME", "Until a hand-over has failed; default 1s.", callback=_seconds)
@option(
    "--reserved-timeout",
    "TIME",
    "Until a turn on a reserved core counts as timed out; its owner keeps it. Default 60s.",
    callback=_seconds,
)
@option("--multiplexed-timeout", "TIME", "A turn on a multiplexed core; default 1s.", callback=_seconds)
@option("--rotation", "TIME", "Between two rotations: several times the longest task; default 10s.", callback=_seconds)
@why_flag
@lists
def set_(pool: str, why: str, **given: Any) -> None:
    """Set the cores of POOL ("default": that of the hosts which were given none). What is not given stays; every claim is kept."""
    durations = {"hand_over", "reserved_timeout", "multiplexed_timeout", "rotation"}
    fields = {f"{name}_us" if name in durations else name: value for name, value in given.items()}
    try:
        request = f.SetCapacityRequest(pool=pool, **signed(whoami(), why), **fields)
    except ValueError:
        raise click.BadParameter("a number is too large: cores are at most 64") from None
    _print(ask(lambda stub: stub.set_capacity(request)))


@capacity.command()
@click.argument("pool", metavar="[POOL]", default=DEFAULT_POOL)
@lists
def show(pool: str) -> None:
    """Show whose turn it is on each core of POOL, who comes next, who waits, and which group of executors is where."""
    _print(ask(lambda stub: stub.get_capacity(f.GetCapacityRequest(pool=pool))))


@capacity.command()
@lists
def ls() -> None:
    """List the pools that have cores."""
    show_rows(ask(lambda stub: stub.list_capacity(f.ListCapacityRequest())).pools, str, {"pool": str})


def _print(found: f.Capacity) -> None:
    if wants_json():
        print_json(_json(found))
    elif not found.cores:
        print(one_line(f"the pool {found.pool} has no cores: its executors run whatever comes"))
    else:
        _print_tables(found)


def _print_tables(found: f.Capacity) -> None:
    now = found.now_us
    rows = [
        (
            number,
            "reserved" if core.reserved else "multiplexed",
            f.CoreState.Name(core.state).lower(),
            getattr(core, "lambda"),
            _in(core.until_us, now),
            core.next_up_on_available,
            core.next_up_on_time_out,
            f"{core.group} ({_size(found, core.group)} executors)",
        )
        for number, core in enumerate(found.cores)
    ]
    headings = ["core", "kind", "state", "lambda", "until", "next when it is done", "next when its time is up", "group"]
    print_table(headings, rows)
    for number, group in enumerate(found.groups):
        print(one_line(f"group {number}: {', '.join(group.executors) or 'nobody'}"))
    waiting = [f"{getattr(each, 'lambda')} (core {each.core})" for each in found.queue]
    waiting += [getattr(each, "lambda") for each in found.beyond]
    print(one_line(f"waiting: {', '.join(waiting) or 'nobody'}"))
    print(one_line(f"rotation {found.rotation}; the next one {_in(found.next_rotation_at_us, now)}"))
    print(one_line(_settings(found)))
    for name in found.away:
        idle = f"{name} does not run in this pool, and its reserved cores ({found.reserved[name]}) stand idle"
        print(one_line(f"{idle}: atf capacity set {found.pool} --reserve {name}=0"))


def _settings(found: f.Capacity) -> str:
    """By the names of `atf capacity set`."""
    seconds = {
        "hand-over": found.hand_over_us,
        "reserved-timeout": found.reserved_timeout_us,
        "multiplexed-timeout": found.multiplexed_timeout_us,
        "rotation": found.rotation_us,
    }
    said = ", ".join(f"{name} {us / US:g} s" for name, us in seconds.items())
    return f"settings: lookahead {found.lookahead}, max-retries {found.max_retries}, {said}"


def _size(found: f.Capacity, group: int) -> int:
    return len(found.groups[group].executors) if group < len(found.groups) else 0


def _in(at_us: int, now_us: int) -> str:
    return f"in {max(at_us - now_us, 0) / US:.1f} s" if at_us else ""


def _json(found: f.Capacity) -> dict[str, Any]:
    cores = [_core_json(number, core) for number, core in enumerate(found.cores)]
    queue = {
        name: [message_json(each, "lambda core retries") for each in getattr(found, name)]
        for name in ("queue", "beyond")
    }
    return {
        "pool": found.pool,
        "cores": cores,
        "scheduled": [each for each in cores if each["state"] == "SCHEDULED"],
        "occupied": [each for each in cores if each["state"] == "OCCUPIED"],
        "groups": [list(each.executors) for each in found.groups],
        **queue,
        **message_json(
            found, "reserved away lookahead max_retries hand_over_us reserved_timeout_us multiplexed_timeout_us"
        ),
        **message_json(found, "rotation_us rotation rotated_at_us next_rotation_at_us now_us dropped timed_out"),
    }


def _core_json(number: int, core: f.Core) -> dict[str, Any]:
    names = "state lambda reserved group since_us until_us retries next_up_on_available next_up_on_time_out"
    return {"core": number, **message_json(core, names), "state": f.CoreState.Name(core.state)}
