"""Commands on keys: ls, resume, skip."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import click

from atf.client.paging import pages
from atf.client.registration import every_lambda
from atf.errors import InvalidArgument, NotFound
from atf.rpc import api
from atf.rpc import frontend_pb2 as f
from atf.sdk.failure import summary_of
from atf.task import MAX_BATCH
from atf.visible import one_line

from .confirmation import bulk_flags, confirm
from .nouns import Noun
from .options import as_json, frontend_flag, no_header
from .output import print_json, print_table, when
from .remote import ask

lambda_argument = click.argument("lambda_name", metavar="LAMBDA")
keys_argument = click.argument("names", metavar="KEY...", nargs=-1)
every_flag = click.option("--all", "every", is_flag=True, help="All keys of LAMBDA that have stopped.")


@click.group(cls=Noun)
def key() -> None:
    """Ordering keys that have stopped at a task which failed for good, as their lambda asks for it; and busy concurrency keys."""


@key.command("ls")
@click.argument("lambda_name", metavar="[LAMBDA]", default="")
@click.argument("key", metavar="[KEY]", required=False)
@click.option("--concurrency", is_flag=True, help="Concurrency keys: those for which tasks wait, or KEY.")
@frontend_flag
@as_json
@no_header
def ls(lambda_name: str, key: str | None, concurrency: bool, frontend: str | None, as_json: bool) -> None:
    """List the ordering keys of LAMBDA, or of every lambda, that have stopped; or KEY, as it stands."""
    if concurrency and not lambda_name:
        raise InvalidArgument("--concurrency: name the lambda before it")
    if concurrency:
        busy = ask(frontend, lambda stub: _find_busy(stub, lambda_name, key or ""))
        if as_json:
            print_json([_busy_json(each) for each in busy])
        else:
            lines = [(each.key, f"{each.taken} of {each.limit}", each.waiting) for each in busy]
            print_table(["key", "slots taken", "waiting"], lines)
        return
    found = ask(frontend, lambda stub: _find_all(stub, lambda_name, key or ""))
    if as_json:
        print_json([{"lambda": of, **_json(each)} for of, each in found])
        return
    rows = [
        (
            of,
            each.key,
            f"stopped {when(each.stopped_at_us)}" if each.stopped else "goes on",
            each.task_id,
            each.unfinished,
            summary_of(each.error),
        )
        for of, each in found
    ]
    print_table(["lambda", "key", "state", "at task", "unfinished", "error"], rows)


@key.command()
@lambda_argument
@keys_argument
@every_flag
@bulk_flags
@frontend_flag
@as_json
def resume(
    lambda_name: str, names: tuple[str, ...], every: bool, dry_run: bool, yes: bool, frontend: str | None, as_json: bool
) -> None:
    """Run the task that stopped a key again, with all its attempts; the key's other tasks follow it in their order."""

    _agree("Resume", lambda_name, names, every, yes or dry_run)

    async def mend(stub: api.Frontend, info: f.KeyInfo) -> bool:
        if dry_run:
            return True
        request = f.ResumeKeyRequest(key=info.key, task_id=info.task_id, **{"lambda": lambda_name})
        return (await stub.resume_key(request)).retried

    done = ask(frontend, lambda stub: _go_on(stub, lambda_name, names, every, mend))
    _print_mended(done, "would be resumed" if dry_run else "resumed", "goes on without it: it can't run again", as_json)


@key.command()
@lambda_argument
@keys_argument
@every_flag
@bulk_flags
@frontend_flag
@as_json
def skip(
    lambda_name: str, names: tuple[str, ...], every: bool, dry_run: bool, yes: bool, frontend: str | None, as_json: bool
) -> None:
    """Leave the task that stopped a key where it is, a dead letter; the key's other tasks go on in their order."""

    _agree("Skip", lambda_name, names, every, yes or dry_run)

    async def mend(stub: api.Frontend, info: f.KeyInfo) -> bool:
        if dry_run:
            return True
        await stub.skip_key(f.SkipKeyRequest(key=info.key, task_id=info.task_id, **{"lambda": lambda_name}))
        return True

    done = ask(frontend, lambda stub: _go_on(stub, lambda_name, names, every, mend))
    _print_mended(done, "would be skipped" if dry_run else "skipped", "", as_json)


async def _find_all(stub: api.Frontend, lambda_name: str, key: str) -> list[tuple[str, f.KeyInfo]]:
    """Keys with their lambdas: of one, or of all whose keys may stop."""
    if lambda_name:
        return [(lambda_name, each) for each in await _find(stub, lambda_name, key)]
    known = await every_lambda(stub)
    names = [info.spec.name for info in known if info.in_force.stop_on_fatal or info.spec.stop_on_fatal]
    return [(name, each) for name in names for each in await _find(stub, name, "")]


async def _find(stub: api.Frontend, lambda_name: str, key: str) -> list[f.KeyInfo]:
    request = f.ListKeysRequest(key=key, page_size=MAX_BATCH, **{"lambda": lambda_name})
    return [each async for page in pages(stub.list_keys, request) for each in page.keys]


async def _find_busy(stub: api.Frontend, lambda_name: str, key: str) -> list[f.ConcurrencyKeyInfo]:
    request = f.ListConcurrencyKeysRequest(key=key, page_size=MAX_BATCH, **{"lambda": lambda_name})
    listing = pages(stub.list_concurrency_keys, request)
    found = {each.key: each async for page in listing for each in page.keys}
    return list(found.values())  # one that a store consumer looked at meanwhile comes twice


def _agree(verb: str, lambda_name: str, names: tuple[str, ...], every: bool, yes: bool) -> None:
    if bool(names) == every:
        raise InvalidArgument("name one or more keys, or give --all")
    if every or len(names) > 1:
        which = "all stopped keys" if every else f"{len(names)} keys"
        confirm(one_line(f"{verb} {which} of {lambda_name}"), yes=yes)


Mend = Callable[[api.Frontend, f.KeyInfo], Awaitable[bool]]


async def _go_on(
    stub: api.Frontend, lambda_name: str, names: tuple[str, ...], every: bool, mend: Mend
) -> list[tuple[f.KeyInfo, bool]]:
    """Has stopped keys go on; each is named with the task that stopped it, so that nothing is skipped that nobody has seen."""
    if every:
        stopped = await _find(stub, lambda_name, "")
    else:
        stopped = [each for name in names for each in await _find(stub, lambda_name, name) if each.stopped]
    missing = set(names) - {each.key for each in stopped}
    if missing:
        raise NotFound(f"not stopped: {', '.join(sorted(missing))}; atf key ls {lambda_name} lists the keys that are")
    return [(each, await mend(stub, each)) for each in stopped]


def _print_mended(done: list[tuple[f.KeyInfo, bool]], word: str, otherwise: str, as_json: bool) -> None:
    if as_json:
        print_json([{"key": info.key, "task": info.task_id, word.replace(" ", "_"): well} for info, well in done])
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
