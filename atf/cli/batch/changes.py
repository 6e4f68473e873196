"""Commands that change batches: retry, cancel, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from atf.cli.confirmation import bulk_flags, confirm
from atf.cli.options import as_json, frontend_flag, no_header
from atf.cli.output import print_json
from atf.cli.remote import ask
from atf.rpc import api
from atf.rpc import batch_pb2 as b
from atf.visible import one_line

from .view import batch_word, print_batches, show_batch

ids_argument = click.argument("ids", metavar="BATCH...", nargs=-1, required=True)


@click.command()
@ids_argument
@bulk_flags
@frontend_flag
@as_json
@no_header
def retry(ids: tuple[str, ...], dry_run: bool, yes: bool, frontend: str | None, as_json: bool) -> None:
    """Start the items of batches afresh that failed for good."""
    if dry_run:
        _would(ids, "would start afresh", lambda each: each.permanently_failed, frontend, as_json)
        return
    if len(ids) > 1:
        confirm(f"Start the items of {len(ids)} batches afresh that failed for good", yes=yes)

    async def each(stub: api.Frontend) -> list[b.Batch]:
        return [await stub.retry_batch(b.RetryBatchRequest(id=name)) for name in ids]

    _show_all(ask(frontend, each), as_json)


@click.command()
@ids_argument
@bulk_flags
@frontend_flag
@as_json
@no_header
def cancel(ids: tuple[str, ...], dry_run: bool, yes: bool, frontend: str | None, as_json: bool) -> None:
    """Cancel the items of batches that have not started; ask those that run to stop."""
    if dry_run:
        left = "would be cancelled or asked to stop"
        _would(ids, left, lambda each: each.created + each.in_progress + each.failed, frontend, as_json)
        return
    if len(ids) > 1:
        confirm(f"Cancel {len(ids)} batches", yes=yes)

    async def each(stub: api.Frontend) -> list[b.Batch]:
        return [await stub.cancel_batch(b.CancelBatchRequest(id=name)) for name in ids]

    _show_all(ask(frontend, each), as_json)


@click.command()
@ids_argument
@bulk_flags
@frontend_flag
@as_json
def delete(ids: tuple[str, ...], dry_run: bool, yes: bool, frontend: str | None, as_json: bool) -> None:
    """Delete batches that have ended, with their items."""
    if dry_run:
        _would(ids, "would be deleted", lambda each: each.items if each.ended_at_us else 0, frontend, as_json)
        return
    if len(ids) > 1:
        confirm(f"Delete {len(ids)} batches with their items", yes=yes)

    async def each(stub: api.Frontend) -> list[tuple[str, bool]]:
        return [(name, (await stub.delete_batch(b.DeleteBatchRequest(id=name))).existed) for name in ids]

    done = ask(frontend, each)
    if as_json:
        print_json([{"id": name, "existed": existed} for name, existed in done])
        return
    for name, existed in done:
        print(one_line(f"{name}: {'is being deleted' if existed else 'there is none'}"))


def _show_all(batches: Sequence[b.Batch], as_json: bool) -> None:
    """One as a page, several as a table."""
    if len(batches) == 1:
        show_batch(batches[0], as_json)
    else:
        print_batches(batches, as_json)


def _would(ids: Sequence[str], what: str, count: Callable[[b.Batch], int], frontend: str | None, as_json: bool) -> None:
    """Says of how many items of each batch something would be done."""

    async def look(stub: api.Frontend) -> list[b.Batch]:
        return [await stub.get_batch(b.GetBatchRequest(id=each)) for each in ids]

    found = ask(frontend, look)
    if as_json:
        print_json([{"id": each.id, "dry_run": True, "items": count(each)} for each in found])
        return
    for each in found:
        print(one_line(f"{each.id}: {count(each)} of {each.items} items {what} (it is {batch_word(each.status)})"))
