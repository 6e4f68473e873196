"""Chains: lambdas that run one after another, each given what the one before returned. Built of batches and their callbacks.

    (fetch.s("http://x") | parse.s() | store.s(table="pages")).submit()      one after another
    (thumbnail.map_s(paths) | album.s(title="Cats")).submit()                fan out, and in: album gets the list of all results

A chain begins with a batch, of one item or many. What follows is that batch's callback on success, and becomes a batch of one item of
its own, with the rest of the chain as its callback.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from atf.rpc import batch_pb2 as b

from .default_client import SchedulingClient, default_client
from .option_kinds import BatchOptions

if TYPE_CHECKING:
    from .chain_handle import ChainHandle
    from .schedulable import Schedulable

R = TypeVar("R")
S = TypeVar("S")


class Step(Generic[R]):
    """A lambda with some of its arguments, to be run later: made by `thumbnail.s(...)`."""

    def __init__(self, of: Schedulable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.of = of
        self.args = args
        self.kwargs = kwargs

    def __repr__(self) -> str:
        return f"<Step {self.of.name}>"

    def __or__(self, then: Step[S]) -> Chain[S]:
        """This one, and `then` with its result as the first argument."""
        return self._alone() | then

    def submit(self, client: SchedulingClient | None = None, *, batch_id: str | None = None) -> ChainHandle[R]:
        """See Chain.submit."""
        return self._alone().submit(client, batch_id=batch_id)

    async def submit_async(
        self, client: SchedulingClient | None = None, *, batch_id: str | None = None
    ) -> ChainHandle[R]:
        """See Chain.submit."""
        return await self._alone().submit_async(client, batch_id=batch_id)

    def _alone(self) -> Chain[R]:
        return Chain(self.of, [self.of.element(self.args, self.kwargs)], {}, single=True)

    def describe_callback(self, callback: b.Callback, what: str) -> None:
        """As what runs when a batch has ended: given its summary as the argument `batch`, if it has such a parameter."""
        takes = self.of.takes("batch")
        callback.gives = b.Callback.SUMMARY if takes else b.Callback.NOTHING
        callback.parameter = "batch" if takes else ""
        callback.task.CopyFrom(self.of.task_without("batch" if takes else "", self.args, self.kwargs, what))

    def describe_link(self, callback: b.Callback, *, unwrap: bool) -> None:
        """As what follows in a chain: given what came before as its first argument."""
        callback.when = b.Callback.SUCCESS_OF_ALL
        callback.gives = b.Callback.RESULTS
        callback.parameter = self.of.first_parameter()
        callback.unwrap = unwrap
        callback.as_batch = True
        callback.task.CopyFrom(self.of.task_without(callback.parameter, self.args, self.kwargs, "chain"))


class Chain(Generic[R]):
    """What shall run one after another. Nothing runs before it is submitted.

    Attributes:
        of, items, options: the batch that it begins with.
        single: whether that is a single step, whose result the next one gets by itself instead of in a list.
        links: what follows.
    """

    def __init__(
        self,
        of: Schedulable[..., Any],
        items: Iterable[Any] | AsyncIterable[Any],
        options: BatchOptions,
        *,
        single: bool,
        links: tuple[Step[Any], ...] = (),
    ) -> None:
        self.of = of
        self.items = items
        self.options = options
        self.single = single
        self.links = links

    def __repr__(self) -> str:
        return f"<Chain {' | '.join(each.name for each in (self.of, *(link.of for link in self.links)))}>"

    def __or__(self, then: Step[S]) -> Chain[S]:
        """This, and `then` with its result as the first argument."""
        if isinstance(then, Chain):
            raise TypeError(
                f"{then!r}: only a chain's beginning may be a chain or a map. To run an item for each part of a result, let a"
                " lambda make them: ctx.batch.extend(...), or .map(...)"
            )
        if not isinstance(then, Step):
            raise TypeError(f"a chain goes on with `lambda.s(...)`, not with {then!r}")
        return Chain(self.of, self.items, self.options, single=self.single, links=(*self.links, then))

    def submit(self, client: SchedulingClient | None = None, *, batch_id: str | None = None) -> ChainHandle[R]:
        """Schedules the chain, and blocks until it is stored.

        Args:
            client: by which; None: the default one.
            batch_id: of the batch that it begins with; the same call again with it finds the chain.

        Raises:
            TypeError: a step can't be given what comes before it; names the argument.
            AtfError: as for `map`.
        """
        return (client or default_client()).chain(self, batch_id=batch_id)

    async def submit_async(
        self, client: SchedulingClient | None = None, *, batch_id: str | None = None
    ) -> ChainHandle[R]:
        """Like `submit`, from any event loop."""
        return await (client or default_client()).chain_async(self, batch_id=batch_id)

    def add_links(self, spec: b.BatchSpec) -> None:
        """Adds what follows to the description of the batch that the chain begins with, as its first callback."""
        if not self.links:
            return
        callbacks = list(spec.callbacks)
        del spec.callbacks[:]
        callback = spec.callbacks.add()
        spec.callbacks.extend(callbacks)
        unwrap = self.single
        for place, link in enumerate(self.links):
            link.describe_link(callback, unwrap=unwrap)
            unwrap = True
            if place + 1 < len(self.links):
                callback = callback.then.add()
