"""What a process says can't be said: its disk is full, its reader has ended or reads no more, its descriptors are closed. Work goes on.

Every task that runs at Ctrl-C ends in its first run, and every exit code is what it would have been.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from atf.client import AsyncClient
from atf.config.settings import StoreSettings, Timing
from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.exits import READY_FD
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.task import Status

pytestmark = pytest.mark.timeout(150)

APP = """
import os, subprocess, sys, time
import atf

app = atf.App("shop")

def talk():
    # By Python, by the descriptor, and by another program, which SIGPIPE would end.
    print("x" * 2000)
    print("y" * 2000, file=sys.stderr, flush=True)
    os.write(1, b"z" * 2000 + b"\\\\n")
    subprocess.run(["sh", "-c", "echo hello; echo hello >&2"], check=True)

@app.task
def slow(seconds: float, file: str) -> None:
    with open(file, "a") as told:
        told.write("began\\\\n")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        talk()
        time.sleep(0.1)

@app.task
async def quick(number: int) -> int:
    talk()
    return number
""".replace("\\\\n", "\\n")
ROUND_S = 1.0
"""Seconds that the tasks last which run at Ctrl-C."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP, "utf-8")
    return tmp_path


@pytest.fixture
def env(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(folder),
        "ATF_FREE_PORTS": "true",
        "ATF_CONFIG": str(folder / "none.toml"),
        "ATF_LOG_LEVEL": "debug",
        "ATF_LOG_FORMAT": "json",
    }


async def until(holds: Callable[[], object], within: float = 60) -> None:
    async with asyncio.timeout(within):
        while not holds():
            await asyncio.sleep(0.05)


async def work(address: str, folder: Path) -> list[str]:
    """Small tasks, all of which end, and three that go on; the ids of these."""
    async with AsyncClient(address) as client:
        quick = [await client.schedule("shop/quick", {"number": number}) for number in range(20)]
        assert [each.result for each in await client.wait(quick, timeout=60)] == list(range(20))
        file = str(folder / "began")
        slow = [await client.schedule("shop/slow", {"seconds": ROUND_S, "file": file}) for _ in range(3)]
        await until(lambda: Path(file).exists() and Path(file).read_text().count("began") == 3)
        return [each.id for each in slow]


async def all_ended_in_their_first_run(address: str, ids: list[str]) -> None:
    async with AsyncClient(address) as client:
        tasks = await client.wait(ids, timeout=30)
    assert [(each.status, each.attempts, each.losses, each.runs) for each in tasks] == [(Status.SUCCESS, 1, 0, 1)] * 3


def words(*more: str) -> list[str]:
    return [sys.executable, "-P", "-m", "atf.cli", *more]


def output(stack: ExitStack, kind: str) -> int:
    """A descriptor that takes nothing (full), or not for long (unread)."""
    if kind == "full":
        writer = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, writer = os.pipe()
        stack.callback(os.close, reader)
    stack.callback(os.close, writer)
    return writer


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def start(
    stack: ExitStack, command: list[str], output: int, folder: Path, env: dict[str, str], *keep: int
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        pass_fds=keep,
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def reading(stack: ExitStack, command: list[str]) -> subprocess.Popen[bytes]:
    """A program that a pipe goes to."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


async def test_up_drains_in_order_though_nobody_reads_what_it_says(
    folder: Path, env: dict[str, str], stack: ExitStack
) -> None:
    """As in `atf up | tee log`: tee reads no more while tasks run, and is gone when they are to end."""
    tee = reading(stack, ["tee", str(folder / "log")])
    assert tee.stdin is not None
    up = start(stack, words("up", "shop:app"), tee.stdin.fileno(), folder, env)
    tee.stdin.close()
    await until((folder / ".atf" / "up.json").exists)
    tee.send_signal(signal.SIGSTOP)
    ids = await work(_frontend(folder), folder)
    tee.kill()  # a terminal's Ctrl-C reaches both
    up.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(up.wait, 30) == 0

    data = DataDir(folder / ".atf")
    data.lock()
    stack.callback(data.release)
    async with EmbeddedStore(find_binary(), data) as embedded:
        store = await Store.open(StoreSettings(redis_url=embedded.url, partitions=1), Timing(), SystemRuntime())
        tasks = [each for each in await store.get_tasks(ids) if each is not None]
        await store.close()
    assert [(each.status, each.attempts, each.losses, each.runs) for each in tasks] == [(Status.SUCCESS, 1, 0, 1)] * 3


def _frontend(folder: Path) -> str:
    found: str = json.loads((folder / ".atf" / "up.json").read_text("utf-8"))["roles"]["frontend"]
    return found


class Role:
    """A role that was started by hand."""

    def __init__(
        self, stack: ExitStack, name: str, url: str, kind: str, folder: Path, env: dict[str, str], *more: str
    ) -> None:
        self.address = ""
        self._reader, writer = os.pipe()
        stack.callback(os.close, self._reader)
        listen = [] if name == "executor" else ["--listen", "127.0.0.1:0"]
        env = {**env, READY_FD: str(writer), "ATF_REDIS_URL": url, "ATF_PARTITIONS": "1"}
        self._process = start(stack, words(name, *listen, *more), output(stack, kind), folder, env, writer)
        os.close(writer)

    async def ready(self) -> str:
        """Where it listens, once it does."""
        line = await asyncio.wait_for(asyncio.to_thread(os.read, self._reader, 4096), 60)
        self.address = json.loads(line)["address"]
        return self.address

    async def ended(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self._process.wait, 30)


async def test_roles_started_by_hand_go_on_though_they_can_say_nothing(
    folder: Path, env: dict[str, str], stack: ExitStack
) -> None:
    data = DataDir(folder / "data")
    data.lock()
    stack.callback(data.release)
    (data.path / "store.log").symlink_to("/dev/full")
    async with EmbeddedStore(find_binary(), data) as store:

        def role(name: str, kind: str, *more: str) -> Role:
            return Role(stack, name, store.url, kind, folder, env, *more)

        hsc, frontend, consumer = (role(each, "full") for each in ("hsc", "frontend", "store-consumer"))
        flags = ["--hsc", await hsc.ready(), "--frontend", await frontend.ready()]
        controller = role("controller", "unread", "--executors", "0", *flags)
        executor = role("executor", "full", "shop:app", *flags, "--controller", await controller.ready())
        await executor.ready()
        ids = await work(frontend.address, folder)
        assert await executor.ended() == 0  # a guard and its worker
        await all_ended_in_their_first_run(frontend.address, ids)
        assert [await each.ended() for each in (controller, consumer, frontend, hsc)] == [0] * 4


def test_a_verdict_stands_though_it_can_not_be_said(env: dict[str, str]) -> None:
    """Of `atf doctor`, with bash's pipefail; that of `atf demo` is test_older_server.py's matter."""
    command = f"set -o pipefail; {sys.executable} -P -m atf.cli doctor --redis-url redis://127.0.0.1:1"
    running = [
        subprocess.Popen(["bash", "-c", f"{command} {where}"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for where in ("| true", ">/dev/full")
    ]
    for each in running:
        _, said = each.communicate()
        assert each.returncode == 4, said


def test_a_command_whose_output_is_its_work_says_what_became_of_it(env: dict[str, str]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            words("cron", "next", "@daily"), env=env, stdout=full, stderr=subprocess.PIPE, check=False
        )
    said = ended.stderr.decode()
    assert (ended.returncode, said) == (
        4, "atf: stdout: No space left on device. What this command was to print is incomplete\n",
    )  # fmt: skip


def test_a_closed_stdout_and_a_reader_that_has_seen_enough(env: dict[str, str]) -> None:
    command = [sys.executable, "-P", "-m", "atf.cli", "cron", "next", "@every 1s", "--count", "9000"]
    found = {}
    for where in (">&-", "| head -1 >/dev/null"):
        ended = subprocess.run(
            ["bash", "-c", f'set -o pipefail; "$@" {where}', "bash", *command],
            env=env,
            capture_output=True,
            check=False,
        )
        found[where] = ended.returncode, ended.stderr.decode()
    assert found == {
        ">&-": (4, "atf: stdout: Bad file descriptor. What this command was to print is incomplete\n"),
        "| head -1 >/dev/null": (0, ""),
    }
