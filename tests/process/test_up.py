"""`atf up` as a user runs it: every role a process, killed one by one and all at once, stopped and started again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from atf.bench.proc import pss_mib
from atf.cli.local import ports
from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.cli.local.ports import ROLES
from atf.cli.remote import connect
from atf.config.settings import METRICS_ABOVE
from atf.errors import Unavailable
from atf.rpc import frontend_pb2 as f, task_pb2 as t

from .ups import Up

pytestmark = pytest.mark.timeout(120)

APP = """
import os, time
import atf

app = atf.App("shop")

@app.task()
def add(a: int, b: int) -> int:
    return a + b

@app.task()
def slow(seconds: float, path: str) -> int:
    with open(path, "a") as file:
        file.write("started\\n")
    time.sleep(seconds)
    return os.getpid()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the user stands: an app, and nothing else."""
    (tmp_path / "shop.py").write_text(APP, encoding="utf-8")
    return tmp_path


@pytest.fixture
def env(folder: Path) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    return {**ours, "ATF_FREE_PORTS": "true", "ATF_CONFIG": str(folder / "atf.toml")}


@pytest.fixture
def ups() -> Iterator[list[Up]]:
    ups: list[Up] = []
    yield ups
    for each in ups:
        each.kill()


MANY = """
import atf

app = atf.App("many")

def made(number: int):
    def work(given: int) -> int:
        return number + given

    work.__name__ = work.__qualname__ = f"w{number}"
    return app.task(work)

tasks = [made(number) for number in range(1_100)]
"""


async def schedule(address: str, name: str, payload: dict[str, Any], delay: float = 0) -> str:
    request = f.ScheduleRequest(id=os.urandom(8).hex(), spec=t.TaskSpec(payload=json.dumps(payload).encode()))
    setattr(request.spec, "lambda", name)
    if delay:
        request.delay_us = round(delay * 1e6)
    async with connect(address) as stub:
        for _ in range(150):
            try:
                return (await stub.schedule(request)).id
            except Unavailable:
                await asyncio.sleep(0.1)  # a role is on its way back; the id makes the repetition harmless
    raise AssertionError(f"no frontend at {address}")


async def results(address: str, ids: list[str], within: float) -> list[Any]:
    """The results of tasks, all of which succeed in time."""
    deadline = time.monotonic() + within
    finished: dict[str, t.Task] = {}
    async with connect(address) as stub:
        while len(finished) < len(ids):
            left = deadline - time.monotonic()
            assert left > 0, f"{len(ids) - len(finished)} of {len(ids)} tasks not finished in {within} s"
            waiting = [each for each in ids if each not in finished]
            try:
                reply = await stub.wait_tasks(
                    f.WaitTasksRequest(ids=waiting, timeout_us=round(left * 1e6), all=True), timeout=left + 5
                )
            except Unavailable:
                await asyncio.sleep(0.1)
                continue
            finished |= {task.id: task for task in reply.tasks}
    assert all(finished[each].status == t.SUCCESS for each in ids)
    return [json.loads(finished[each].result) for each in ids]


@asynccontextmanager
async def running(folder: Path, env: dict[str, str], **settings: Any) -> AsyncIterator[Cluster]:
    said: list[str] = []
    chosen = ClusterSettings(**{"data_dir": str(folder / "data"), "free_ports": True, **settings})
    path = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), str(folder)]))
    cluster = Cluster(
        chosen, ["shop:app"], env={**env, "PYTHONPATH": path}, say=lambda name, line: said.append(f"{name} | {line}")
    )
    try:
        async with cluster:
            yield cluster
    except BaseException:
        print("\n".join(said))
        raise


def descendants(root: int) -> set[int]:
    """A process and everything below it, zombies left out."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state != "Z":
                parents[int(entry.name)] = int(parent)
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def alive(pids: set[int]) -> set[int]:
    def state(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
        except OSError:
            return "gone"

    return {pid for pid in pids if state(pid) not in {"gone", "Z"}}


async def gone(pids: set[int], within: float) -> None:
    async with asyncio.timeout(within):
        while alive(pids):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("name", ["listen", "metrics_listen"])
def test_one_address_for_every_role_is_refused(tmp_path: Path, name: str) -> None:
    command = [sys.executable, "-P", "-m", "atf.cli", "up", "shop:app"]
    ran = subprocess.run(
        command,
        check=False,
        cwd=tmp_path,
        env=os.environ | {f"ATF_{name.upper()}": "127.0.0.1:7401"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ran.returncode == 2
    assert f"write `{name}` in atf.toml" in ran.stderr


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _page(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        found: bytes = answer.read()
    return found


async def test_a_task_runs_ctrl_c_ends_everything_and_the_next_start_goes_on(
    folder: Path, env: dict[str, str], ups: list[Up]
) -> None:
    ups.append(Up(folder, env, "shop:app", "--executors", "2", "--json", ui=True))
    where = ups[0].where()
    address = where["roles"]["frontend"]
    assert b"<h1>shop/add" in await asyncio.to_thread(_page, f"http://{where['ui']}/lambdas/shop/add")
    assert await results(address, [await schedule(address, "shop/add", {"a": 2, "b": 3})], 15) == [5]
    later = await schedule(address, "shop/add", {"a": 1, "b": 1}, delay=3)
    begun = await schedule(address, "shop/slow", {"seconds": 1, "path": str(folder / "runs")})
    async with asyncio.timeout(15):
        while not (folder / "runs").exists():
            await asyncio.sleep(0.02)
    family = descendants(ups[0].process.pid)

    assert await asyncio.to_thread(ups[0].end, signal.SIGINT) == 0

    assert not alive(family)
    ups.append(Up(folder, env, "shop:app", "--json"))
    address = ups[1].where()["roles"]["frontend"]
    assert (await results(address, [later], 20)) == [2]
    await results(address, [begun], 20)
    assert (folder / "runs").read_text("utf-8") == "started\n"  # it was let to its end: it ran once
    assert await asyncio.to_thread(ups[1].end, signal.SIGTERM) == 0


@pytest.mark.long
async def test_an_app_with_more_lambdas_than_one_call_registers_comes_up_and_runs_them(
    folder: Path, env: dict[str, str], ups: list[Up]
) -> None:
    (folder / "many.py").write_text(MANY, encoding="utf-8")
    ups.append(Up(folder, env, "many:app", "--json"))
    address = ups[0].where()["roles"]["frontend"]
    ids = [await schedule(address, f"many/w{number}", {"given": 1}) for number in range(0, 1_100, 100)]
    assert await results(address, ids, 30) == [number + 1 for number in range(0, 1_100, 100)]
    listed = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-P", "-m", "atf.cli", "lambda", "ls", "--no-header", "--frontend", address],
        capture_output=True,
        text=True,
        env=env,
        check=True,
    )
    assert len(listed.stdout.splitlines()) == 1_103
    assert await asyncio.to_thread(ups[0].end, signal.SIGTERM) == 0


async def test_whatever_is_killed_comes_back_and_work_goes_on(folder: Path, env: dict[str, str]) -> None:
    async with running(folder, env) as cluster:
        address = cluster.frontend_address
        assert cluster.names == ["store", "hsc", "frontend", "store-consumer", "controller"]
        for name in cluster.names:
            before = [await schedule(address, "shop/add", {"a": n, "b": 0}) for n in range(20)]
            killed = cluster.kill(name)
            after = [await schedule(address, "shop/add", {"a": n, "b": 0}) for n in range(20)]

            assert await results(address, before + after, 40) == [*range(20), *range(20)], name

            async with asyncio.timeout(40):  # tasks that are due need no store consumer
                while cluster.pid(name) in {0, killed}:
                    await asyncio.sleep(0.05)
            assert cluster.restarts(name) == 1
            assert cluster.frontend_address == address


async def test_a_compact_cluster_is_two_processes_that_do_the_work_of_every_role(
    folder: Path, env: dict[str, str], ups: list[Up]
) -> None:
    ups.append(Up(folder, env, "--compact", "shop:app", "--json", ui=True))
    where = ups[0].where()
    assert set(where["roles"]) == set(ROLES)
    assert where["roles"]["frontend"] == where["roles"]["hsc"] == where["roles"]["store-consumer"]
    assert set(where["metrics"]) == {"server", "worker"}
    address = where["roles"]["frontend"]
    assert await results(address, [await schedule(address, "shop/add", {"a": 2, "b": 3})], 15) == [5]
    family = descendants(ups[0].process.pid)
    assert len(family) == 6  # itself, the store, server and worker, a guard and its executor
    taken = {pid: pss_mib(pid) for pid in family - {ups[0].process.pid} if b"unixsocket:" not in _command_line(pid)}
    assert sum(taken.values()) < 130, f"MiB by process: {taken}; what do they load that they could do without?"
    assert b"<h1>shop/add" in await asyncio.to_thread(_page, f"http://{where['ui']}/lambdas/shop/add")

    assert await asyncio.to_thread(ups[0].end, signal.SIGTERM) == 0

    assert not alive(family)


async def test_the_executors_can_be_seen_and_killed(folder: Path, env: dict[str, str]) -> None:
    async with running(folder, env, executors=2) as cluster:
        address = cluster.frontend_address
        pids = set(
            await results(address, [await schedule(address, "shop/slow", {"seconds": 0, "path": "/dev/null"})], 15)
        )
        executors = cluster.executors()
        assert len(executors) == 2
        assert pids < {each.worker for each in executors}

        os.kill(executors[0].worker, signal.SIGKILL)
        os.kill(executors[1].guard, signal.SIGKILL)

        assert await results(address, [await schedule(address, "shop/add", {"a": 2, "b": 3})], 40) == [5]


async def test_nothing_is_left_behind_when_everything_is_killed(
    folder: Path, env: dict[str, str], ups: list[Up]
) -> None:
    ups.append(Up(folder, env, "shop:app", "--json"))
    address = ups[0].where()["roles"]["frontend"]
    await results(address, [await schedule(address, "shop/add", {"a": 2, "b": 3})], 15)
    waiting = await schedule(address, "shop/add", {"a": 1, "b": 1}, delay=1)
    family = descendants(ups[0].process.pid)
    assert len(family) >= 8  # itself, the store, four roles, a guard, a worker

    await asyncio.to_thread(ups[0].end, signal.SIGKILL)

    await gone(family, 30)
    ups.append(Up(folder, env, "shop:app", "--json"))
    assert await results(ups[1].where()["roles"]["frontend"], [waiting], 20) == [2]
    assert await asyncio.to_thread(ups[1].end, signal.SIGTERM) == 0


async def test_a_second_ctrl_c_ends_everything_at_once(folder: Path, env: dict[str, str], ups: list[Up]) -> None:
    ups.append(Up(folder, env, "shop:app", "--json"))
    address = ups[0].where()["roles"]["frontend"]
    await schedule(address, "shop/slow", {"seconds": 60, "path": str(folder / "runs")})
    async with asyncio.timeout(15):
        while not (folder / "runs").exists():
            await asyncio.sleep(0.02)
    family = descendants(ups[0].process.pid)

    ups[0].process.send_signal(signal.SIGINT)
    await asyncio.sleep(0.3)
    ups[0].process.send_signal(signal.SIGTERM)  # within a second: the same stop
    await asyncio.sleep(1)
    assert ups[0].process.poll() is None
    since = time.monotonic()
    await asyncio.to_thread(ups[0].end, signal.SIGINT)

    assert time.monotonic() - since < 10
    await gone(family, 5)


def test_an_app_that_is_not_there_is_one_sentence(folder: Path, env: dict[str, str]) -> None:
    command = [sys.executable, "-P", "-m", "atf.cli", "up", "nosuch:app"]

    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)

    assert ran.returncode == 2
    assert ran.stderr == "atf: app nosuch:app: ModuleNotFoundError: No module named 'nosuch'\n", "nothing is started"
    assert not (folder / ".atf").exists()


def test_a_module_that_is_not_in_its_package_is_one_sentence(folder: Path, env: dict[str, str]) -> None:
    command = [sys.executable, "-P", "-m", "atf.cli", "up", "shop.nosuch:app"]

    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)

    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].startswith(
        "atf: app shop.nosuch:app: ModuleNotFoundError: No module named 'shop.nosuch'"
    )


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=15) as answer:
        text: str = answer.read().decode()
        return text


async def test_everything_in_one_process(folder: Path, env: dict[str, str], ups: list[Up]) -> None:
    ups.append(Up(folder, env, "shop:app", "--store", "memory", "--json"))
    where = ups[0].where()
    address = where["roles"]["frontend"]

    task_id = await schedule(address, "shop/add", {"a": 2, "b": 3})
    assert await results(address, [task_id], 15) == [5]
    page = await asyncio.to_thread(fetched, f"http://{where['ui']}/tasks/{task_id}")
    assert "SUCCESS" in page or "done" in page
    metrics = await asyncio.to_thread(fetched, f"http://{where['metrics']['all']}/metrics")
    assert 'atf_tasks_scheduled_total{lambda="shop/add",result="accepted"} 1.0' in metrics
    assert 'atf_tasks{lambda="shop/add",status="SUCCESS"} 1.0' in metrics

    assert descendants(ups[0].process.pid) == {where["pid"]}
    assert await asyncio.to_thread(ups[0].end, signal.SIGINT) == 0
    assert not (folder / ".atf").exists()


HOOKS = """

def note(what: str) -> None:
    with open("hooks", "a") as file:
        file.write(what + "\\n")

@app.on_worker_start
def start() -> None:
    note("start")

@app.on_worker_start
async def start_on_loop() -> None:
    note("start on the loop")

@app.on_worker_stop
def stop() -> None:
    note("stop")
"""


async def test_hooks_run_in_one_process_too(folder: Path, env: dict[str, str], ups: list[Up]) -> None:
    (folder / "shop.py").write_text(APP + HOOKS, encoding="utf-8")
    ups.append(Up(folder, env, "shop:app", "--store", "memory", "--json"))
    ups[0].where()
    assert (folder / "hooks").read_text() == "start\nstart on the loop\n"

    assert await asyncio.to_thread(ups[0].end, signal.SIGINT) == 0
    assert (folder / "hooks").read_text() == "start\nstart on the loop\nstop\n"


def test_a_start_hook_that_raises_keeps_one_process_from_starting(folder: Path, env: dict[str, str]) -> None:
    broken = "\n@app.on_worker_start\ndef start() -> None:\n    raise RuntimeError('no database')\n"
    (folder / "shop.py").write_text(APP + broken, encoding="utf-8")
    command = [sys.executable, "-P", "-m", "atf.cli", "up", "shop:app", "--store", "memory"]

    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)

    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].startswith("atf: @app.on_worker_start shop.start: ")
    assert ran.stderr.splitlines()[-1].endswith("RuntimeError: no database")


async def test_others_at_the_same_directory(folder: Path, env: dict[str, str], ups: list[Up]) -> None:
    """A second `atf up` is refused; an export goes to the store that runs."""
    ups.append(Up(folder, env, "shop:app", "--json"))
    where = ups[0].where()
    await schedule(where["roles"]["frontend"], "shop/add", {"a": 2, "b": 3}, delay=3600)

    def atf(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "atf.cli", *words]
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)

    second = await asyncio.to_thread(atf, "up", "shop:app")
    export = await asyncio.to_thread(atf, "store", "export", "tasks.atf")

    assert second.returncode == 2
    assert f"is in use by another `atf up` (pid {where['pid']})" in second.stderr.splitlines()[-1]
    assert (export.returncode, export.stdout, export.stderr) == (0, "1 tasks in tasks.atf\n", "")
    assert await asyncio.to_thread(ups[0].end, signal.SIGTERM) == 0


@contextmanager
def held_port(port: int) -> Iterator[None]:
    """Keeps a port from every role; several tests, which run side by side, can hold it together."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        with suppress(OSError):  # somebody else has it, which is as good
            held.bind(("127.0.0.1", port))
            held.listen()
        yield


def test_a_taken_port_is_named_and_another_one_used(folder: Path, env: dict[str, str], ups: list[Up]) -> None:
    others = "".join(f'[{each}]\nlisten = "127.0.0.1:0"\n' for each in ("store_consumer", "controller", "hsc"))
    (folder / "atf.toml").write_text(others, "utf-8")  # their defaults may be another test's just now
    with held_port(7401):
        ups.append(Up(folder, {**env, "ATF_FREE_PORTS": "false"}, "shop:app", "--json"))
        where = ups[0].where()

    assert "port 7401 is taken" in ups[0].log.read_text("utf-8")
    assert not where["roles"]["frontend"].endswith(":7401")
    assert ups[0].end(signal.SIGTERM) == 0


async def test_a_port_that_is_taken_between_the_look_and_the_start_is_given_up(
    folder: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    look, looked = ports.is_taken, set[int]()

    def too_early(host: str, port: int) -> bool:
        """Whatever is taken now was free at the first look."""
        first = port not in looked
        looked.add(port)
        return not first and look(host, port)

    monkeypatch.setattr(ports, "is_taken", too_early)
    defaults = {int(role().listen.rpartition(":")[2]) for role in ROLES.values()}
    of_metrics = {port + METRICS_ABOVE for port in defaults}
    with ExitStack() as held:
        for port in defaults:
            held.enter_context(held_port(port))
        async with running(folder, env, free_ports=False) as cluster:
            found = {int(address.rpartition(":")[2]) for address in cluster.addresses.values()}
            address = cluster.frontend_address
            assert await results(address, [await schedule(address, "shop/add", {"a": 2, "b": 3})], 15) == [5]

    assert not defaults & found
    assert looked == defaults | of_metrics
