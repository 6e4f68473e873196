"""Commands on worker hosts: ls."""

from __future__ import annotations

import click

from atf.rpc import frontend_pb2 as f
from atf.task import US

from .nouns import Noun
from .options import as_json, frontend_flag, no_header
from .output import print_json, print_table
from .remote import ask


@click.group(cls=Noun)
def host() -> None:
    """The worker hosts that are alive; without a further word, list them."""


@host.command()
@frontend_flag
@as_json
@no_header
def ls(frontend: str | None, as_json: bool) -> None:
    """List the worker hosts that are alive: their pools, the lambdas that they set aside since executors died there one after the other, and
    which signatures they run of lambdas of which live executors run several, as during a rolling deploy.
    """
    reply = ask(frontend, lambda stub: stub.list_hosts(f.ListHostsRequest()))
    if as_json:
        print_json(
            [
                {
                    "name": each.name,
                    "pool": each.pool,
                    "aside": {_name(one): one.until_us for one in each.aside},
                    "signatures": {getattr(one, "lambda"): list(one.digests) for one in each.signatures},
                }
                for each in reply.hosts
            ]
        )
    else:
        rows = [[each.name, each.pool, _aside(each, reply.now_us)] for each in reply.hosts]
        columns = ["host", "pool", "set aside"]
        if any(each.signatures for each in reply.hosts):
            columns.append("signatures that differ")
            for row, each in zip(rows, reply.hosts, strict=True):
                row.append(_signatures(each))
        print_table(columns, rows)


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
