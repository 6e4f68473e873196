"""The client by which a lambda's own `.schedule(...)` goes: one for the process, made at the first call."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .blocking_client import Client

_lock = threading.Lock()
_clients: list[Client] = []
"""The innermost last; the first may be the one of ATF_FRONTEND."""


def default_client() -> Client:
    """The client of ATF_FRONTEND or localhost:7401, unless `use_client` says otherwise."""
    if not _clients:
        client = Client()
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
