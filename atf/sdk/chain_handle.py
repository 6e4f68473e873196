"""The handle of a chain: waits for its last link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from atf.rpc import batch_pb2 as b

from .batch_info import BatchProgress
from .blocking import Bridged, LoopBridge, blocking
from .payload import withheld

R = TypeVar("R")


class ChainClient(Protocol):
    """What the handle of a chain asks of a client; AsyncClient says what each call does."""

    async def wait_chain(self, batch_id: str, links: int, timeout: float | None, /) -> b.Batch: ...
    async def chain_results(self, batch_id: str, links: int, timeout: float | None, /) -> Sequence[b.Item]: ...
    async def cancel_chain(self, batch_id: str, links: int, /) -> b.Batch: ...


class ChainHandle(Bridged, Generic[R]):
    """A chain that was submitted.

    Attributes:
        id: of the batch that it begins with.
    """

    def __init__(
        self,
        client: ChainClient,
        loop_bridge: LoopBridge,
        batch_id: str,
        links: int,
        decode: Callable[[bytes, int], Any],
        *,
        single: bool,
    ) -> None:
        super().__init__(loop_bridge)
        self.id = batch_id
        self._client = client
        self._links = links
        self._decode = decode
        self._single = single

    def __repr__(self) -> str:
        return f"<ChainHandle {self.id}>"

    async def wait_async(self, timeout: float | None = None) -> BatchProgress:
        """Waits until the chain has ended: with its last link, or at the first that did not succeed.

        Args:
            timeout: seconds; None: for ever.

        Returns:
            where the batch of that link stands.

        Raises:
            TimeoutError: it has not ended yet.
        """
        return BatchProgress.from_proto(
            await self._loop_bridge.hop(self._client.wait_chain(self.id, self._links, timeout))
        )

    async def result_async(self, timeout: float | None = None) -> R:
        """What the last link returned; of a map alone, the list of its results.

        Raises:
            TaskFailed, TaskCancelled: a link did not succeed; says which item of which batch, and why.
            TimeoutError: it has not ended within so many seconds.
        """
        items = await self._loop_bridge.hop(self._client.chain_results(self.id, self._links, timeout))
        for each in items:
            if each.withheld:
                raise withheld(each.task_id)
        results: Any = [self._decode(each.result, each.result_encoding) for each in items]
        value: R = results[0] if self._single or self._links else results
        return value

    async def cancel_async(self) -> BatchProgress:
        """Cancels the link that is at work, or is next; nothing follows it."""
        return BatchProgress.from_proto(await self._loop_bridge.hop(self._client.cancel_chain(self.id, self._links)))

    wait = blocking(wait_async)
    result = blocking(result_async)
    cancel = blocking(cancel_async)
