"""Executors of two releases: a task that does not fit one of them goes to the other."""

from __future__ import annotations

import asyncio

from tests.virtual import virtual

from .world import World, ids_of, world

OLD, NEW = "aaaaaaaaaaaa", "bbbbbbbbbbbb"


@virtual(world())
async def test_it_is_given_to_the_executor_of_the_other_release_that_waits_and_to_no_other(w: World) -> None:
    newer = w.asking("e2", signature=NEW, wait=30)
    older = w.asking("e3", signature=OLD, wait=2)
    await w.store.serve("", 60, "", None, [f"shop/mail {OLD}", f"shop/mail {NEW}"])
    newer.cancel()
    (task_id,) = await w.enqueue(1)
    reply = await older
    assert ids_of(reply) == [task_id]
    older, newer = w.asking("e3", signature=OLD, wait=5), w.asking("e2", signature=NEW, wait=5)
    await asyncio.sleep(0.1)
    began = w.runtime.monotonic()
    await w.misfit(reply, OLD)
    await w.consume()
    assert ids_of(await newer) == [task_id]
    assert w.runtime.monotonic() - began < 0.1
    assert ids_of(await older) == []
