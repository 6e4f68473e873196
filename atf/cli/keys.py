"""Commands on keys: ls, resume, skip."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import click

from atf.errors import InvalidArgument, NotFound
from atf.rpc import api
from atf.rpc import frontend_pb2 as f
from atf.task import MAX_BATCH
from atf.visible import one_line

from .options import as_json, frontend_flag
from .output import print_json, print_table, when
from .remote import ask

lambda_argument = click.argument("lambda_name", metavar="LAMBDA")
keys_argument = click.argument("names", metavar="KEY...", nargs=-1)
every_flag = click.option("--all", "every", is_flag=True, help="All keys of LAMBDA that have stopped.")


@click.group()
def keys() -> None:
    """Ordering keys that have stopped at a task which failed for good, as their lambda asks for it; and busy concurrency keys."""


@keys.command("ls")
@lambda_argument
@click.argument("key", metavar="[KEY]", required=False)
@click.option("--concurrency", is_flag=True, help="Concurrency keys: those for which tasks wait, or KEY.")
@frontend_flag
@as_json
def ls(lambda_name: str, key: str | None, concurrency: bool, frontend: str | None, as_json: bool) -> None:
    """List the ordering keys of LAMBDA that have stopped; or KEY, as it stands."""
    if concurrency:
        busy = ask(frontend, lambda stub: _find_busy(stub, lambda_name, key or ""))
        if as_json:
            print_json([_busy_json(each) for each in busy])
        else:
            lines = [(each.key, f"{each.taken} of {each.limit}", each.waiting) for each in busy]
            print_table(["key", "slots taken", "waiting"], lines)
        return
    found = ask(frontend, lambda stub: _find(stub, lambda_name, key or ""))
    if as_json:
        print_json([_json(each) for each in found])
        return
    rows = [
        (
            each.key,
            f"stopped {when(each.stopped_at_us)}" if each.stopped else "goes on",
            each.task_id,
            each.unfinished,
            each.error.partition("\n")[0],
        )
        for each in found
    ]
    print_table(["key", "", "at task", "unfinished", "error"], rows)


@keys.command()
@lambda_argument
@keys_argument
@every_flag
@frontend_flag
@as_json
def resume(lambda_name: str, names: tuple[str, ...], every: bool, frontend: str | None, as_json: bool) -> None:
    """Run the task that stopped a key again, with all its attempts; the key's other tasks follow it in their order."""

    async def mend(stub: api.Frontend, info: f.KeyInfo) -> bool:
        request = f.ResumeKeyRequest(key=info.key, task_id=info.task_id, **{"lambda": lambda_name})
        return (await stub.resume_key(request)).retried

    done = ask(frontend, lambda stub: _mend(stub, lambda_name, names, every, mend))
    _print_mended(done, "resumed", "goes on without it: it can't run again", as_json)


@keys.command()
@lambda_argument
@keys_argument
@every_flag
@frontend_flag
@as_json
def skip(lambda_name: str, names: tuple[str, ...], every: bool, frontend: str | None, as_json: bool) -> None:
    """Leave the task that stopped a key where it is, a dead letter; the key's other tasks go on in their order."""

    async def mend(stub: api.Frontend, info: f.KeyInfo) -> bool:
        await stub.skip_key(f.SkipKeyRequest(key=info.key, task_id=info.task_id, **{"lambda": lambda_name}))
        return True

    done = ask(frontend, lambda stub: _mend(stub, lambda_name, names, every, mend))
    _print_mended(done, "skipped", "", as_json)


async def _find(stub: api.Frontend, lambda_name: str, key: str) -> list[f.KeyInfo]:
    found: list[f.KeyInfo] = []
    request = f.ListKeysRequest(key=key, page_size=MAX_BATCH, **{"lambda": lambda_name})
    while True:
        reply = await stub.list_keys(request)
        found += reply.keys
        request.page_token = reply.next_page_token
        if not request.page_token:
            return found


async def _find_busy(stub: api.Frontend, lambda_name: str, key: str) -> list[f.ConcurrencyKeyInfo]:
    found: dict[str, f.ConcurrencyKeyInfo] = {}  # one that a store consumer looked at meanwhile comes twice
    request = f.ListConcurrencyKeysRequest(key=key, page_size=MAX_BATCH, **{"lambda": lambda_name})
    while True:
        reply = await stub.list_concurrency_keys(request)
        found |= {each.key: each for each in reply.keys}
        request.page_token = reply.next_page_token
        if not request.page_token:
            return list(found.values())


Mend = Callable[[api.Frontend, f.KeyInfo], Awaitable[bool]]


async def _mend(
    stub: api.Frontend, lambda_name: str, names: tuple[str, ...], every: bool, mend: Mend
) -> list[tuple[f.KeyInfo, bool]]:
    """Has stopped keys go on; each is named with the task that stopped it, so that nothing is skipped that nobody has seen."""
    if bool(names) == every:
        raise InvalidArgument("name one or more keys, or give --all")
    if every:
        stopped = await _find(stub, lambda_name, "")
    else:
        stopped = [each for name in names for each in await _find(stub, lambda_name, name) if each.stopped]
    missing = set(names) - {each.key for each in stopped}
    if missing:
        raise NotFound(f"not stopped: {', '.join(sorted(missing))}; atf keys ls {lambda_name} lists the keys that are")
    return [(each, await mend(stub, each)) for each in stopped]


def _print_mended(done: list[tuple[f.KeyInfo, bool]], word: str, otherwise: str, as_json: bool) -> None:
    if as_json:
        print_json([{"key": info.key, "task": info.task_id, word: well} for info, well in done])
        return
    for info, well in done:
        print(one_line(f"{info.key}: task {info.task_id} {word if well else otherwise}"))


def _json(info: f.KeyInfo) -> dict[str, Any]:
    return {
        "key": info.key,
        "stopped": info.stopped,
        "stopped_at_us": info.stopped_at_us,
        "task": info.task_id,
        "unfinished": info.unfinished,
        "error": info.error,
    }


def _busy_json(info: f.ConcurrencyKeyInfo) -> dict[str, Any]:
    return {"key": info.key, "taken": info.taken, "limit": info.limit, "waiting": info.waiting}
