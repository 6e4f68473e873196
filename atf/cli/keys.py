"""Commands on keys: ls, resume, skip."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import click

from atf.client.paging import pages
from atf.client.registration import every_lambda
from atf.client.whoami import signed, whoami
from atf.errors import InvalidArgument, NotFound
from atf.rpc import api, frontend_pb2 as f
from atf.sdk.failure import summary_of
from atf.task import MAX_BATCH

from .confirmation import confirm
from .json_values import message_json
from .nouns import Noun
from .options import any_lambda_argument, asks, bulk_flags, lambda_argument, lists, why_flag
from .output import Columns, show, show_rows, when
from .remote import ask

keys_argument = click.argument("names", metavar="KEY...", nargs=-1)
every_flag = click.option("--all", "every", is_flag=True, help="All keys of LAMBDA that have stopped.")


@click.group(cls=Noun)
def key() -> None:
    """Ordering keys that have stopped at a task which failed for good, as their lambda asks for it; and busy concurrency keys."""


@key.command("ls")
@any_lambda_argument
@click.argument("key", metavar="[KEY]", default="")
@click.option("--concurrency", is_flag=True, help="Concurrency keys: those for which tasks wait, or KEY.")
@lists
def ls(lambda_name: str, key: str, concurrency: bool) -> None:
    """List the ordering keys of LAMBDA, or of every lambda, that have stopped; or KEY, as it stands."""
    if concurrency and not lambda_name:
        raise InvalidArgument("--concurrency: name the lambda before it")
    if concurrency:
        busy = ask(lambda stub: _find_busy(stub, lambda_name, key))
        show_rows(busy, lambda each: message_json(each, "key taken limit waiting"), _BUSY)
    else:
        show_rows(ask(lambda stub: _find_all(stub, lambda_name, key)), _json, _STOPPED)


_BUSY: Final[Columns[f.ConcurrencyKeyInfo]] = {
    "key": "key",
    "slots taken": lambda each: f"{each.taken} of {each.limit}",
    "waiting": "waiting",
}
_STOPPED: Final[Columns[tuple[str, f.KeyInfo]]] = {
    "lambda": lambda pair: pair[0],
    "key": lambda pair: pair[1].key,
    "state": lambda pair: f"stopped {when(pair[1].stopped_at_us)}" if pair[1].stopped else "goes on",
    "at task": lambda pair: pair[1].task_id,
    "unfinished": lambda pair: pair[1].unfinished,
    "error": lambda pair: summary_of(pair[1].error),
}


def _json(pair: tuple[str, f.KeyInfo]) -> dict[str, Any]:
    shown = message_json(pair[1], "key stopped stopped_at_us task_id unfinished error")
    return {"lambda": pair[0], **shown, "task": shown.pop("task_id")}


@key.command()
@lambda_argument
@keys_argument
@every_flag
@why_flag
@bulk_flags
@asks
def resume(lambda_name: str, names: tuple[str, ...], every: bool, why: str, dry_run: bool) -> None:
    """Run the task that stopped a key again, with all its attempts; the key's other tasks follow it in their order."""

    async def mend(stub: api.Frontend, info: f.KeyInfo) -> bool:
        of = {"lambda": lambda_name, **signed(whoami(), why)}
        request = f.ResumeKeyRequest(key=info.key, task_id=info.task_id, **of)
        return (await stub.resume_key(request)).retried

    _go_on("resume", lambda_name, names, every, dry_run, mend)


@key.command()
@lambda_argument
@keys_argument
@every_flag
@why_flag
@bulk_flags
@asks
def skip(lambda_name: str, names: tuple[str, ...], every: bool, why: str, dry_run: bool) -> None:
    """Leave the task that stopped a key where it is, a dead letter; the key's other tasks go on in their order."""

    async def mend(stub: api.Frontend, info: f.KeyInfo) -> bool:
        of = {"lambda": lambda_name, **signed(whoami(), why)}
        await stub.skip_key(f.SkipKeyRequest(key=info.key, task_id=info.task_id, **of))
        return True

    _go_on("skip", lambda_name, names, every, dry_run, mend)


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


Mend = Callable[[api.Frontend, f.KeyInfo], Awaitable[bool]]


def _go_on(verb: str, lambda_name: str, names: tuple[str, ...], every: bool, dry_run: bool, mend: Mend) -> None:
    """Has stopped keys go on; each is named with the task that stopped it, so that nothing is skipped that nobody has seen."""
    if bool(names) == every:
        raise InvalidArgument("name one or more keys, or give --all")
    which = "all stopped keys" if every else f"{len(names)} keys"
    confirm(f"{verb.capitalize()} {which} of {lambda_name}", many=not dry_run and (every or len(names) > 1))

    async def work(stub: api.Frontend) -> list[tuple[f.KeyInfo, bool]]:
        stopped = await _stopped(stub, lambda_name, names)
        return [(each, dry_run or await mend(stub, each)) for each in stopped]

    done, past = ask(work), "skipped" if verb == "skip" else "resumed"
    word, otherwise = f"would be {past}" if dry_run else past, "goes on without it: it can't run again"
    lines = [f"{info.key}: task {info.task_id} {word if well else otherwise}" for info, well in done]
    show([{"key": info.key, "task": info.task_id, word.replace(" ", "_"): well} for info, well in done], *lines)


async def _stopped(stub: api.Frontend, lambda_name: str, names: tuple[str, ...]) -> list[f.KeyInfo]:
    """The keys of these names that have stopped; without names all that have."""
    stopped = [each for name in names or ("",) for each in await _find(stub, lambda_name, name) if each.stopped]
    if missing := set(names) - {each.key for each in stopped}:
        raise NotFound(f"not stopped: {', '.join(sorted(missing))}; atf key ls {lambda_name} lists the keys that are")
    return stopped
