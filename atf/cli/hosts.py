"""Commands on worker hosts: ls, drain, resume."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from atf.client.judge import silent_for
from atf.client.whoami import whoami
from atf.rpc import api, frontend_pb2 as f
from atf.task import US
from atf.visible import one_line

from .json_values import message_json
from .nouns import Noun
from .options import asks, duration, lists, option, why_flag
from .output import show, show_rows, when
from .remote import ask


@click.group(cls=Noun)
def host() -> None:
    """The worker hosts that are alive; without a further word, list them."""


@host.command()
@lists
def ls() -> None:
    """List the worker hosts that are alive: their pools, why no executor can start there, the lambdas that they quarantine since executors died
    there one after the other, and which signatures they run of lambdas of which live executors run several, as during a rolling deploy.
    """
    reply = ask(lambda stub: stub.list_hosts(f.ListHostsRequest()))
    columns: dict[str, str | Callable[[f.WorkerHost], object]] = {
        "host": "name",
        "pool": "pool",
        "executors": "executors",
        "state": lambda each: silent_for(each, reply.now_us) or _state(each),
        "quarantined": lambda each: _quarantined(each, reply.now_us),
    }
    if any(each.signatures for each in reply.hosts):
        columns["signatures that differ"] = lambda each: ", ".join(
            f"{getattr(one, 'lambda')} {' '.join(one.digests)}" for one in each.signatures
        )
    show_rows(reply.hosts, _json, columns)


def _json(host: f.WorkerHost) -> dict[str, Any]:
    return {
        **message_json(host, "name pool executors draining drain_until_us starting why_not"),
        "drain_until_us": host.drain_until_us or None,
        "quarantined": {_name(one): one.until_us for one in host.quarantined},
        "signatures": {getattr(one, "lambda"): list(one.digests) for one in host.signatures},
    }


@host.command()
@click.argument("name", metavar="HOST")
@option("--for", "T", "It takes tasks again after this long.  [default: when it is resumed]", duration, name="for_")
@click.option("--wait", is_flag=True, help="Return when all its executors have ended.")
@why_flag
@asks
def drain(name: str, for_: float | None, wait: bool, why: str) -> None:
    """Have HOST take no more tasks: its executors finish what they have started, and end. It holds whatever restarts meanwhile.

    How long that takes is up to the longest task and the executors' drain_timeout; --wait returns when all have ended. `atf host resume` ends it.
    """
    for_us = None if for_ is None else round(for_ * US)
    request = f.DrainHostRequest(host=name, for_us=for_us, who=whoami(), why=why)
    ask(lambda stub: stub.drain_host(request))
    while wait and ask(lambda stub: _executors(stub, name)):
        time.sleep(1)
    said = "has drained: no executor runs there" if wait else "drains; atf host shows its executors"
    show({"host": name, "draining": True}, f"{name} {said}")


@host.command()
@click.argument("name", metavar="HOST")
@why_flag
@asks
def resume(name: str, why: str) -> None:
    """Have HOST, which drains, take tasks again."""
    request = f.DrainHostRequest(host=name, resume=True, who=whoami(), why=why)
    ask(lambda stub: stub.drain_host(request))
    show({"host": name, "draining": False}, f"{name} takes tasks again")


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


def _quarantined(host: f.WorkerHost, now_us: int) -> str:
    said = []
    for each in host.quarantined:
        left = (each.until_us - now_us) / US
        said.append(f"{_name(each)} ({f'for {left:.1f} s' if left > 0 else 'a task is tried'})")
    return ", ".join(said)


def _name(one: f.QuarantinedLambda) -> str:
    name: str = getattr(one, "lambda")
    return "everything" if name == "*" else name
