"""What an executor shows: it is renewed in time, for the whole process and for isolated runs."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import sys
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from atf.auth.executor_credentials import Credential, of_code, sign
from atf.errors import AtfError, Unauthenticated, Unavailable
from atf.executor.credential import RENEWED_WITHIN_S, OfIsolatedRun, OnThisHost, OwnCredential, SharedMemory
from atf.rpc import task_pb2 as t
from atf.rpc.caller_security import Security
from atf.runtime import end
from atf.task import US
from atf.testing.runtime import VirtualRuntime
from tests.virtual import virtual

from .world import FakeController

LIFE_S: Final = 900
RENEWED_S: Final = RENEWED_WITHIN_S  # which is before half of that
ONE, TWO, THREE = (sign(Credential("abcdefghij", 9**each, "e" * each), b"key") for each in (1, 9, 2))


class Holder:
    """An executor's credential, and its controller."""

    def __init__(self, runtime: VirtualRuntime) -> None:
        self.runtime, self.controller = runtime, FakeController(runtime)
        self.own = OwnCredential("e1", "the secret", Security())
        self.over = asyncio.Event()

    def give(self, *answers: str | AtfError) -> None:
        self.controller.credentials.extend(
            t.Credential(secret=each, valid_for_us=LIFE_S * US) if isinstance(each, str) else each for each in answers
        )

    def keep(self) -> asyncio.Task[None]:
        return self.runtime.spawn(self.own.keep(self.controller, self.runtime, self.over.set), name="keep")

    @property
    def shown(self) -> list[str]:
        return [each.secret for each in self.controller.entered]


@contextlib.asynccontextmanager
async def holder(runtime: VirtualRuntime) -> AsyncIterator[Holder]:
    found = Holder(runtime)
    yield found


@virtual(holder)
async def test_it_is_renewed_soon_with_the_one_before(w: Holder) -> None:
    w.give(ONE, Unavailable("away"), TWO, THREE)
    await w.own.enter(w.controller)
    assert w.own.metadata() == (("authorization", f"Bearer {ONE}"),)
    keeping = w.keep()
    await asyncio.sleep(RENEWED_S - 1)
    assert w.shown == ["the secret"]
    await asyncio.sleep(17)  # also where the first try fails
    assert w.own.metadata() == (("authorization", f"Bearer {TWO}"),)
    assert w.shown == ["the secret", ONE, ONE]
    await asyncio.sleep(RENEWED_S)
    assert w.shown[3:] == [TWO]
    await end([keeping])


@virtual(holder)
async def test_an_executor_that_is_not_known_any_more_takes_no_more(w: Holder) -> None:
    w.give(ONE, Unauthenticated("it was revoked"))
    await w.own.enter(w.controller)
    await w.keep()
    assert w.over.is_set()
    assert w.runtime.monotonic() == RENEWED_S


@virtual(holder)
async def test_where_nothing_is_to_be_shown_nothing_is_renewed(w: Holder) -> None:
    await w.own.enter(w.controller)
    assert w.own.metadata() is None
    await w.keep()
    assert w.runtime.monotonic() == 0


@virtual(holder)
async def test_code_shows_what_its_executor_has_for_it_now(w: Holder) -> None:
    run = OfIsolatedRun(w.own.share(), Security())
    assert run.metadata() is None
    for secret in (ONE, TWO, THREE):
        w.give(secret)
        await w.own.enter(w.controller)
        assert w.own.metadata() == OnThisHost(w.own).metadata() == (("authorization", f"Bearer {secret}"),)
        assert run.metadata() == w.own.code.metadata() == (("authorization", f"Bearer {of_code(secret)}"),)
    os.close(w.own.share())


def test_nobody_reads_half_of_what_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the next one is written, the one before holds."""
    shared = SharedMemory()
    seen: list[str] = []
    shared.write("one")
    mapped: Any = shared._mapped  # noqa: SLF001  what comes between two writes can't be seen from outside

    class Half:
        def __setitem__(self, where: Any, what: Any) -> None:
            seen.append(shared.read())
            mapped[where] = what

    monkeypatch.setattr(shared, "_mapped", Half())
    shared.write("two")
    assert seen == ["one", "one"]
    assert shared.read() == "two"
    os.close(shared.descriptor)


@pytest.mark.skipif(sys.platform != "linux", reason="seals are Linux's")
def test_only_the_executor_writes_what_its_isolated_runs_show() -> None:
    shared = SharedMemory()
    shared.write("first")
    inherited = os.dup(shared.descriptor)
    for attack in (
        lambda: os.pwrite(inherited, b"x", 1),
        lambda: mmap.mmap(inherited, 8),
        lambda: os.ftruncate(inherited, 0),
    ):
        with pytest.raises(PermissionError):
            attack()
    shared.write("second")
    assert SharedMemory(inherited).read() == "second"
    os.close(inherited)
