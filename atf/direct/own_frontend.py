"""Opens a task store and puts a frontend on it, for the client in this process."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from atf.config.loading import load
from atf.config.settings import FrontendSettings, StoreSettings, Timing
from atf.errors import AtfError, FailedPrecondition, Internal
from atf.frontend.pending import PARTS_OF_DIRECT
from atf.frontend.service import FrontendService
from atf.log import get_logger
from atf.metrics.metrics import UnreadMetrics
from atf.rpc.stub import snake_case
from atf.runtime import Runtime
from atf.store.store import Store

_log = get_logger()


class OwnFrontend:
    """A frontend, and the store that it alone uses."""

    def __init__(self, store: Store, service: FrontendService) -> None:
        self.store, self._service = store, service
        self._methods: dict[str, Any] = {}

    def method(self, path: str) -> Any:
        """What answers the calls of a gRPC path."""
        found = self._methods.get(path)
        if found is None:
            found = self._methods[path] = getattr(self._service, snake_case(path.rpartition("/")[2]))
        return found

    def drain(self) -> None:
        """Ends what waits."""
        self._service.drain()


Opener = Callable[[Runtime], Coroutine[Any, Any, OwnFrontend]]
"""Opens one, with the clocks of whoever turns the event loop."""


def opener(url: str, *, blocking_s: float = 0.0, operator: bool = False) -> Opener:
    """What opens a frontend of one's own on a store.

    Args:
        url: of the store. What else it takes is set as for a frontend's process: by ATF_ variables and atf.toml.
        blocking_s: where calls of the store block their thread, for how many seconds each at most; 0: none does.
        operator: whether it is for the operator of the store, who need not allow it first.
    """

    async def open_it(runtime: Runtime) -> OwnFrontend:
        settings = replace(load(StoreSettings, table="frontend"), redis_url=url)
        if blocking_s:
            settings = replace(settings, store_timeout=min(settings.store_timeout, blocking_s))
        frontend = load(FrontendSettings, table="frontend")
        store = await Store.open(
            settings, load(Timing, table="frontend"), runtime, agree=False, blocking=blocking_s > 0
        )
        return await put_on(store, frontend, runtime, operator=operator)

    return open_it


async def put_on(store: Store, settings: FrontendSettings, runtime: Runtime, *, operator: bool = False) -> OwnFrontend:
    """A frontend on a store that is open; it is closed where the store's operator wants none, unless it is for that operator.

    Raises:
        FailedPrecondition: the operator has not allowed it.
    """
    try:
        if not operator and not await store.direct_allowed():
            where = store.link.where
            raise FailedPrecondition(
                f"the task store at {where} takes no direct clients: give the client the HOST:PORT of a frontend, or have the store's operator"
                " allow them: atf store direct --allow"
            )
    except BaseException:
        await store.close()
        raise
    store.metrics = UnreadMetrics()
    service = FrontendService(store=store, settings=settings, runtime=runtime, parts=PARTS_OF_DIRECT)
    return OwnFrontend(store, service)


def told(path: str, error: Exception) -> AtfError:
    """What a caller is told of an error that its frontend raised, as a server would: a bug is INTERNAL, and is logged."""
    if isinstance(error, AtfError):
        return error
    name = path.rpartition("/")[2]
    _log.error("call failed", method=name, error=repr(error), exc_info=error)
    return Internal(f"{name} failed inside the client's own frontend; the log has the details")
