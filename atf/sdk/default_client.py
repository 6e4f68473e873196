"""The client by which a lambda's own `.schedule(...)` goes: one for the process, made at the first call.

What makes a client is registered here (public.py does), since clients import what declares lambdas.
"""

from __future__ import annotations

import threading  # noqa: TID251  of the program that schedules, which may have several
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atf.client import Client

_lock = threading.Lock()
_clients: list[Client] = []
"""The innermost last; the first may be the one of ATF_FRONTEND."""
_makers: list[Callable[[], Client]] = []


def register_client(make: Callable[[], Client]) -> None:
    """Says what makes the client of ATF_FRONTEND."""
    _makers[:] = [make]


def default_client() -> Client:
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
def use_client(client: Client) -> Iterator[Client]:
    """Within the block, in every thread, a lambda's own `.schedule(...)` goes by this client."""
    with _lock:
        _clients.append(client)
    try:
        yield client
    finally:
        with _lock:
            _clients.remove(client)
