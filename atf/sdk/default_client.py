"""The client by which a lambda's own `.schedule(...)` goes: one for the process, made at the first call.

What makes a client is registered here (public.py does), since clients import what declares lambdas.
"""

from __future__ import annotations

import threading  # noqa: TID251  of the program that schedules, which may have several
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, overload

if TYPE_CHECKING:
    from .batch_handle import Batch
    from .chain_handle import ChainHandle
    from .chains import Chain
    from .handle import Handle
    from .option_kinds import BatchOptions
    from .schedulable import Prepared, Schedulable

R = TypeVar("R")


class SchedulingClient(Protocol):
    """What lambdas, apps, chains and contexts ask of a client; atf.Client says what each call does."""

    def schedule(self, task: Prepared[R], /) -> Handle[R]: ...
    async def schedule_async(self, task: Prepared[R], /) -> Handle[R]: ...
    @overload
    def batch(self, of: Schedulable[..., R], items: Iterable[Any], **options: Unpack[BatchOptions]) -> Batch[R]: ...
    @overload
    def batch(self, of: str, items: Iterable[Any], **options: Unpack[BatchOptions]) -> Batch[Any]: ...
    async def batch_async(
        self,
        of: Schedulable[..., R] | str,
        items: Iterable[Any] | AsyncIterable[Any],
        **options: Unpack[BatchOptions],
    ) -> Batch[R]: ...
    def batch_handle(self, batch_id: str, of: Schedulable[..., R] | str | None, /) -> Batch[R]: ...
    def chain(self, chain: Chain[R], /, *, batch_id: str | None) -> ChainHandle[R]: ...
    async def chain_async(self, chain: Chain[R], /, *, batch_id: str | None) -> ChainHandle[R]: ...


ClientT = TypeVar("ClientT", bound=SchedulingClient)

_lock = threading.Lock()
_clients: list[SchedulingClient] = []
"""The innermost last; the first may be the one of ATF_FRONTEND."""
_makers: list[Callable[[], SchedulingClient]] = []


def register_client(make: Callable[[], SchedulingClient]) -> None:
    """Says what makes the client of ATF_FRONTEND."""
    _makers[:] = [make]


def default_client() -> SchedulingClient:
    """The client of ATF_FRONTEND or localhost:7401, unless `use_client` says otherwise."""
    if not _clients:
        if not _makers:
            raise RuntimeError(
                "there is no client yet: `import atf`, and take App from there, or use atf.use_client(...)"
            )
        client = _makers[0]()
        with _lock:
            if not _clients:
                _clients.append(client)
    return _clients[-1]


@contextmanager
def use_client(client: ClientT) -> Iterator[ClientT]:
    """Within the block, in every thread, a lambda's own `.schedule(...)` goes by this client."""
    with _lock:
        _clients.append(client)
    try:
        yield client
    finally:
        with _lock:
            _clients.remove(client)
