"""Commands that change batches: retry, cancel, delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from atf.cli.confirmation import confirm
from atf.cli.options import asks, bulk_flags, lists, why_flag
from atf.cli.output import show
from atf.cli.remote import ask
from atf.client.whoami import signed, whoami
from atf.rpc import api, batch_pb2 as b

from .view import batch_word, show_batches

R = TypeVar("R")

ids_argument = click.argument("ids", metavar="BATCH...", nargs=-1, required=True)


@click.command()
@ids_argument
@why_flag
@bulk_flags
@lists
def retry(ids: tuple[str, ...], why: str, dry_run: bool) -> None:
    """Start the items of batches afresh that failed for good."""
    if dry_run:
        _would(ids, "would start afresh", lambda each: each.permanently_failed)
        return
    question = f"Start the items of {len(ids)} batches afresh that failed for good"
    show_batches(
        _change(ids, question, lambda stub, each, said: stub.retry_batch(b.RetryBatchRequest(id=each, **said)), why)
    )


@click.command()
@ids_argument
@why_flag
@bulk_flags
@lists
def cancel(ids: tuple[str, ...], why: str, dry_run: bool) -> None:
    """Cancel the items of batches that have not started; ask those that run to stop."""
    if dry_run:
        _would(ids, "would be cancelled or asked to stop", lambda each: each.created + each.in_progress + each.failed)
        return
    question = f"Cancel {len(ids)} batches"
    show_batches(
        _change(ids, question, lambda stub, each, said: stub.cancel_batch(b.CancelBatchRequest(id=each, **said)), why)
    )


@click.command()
@ids_argument
@why_flag
@bulk_flags
@asks
def delete(ids: tuple[str, ...], why: str, dry_run: bool) -> None:
    """Delete batches that have ended, with their items."""
    if dry_run:
        _would(ids, "would be deleted", lambda each: each.items if each.ended_at_us else 0)
        return
    question = f"Delete {len(ids)} batches with their items"
    replies = _change(
        ids, question, lambda stub, each, said: stub.delete_batch(b.DeleteBatchRequest(id=each, **said)), why
    )
    done = [(name, reply.existed) for name, reply in zip(ids, replies, strict=True)]
    show(
        [{"id": name, "existed": existed} for name, existed in done],
        *(f"{name}: {'is being deleted' if existed else 'there is none'}" for name, existed in done),
    )


def _change(
    ids: tuple[str, ...], question: str, one: Callable[[api.Frontend, str, dict[str, Any]], Awaitable[R]], why: str
) -> list[R]:
    """Changes batches one after the other; several only after the question was answered."""
    confirm(question, many=len(ids) > 1)
    said = signed(whoami(), why)

    async def work(stub: api.Frontend) -> list[R]:
        return [await one(stub, name, said) for name in ids]

    return ask(work)


def _would(ids: tuple[str, ...], what: str, count: Callable[[b.Batch], int]) -> None:
    """Says of how many items of each batch something would be done."""

    async def look(stub: api.Frontend) -> list[b.Batch]:
        return [await stub.get_batch(b.GetBatchRequest(id=each)) for each in ids]

    found = ask(look)
    show(
        [{"id": each.id, "dry_run": True, "items": count(each)} for each in found],
        *(f"{each.id}: {count(each)} of {each.items} items {what} (it is {batch_word(each.status)})" for each in found),
    )
