"""Fills a cluster: `python -m proof.browser.fill FRONTEND full|many|empty|pictured` prints the ids of what it has made, as JSON.

Runs in ATF's own environment, which the browser's knows nothing of.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import atf
from atf.rpc import frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.rpc.channel import open_channel
from atf.rpc.stubs import FrontendStub
from atf.task import Status
from atf.ui.actions.table import ACTIONS

from .texts import JOB, SEEN, SHORT, WORST

SCHEDULED: Final = 130
"""Tasks that succeed: more than a page of a list takes."""
_WAIT_S: Final = 60


async def full(frontend: Any, address: str) -> dict[str, str]:
    """Tasks in every state, keys, gates, batches, jobs, an audit log."""
    who: dict[str, Any] = {
        "who": "eve@" + "x" * 60,
        "why": (SEEN + WORST)[:480].replace("\x1b", "").replace("\x07", ""),
    }
    works: dict[str, Any] = {"lambda": "shop/works"}
    async with atf.AsyncClient(address) as client:
        await frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": "shop/paused"}, **who))
        gates: list[dict[str, Any]] = [
            {"action": f.Gate.PAUSE},
            {"action": f.Gate.DELAY, "delay_us": 3_600_000_000, "labels": {"team": SHORT}},
        ]
        for gate in gates:
            await frontend.set_gate(f.SetGateRequest(**{"lambda": "shop/gated"} | gate | who))
        labels = {"team": SHORT, "w" * 60: "x" * 60}
        made = {
            "dead": await client.schedule("shop/fails", {"text": SEEN}, labels=labels),
            "big": await client.schedule("shop/works", {"text": WORST + "long " * 190_000}),
            "retried": await client.schedule("shop/tries_again", {}),
            "running": await client.schedule("shop/sleeps", {"seconds": 3_600}, concurrency_key=SEEN),
            "speaks": await client.schedule("shop/speaks", {}),
            "slot": await client.schedule("shop/sleeps", {"seconds": 3_600}, concurrency_key=SEEN),
            "stopped": await client.schedule("shop/in_order", {}, ordering_key=SEEN),
            "behind": await client.schedule("shop/in_order", {}, ordering_key=SEEN),
            "stopped2": await client.schedule("shop/in_order", {}, ordering_key="second"),
            "later": await client.schedule("shop/works", {}, delay=86_400, labels=labels),
            "to_cancel": await client.schedule("shop/works", {}, delay=86_400),
            "cancelled": await client.schedule("shop/works", {}, delay=86_400),
            "gated": await client.schedule("shop/gated", {"text": WORST}),
            "paused": await client.schedule("shop/paused", {"text": WORST}),
            "unserved": await client.schedule("shop/works", {}),
        }
        for number in range(6):
            await client.schedule("shop/fails", {"text": f"{number}"})
        await asyncio.gather(*(client.schedule("shop/works", {"text": f"{n}"}) for n in range(SCHEDULED)))
        ids = {name: handle.id for name, handle in made.items()}
        await frontend.cancel_tasks(f.CancelTasksRequest(ids=[ids["cancelled"]], **who))
        task = t.TaskSpec(payload=b"{}", encoding=t.JSON, **works)
        for name in (JOB, "shop/nightly", "shop/to-delete"):
            job = j.JobSpec(name=name, schedule="0 */20 * * * *", tz="Asia/Kathmandu", task=task)
            await frontend.schedule_job(f.ScheduleJobRequest(job=job, overwrite=True, **who))
        ids |= {"job": JOB, "nightly": "shop/nightly"}
        ids["batch"], ids["going"] = await _batch("shop/item", 60, address), await _batch("shop/gated", 3, address)
        await frontend.set_capacity(f.SetCapacityRequest(pool="default", cores=0, **who))
        states = {
            "dead": Status.FATAL_FAILURE,
            "big": Status.SUCCESS,
            "retried": Status.RETRIABLE_FAILURE,
            "running": Status.PROCESSING,
            "speaks": Status.PROCESSING,
            "stopped": Status.FATAL_FAILURE,
            "stopped2": Status.FATAL_FAILURE,
        }
        await asyncio.gather(*(_reach(frontend, ids[name], status) for name, status in states.items()))
        ended: Callable[[], Awaitable[Any]] = lambda: frontend.get_batch(_batch_named(ids["batch"]))  # noqa: E731
        await _until(ended, lambda found: bool(found.ended_at_us), "the batch to end")
    ids["host"] = (await frontend.list_hosts(f.ListHostsRequest())).hosts[0].name
    return ids


def _batch_named(batch_id: str) -> Any:
    from atf.rpc import batch_pb2 as b

    return b.GetBatchRequest(id=batch_id)


async def _batch(name: str, items: int, address: str) -> str:
    """Submits a batch by the command that people use."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for number in range(items):
            file.write(json.dumps({"number": number, "text": SEEN} if name == "shop/item" else {"text": SEEN}) + "\n")
        file.flush()
        atf_command = str(Path(sys.executable).with_name("atf"))
        child = await asyncio.create_subprocess_exec(
            *(atf_command, "batch", "submit", name, file.name, "--frontend", address, "--json"), stdout=-1
        )
        said, _ = await child.communicate()
    return str(json.loads(said.splitlines()[-1])["id"])


async def _reach(frontend: Any, task_id: str, status: Status) -> None:
    await _until(
        lambda: frontend.get_task(f.GetTaskRequest(id=task_id)),
        lambda found: found.status == status,
        f"{task_id} to be {status}",
    )


async def _until(ask: Callable[[], Awaitable[Any]], fits: Callable[[Any], bool], what: str) -> None:
    found = None
    for _ in range(_WAIT_S * 5):
        found = await ask()
        if fits(found):
            return
        await asyncio.sleep(0.2)
    raise TimeoutError(f"waited {_WAIT_S} s for {what}; it is {str(found)[:300]}")


async def pictured(frontend: Any, address: str) -> dict[str, str]:
    """A shop on an ordinary day: most is done, some failed, some waits."""
    async with atf.AsyncClient(address) as client:
        charged = [
            client.schedule(
                "shop/charge_card", {"order": n, "cents": 900 + 37 * n}, labels={"country": "ch" if n % 3 else "fr"}
            )
            for n in range(1_001, 1_101)
        ]
        mailed = [
            client.schedule("shop/send_receipt", {"order": n, "to": f"customer{n}@example.com"})
            for n in range(1_001, 1_101)
        ]
        shrunk = [client.schedule("shop/make_thumbnail", {"path": f"photos/{n}.jpg"}) for n in range(300)]
        made = await asyncio.gather(*charged, *mailed, *shrunk)
        later = [
            client.schedule("shop/send_receipt", {"order": n, "to": f"customer{n}@example.com"}, delay=1_800 + n)
            for n in range(40)
        ]
        await asyncio.gather(*later, client.schedule("shop/import_orders", {"file": "orders-2026-11.csv"}))
        failed = made[13 - 1_001 % 13].id
        await _reach(frontend, failed, Status.FATAL_FAILURE)
        await _until(
            lambda: frontend.get_task(f.GetTaskRequest(id=made[-1].id)),
            lambda found: found.status == Status.SUCCESS,
            "the last one",
        )
    return {"failed": failed}


async def many(_frontend: Any, address: str) -> dict[str, str]:
    """A task of every lambda that there is, among three hundred."""
    from .many import app

    async with atf.AsyncClient(address) as client:
        found = await asyncio.gather(*(client.schedule(name, {}, delay=3_600) for name in app.lambdas))
    return {"later": found[0].id, "lambda": next(iter(app.lambdas))}


async def empty(_frontend: Any, _address: str) -> dict[str, str]:
    """Nothing."""
    return {}


async def _main(address: str, variant: str) -> None:
    channel = open_channel(address)
    ids = await {"full": full, "many": many, "empty": empty, "pictured": pictured}[variant](
        FrontendStub(channel), address
    )
    await channel.close()
    print(json.dumps({"ids": ids, "actions": list(ACTIONS)}))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
