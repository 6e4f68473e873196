"""Lambdas that a store's partitions know, for tests in which nobody registers them: of one that they don't know they push nothing."""

from __future__ import annotations

from atf.store.store import Store
from atf.task import DEFAULT_ENQUEUE_TIMEOUT_US, DEFAULT_QUEUE_LIMIT


async def know(store: Store, *names: str) -> None:
    """Tells all partitions of lambdas, with the defaults, as the registry partition does once they are registered; those they know stay as they are."""
    for partition in range(store.partitions):
        for name in names:
            key = f"atf:{{{partition}}}:l:{name}"
            for field, value in (("limit", DEFAULT_QUEUE_LIMIT), ("timeout", DEFAULT_ENQUEUE_TIMEOUT_US)):
                await store.link.command("HSETNX", key, field, value, key=key)
