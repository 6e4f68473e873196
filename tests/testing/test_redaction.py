"""Redacted arguments from end to end: the executor, the store and the frontend, without processes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import atf
from atf.client import AsyncClient
from atf.rpc import batch_pb2 as b, frontend_pb2 as f
from atf.sdk.redaction import MASK
from atf.testing import Harness
from atf.testing.pipeline import TIMING, HarnessRoles
from atf.testing.runtime import VirtualRuntime
from tests.virtual import virtual

app = atf.App("redacts")
SECRET = "correct horse battery"


@dataclass
class Card:
    number: str
    pin: int


@app.task(redact=["password", "card"], aliases={"pw": "password"}, max_attempts=1)
def pay(ctx: atf.Context, user: str, password: str, card: Card | None = None, how: str = "raise") -> str:
    ctx.progress(f"{user} pays with {password}")
    if how == "retry":
        raise atf.Retry(f"bad {password} of {user}")
    if how == "fatal":
        raise atf.Fatal(f"bad {password!r} and {card}")
    if how == "back":
        raise atf.HandBack(f"not now, {password}")
    if how == "long":
        raise ValueError("x" * 1_000 + password)
    raise ValueError(f"bad {password} and {card!r} of {user}")


@app.task(redact=["kind"])
def choose(kind: int, user: str = "anna") -> None: ...


@pytest.fixture
def h() -> Iterator[Harness]:
    with Harness(app) as harness:
        yield harness


@pytest.mark.parametrize("how", ["raise", "retry", "fatal", "long"])
def test_no_record_of_a_failed_run_holds_the_values(h: Harness, how: str) -> None:
    handle = pay.schedule("anna", SECRET, Card("4111111111111111", 98765), how=how)
    h.run_until_idle()
    task = h.client.get(handle.id)
    sentence = h.client.explain(handle.id)
    assert MASK in task.error
    for secret in (SECRET, SECRET[:12], "4111111111111111", "98765"):
        assert secret not in f"{task!r} {sentence!r}"
    with pytest.raises(atf.TaskFailed) as failed:
        handle.result()
    assert "correct" not in str(failed.value)


def test_neither_do_progress_and_the_reason_of_a_hand_back(h: Harness) -> None:
    handle = pay.schedule("anna", SECRET, how="back")
    h.advance(0.5)
    (run,) = h.client.get(handle.id).ended_runs
    assert run.why == f"handed_back: not now, {MASK}"


def test_a_payload_that_does_not_fit_is_not_shown(h: Harness) -> None:
    handle = h.client.schedule("redacts/choose", {"kind": "swordfish", "user": "bob"})
    h.advance(10)
    assert "swordfish" not in repr(h.client.get(handle.id))
    with pytest.raises(TypeError) as refused:
        choose.prepare("swordfish")  # type: ignore[arg-type]
    assert "swordfish" not in str(refused.value)


@contextlib.asynccontextmanager
async def roles(runtime: VirtualRuntime) -> AsyncIterator[HarnessRoles]:
    opened = await HarnessRoles.open([app], TIMING, runtime, partitions=1, executors=1)
    try:
        yield opened
    finally:
        await opened.close()


@virtual(roles)
async def test_payloads_are_shown_without_the_values(w: HarnessRoles) -> None:
    """Also those that were made under an old name, of items of batches, and of callbacks."""
    frontend, of = w.frontend, {"lambda": "redacts/pay"}
    client = AsyncClient("the roles", frontend=frontend, runtime=w.runtime)
    old = await client.schedule("redacts/pay", {"user": "anna", "pw": SECRET})
    batch = await client.batch(pay, [("anna", SECRET)], on_complete=pay.s("bob", SECRET, how="fatal"))

    def asked(**how: Any) -> list[Awaitable[Any]]:
        return [
            frontend.get_task(f.GetTaskRequest(id=old.id, with_spec=True, **how)),
            frontend.list_tasks(f.ListTasksRequest(filter=of, with_spec=True, **how)),
            frontend.list_batch_items(b.ListBatchItemsRequest(id=batch.id, with_arguments=True, **how)),
            frontend.get_batch(b.GetBatchRequest(id=batch.id, with_spec=True, **how)),
        ]

    shown = [await each for each in asked()]
    assert json.loads(shown[0].spec.payload) == {"user": "anna", "pw": MASK}
    for each in shown:
        assert SECRET not in str(each)
        assert MASK in str(each)
    for each in asked(unredacted=True):
        assert SECRET in str(await each)
