"""`atf batch`: submit the rows of a file as work items, watch them, fetch their results."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from atf.cli.encryption import codec_keys_flag, decrypt_items
from atf.cli.files import check_free, overwrite_flag, whole_file
from atf.cli.nouns import Noun
from atf.cli.options import (
    any_lambda_argument,
    asks,
    duration,
    frontend_flag,
    lambda_argument,
    limit_flag,
    lists,
    option,
    pairs,
    refuse_unused,
)
from atf.cli.output import Columns, show_rows
from atf.cli.progress import view
from atf.cli.remote import ask
from atf.client import AsyncClient
from atf.client.batch_spec import MAX_WORKERS, MESSAGE_ITEMS
from atf.client.paging import entries
from atf.rpc import api, batch_pb2 as b
from atf.runtime import SystemRuntime, new_id
from atf.sdk.batch import ItemStatus
from atf.sdk.batch_info import statuses_of
from atf.sdk.failure import summary_of
from atf.sdk.option_kinds import BatchOptions
from atf.sdk.options import Backoff
from atf.sdk.work_items import check_batch_id
from atf.task import MAX_BATCH, check_lambda

from .changes import cancel, delete, retry
from .results import item_json, item_word, texts_shown, write_chunks, write_csv, write_jsonl
from .submit import RowSource, submit_rows
from .view import follow, list_batches, show_batch

R = TypeVar("R")

id_argument = click.argument("batch_id", metavar="BATCH")


def _backoff(text: str) -> Backoff:
    """What `T[,F[,MAX]]` says."""
    base, _, more = text.partition(",")
    factor, _, most = more.partition(",")
    try:
        return Backoff(
            duration(base), float(factor) if factor else Backoff.factor, duration(most) if most else Backoff.max
        )
    except ValueError:
        raise click.BadParameter(f"{text[:80]!r}: write T[,F[,MAX]], such as 1s,2,10m") from None


@click.group(cls=Noun)
def batch() -> None:
    """Batches: one lambda, a list of arguments, a task for each of them."""


for _each in (retry, cancel, delete):
    batch.add_command(_each)


@batch.command()
@lambda_argument
@click.argument("name", metavar="FILE")
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), help="Of FILE.  [default: by its name; jsonl]")
@option(
    "--id", "ID", "1 to 20 of A-Z a-z 0-9 _ -: the same command again goes on.  [default: a new one]", name="batch_id"
)
@click.option(
    "--watch", is_flag=True, help="Show how it goes on until it has ended; exit with 1 unless every item is done."
)
@option("--max-attempts", "N", "Of an item; frontends bound it.  [default: the lambda's]", click.IntRange(1, 2**31 - 1))
@option("--max-in-flight", "N", "Items in queues and at work at once.", click.IntRange(1))
@option("--pause", "T", "Between the end of an item and the start of the next one with the same target.", duration)
@option("--target", "ARGUMENT", "The argument that is the pause's target; of atf/command the number of a word.")
@option(
    "--workers", "N", "Deal the items into N chunks; of each one item runs at a time.", click.IntRange(1, MAX_WORKERS)
)
@option("--timeout", "T", "Stop a run of an item after this long; 0: never.  [default: the lambda's]", duration)
@option("--priority", "P", "high, normal, low, or 0 (first) to 9.  [default: the lambda's]")
@option(
    "--backoff",
    "T[,F[,MAX]]",
    "Wait T before the second attempt of an item, F times as long before each further one, at most MAX: 1s,2,10m.  [default: the lambda's]",
    _backoff,
)
@option(
    "--max-losses",
    "N",
    "Give an item up after this many runs that ended with their executor.  [default: the lambda's]",
    click.IntRange(1, 2**31 - 1),
)
@option("--affinity-key", "NAME", "Of a sticky lambda: items prefer the host that had the last task of NAME.")
@option("--retention", "T", "Keep the batch so long after its end.  [default: the lambda's]", duration)
@option(
    "--label", "NAME=VALUE", "A note on every item, never encrypted. May be given again.", name="labels", multiple=True
)
@option("--batch-size", "N", "Items of one message.  [default: 1000]", click.IntRange(1, MESSAGE_ITEMS))
@option("--on-success", "LAMBDA", "Run it when all items have succeeded. May be given again.", multiple=True)
@option("--on-failure", "LAMBDA", "Run it when an item failed for good or was cancelled.", multiple=True)
@option("--on-complete", "LAMBDA", "Run it when every item has ended.", multiple=True)
@option("--durability", "CLASS", "relaxed, disk or replicated.  [default: the frontend's]")
@asks
def submit(lambda_name: str, name: str, form: str | None, watch: bool, **given: Any) -> int:
    """Submit the rows of FILE as items of LAMBDA, and print the batch's id. - reads stdin.

    A line of jsonl is an object of arguments by name, an array of them by position, or the first one alone. A csv file names the arguments
    in its first row; a cell is text, or JSON where the argument takes no text. Of atf/command a row is a command line: an array of texts, or columns.

    The whole file is read first, and refused with the number of the line if one does not fit: then nothing is submitted. What comes
    from stdin is submitted as it comes; a line that does not fit ends it, and the batch stays open. Where the command is
    interrupted, the same one with --id goes on.

    \b
    atf batch submit photos/thumbnail paths.jsonl --watch
    atf batch submit shop/fetch pages.csv --pause 1s --target host --max-attempts 3
    find . -name '*.jpg' | jq -Rc '["identify", .]' | atf batch submit atf/command -
    """
    with RowSource(name, form, check_lambda(lambda_name)) as source, view() as shown:
        return ask(lambda stub: submit_rows(stub, source, _options(given), shown, watch=watch))


def _options(given: dict[str, Any]) -> BatchOptions:
    chosen = {name: value for name, value in given.items() if value not in (None, ())}
    chosen["labels"] = pairs(given["labels"], "--label")
    chosen["batch_id"] = check_batch_id(chosen.get("batch_id", new_id(SystemRuntime().random, 80)))
    for name in ("on_success", "on_failure", "on_complete"):
        chosen[name] = list(given[name])
    if str(given["priority"]).isdigit():
        chosen["priority"] = int(given["priority"])
    return cast("BatchOptions", chosen)


# --- looking ----------------------------------------------------------------------------------------------------------


@batch.command()
@any_lambda_argument
@limit_flag
@lists
def ls(lambda_name: str, limit: int) -> None:
    """List the batches of LAMBDA, or all."""
    request = b.ListBatchesRequest(page_size=MAX_BATCH, **{"lambda": lambda_name})
    list_batches(ask(lambda stub: entries(stub.list_batches, request, lambda page: page.batches, limit)))


@batch.command()
@id_argument
@asks
def status(batch_id: str) -> None:
    """Show where a batch stands."""
    show_batch(ask(lambda stub: stub.get_batch(b.GetBatchRequest(id=batch_id))))


@batch.command()
@id_argument
@asks
def watch(batch_id: str) -> int:
    """Show how a batch goes on until it has ended; exit with 1 unless every item is done."""
    with view() as shown:
        return _by_client(lambda client: follow(client, batch_id, shown))


@batch.command()
@id_argument
@option(
    "--status",
    "STATUS",
    "Only these: created, in_progress, done, failed (for good, or to run again), cancelled. May be given again.",
    name="statuses",
    multiple=True,
)
@codec_keys_flag
@limit_flag
@lists
def items(batch_id: str, statuses: tuple[str, ...], limit: int, codec_keys: str | None) -> None:
    """List the items of a batch in their order."""
    wanted = [each for name in statuses for each in _statuses(name)]
    columns: Columns[b.Item] = {
        "number": "number",
        "status": lambda each: item_word(each.status),
        "work item": "work_item_id",
        "arguments": lambda each: " ".join(texts_shown(each)),
        "error": lambda each: summary_of(each.error),
    }
    found = _by_client(lambda client: _items(client, batch_id, wanted, limit))
    decrypt_items(codec_keys, found)
    show_rows(found, item_json, columns)


def _statuses(name: str) -> list[ItemStatus]:
    if name == "failed":
        return [ItemStatus.FAILED, ItemStatus.PERMANENTLY_FAILED]
    return statuses_of(name)


async def _items(client: AsyncClient, batch_id: str, statuses: list[ItemStatus], limit: int) -> list[b.Item]:
    found: list[b.Item] = []
    async with aclosing(client.batch_items(batch_id, statuses, arguments=True)) as pages:
        async for page in pages:
            found += page
            if len(found) >= limit:
                break
    return found[:limit]


@batch.command()
@id_argument
@click.option("--format", "form", type=click.Choice(["jsonl", "csv", "chunks"]), default="jsonl", show_default=True,
              help="A line an item; a table; or one JSON document of the chunks in which they ran.")  # fmt: skip
@option(
    "--output",
    "FILE",
    "Write there; the file appears when all is in it.  [default: stdout]",
    click.Path(dir_okay=False, path_type=Path),
)
@overwrite_flag("FILE")
@codec_keys_flag
@frontend_flag
def results(batch_id: str, form: str, output: Path | None, overwrite: bool, codec_keys: str | None) -> None:
    """Print the items of a batch with their results, in their order, as they stand now."""
    if output is not None:
        check_free(output, overwrite=overwrite)
    refuse_unused({"overwrite": overwrite}, ("overwrite",) if output is None else (), "without --output")

    async def write(client: AsyncClient) -> None:
        batch = await client.get_batch(batch_id)
        with nullcontext(sys.stdout) if output is None else whole_file(output, "--output", overwrite=overwrite) as out:
            async with aclosing(_pages(client, batch_id, codec_keys)) as pages:
                if form == "chunks":
                    await write_chunks(batch, pages, out)
                else:
                    await (write_csv if form == "csv" else write_jsonl)(pages, out)

    _by_client(write)


async def _pages(client: AsyncClient, batch_id: str, codec_keys: str | None) -> AsyncGenerator[list[b.Item], None]:
    async with aclosing(client.batch_items(batch_id, [], arguments=True)) as pages:
        async for page in pages:
            decrypt_items(codec_keys, page)
            yield page


def _by_client(question: Callable[[AsyncClient], Awaitable[R]]) -> R:
    """Asks by the SDK, which goes on where a call breaks off."""

    async def work(stub: api.Frontend) -> R:
        async with AsyncClient(frontend=stub) as client:
            return await question(client)

    return ask(work)
