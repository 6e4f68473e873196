"""The task store on fakeredis: tests, and `atf up --store memory`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fakeredis

from .connection import Link


def fake_link(fake: Any, server: Callable[[], tuple[str, str]] = lambda: ("fake", "1")) -> Link:
    """A link to a fakeredis.FakeServer.

    Args:
        fake: the FakeServer.
        server: answers (run id, "1" where it forgets nothing), since fakeredis has no INFO.
    """
    pool = fakeredis.FakeAsyncRedis(server=fake).connection_pool
    return Link(pool, "memory", lambda: fakeredis.FakeRedis(server=fake), server)
