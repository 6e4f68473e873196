"""Commands on worker hosts: ls, drain, resume."""

from __future__ import annotations

import time

import click

from atf.client.whoami import whoami
from atf.rpc import api
from atf.rpc import frontend_pb2 as f
from atf.task import US
from atf.visible import one_line

from .nouns import Noun
from .options import as_json, duration, frontend_flag, no_header, why_flag
from .output import print_json, print_table, when
from .remote import ask


@click.group(cls=Noun)
def host() -> None:
    """The worker hosts that are alive; without a further word, list them."""


@host.command()
@frontend_flag
@as_json
@no_header
def ls(frontend: str | None, as_json: bool) -> None:
    """List the worker hosts that are alive: their pools, why no executor can start there, the lambdas that they set aside since executors died
    there one after the other, and which signatures they run of lambdas of which live executors run several, as during a rolling deploy.
    """
    reply = ask(frontend, lambda stub: stub.list_hosts(f.ListHostsRequest()))
    if as_json:
        print_json(
            [
                {
                    "name": each.name,
                    "pool": each.pool,
                    "executors": each.executors,
                    "draining": each.draining,
                    "drain_until_us": each.drain_until_us or None,
                    "starting": each.starting,
                    "why_not": each.why_not,
                    "aside": {_name(one): one.until_us for one in each.aside},
                    "signatures": {getattr(one, "lambda"): list(one.digests) for one in each.signatures},
                }
                for each in reply.hosts
            ]
        )
    else:
        rows = [
            [each.name, each.pool, each.executors, _state(each), _aside(each, reply.now_us)] for each in reply.hosts
        ]
        columns = ["host", "pool", "executors", "state", "set aside"]
        if any(each.signatures for each in reply.hosts):
            columns.append("signatures that differ")
            for row, each in zip(rows, reply.hosts, strict=True):
                row.append(_signatures(each))
        print_table(columns, rows)


@host.command()
@click.argument("name", metavar="HOST")
@click.option(
    "--for",
    "for_",
    type=duration,
    metavar="T",
    help="It takes tasks again after this long.  [default: when it is resumed]",
)
@click.option("--wait", is_flag=True, help="Return when all its executors have ended.")
@why_flag
@frontend_flag
@as_json
def drain(name: str, for_: float | None, wait: bool, why: str, frontend: str | None, as_json: bool) -> None:
    """Have HOST take no more tasks: its executors finish what they have started, and end. It holds whatever restarts meanwhile.

    How long that takes is up to the longest task and the executors' drain_timeout; --wait returns when all have ended. `atf host resume` ends it.
    """
    for_us = None if for_ is None else round(for_ * US)
    request = f.DrainHostRequest(host=name, for_us=for_us, who=whoami(), why=why)
    ask(frontend, lambda stub: stub.drain_host(request))
    while wait and ask(frontend, lambda stub: _executors(stub, name)):
        time.sleep(1)
    if as_json:
        print_json({"host": name, "draining": True})
    else:
        print(
            one_line(
                f"{name} has drained: no executor runs there"
                if wait
                else f"{name} drains; atf host shows its executors"
            )
        )


@host.command()
@click.argument("name", metavar="HOST")
@why_flag
@frontend_flag
@as_json
def resume(name: str, why: str, frontend: str | None, as_json: bool) -> None:
    """Have HOST, which drains, take tasks again."""
    request = f.DrainHostRequest(host=name, resume=True, who=whoami(), why=why)
    ask(frontend, lambda stub: stub.drain_host(request))
    if as_json:
        print_json({"host": name, "draining": False})
    else:
        print(one_line(f"{name} takes tasks again"))


async def _executors(stub: api.Frontend, name: str) -> int:
    """How many run there; 0 also where the host is gone."""
    reply = await stub.list_hosts(f.ListHostsRequest())
    return sum(each.executors for each in reply.hosts if each.name == name)


def _state(host: f.WorkerHost) -> str:
    if host.why_not:
        return f"can't start: {one_line(host.why_not)}"
    if host.starting:
        return "starts"
    if not host.draining:
        return "takes tasks"
    word = "drains" if host.executors else "drained"
    return f"{word} until {when(host.drain_until_us)}" if host.drain_until_us else word


def _aside(host: f.WorkerHost, now_us: int) -> str:
    said = []
    for each in host.aside:
        left = (each.until_us - now_us) / US
        said.append(f"{_name(each)} ({f'for {left:.1f} s' if left > 0 else 'a task is tried'})")
    return ", ".join(said)


def _signatures(host: f.WorkerHost) -> str:
    return ", ".join(f"{getattr(each, 'lambda')} {' '.join(each.digests)}" for each in host.signatures)


def _name(aside: f.SetAside) -> str:
    name: str = getattr(aside, "lambda")
    return "everything" if name == "*" else name
