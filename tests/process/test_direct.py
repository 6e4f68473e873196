"""Direct clients on a real store: connections that block, and what becomes of them when the store, a thread or a fork comes between."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import atf
from atf.cli import main
from atf.embedded import find_binary
from tests.store.servers import Server, running

ROOT = Path(__file__).parents[2]
app = atf.App("direct")


@app.task
def echo(text: str) -> str:
    return text


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(str(find_binary().path), "--port", "0") as server:
        yield server


@pytest.fixture
def store(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A store that allows direct clients, and knows the app."""
    monkeypatch.setenv("ATF_CONFIG", str(tmp_path / "atf.toml"))
    assert main(["store", "direct", "--redis-url", server.url, "--allow"]) == 0
    monkeypatch.setenv("ATF_FRONTEND", server.url)
    assert main(["lambda", "register", f"{__name__}:app"]) == 0
    return server.url


def test_the_operator_decides_and_the_error_names_the_command(
    server: Server, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["store", "direct", "--redis-url", server.url, "--refuse"]) == 0
    assert capsys.readouterr().out == "direct clients are refused\n"
    with atf.Client(store) as client, pytest.raises(atf.FailedPrecondition, match="atf store direct --allow"):
        client.schedule(echo.prepare("a"))
    assert main(["ls", "direct/echo"]) != 0
    assert "atf store direct --allow" in capsys.readouterr().err
    assert main(["store", "direct", "--redis-url", server.url, "--allow", "--json"]) == 0
    assert capsys.readouterr().out == '{"direct": true}\n'


def test_a_store_that_was_restarted_is_found_again(store: str, server: Server) -> None:
    with atf.Client(store, timeout=5) as client:
        client.schedule(echo.prepare("a"))
        server.kill()
        threading.Timer(0.3, server.start).start()
        assert client.schedule(echo.prepare("a")).id


def test_a_store_that_is_silent_costs_the_time_of_the_call(store: str, server: Server) -> None:
    with atf.Client(store, timeout=0.2) as client:
        client.schedule(echo.prepare("a"))
        with server.frozen():
            began = time.monotonic()
            with pytest.raises((atf.Unavailable, atf.DeadlineExceeded)):
                client.schedule(echo.prepare("a"))
        assert time.monotonic() - began < 0.5
        assert client.schedule(echo.prepare("a")).status() in {atf.Status.NEW, atf.Status.ENQUEUED}


def test_closing_ends_the_call_of_another_thread(store: str, server: Server) -> None:
    client = atf.Client(store, timeout=10)
    client.schedule(echo.prepare("a"))
    with server.frozen(), ThreadPoolExecutor() as pool:
        waits = pool.submit(client.schedule, echo.prepare("a"))
        time.sleep(0.1)  # until it waits for the answer
        client.close()
        with pytest.raises(atf.Unavailable):
            waits.result(1)


def test_a_connection_that_the_server_has_ended_is_not_used(store: str, server: Server) -> None:
    with atf.Client(store, timeout=5) as client, contextlib.closing(server.client()) as admin:
        client.schedule(echo.prepare("a"))
        for each in admin.client_list():
            if each["name"].startswith("atf"):
                admin.client_kill(each["addr"])
        began = time.monotonic()
        client.schedule(echo.prepare("a"))
        assert time.monotonic() - began < 0.05  # no try has failed: the next would have come later


def test_parent_and_child_schedule_on_connections_of_their_own(store: str) -> None:
    code = """
import os, sys, atf
client = atf.Client(sys.argv[1], timeout=5)
def check():
    handle = client.schedule("direct/echo", {"text": "a"})
    assert handle.status() in {atf.Status.NEW, atf.Status.ENQUEUED}
check()
child = os.fork()
check()
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
check()
print("grpc" in sys.modules)
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-W", "ignore", "-c", code, store]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=50, check=False)
    assert (ended.returncode, ended.stdout) == (0, "False\n"), ended.stderr


def test_it_says_which_package_is_missing() -> None:
    code = "import sys; sys.modules['redis'] = None; import atf; atf.Client('redis://h:1').schedule('a/b', {})"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-P", "-c", code], env=env, capture_output=True, text=True, check=False)
    said = "ConfigError: a client that is given a task store's address needs the package redis: pip install 'atf-tasks[server]'"
    assert said in ended.stderr


@pytest.mark.parametrize("role", ["controller", "executor"])
def test_worker_hosts_refuse_it_and_never_show_the_password(role: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([role, "--frontend", "redis://u:secret@h:1", f"{__name__}:app"]) == 2
    said = capsys.readouterr().err
    assert "nothing may hold the key to everybody's tasks" in said
    assert "secret" not in said
