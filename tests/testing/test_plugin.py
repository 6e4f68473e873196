"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

APP = """
import atf
app = atf.App("shop")
outbox = []

@app.task
def remind(name: str) -> None:
    outbox.append(name)
"""

TEST = """
from shop import outbox, remind

def test_a_reminder_goes_out_after_a_day(atf_harness):
    outbox.clear()
    remind.options(delay=86_400).schedule("anna")
    atf_harness.advance(86_399)
    assert outbox == []
    atf_harness.advance(1)
    assert outbox == ["anna"]

async def test_it_works_in_a_coroutine(atf_harness):
    outbox.clear()
    handle = await remind.schedule_async("bert")
    await handle.result_async()
    assert outbox == ["bert"]

def test_each_test_has_its_own(atf_harness):
    assert atf_harness.tasks() == []
"""


def run(directory: Path, setting: str, **files: str) -> subprocess.CompletedProcess[str]:
    common = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function"
    (directory / "pytest.ini").write_text(f"[pytest]\n{common}\n{setting}\n")
    for name, text in {"shop": APP, **files}.items():
        (directory / f"{name}.py").write_text(text)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    return subprocess.run(
        command,
        cwd=directory,
        env={
            **os.environ,
            "PYTHONPATH": f"{root}{os.pathsep}{directory}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "-p pytest_asyncio.plugin -p atf.testing.plugin",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.processes
def test_the_fixture_runs_the_configured_apps(tmp_path: Path) -> None:
    ended = run(tmp_path, "atf_apps = shop:app", test_shop=TEST)
    assert "3 passed" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.processes
def test_a_fixture_may_name_the_apps(tmp_path: Path) -> None:
    test = (
        "import pytest, shop\n"
        "@pytest.fixture\n"
        "def atf_apps(): return [shop.app]\n"
        "def test_it(atf_harness):\n"
        "    shop.remind.schedule('anna')\n"
        "    assert atf_harness.run_until_idle() == 1\n"
    )
    ended = run(tmp_path, "", test_shop=test)
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.processes
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("", "set atf_apps in pytest's configuration"),
        ("atf_apps = nowhere:app", "No module named 'nowhere'"),
        ("atf_apps = shop:remind", "shop has no atf.App named 'remind': that is a DefLambda. Did you mean shop:app?"),
    ],
)
def test_a_wrong_setting_is_said(tmp_path: Path, setting: str, said: str) -> None:
    ended = run(tmp_path, setting, test_shop="def test_it(atf_harness): pass\n")
    assert said in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.processes
def test_the_plugin_loads_no_role_and_no_server_library() -> None:
    program = (
        "import atf.testing.plugin, sys\n"
        "heavy = {'grpc', 'redis', 'fakeredis', 'rq', 'structlog', 'atf.testing.harness', 'atf.store'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
