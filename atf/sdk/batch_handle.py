"""Gives a program a handle to a batch: where it stands, its items, its results."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, cast, get_args

from atf.errors import InvalidArgument, NotDecrypted
from atf.rpc import batch_pb2 as b

from .batch import ItemStatus
from .batch_info import BatchProgress, ItemInfo, Rate, error_of, statuses_of
from .blocking import Bridged, LoopBridge, Pages, blocking
from .items import Elements, Target, check_target
from .payload import decode_result, short, withheld

R = TypeVar("R")

Failed = Literal["raise", "yield", "skip"]
"""What `results` does at an item that failed for good or was cancelled."""
_FAILURES: Final = (ItemStatus.PERMANENTLY_FAILED, ItemStatus.CANCELLED)


class BatchClient(Protocol):
    """What the handle of a batch asks of a client; AsyncClient says what each call does."""

    def hide_texts(self, texts: Sequence[str], /) -> list[str]: ...
    async def get_batch(self, batch_id: str, /) -> b.Batch: ...
    async def wait_batch(self, batch_id: str, timeout: float | None, /) -> b.Batch: ...
    def watch_batch(self, batch_id: str, every: float, /) -> AsyncGenerator[b.Batch, None]: ...
    def batch_items(
        self, batch_id: str, statuses: Iterable[ItemStatus], /, *, arguments: bool
    ) -> AsyncGenerator[Sequence[b.Item], None]: ...
    def finished_items(self, batch_id: str, timeout: float | None, /) -> AsyncGenerator[Sequence[b.Item], None]: ...
    async def batch_item(self, batch_id: str, work_item_id: str, /) -> b.Item: ...
    async def finished_item(self, batch_id: str, work_item_id: str, /) -> b.Item: ...
    async def cancel_batch(self, batch_id: str, /) -> b.Batch: ...
    async def retry_batch(self, batch_id: str, /) -> b.Batch: ...
    async def delete_batch(self, batch_id: str, /) -> bool: ...
    async def close_batch(self, batch_id: str, /) -> b.Batch: ...
    async def extend_batch(
        self, batch_id: str, elements: Elements, items: Iterable[Any] | AsyncIterable[Any], /, *, request_id: str
    ) -> b.Batch: ...


class Batch(Bridged, Generic[R]):
    """A batch: one task for each of many lists of arguments.

    Attributes:
        id: with which everything is asked.
        lambda_name: "namespace/name"; empty where only the id is known.
    """

    def __init__(self, client: BatchClient, loop_bridge: LoopBridge, batch_id: str, elements: Elements | None) -> None:
        super().__init__(loop_bridge)
        self.id = batch_id
        self.lambda_name = elements.name if elements is not None else ""
        self._client = client
        self._elements = elements
        self._rate = Rate()

    def __repr__(self) -> str:
        return f"<Batch {self.id}>"

    async def progress_async(self) -> BatchProgress:
        """Where the batch stands now.

        Raises:
            NotFound: there is no such batch, or it has expired.
        """
        return self._seen(await self._loop_bridge.hop(self._client.get_batch(self.id)))

    def watch_async(self, every: float = 0.25) -> AsyncIterator[BatchProgress]:
        """Where the batch stands, now and whenever that has changed, until it has ended: that comes last.

        Args:
            every: seconds between two of them at least.

        Raises:
            NotFound: as for `progress`.
        """
        return self._hops(self._watched(every))

    def watch(self, every: float = 0.25) -> Iterator[BatchProgress]:
        """Like `watch_async`, blocking."""
        return self._steps(self._watched(every))

    def _watched(self, every: float) -> Pages[BatchProgress]:
        return self._client.watch_batch(self.id, every), lambda batch: (self._seen(batch),)

    async def wait_async(self, timeout: float | None = None) -> BatchProgress:
        """Waits until every item has ended, well or not.

        Args:
            timeout: seconds; None: for ever.

        Raises:
            TimeoutError: it has not ended yet.
            NotFound: as for `progress`.
        """
        return self._seen(await self._loop_bridge.hop(self._client.wait_batch(self.id, timeout)))

    def results_async(self, *, failed: Failed = "raise", timeout: float | None = None) -> AsyncIterator[R]:
        """What the handler returned, item by item in their order, each as soon as it is there. Memory holds a page of them.

        Args:
            failed: what becomes of an item that failed for good or was cancelled: "raise" raises its error, after the results
                before it; "yield" gives the error, a TaskFailed or TaskCancelled, in the result's place; "skip" passes over it. A result that
                can't be decrypted here is a NotDecrypted, which "yield" gives likewise and "skip" raises.
            timeout: seconds until the last one; None: for ever.

        Raises:
            TaskFailed, TaskCancelled: an item has no result; says which and why.
            NotDecrypted: its result can't be decrypted here.
            TimeoutError: not all items have ended in time.
            NotFound: there is no such batch, or it has expired.
        """
        return self._hops(self._finished(failed, timeout))

    def results(self, *, failed: Failed = "raise", timeout: float | None = None) -> Iterator[R]:
        """Like `results_async`, blocking."""
        return self._steps(self._finished(failed, timeout))

    def _finished(self, failed: Failed, timeout: float | None) -> Pages[R]:
        if failed not in get_args(Failed):
            raise InvalidArgument(f"failed={short(failed)}: use 'raise', 'yield' or 'skip'")
        pages = self._client.finished_items(self.id, timeout)
        return pages, lambda page: (result for item in page for result in self._result(item, failed))

    def items_async(
        self, status: ItemStatus | str | Iterable[ItemStatus | str] | None = None, *, arguments: bool = False
    ) -> AsyncIterator[ItemInfo]:
        """The items in their order, as they stand. Memory holds a page of them.

        Args:
            status: only those, by status or its name, one or several; None: all.
            arguments: with their arguments.
        """
        return self._hops(self._listed(status, arguments))

    def items(
        self, status: ItemStatus | str | Iterable[ItemStatus | str] | None = None, *, arguments: bool = False
    ) -> Iterator[ItemInfo]:
        """Like `items_async`, blocking."""
        return self._steps(self._listed(status, arguments))

    def _listed(self, status: Any, arguments: bool) -> Pages[ItemInfo]:
        pages = self._client.batch_items(self.id, statuses_of(status), arguments=arguments)
        return pages, lambda page: map(self._info, page)

    def failures_async(self, *, arguments: bool = False) -> AsyncIterator[ItemInfo]:
        """The items that failed for good or were cancelled, in their order."""
        return self.items_async(_FAILURES, arguments=arguments)

    def failures(self, *, arguments: bool = False) -> Iterator[ItemInfo]:
        """Like `failures_async`, blocking."""
        return self.items(_FAILURES, arguments=arguments)

    async def item_of_async(self, *args: Any, **kwargs: Any) -> ItemInfo:
        """The item with these arguments, found by its work-item id; of identical ones the first.

        Raises:
            NotFound: the batch has none with them.
            TypeError: they do not fit the lambda; or the batch is known by its id alone.
        """
        work_item_id = self._known().work_item_id(args, kwargs, self._client.hide_texts)
        return self._info(await self._loop_bridge.hop(self._client.batch_item(self.id, work_item_id)))

    async def result_of_async(self, *args: Any, **kwargs: Any) -> R:
        """What the handler returned for these arguments; waits for it.

        Raises:
            TaskFailed, TaskCancelled: the item has no result.
            NotDecrypted: its result can't be decrypted here.
            NotFound, TypeError: as for `item_of`.
        """
        work_item_id = self._known().work_item_id(args, kwargs, self._client.hide_texts)
        item = await self._loop_bridge.hop(self._client.finished_item(self.id, work_item_id))
        return next(iter(self._result(item, "raise")))

    async def cancel_async(self) -> BatchProgress:
        """Cancels the items that have not started, asks those that run to stop, and takes no more items."""
        return self._seen(await self._loop_bridge.hop(self._client.cancel_batch(self.id)))

    async def retry_async(self) -> BatchProgress:
        """Starts the items afresh that failed for good.

        Raises:
            FailedPrecondition: the batch was cancelled.
        """
        return self._seen(await self._loop_bridge.hop(self._client.retry_batch(self.id)))

    async def delete_async(self) -> bool:
        """Deletes the batch with its items; False: there was none.

        Raises:
            FailedPrecondition: it has not ended.
        """
        return await self._loop_bridge.hop(self._client.delete_batch(self.id))

    async def extend_async(
        self, items: Iterable[Any] | AsyncIterable[Any], *, target: Target | None = None, request_id: str = ""
    ) -> BatchProgress:
        """Adds items behind all that the batch has; it may have ended, and is in progress again then. One that was kept open stays so.

        Args:
            items: as for `map`.
            target: as for `map`, of a batch with a pause; None: that of the call that gave this handle.
            request_id: 1 to 50 of A-Z a-z 0-9 _ -: the same call again with it goes on where it broke off, and adds nothing twice;
                empty: each call adds.

        Raises:
            InvalidArgument: an item does not fit; those before it are in.
            FailedPrecondition: the batch was cancelled.
        """
        check_target(target)
        elements = self._known() if target is None else self._known().targeting(target)
        added = self._client.extend_batch(self.id, elements, items, request_id=request_id)
        return self._seen(await self._loop_bridge.hop(added))

    async def close_async(self) -> BatchProgress:
        """Says that the items are all there, of a batch that was kept open (`keep_open`): it ends when they have.

        Any other batch that is not complete is closed, too, at the items that are stored: further ones of its maker, which is still at
        work or broke off and goes on, are refused (FailedPrecondition). One that is complete is left as it is.

        Raises:
            NotFound: there is no such batch, or it has expired.
        """
        return self._seen(await self._loop_bridge.hop(self._client.close_batch(self.id)))

    progress = blocking(progress_async)
    wait = blocking(wait_async)
    item_of = blocking(item_of_async)
    result_of = blocking(result_of_async)
    cancel = blocking(cancel_async)
    retry = blocking(retry_async)
    delete = blocking(delete_async)
    extend = blocking(extend_async)
    close = blocking(close_async)

    def _known(self) -> Elements:
        if self._elements is None:
            raise TypeError(f"batch {self.id}: of which lambda? client.batch_handle(id, of=thumbnail) knows")
        return self._elements

    def _seen(self, batch: b.Batch) -> BatchProgress:
        return BatchProgress.from_proto(batch, self._rate.of(batch))

    def _decode(self, item: b.Item) -> Callable[[bytes, int], Any]:
        if self._elements is not None:
            return self._elements.decode
        return lambda result, encoding: decode_result(item.task_id, result, encoding)

    def _info(self, item: b.Item) -> ItemInfo:
        return ItemInfo.from_proto(item, self._decode(item))

    def _result(self, item: b.Item, failed: Failed) -> Iterable[R]:
        if item.status == b.ITEM_DONE:
            if item.withheld:
                raise withheld(item.task_id)
            try:
                return (self._decode(item)(item.result, item.result_encoding),)
            except NotDecrypted as unread:
                if failed != "yield":  # "skip", too: it has a result, which nobody is to overlook
                    raise
                return (cast("R", unread),)
        error: Any = error_of(self.id, item)
        if failed == "raise":
            raise error
        return (error,) if failed == "yield" else ()
