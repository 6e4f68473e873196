"""A store consumer says which runs were lost with their leases: nobody else can."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import fakeredis
import pytest

from atf.config.settings import StoreSettings, Timing
from atf.store.store import Store
from atf.store.values.claims import ClaimRenewal, HeldClaim
from atf.store.values.tasks import NewTask
from atf.testing.runtime import VirtualRuntime
from atf.testing.wiring import Wiring
from tests.claiming import claim_ids, pop_ids
from tests.known import know
from tests.virtual import virtual

LAMBDA = "shop/mail"


class World:
    def __init__(self, store: Store, runtime: VirtualRuntime) -> None:
        self.store = store
        self.consumer = Wiring(runtime, Timing()).consumer(store)

    async def lose(self, *, started: bool, max_losses: int = 2, times: int = 1) -> str:
        """Lets leases of a task end in silence; answers its id."""
        task = NewTask("a", 0, LAMBDA, 1, b"", b"", None, 0, 10, max_losses, 86_400_000_000)
        (made,) = await self.store.schedule([task])
        await self.consumer.poll([0])
        for number in range(times):
            await pop_ids(self.store, 0, [[f"{LAMBDA}:1"]], 10)
            batch = await claim_ids(self.store, "e1", f"nonce-{number}", [made.id])
            (claim,) = batch.claims
            if started:
                await self.store.heartbeat([ClaimRenewal(HeldClaim(made.id, claim.counter, claim.nonce), started=True)])
            await asyncio.sleep(20)
            await self.consumer.poll([0])
        return made.id


@contextlib.asynccontextmanager
async def opened(runtime: VirtualRuntime) -> AsyncIterator[World]:
    store = await Store.open(StoreSettings(partitions=1), Timing(), runtime, fake=fakeredis.FakeServer())
    await know(store, LAMBDA)
    store.now = runtime.wall_us
    built = World(store, runtime)
    await built.consumer.poll([0])
    await asyncio.sleep(20)  # until it believes the store's clock
    await built.consumer.poll([0])
    yield built
    await store.close()


def test_each_run_whose_lease_expired_is_said_once_and_the_last_one_as_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @virtual(opened)
    async def story(w: World) -> None:
        await w.lose(started=True, times=2)

    story()
    said = [line for line in capsys.readouterr().err.splitlines() if "run lost" in line]
    assert len(said) == 2
    for line, level, loss in zip(said, ("warning", "error"), ("1 of 2", "2 of 2"), strict=True):
        for part in (level, "0-a", LAMBDA, loss, "lease expired", "e1"):
            assert part in line, part


def test_what_counts_nothing_is_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    @virtual(opened)
    async def story(w: World) -> None:
        await w.lose(started=False)

    story()
    assert "run lost" not in capsys.readouterr().err
