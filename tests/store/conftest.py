"""A store for every test of this folder, on fakeredis and on real servers, with a clock that the test moves.

ATF_TEST_SERVERS=/path/to/redis-server:/another/valkey-server:cluster:sentinel runs the same tests on these servers too, on a
cluster of three nodes, and on a master behind Sentinels. Otherwise they run on Redis 7.0, too, where `make contract` has fetched it.
On fakeredis every function watches its own keys (watched.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import fakeredis
import pytest

from atf.config.settings import StoreSettings, Timing
from atf.embedded.binary import find_binary
from atf.runtime import Runtime, SystemRuntime
from atf.store import library
from atf.store.store import Store
from tests.known import know

from .modes import MODES, running_mode
from .servers import OLDEST, Server, more_binaries, running
from .versions import CURRENT, in_place
from .watched import watched
from .world import LAMBDA, Clock, World

FAKE = "fake"
EMBEDDED = "embedded"
_MORE = more_binaries()
BACKENDS = [FAKE, EMBEDDED, *_MORE]

OpenStore = Callable[..., Awaitable[Store]]


def _name(backend: str) -> str:
    if backend == str(OLDEST):
        return OLDEST.parent.name
    return backend if backend in {FAKE, EMBEDDED} else f"{Path(backend).name}@{_MORE.index(backend)}"


@pytest.fixture(scope="session")
def server_of() -> Iterator[Callable[[str], Any]]:
    """Starts a real server when it is first asked for; all of them end with the session."""
    with contextlib.ExitStack() as stack:
        started: dict[str, Any] = {}

        def get(backend: str) -> Any:
            if backend not in started:
                binary = str(find_binary().path) if backend == EMBEDDED else backend
                if backend in MODES:
                    started[backend] = stack.enter_context(running_mode(backend))
                else:
                    started[backend] = stack.enter_context(running(binary))
            return started[backend]

        yield get


def _codes(client: Any) -> set[str]:
    """The sources of the function libraries that a server has, or several."""
    found = [dict(zip(each[::2], each[1::2], strict=True)) for each in client.function_list(withcode=True)]
    return {each[b"library_code"].decode() for each in found}


@pytest.fixture
def clock() -> Clock:
    return Clock()


def _param(backend: str) -> Any:
    # What fakeredis has shown is shown again on a real server, a part at a time: that both answer alike is what test_contract.py tries.
    real = [pytest.mark.processes] if backend != FAKE else []
    return pytest.param(
        backend, id=_name(backend), marks=[*real, *([pytest.mark.sweep(6)] if backend == EMBEDDED else [])]
    )


@pytest.fixture(params=map(_param, BACKENDS))
async def open_store(
    request: pytest.FixtureRequest, server_of: Callable[[str], Any], clock: Clock
) -> AsyncIterator[OpenStore]:
    """Opens stores of an empty backend; each call is another process's view of the same data.

    Only passes push, unless a test says otherwise (test_pushing.py): most tests take a task hop by hop.
    """
    async with contextlib.AsyncExitStack() as stack:
        backend: str = request.param
        fake: Any = None
        url = ""
        if backend == FAKE:
            fake = fakeredis.FakeServer(version=(7, 4))
            stack.enter_context(in_place(watched(library.CURRENT)))
        else:
            server = server_of(backend)
            url = server.url
            with contextlib.closing(server.client()) as client:
                client.flushall()
                if _codes(client) - {CURRENT.source}:
                    client.function_flush()  # only then: to load the functions takes longer than most tests

        async def open_it(
            partitions: int = 2,
            *,
            kind: type[Store] = Store,
            timing: Timing | None = None,
            agree: bool = True,
            known: bool = True,
            runtime: Runtime | None = None,
            **settings: Any,
        ) -> Store:
            settings = {"partitions": partitions, "push_when_scheduled": False, **settings}
            if url:
                if (
                    library.CURRENT is not CURRENT and library.CURRENT.name == CURRENT.name
                ):  # else those there would be taken for these
                    with contextlib.closing(server.client()) as client:
                        client.function_flush()
                settings["redis_url"] = url
            store = await kind.open(
                StoreSettings(**settings), timing or Timing(), runtime or SystemRuntime(), fake=fake, agree=agree
            )
            stack.push_async_callback(store.close)
            store.now = clock
            if known:
                await know(store, LAMBDA)
            return store

        yield open_it


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    """A store of two partitions."""
    return await open_store()


@pytest.fixture
def world(store: Store, clock: Clock) -> World:
    return World(store, clock)


@pytest.fixture
def embedded(server_of: Callable[[str], Any]) -> Server:
    """The real server that every test has at hand."""
    server: Server = server_of(EMBEDDED)
    return server
