"""`atf batch`: submit the rows of a file as work items, watch them, fetch their results."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, Self, TypeVar, cast

import click
from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from atf.batch import MAX_WORKERS, MESSAGE_ITEMS, BatchOptions, BatchStatus, ItemStatus
from atf.client import AsyncClient, BatchProgress
from atf.client.batch import Rate, statuses_of
from atf.client.batches import Plan, goes_on
from atf.client.submit import check_count, count_async
from atf.errors import AtfError, InvalidArgument
from atf.exits import EXIT_FAILED, EXIT_OK
from atf.items import Elements, OfName
from atf.options import Backoff
from atf.rpc import api
from atf.rpc import batch_pb2 as b
from atf.rpc import frontend_pb2 as f
from atf.runtime import SystemRuntime, new_id
from atf.task import MAX_BATCH, US, check_lambda
from atf.visible import one_line
from atf.work_items import COMMAND, check_batch_id

from .batch_results import item_json, item_word, write_chunks, write_csv, write_jsonl
from .batch_rows import Parameters, checked, parameters_of, rows
from .options import as_json, duration, frontend_flag
from .output import length, print_facts, print_json, print_table, when
from .progress import View, view
from .remote import ask
from .schedule import pairs
from .stdin import arriving, open_stdin

R = TypeVar("R")

_PAGE: Final = 500
_EVERY_S: Final = 0.25
id_argument = click.argument("batch_id", metavar="BATCH")
ids_argument = click.argument("ids", metavar="BATCH...", nargs=-1, required=True)


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


@click.group()
def batch() -> None:
    """Batches: one lambda, a list of arguments, a task for each of them."""


@batch.command()
@click.argument("lambda_name", metavar="LAMBDA")
@click.argument("name", metavar="FILE")
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), help="Of FILE.  [default: by its name; jsonl]")
@click.option(
    "--id",
    "batch_id",
    metavar="ID",
    help="1 to 20 of A-Z a-z 0-9 _ -: the same command again goes on.  [default: a new one]",
)
@click.option(
    "--watch", is_flag=True, help="Show how it goes on until it has ended; exit with 1 unless every item is done."
)
@click.option(
    "--max-attempts",
    type=click.IntRange(1, 2**31 - 1),
    metavar="N",
    help="Of an item; frontends bound it.  [default: the lambda's]",
)
@click.option("--max-in-flight", type=click.IntRange(1), metavar="N", help="Items in queues and at work at once.")
@click.option(
    "--pause",
    type=duration,
    metavar="T",
    help="Between the end of an item and the start of the next one with the same target.",
)
@click.option(
    "--target", metavar="ARGUMENT", help="The argument that is the pause's target; of atf/command the number of a word."
)
@click.option(
    "--workers",
    type=click.IntRange(1, MAX_WORKERS),
    metavar="N",
    help="Deal the items into N chunks; of each one item runs at a time.",
)
@click.option(
    "--timeout",
    type=duration,
    metavar="T",
    help="Stop a run of an item after this long; 0: never.  [default: the lambda's]",
)
@click.option("--priority", metavar="P", help="high, normal, low, or 0 (first) to 9.  [default: the lambda's]")
@click.option(
    "--backoff",
    type=_backoff,
    metavar="T[,F[,MAX]]",
    help="Wait T before the second attempt of an item, F times as long before each further one, at most MAX: 1s,2,10m.  [default: the lambda's]",
)
@click.option(
    "--max-losses",
    type=click.IntRange(1, 2**31 - 1),
    metavar="N",
    help="Give an item up after this many runs that ended with their executor.  [default: the lambda's]",
)
@click.option(
    "--affinity-key", metavar="NAME", help="Of a sticky lambda: items prefer the host that had the last task of NAME."
)
@click.option(
    "--retention", type=duration, metavar="T", help="Keep the batch so long after its end.  [default: the lambda's]"
)
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", help="A note on every item. May be given again."
)
@click.option(
    "--batch-size", type=click.IntRange(1, MESSAGE_ITEMS), metavar="N", help="Items of one message.  [default: 1000]"
)
@click.option(
    "--on-success", multiple=True, metavar="LAMBDA", help="Run it when all items have succeeded. May be given again."
)
@click.option(
    "--on-failure", multiple=True, metavar="LAMBDA", help="Run it when an item failed for good or was cancelled."
)
@click.option("--on-complete", multiple=True, metavar="LAMBDA", help="Run it when every item has ended.")
@click.option("--durability", metavar="CLASS", help="relaxed, disk or replicated.  [default: the frontend's]")
@frontend_flag
@as_json
def submit(
    lambda_name: str,
    name: str,
    form: str | None,
    watch: bool,
    frontend: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Submit the rows of FILE as items of LAMBDA, and print the batch's id. - reads stdin.

    A line of jsonl is an object of arguments by name, an array of them by position, or the first one alone. A csv file names the arguments
    in its first row; a cell is JSON, or else the text itself. Of atf/command a row is a command line: an array of texts, or columns.

    The whole file is read first, and refused with the number of the line if one does not fit: then nothing is submitted. What comes
    from stdin is submitted as it comes; a line that does not fit ends it, and the batch stays open. Where the command is
    interrupted, the same one with --id goes on.

    \b
    atf batch submit photos/thumbnail paths.jsonl --watch
    atf batch submit shop/fetch pages.csv --pause 1s --target host --max-attempts 3
    find . -name '*.jpg' | jq -Rc '["identify", .]' | atf batch submit atf/command -
    """
    with _Source(name, form, check_lambda(lambda_name)) as source, view(as_json) as shown:
        return ask(frontend, lambda stub: _submit(stub, source, _options(given), shown, watch=watch, as_json=as_json))


def _options(given: dict[str, Any]) -> BatchOptions:
    chosen = {name: value for name, value in given.items() if value not in (None, ())}
    chosen["labels"] = pairs(given["labels"], "--label")
    chosen["batch_id"] = check_batch_id(given["batch_id"] or new_id(SystemRuntime().random, 80))
    for name in ("on_success", "on_failure", "on_complete"):
        chosen[name] = list(given[name])
    if str(given["priority"]).isdigit():
        chosen["priority"] = int(given["priority"])
    return cast("BatchOptions", chosen)


class _Source:
    """Where the rows are.

    Attributes:
        again: whether they can be read twice.
    """

    def __init__(self, name: str, form: str | None, lambda_name: str) -> None:
        self.shown = "stdin" if name == "-" else name
        self.again = name != "-"
        self.form = form or ("csv" if name.lower().endswith(".csv") else "jsonl")
        self.lambda_name = lambda_name
        self._name = name

    def __enter__(self) -> Self:
        try:
            # Some programs begin a file with a byte order mark.
            self._file = Path(self._name).open(encoding="utf-8-sig", newline="") if self.again else open_stdin()
        except OSError as error:
            raise InvalidArgument(f"{self._name}: {error.strerror or error}") from None
        return self

    def __exit__(self, *error: object) -> None:
        if self.again:  # else a thread may still wait in it
            self._file.close()

    def elements(self, elements: Elements, parameters: Parameters | None) -> Iterator[Any]:
        """The rows from the first on, as elements that fit.

        Raises:
            InvalidArgument: a row does not fit; names its line.
        """
        if self.again:
            self._file.seek(0)
        try:
            yield from checked(rows(self._file, self.form, self.lambda_name, parameters), elements, self.shown)
        except UnicodeDecodeError as error:
            raise InvalidArgument(f"{self.shown} is no text in UTF-8: {error}") from None
        except InvalidArgument as error:
            said = str(error)
            raise InvalidArgument(said if said.startswith(self.shown) else f"{self.shown}, {said}") from None


async def _submit(
    stub: api.Frontend, source: _Source, options: BatchOptions, shown: View, *, watch: bool, as_json: bool
) -> int:
    batch_id = options["batch_id"]
    async with AsyncClient(frontend=stub) as client:
        plan, parameters = await _plan(stub, client, source, options)
        count = 0
        if source.again:
            count = sum(1 for _ in source.elements(plan.elements, parameters))
            shown.show(_Submitting(0, count))
        sending = _Sending(shown, "" if as_json else one_line(batch_id), count)
        try:
            await sending.send(client, plan, source, source.elements(plan.elements, parameters))
        except AtfError as error:
            if not goes_on(error, begun=sending.begun):
                raise
            raise type(error)(f"{error} (the same command with --id {batch_id} goes on)") from None
        except BaseException:
            print(f"atf: the same command with --id {batch_id} goes on", file=sys.stderr)
            raise
        if watch:
            return await _watch(client, batch_id, shown, as_json=as_json)
        if as_json:
            print_json(batch_json(await client.get_batch(batch_id)))
        return EXIT_OK


async def _plan(
    stub: api.Frontend, client: AsyncClient, source: _Source, options: BatchOptions
) -> tuple[Plan, Parameters | None]:
    lambda_name, target = source.lambda_name, options.get("target")
    if lambda_name == COMMAND:
        if target is not None:
            options["target"] = _word(str(target))
        return client.batch_plan(lambda_name, options), None
    parameters = await _parameters(stub, lambda_name)
    plan = client.batch_plan(lambda_name, options)
    names = parameters.names if parameters is not None else None
    return replace(plan, elements=OfName(lambda_name, target, names)), parameters


def _word(number: str) -> Callable[[list[str]], str]:
    if not number.isdecimal():
        raise InvalidArgument(
            f"--target {number!r}: a command line has no names; give the number of a word, 0 for the program"
        )
    return lambda words: words[int(number)] if int(number) < len(words) else ""


async def _parameters(stub: api.Frontend, lambda_name: str) -> Parameters | None:
    known = (await stub.list_lambdas(f.ListLambdasRequest())).lambdas
    return next((parameters_of(each.spec.signature) for each in known if each.spec.name == lambda_name), None)


class _Sending:
    """Rows on their way. Says the batch's id as soon as the batch is there, and how many rows it has.

    Args:
        shown: where.
        said: the id as it is said; empty: it is not.
        count: of the rows; 0: nobody knows.

    Attributes:
        begun: whether the batch is known to be there.
    """

    def __init__(self, shown: View, said: str, count: int) -> None:
        self.begun = False
        self._shown = shown
        self._said = said
        self._count = count

    async def send(self, client: AsyncClient, plan: Plan, source: _Source, elements: Iterator[Any]) -> None:
        """Has the rows stored that are not yet.

        Raises:
            AtfError: as AsyncClient.batch.
        """
        cutter = await client.begin_batch(plan)
        if cutter.closed:
            most = cutter.taken + 1
            given = self._count if source.again else await count_async(arriving(elements), most)
            check_count(plan.header.id, cutter.taken, given)
            self._begin()
            return
        self.begun = cutter.begun
        cutter.told = lambda: self._stored(cutter.taken)
        left = islice(elements, cutter.taken, None)
        await client.feed(cutter, left if source.again else arriving(left))

    def _stored(self, rows: int) -> None:
        self._begin()
        self._shown.show(_Submitting(rows, self._count))

    def _begin(self) -> None:
        if self._said:
            self._shown.say(self._said)
        self.begun, self._said = True, ""


async def _watch(client: AsyncClient, batch_id: str, shown: View, *, as_json: bool) -> int:
    rate, last = Rate(), b.Batch()
    async with aclosing(client.watch_batch(batch_id, _EVERY_S)) as seen:
        async for last in seen:
            shown.show(_Going(BatchProgress.from_proto(last, rate.of(last))))
    if as_json:
        print_json(batch_json(last))
    else:
        shown.say(one_line(_Going(BatchProgress.from_proto(last, rate.of(last))).line()))
    return EXIT_OK if last.status == b.BATCH_DONE else EXIT_FAILED


@dataclass(frozen=True)
class _Submitting:
    """How many rows were sent."""

    sent: int
    count: int
    """0: nobody knows."""

    def line(self) -> str:
        return f"submitted {self.sent}{f' of {self.count}' if self.count else ''}"

    def picture(self) -> RenderableType:
        return _bar(self.sent, self.count, self.line())


@dataclass(frozen=True)
class _Going:
    """Where a batch stands."""

    now: BatchProgress

    def line(self) -> str:
        now = self.now
        parts = [
            f"{now.status.name.lower().replace('_', ' ')}: {now.finished} of {now.items} items",
            f"{now.permanently_failed} failed" if now.permanently_failed else "",
            f"{now.cancelled} cancelled" if now.cancelled else "",
            f"{now.failed} to run again" if now.failed else "",
        ]
        if not now.ended:
            parts.append(f"{_rate(now.rate)}/s")
            parts.append(f"{length(round(now.seconds_to_go) * US)} to go" if now.seconds_to_go is not None else "")
        return ", ".join(each for each in parts if each)

    def picture(self) -> RenderableType:
        return _bar(self.now.finished, self.now.items, self.line())


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _bar(done: int, count: int, text: str) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_row(ProgressBar(total=max(1, count), completed=done, width=40), text)
    return grid


# --- looking ----------------------------------------------------------------------------------------------------------


@batch.command()
@click.argument("lambda_name", metavar="[LAMBDA]", default="")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most this many.")
@frontend_flag
@as_json
def ls(lambda_name: str, limit: int, frontend: str | None, as_json: bool) -> None:
    """List the batches of LAMBDA, or all."""
    found = ask(frontend, lambda stub: _list(stub, lambda_name, limit))
    if as_json:
        print_json([batch_json(each) for each in found])
        return
    rows = [
        (
            each.id,
            getattr(each, "lambda"),
            batch_word(each.status),
            each.items,
            each.done,
            each.permanently_failed,
            each.cancelled,
            when(each.created_at_us),
        )
        for each in found
    ]
    print_table(["batch", "lambda", "status", "items", "done", "failed", "cancelled", "created"], rows)


async def _list(stub: api.Frontend, lambda_name: str, limit: int) -> list[b.Batch]:
    found: list[b.Batch] = []
    request = b.ListBatchesRequest()
    setattr(request, "lambda", lambda_name)
    while len(found) < limit:
        request.page_size = min(limit - len(found), MAX_BATCH)
        reply = await stub.list_batches(request)
        found += reply.batches
        request.page_token = reply.next_page_token
        if not request.page_token:
            break
    return found


@batch.command()
@id_argument
@frontend_flag
@as_json
def status(batch_id: str, frontend: str | None, as_json: bool) -> None:
    """Show where a batch stands."""
    _show(ask(frontend, lambda stub: stub.get_batch(b.GetBatchRequest(id=batch_id))), as_json)


@batch.command()
@id_argument
@frontend_flag
@as_json
def watch(batch_id: str, frontend: str | None, as_json: bool) -> int:
    """Show how a batch goes on until it has ended; exit with 1 unless every item is done."""
    with view(as_json) as shown:
        return ask(
            frontend, lambda stub: _by_client(stub, lambda client: _watch(client, batch_id, shown, as_json=as_json))
        )


@batch.command()
@id_argument
@click.option("--status", "statuses", multiple=True, metavar="STATUS",
              help="Only these: created, in_progress, done, failed (for good, or to run again), cancelled. May be given again.")  # fmt: skip
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most this many.")
@frontend_flag
@as_json
def items(batch_id: str, statuses: tuple[str, ...], limit: int, frontend: str | None, as_json: bool) -> None:
    """List the items of a batch in their order."""
    wanted = [each for name in statuses for each in _statuses(name)]
    found = ask(frontend, lambda stub: _by_client(stub, lambda client: _items(client, batch_id, wanted, limit)))
    if as_json:
        print_json([item_json(each) for each in found])
        return
    rows = [
        (
            each.number,
            item_word(each.status),
            each.work_item_id,
            " ".join(each.arguments),
            each.error.partition("\n")[0],
        )
        for each in found
    ]
    print_table(["number", "status", "work item", "arguments", "error"], rows)


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
@click.option("--output", metavar="FILE", help="Write there; the file appears when all is in it.  [default: stdout]")
@frontend_flag
def results(batch_id: str, form: str, output: str | None, frontend: str | None) -> None:
    """Print the items of a batch with their results, in their order, as they stand now."""

    async def write(client: AsyncClient) -> None:
        batch = await client.get_batch(batch_id)
        with _output(output) as out:
            async with aclosing(client.batch_items(batch_id, [], arguments=True)) as pages:
                if form == "chunks":
                    await write_chunks(batch, pages, out)
                else:
                    await (write_csv if form == "csv" else write_jsonl)(pages, out)

    ask(frontend, lambda stub: _by_client(stub, write))


@contextmanager
def _output(name: str | None) -> Iterator[IO[str]]:
    if name is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    path = Path(name)
    unfinished = path.with_name(f".{path.name}.{new_id(SystemRuntime().random, 32)}")
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as out:
            yield out
        unfinished.replace(path)
    except OSError as error:
        raise InvalidArgument(f"--output {name}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


# --- commanding -------------------------------------------------------------------------------------------------------


@batch.command()
@id_argument
@frontend_flag
@as_json
def retry(batch_id: str, frontend: str | None, as_json: bool) -> None:
    """Start the items of a batch afresh that failed for good."""
    _show(ask(frontend, lambda stub: stub.retry_batch(b.RetryBatchRequest(id=batch_id))), as_json)


@batch.command()
@id_argument
@frontend_flag
@as_json
def cancel(batch_id: str, frontend: str | None, as_json: bool) -> None:
    """Cancel the items of a batch that have not started; ask those that run to stop."""
    _show(ask(frontend, lambda stub: stub.cancel_batch(b.CancelBatchRequest(id=batch_id))), as_json)


@batch.command()
@ids_argument
@frontend_flag
@as_json
def delete(ids: tuple[str, ...], frontend: str | None, as_json: bool) -> None:
    """Delete batches that have ended, with their items."""

    async def each(stub: api.Frontend) -> list[tuple[str, bool]]:
        return [(name, (await stub.delete_batch(b.DeleteBatchRequest(id=name))).existed) for name in ids]

    done = ask(frontend, each)
    if as_json:
        print_json([{"id": name, "existed": existed} for name, existed in done])
        return
    for name, existed in done:
        print(one_line(f"{name}: {'is being deleted' if existed else 'there is none'}"))


async def _by_client(stub: api.Frontend, question: Callable[[AsyncClient], Awaitable[R]]) -> R:
    """Asks by the SDK, which goes on where a call breaks off."""
    async with AsyncClient(frontend=stub) as client:
        return await question(client)


def batch_word(status: int) -> str:
    """A batch's status as people write it."""
    try:
        return BatchStatus(status).name.lower()
    except ValueError:  # of a newer frontend
        return str(status)


def batch_json(batch: b.Batch) -> dict[str, Any]:
    """A batch for programs."""
    return {
        "id": batch.id,
        "lambda": getattr(batch, "lambda"),
        "status": batch_word(batch.status),
        "items": batch.items,
        "created": batch.created,
        "in_progress": batch.in_progress,
        "done": batch.done,
        "failed": batch.failed,
        "permanently_failed": batch.permanently_failed,
        "cancelled": batch.cancelled,
        "sealed": batch.sealed,
        "prefix": batch.prefix,
        "created_at_us": batch.created_at_us,
        "ended_at_us": batch.ended_at_us,
        "round": batch.round,
        "cancel_requested": batch.cancel_requested,
        "error": batch.error,
    }


def _show(batch: b.Batch, as_json: bool) -> None:
    if as_json:
        print_json(batch_json(batch))
        return
    now = BatchProgress.from_proto(batch, Rate().of(batch))
    togo = now.seconds_to_go
    print_facts(
        [
            ("batch", batch.id),
            ("lambda", getattr(batch, "lambda")),
            (
                "status",
                batch_word(batch.status)
                + (", cancellation asked for" if batch.cancel_requested and not now.ended else ""),
            ),
            ("items", f"{batch.items}{'' if batch.sealed else ', and more may come'}"),
            ("created", batch.created or ""),
            ("in progress", batch.in_progress or ""),
            ("done", batch.done or ""),
            ("to run again", batch.failed or ""),
            ("failed for good", batch.permanently_failed or ""),
            ("cancelled", batch.cancelled or ""),
            ("round", batch.round if batch.round > 1 else ""),
            ("made", when(batch.created_at_us)),
            ("ended", when(batch.ended_at_us)),
            ("rate", f"{_rate(now.rate)} items/s" if now.rate and not now.ended else ""),
            ("a callback was not made", batch.error),
            ("to go", length(round(togo) * US) if togo is not None and not now.ended else ""),
        ]
    )
