"""Code that can't be started, on real processes: `atf up` is never up, one bad host of two is named and does no harm, and each place imports alike."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from atf.cli.local.cluster import Cluster
from atf.rpc.health import WHY

from .roles import end, line, line_of
from .test_pools import said
from .test_up import results, running, schedule
from .ups import Up

pytestmark = pytest.mark.timeout(300)

GOOD = """
import atf

app = atf.App("shop")

@app.task
def add(a: int, b: int) -> int:
    return a + b
"""
WITH_LOOP = """
import asyncio

async def setup() -> int:
    await asyncio.sleep(0)
    return 39

LOADED = asyncio.run(setup())
"""
HOOK = """
@app.on_worker_start
def connect():
    raise RuntimeError("no database here")
"""
IN_A_WORKER = """
import sys
if "worker_main" in " ".join(sys.orig_argv):
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    set_ = {"ATF_FREE_PORTS": "true", "ATF_CONFIG": str(tmp_path / "atf.toml"), "ATF_START_RETRIES": "0"}
    return {**ours, **set_}


@pytest.fixture
def ups() -> Iterator[list[Up]]:
    ups: list[Up] = []
    yield ups
    for each in ups:
        each.kill()


def write(folder: Path, text: str) -> None:
    (folder / "shop.py").write_text(text, encoding="utf-8")


def atf(folder: Path, env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "atf.cli", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("code", "exit_code", "why"),
    [
        pytest.param(GOOD + "def broken(:\n", 2, "app shop:app: {shop} line 9: SyntaxError: invalid syntax", marks=pytest.mark.long),
        ("import not_installed_here\n" + GOOD, 2, "app shop:app: {shop} line 1: ModuleNotFoundError: No module named"),
        pytest.param(GOOD + "import sys\nsys.exit(3)\n", 2, "app shop:app: {shop} line 10: SystemExit: 3", marks=pytest.mark.long),
        (GOOD + HOOK, 4, "no executor can start, after one try of each: @app.on_worker_start shop.connect: {shop} line 12: RuntimeError: no database"),
        (GOOD + IN_A_WORKER + "    import os; os.abort()\n", 4, "killed by SIGABRT while importing shop:app; at {shop} line 12 in <module>"),
        pytest.param(
            GOOD + IN_A_WORKER + "    import os; os._exit(0)\n", 4, "ended with exit code 0 while importing shop:app", marks=pytest.mark.long
        ),
    ],
    ids=["syntax", "package", "exit", "hook", "crash", "silent exit"],
)  # fmt: skip
def test_atf_up_is_not_up_where_no_executor_can_start(
    tmp_path: Path, env: dict[str, str], code: str, exit_code: int, why: str
) -> None:
    write(tmp_path, code)
    ran = atf(tmp_path, env, "up", "shop:app", "--json")
    assert (ran.returncode, ran.stdout) == (exit_code, ""), ran.stderr
    lines = ran.stderr.splitlines()
    assert why.format(shop=tmp_path / "shop.py") in lines[-1]
    assert not [each for each in lines if '"role": "executor"' in each and '"level": "error"' in each]


def test_atf_up_is_not_up_where_an_import_hangs(tmp_path: Path, env: dict[str, str]) -> None:
    write(tmp_path, GOOD + "import time\ntime.sleep(600)\n")
    ran = atf(tmp_path, {**env, "ATF_START_TIMEOUT": "3"}, "up", "shop:app")
    assert ran.returncode == 4, ran.stderr
    assert "everything is up" not in ran.stdout
    assert "killed: importing its apps took longer than 3 s (start_timeout)" in ran.stderr.splitlines()[-1]


def test_atf_up_in_memory_is_not_up_either(tmp_path: Path, env: dict[str, str]) -> None:
    write(tmp_path, GOOD + "def broken(:\n")
    ran = atf(tmp_path, env, "up", "shop:app", "--store", "memory")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"app shop:app: {tmp_path}/shop.py line 9: SyntaxError" in ran.stderr.splitlines()[-1]
    write(tmp_path, GOOD + "import os; os._exit(0)\n")
    ran = atf(tmp_path, env, "up", "shop:app", "--store", "memory")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"atf: the process ended with exit code 0 while importing shop:app{ENDED}\n"


THREAD = """
import threading, time
threading.Thread(target=lambda: time.sleep(600)).start()
"""
"""One that is no daemon: the interpreter waits for it."""
CLOSED = """
import sys
sys.stdout.close()
sys.stderr.close()
"""
TABLE = ("lambda\tsignature\nshop/add\t(a: int, b: int) -> int\n", "")
ENDED = ": code that is imported must not end the process, as os._exit does"


@pytest.mark.parametrize(
    ("code", "exit_code", "out", "why"),
    [
        (THREAD, 0, *TABLE),
        (CLOSED, 0, *TABLE),
        ("import os\nos.closerange(1, 256)\n", 0, *TABLE),
        (THREAD + "raise ValueError('no')\n", 2, "", "app shop:app: {shop} line 12: ValueError: no"),
        ("import os\nos.closerange(1, 256)\n1 / 0\n", 2, "", "app shop:app: {shop} line 11: ZeroDivisionError: division by zero"),
        ("import io, sys\nsys.stderr = io.StringIO()\n1 / 0\n", 2, "", "app shop:app: {shop} line 11: ZeroDivisionError: division by zero"),
        ("import os; os._exit(0)", 2, "", f"the process ended with exit code 0 while importing shop:app{ENDED}"),
        ("import ctypes\nctypes.string_at(0)\n", 2, "", "the process was killed by SIGSEGV while importing shop:app; at {shop} line 10 in <module>"),
        ("import os\nos.kill(os.getpid(), 15)\n", 2, "", "the process was killed by SIGTERM while importing shop:app; at {shop} line 10 in <module>"),
    ],
    ids=["thread", "closed", "descriptors", "thread and error", "descriptors and error", "replaced", "silent exit", "crash", "signal"],
)  # fmt: skip
def test_a_check_ends_and_says_why_whatever_an_import_does(
    tmp_path: Path, env: dict[str, str], code: str, exit_code: int, out: str, why: str
) -> None:
    write(tmp_path, GOOD + code)
    ran = atf(tmp_path, env, "lambda", "check", "shop:app")
    said = f"atf: {why.format(shop=tmp_path / 'shop.py')}\n" if why else ""
    assert (ran.returncode, ran.stdout, ran.stderr) == (exit_code, out, said)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (THREAD + "import atexit\natexit.register(print, 'bye')\n1 / 0\n", "app shop:app: {shop} line 14: ZeroDivisionError: division by zero"),
        pytest.param("import os\nprint('bye', flush=True)\nos._exit(0)\n", f"the process ended with exit code 0 while importing shop:app{ENDED}", marks=pytest.mark.long),
    ],
    ids=["last words", "silent exit"],
)  # fmt: skip
def test_atf_up_says_the_reason_and_not_what_the_app_said_last(
    tmp_path: Path, env: dict[str, str], code: str, why: str
) -> None:
    write(tmp_path, GOOD + code)
    ran = atf(tmp_path, {**env, "ATF_START_RETRIES": "5"}, "up", "shop:app")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines()[-1] == f"atf: {why.format(shop=tmp_path / 'shop.py')}"


@pytest.mark.parametrize(
    "store", [[], pytest.param(["--store", "memory"], marks=pytest.mark.long)], ids=["processes", "memory"]
)
def test_atf_up_is_up_whatever_threads_and_streams_an_app_leaves(
    tmp_path: Path, env: dict[str, str], ups: list[Up], store: list[str]
) -> None:
    write(tmp_path, GOOD + THREAD + CLOSED)
    ups.append(Up(tmp_path, env, "shop:app", "--json", *store))
    assert ups[0].where()["roles"]["frontend"]
    assert ups[0].end(signal.SIGTERM) == 0


async def test_atf_up_ends_when_code_that_worked_can_no_longer_be_started(
    tmp_path: Path, env: dict[str, str], ups: list[Up]
) -> None:
    write(tmp_path, GOOD + "\n@app.task\ndef die() -> None:\n    import os\n    os._exit(9)\n")
    ups.append(Up(tmp_path, env, "shop:app", "--json"))
    where = ups[0].where()
    write(tmp_path, GOOD + HOOK)
    await schedule(where["roles"]["frontend"], "shop/die", {})
    assert await asyncio.to_thread(ups[0].process.wait, 60) == 4
    lines = ups[0].log.read_text("utf-8")
    assert "no executor can start, after one try of each: @app.on_worker_start shop.connect" in lines
    assert "controller ended with exit code 4: its lines above say why. Stopping the others" in lines


@pytest.mark.parametrize(
    ("isolate", "store"),
    [
        ("", []),
        ("", ["--store", "memory"]),
        pytest.param("(isolate=True)", [], marks=pytest.mark.long),
        pytest.param("(isolate=True)", ["--store", "memory"], marks=pytest.mark.long),
    ],
    ids=["processes", "memory", "isolated", "isolated in memory"],
)
async def test_an_app_that_runs_a_loop_of_its_own_at_import_works_everywhere(
    tmp_path: Path, env: dict[str, str], ups: list[Up], store: list[str], isolate: str
) -> None:
    write(tmp_path, WITH_LOOP + GOOD.replace("@app.task", f"@app.task{isolate}").replace("a + b", "a + b + LOADED"))
    checked = atf(tmp_path, env, "lambda", "check", "shop:app")
    assert checked.returncode == 0, checked.stderr
    ups.append(Up(tmp_path, env, "shop:app", "--json", *store))
    frontend = ups[0].where()["roles"]["frontend"]
    registered = atf(tmp_path, env, "lambda", "register", "shop:app", "--frontend", frontend)
    assert registered.returncode == 0, registered.stderr
    assert await results(frontend, [await schedule(frontend, "shop/add", {"a": 1, "b": 2})], 60) == [42]
    assert ups[0].end(signal.SIGTERM) == 0


def test_an_app_that_runs_a_loop_at_import_works_in_tests(tmp_path: Path, env: dict[str, str]) -> None:
    write(tmp_path, WITH_LOOP + GOOD.replace("a + b", "a + b + LOADED"))
    (tmp_path / "pytest.ini").write_text("[pytest]\natf_apps = shop:app\n", encoding="utf-8")
    test = "from shop import add\ndef test(atf_harness):\n    assert add.schedule(1, 2).result() == 42\n"
    (tmp_path / "test_shop.py").write_text(test, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "atf.testing.plugin", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


async def test_what_an_app_prints_and_logs_at_import_has_the_form_of_all_lines(
    tmp_path: Path, env: dict[str, str]
) -> None:
    talks = "import logging, warnings\nprint('imported')\nlogging.getLogger('shop').warning('beware')\nwarnings.warn('old')\n"
    write(tmp_path, talks + GOOD)
    async with running(tmp_path, env) as cluster, host(cluster, tmp_path, env) as process:
        printed = await line(process, "imported")
        assert (printed["role"], printed["stream"]) == ("executor", "stdout")
        await line_of(process, "controller", "ready")
        process.terminate()
        assert await end(process) == 0


@asynccontextmanager
async def host(cluster: Cluster, folder: Path, env: dict[str, str], *more: str) -> AsyncIterator[Process]:
    """A controller beside the cluster's own, with an executor of the app in a folder."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "atf.cli", "controller", "--listen", "127.0.0.1:0", "--log-format", "json"),
        *("--hsc", cluster.addresses["hsc"], "--frontend", cluster.frontend_address, *more, "shop:app"),
        stdin=DEVNULL,
        stderr=PIPE,
        env=env,
        cwd=folder,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await end(process)


async def health(address: str, service: str) -> tuple[int, str]:
    async with grpc.aio.insecure_channel(address) as channel:
        call = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
        status = (await call).status
        return int(status), str(dict(await call.trailing_metadata() or ()).get(WHY, ""))


@pytest.mark.long
async def test_one_bad_host_of_two_is_named_and_the_other_goes_on(tmp_path: Path, env: dict[str, str]) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    write(good, GOOD)
    new = GOOD + "\n@app.task\ndef subtract(a: int, b: int) -> int:\n    return a - b\n"
    write(bad, new + HOOK)
    serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    why = f"@app.on_worker_start shop.connect: {bad}/shop.py line 16: RuntimeError: no database here"
    async with running(good, env) as cluster:
        address = cluster.frontend_address
        assert await health(cluster.addresses["controller"], "") == (serving, "")
        assert await health(cluster.addresses["controller"], "executors") == (serving, "")
        assert atf(bad, env, "lambda", "register", "shop:app", "--frontend", address).returncode == 0
        waiting = await schedule(address, "shop/subtract", {"a": 3, "b": 2})
        port = str(free_port())
        listen = ("--listen", f"127.0.0.1:{port}", "--start-retries", "2")
        async with host(cluster, bad, env, *listen) as process:
            assert (await line(process, "executor can't start", within=60))["why"] == why
            assert await health(f"127.0.0.1:{port}", "") == (not_serving, "")
            assert await health(f"127.0.0.1:{port}", "executors") == (not_serving, f"no executor can start: {why}")
            assert await results(address, [await schedule(address, "shop/add", {"a": 1, "b": 2})], 60) == [3]
            ends = await line_of(process, "controller", "can't go on")
            assert f"no executor can start, after 3 tries of each: {why}" in ends["error"]
            assert await end(process) == 4
        hosts = await said(cluster, ["host"], lambda found: len(found) == 2)
        assert sorted(each["why_not"] for each in hosts) == ["", why]
        explained = await said(cluster, ["explain", waiting], lambda found: found["reason"] == "not_served")
        assert f"Besides, no executor can start on host {os.uname().nodename}:{port}: {why}." in explained["sentence"]
        status = atf(good, env, "status", "--frontend", address)
        assert status.returncode == 1
        assert f"no executor can start: {why}" in status.stdout
        write(bad, new)
        async with host(cluster, bad, env, *listen) as process:
            await line_of(process, "controller", "ready")
            assert await health(f"127.0.0.1:{port}", "") == (serving, "")
            assert await results(address, [waiting], 60) == [1]
            hosts = await said(cluster, ["host"], lambda found: not any(each["why_not"] for each in found))
            assert len(hosts) == 2
            process.terminate()
            assert await end(process, within=60) == 0


async def test_where_no_executor_of_its_pool_can_start_explain_says_why(tmp_path: Path, env: dict[str, str]) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    write(good, GOOD.replace("@app.task", '@app.task(pool="gpu")'))
    write(bad, GOOD.replace("@app.task", '@app.task(pool="gpu")') + "import not_installed_here\n")
    async with running(good, env) as cluster:
        waiting = await schedule(cluster.frontend_address, "shop/add", {"a": 3, "b": 2})
        explained = await said(cluster, ["explain", waiting], lambda found: found["reason"] == "no_pool")
        async with host(cluster, bad, env, "--pool", "gpu", "--start-retries", "100") as process:
            explained = await said(cluster, ["explain", waiting], lambda found: found["reason"] == "cant_start")
            assert f"{bad}/shop.py line 9: ModuleNotFoundError" in explained["sentence"]
            process.terminate()
            assert await end(process, within=60) == 0, "it was asked to end"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
