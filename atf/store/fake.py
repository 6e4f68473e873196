"""The task store on fakeredis: tests, and `atf up --store memory`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atf.errors import ConfigError

from .connection import Link


def fake_link(fake: Any, server: Callable[[], tuple[str, str]] = lambda: ("fake", "1")) -> Link:
    """A link to a fakeredis.FakeServer.

    Args:
        fake: the FakeServer.
        server: answers (run id, "1" where it forgets nothing), since fakeredis has no INFO.

    Raises:
        ConfigError: fakeredis is not installed.
    """
    try:
        import fakeredis
    except ImportError:
        raise ConfigError("the store in memory needs fakeredis: pip install 'atf-tasks[testing]'") from None
    pool = fakeredis.FakeAsyncRedis(server=fake).connection_pool
    return Link(pool, "memory", lambda: fakeredis.FakeRedis(server=fake), server)
