"""Store consumer and controller as real processes: they serve, work together, and end in order; and guards as real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from atf.config.settings import StoreSettings, Timing
from atf.controller.guards import start_guard
from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.rpc import controller_pb2 as c, store_consumer_pb2 as s
from atf.rpc.channel import open_channel
from atf.rpc.stubs import ControllerStub, StoreConsumerStub
from atf.runtime import SystemRuntime, end as end_all, new_id
from atf.store.library import PLACE_PATIENCE_US
from atf.store.store import Store
from atf.store.values.claims import HeldClaim, Outcome, RunResult
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.tasks import NewTask
from atf.task import US, Status
from tests.known import know

from .roles import end, line

PARTITIONS = 2


async def start(role: str, url: str, *arguments: str) -> Process:
    of_store = () if role == "controller" else ("--redis-url", url, "--partitions", str(PARTITIONS))
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "atf.cli", role, "--listen", "127.0.0.1:0", *of_store),
        *("--log-format", "json", *arguments),
        stdin=DEVNULL,
        stderr=PIPE,
    )


def terminate(process: Process) -> None:
    if process.returncode is None:
        process.terminate()


@contextlib.asynccontextmanager
async def running(role: str, url: str, *arguments: str) -> AsyncIterator[str]:
    """A role's address; at the end it is asked to end, and has to do so cleanly."""
    process = await start(role, url, *arguments)
    try:
        yield (await line(process, "ready"))["address"]
    finally:
        terminate(process)
        code = await end(process)
    assert code == 0


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    data = DataDir(tmp_path / "data")
    data.lock()
    async with EmbeddedStore(find_binary(), data) as store:
        yield store.url


async def health(address: str) -> int:
    async with grpc.aio.insecure_channel(address) as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
        return int(answer.status)


def next_work(executor_id: str, *, wait: float, ack: int = 0) -> c.NextWorkRequest:
    return c.NextWorkRequest(
        executor_id=executor_id,
        ack=ack,
        nonce=new_id(SystemRuntime().random),
        max_tasks=256,
        wait_us=round(wait * US),
        lambdas=["shop/mail"],
        signatures=["d"],
        boot_id=SystemRuntime().boot_id(),
        heartbeat_timeout_us=16 * US,
    )


async def test_a_task_passes_from_the_store_to_an_executor_s_call_and_both_roles_end_in_order(url: str) -> None:
    runtime = SystemRuntime()
    store = await Store.open(StoreSettings(redis_url=url, partitions=PARTITIONS), Timing(), runtime)
    await know(store, "shop/mail")
    async with (
        running("store-consumer", url) as consumer,
        running("hsc", url) as hsc,
        running("controller", url, "--hsc", hsc) as controller,
    ):
        assert await health(consumer) == health_pb2.HealthCheckResponse.SERVING
        channel = open_channel(controller)
        stub = ControllerStub(channel)
        asking = runtime.spawn(stub.next_work(next_work("e1", wait=20)), name="ask")
        await asyncio.sleep(0.3)
        asked = runtime.monotonic()
        task = NewTask("t1", 1, "shop/mail", 1, b"spec", b"digest", None, 0, 3, 3, 3600 * US)
        (scheduled,) = await store.schedule([task])
        reply = await asking
        assert [each.task_id for each in reply.claims] == [scheduled.id]
        assert runtime.monotonic() - asked < 0.5, "it came by wake-ups, not by polling"
        (record,) = await store.get_tasks([scheduled.id])
        assert record is not None
        assert (record.status, record.owner) == (Status.CLAIMED, "e1")
        last = runtime.spawn(stub.next_work(next_work("e1", wait=20, ack=1)), name="ask")
        await asyncio.sleep(0.2)
    assert (await last).draining, "an open call is answered before the controller ends"
    await channel.close()
    await store.close()


async def test_a_store_consumer_that_is_polled_does_nothing_by_itself(url: str) -> None:
    settings = StoreSettings(redis_url=url, partitions=PARTITIONS, push_when_scheduled=False)
    store = await Store.open(settings, Timing(), SystemRuntime())
    await know(store, "shop/mail")
    task = NewTask("t1", 1, "shop/mail", 1, b"spec", b"digest", None, 0, 3, 3, 3600 * US)
    async with running("store-consumer", url, "--poll-on-request") as address:
        assert await health(address) == health_pb2.HealthCheckResponse.SERVING
        (scheduled,) = await store.schedule([task])
        await asyncio.sleep(1.5)
        (record,) = await store.get_tasks([scheduled.id])
        assert record is not None
        assert record.status is Status.NEW
        channel = open_channel(address)
        replies = await asyncio.gather(*(StoreConsumerStub(channel).poll(s.PollRequest()) for _ in range(5)))
        assert sum(each.enqueued for each in replies) == 1
        (record,) = await store.get_tasks([scheduled.id])
        assert record is not None
        assert record.status is Status.ENQUEUED
        await channel.close()
    await store.close()


async def test_tasks_of_a_key_go_to_one_of_two_controllers_and_to_the_other_when_that_is_killed(url: str) -> None:
    runtime = SystemRuntime()
    store = await Store.open(StoreSettings(redis_url=url, partitions=PARTITIONS), Timing(), runtime)
    record = LambdaRecord("shop/mail", b"", 1000, 10 * US, paused=False, settings="placement=sticky")
    await store.register_lambdas([record])
    async with running("store-consumer", url), running("hsc", url) as hsc, contextlib.AsyncExitStack() as stack:
        processes = [await start("controller", url, "--hsc", hsc) for _ in range(2)]
        channels = [open_channel((await line(each, "ready"))["address"]) for each in processes]
        for process in processes:
            stack.push_async_callback(end, process)
            stack.callback(terminate, process)
        for channel in channels:
            stack.push_async_callback(channel.close)
        ran: dict[str, int] = {}

        async def executor(number: int) -> None:
            ack = 0
            while True:
                request = next_work(f"e{number}", wait=20, ack=ack)
                request.max_tasks = 1
                reply = await ControllerStub(channels[number]).next_work(request)
                ack = max(ack, reply.number)
                for each in reply.claims:
                    held = HeldClaim(each.task_id, each.token.counter, each.token.nonce)
                    await store.set_results([RunResult(held, Outcome.SUCCEEDED)])
                    ran[each.task_id] = number

        async def run_one(name: str) -> tuple[int, int]:
            """Where it ran, and how long it was in its queue, in µs."""
            task = NewTask(name, 0, "shop/mail", 1, b"", b"d", None, 0, 3, 3, 3600 * US, affinity="cat")
            (made,) = await store.schedule([task])
            async with asyncio.timeout(20):
                while made.id not in ran:
                    await asyncio.sleep(0.01)
            (record,) = await store.get_tasks([made.id])
            assert record is not None
            moved = record.moved_at_us
            return ran[made.id], moved[Status.CLAIMED] - moved[Status.ENQUEUED]

        executors = [runtime.spawn(executor(number), name="executor") for number in range(2)]
        stack.push_async_callback(end_all, executors)
        await asyncio.sleep(0.3)
        owner, _ = await run_one("t0")
        stayed = 0
        for number in range(1, 8):
            where, waited_us = await run_one(f"t{number}")
            stayed += where == owner
            # A controller that a busy machine let stand still for longer has lost it, as it should.
            assert where == owner or waited_us >= PLACE_PATIENCE_US
            owner = where
        assert stayed > 0
        processes[owner].kill()
        where, _ = await run_one("t8")
        assert where == 1 - owner
    await store.close()


STUB = """
import json, os, signal, sys
fd = int(sys.argv[sys.argv.index("--events-fd") + 1])
say = lambda **event: os.write(fd, json.dumps(event).encode() + b"\\n")
def end(code):
    say(event="dead", executor="e1", pid=os.getpid(), code=code, held=[["0-" + "a" * 60, 1, "n"]] * 3000)
    os._exit(code)
signal.signal(signal.SIGTERM, lambda *_: end(7))
say(event="started", executor="e1", pid=os.getpid())
while word := os.read(0, 1):
    end({b"d": 0, b"k": 8}[word])
end(9)
"""


@pytest.mark.parametrize("code", [0, 8], ids=["drain", "at once"])
async def test_a_guard_s_account_arrives_whole_before_its_end(code: int) -> None:
    lines: list[str] = []
    said = asyncio.Event()

    def hear(text: str) -> None:
        lines.append(text)
        said.set()

    guard = await start_guard([sys.executable, "-c", STUB], hear, SystemRuntime())
    await asyncio.wait_for(said.wait(), 10)
    (guard.drain if code == 0 else guard.end_at_once)()
    assert await asyncio.wait_for(guard.wait(), 10) == code
    assert [json.loads(each)["event"] for each in lines] == ["started", "dead"]
    assert len(json.loads(lines[1])["held"]) == 3000
    guard.drain()  # once it has ended this does nothing


async def test_a_guard_notices_the_end_of_the_process_that_started_it() -> None:
    code = (
        "import asyncio, os, sys\n"
        "from atf.controller.guards import start_guard\n"
        "from atf.runtime import SystemRuntime\n"
        "async def main():\n"
        "    said = asyncio.Event()\n"
        "    guard = await start_guard([sys.executable, '-c', sys.argv[1]], lambda _: said.set(), SystemRuntime())\n"
        "    await said.wait()\n"
        "    print(guard.pid, flush=True)\n"
        "    os._exit(1)\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-P", "-c", code, STUB, stdout=PIPE)
    out, _ = await asyncio.wait_for(parent.communicate(), 20)
    async with asyncio.timeout(10):
        while _state(int(out)) != "Z":
            await asyncio.sleep(0.02)


def _state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    return "Z"
