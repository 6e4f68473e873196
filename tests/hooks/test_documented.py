"""The examples of docs/how-to/hooks.md, as they stand there, with the real packages; each in a process of its own, since these change the whole process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "hooks.md").read_text(encoding="utf-8")

PRINTS = """
import atf.testing
import shop

@shop.app.task
def work() -> None:
    print("work")

with atf.testing.Harness(shop.app) as harness:
    work.schedule()
    harness.run_until_idle()
"""

SENTRY = """
import functools, os
import atf, atf.testing, sentry_sdk
from sentry_sdk.transport import Transport

os.environ["SENTRY_DSN"] = "http://key@localhost/1"
sent, flushed = [], []

class Kept(Transport):
    def capture_envelope(self, envelope):
        sent.append(envelope.get_event())

    def flush(self, timeout, callback=None):
        flushed.append(timeout)

sentry_sdk.init = functools.partial(sentry_sdk.init, transport=Kept)
import shop

@shop.app.task(max_attempts=2)
async def refund(order: int) -> None:
    if order:
        raise atf.Retry("later")
    raise KeyError("no refund")

with atf.testing.Harness(shop.app) as harness:
    bad = shop.charge.options(max_attempts=1).schedule(-1)
    good, later, worse = shop.charge.schedule(1), refund.schedule(1), refund.schedule(0)
    harness.run_until_idle()
    assert good.result() == "charged"
    (failed,) = harness.tasks(shop.charge, atf.Status.FATAL_FAILURE)
    assert failed.error.startswith("ValueError: no such order"), failed.error
    told = [(each["tags"]["lambda"], each["exception"]["values"][-1]["type"], each["contexts"]["task"]["id"]) for each in sent]
    assert sorted(told) == [("shop/charge", "ValueError", bad.id), ("shop/refund", "KeyError", worse.id)], told
    assert not flushed
assert flushed[:1] == [2], flushed
assert not sentry_sdk.get_isolation_scope()._tags, "nothing of a run stays"
"""

SETTINGS = """
SECRET_KEY = "x"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "FILE", "CONN_MAX_AGE": 0}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
"""

DJANGO = """
import os, sys, types
import atf.testing
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # as the page says of the harness
import shop

@shop.app.on_worker_start
def migrate() -> None:
    from django.core.management import call_command
    from django.contrib.auth.models import User
    call_command("migrate", verbosity=0)
    User.objects.create_user("ann")

closed, opened = [], []

@shop.app.on_worker_start
def watch() -> None:
    from django.db.backends.signals import connection_created
    from django.db.backends.base.base import BaseDatabaseWrapper
    connection_created.connect(lambda **more: opened.append(1), weak=False)
    close = BaseDatabaseWrapper.close
    def noted(self):
        closed.append(self.connection is not None)
        close(self)
    BaseDatabaseWrapper.close = noted

with atf.testing.Harness(shop.app) as harness:
    assert harness.result(shop.users.schedule()) == 1
    assert (len(opened), closed.count(True)) == (1, 1), (opened, closed)
    assert harness.result(shop.users_async.schedule()) == 1
    assert (len(opened), closed.count(True)) == (2, 2), (opened, closed)
"""


def block(heading: str) -> str:
    """The first block of Python below a heading."""
    found = re.search(r"```python\n(.*?)```", ("\n" + PAGE).partition(f"\n{heading}\n")[2], re.DOTALL)
    assert found is not None
    return found[1]


def run(folder: Path, example: str, script: str) -> str:
    (folder / "shop.py").write_text(example, encoding="utf-8")
    command = [sys.executable, "-W", "error", "-c", script]
    ended = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": f"{ROOT}:{folder}"}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.processes
def test_the_first_example_prints_what_it_says(tmp_path: Path) -> None:
    said = run(tmp_path, block("# Hooks"), PRINTS)
    assert said.splitlines() == [
        "before the first task",
        "before shop/work",
        "work",
        "after shop/work",
        "after the last run",
    ]


@pytest.mark.processes
def test_sentry_is_told_of_attempts_that_fail_with_their_task(tmp_path: Path) -> None:
    pytest.importorskip("sentry_sdk")
    run(tmp_path, block("## Sentry"), SENTRY)


@pytest.mark.processes
def test_django_is_set_up_and_leaves_no_connection_that_is_too_old(tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(SETTINGS.replace("FILE", str(tmp_path / "db.sqlite3")), encoding="utf-8")
    run(tmp_path, block("## Django"), DJANGO)


@pytest.mark.processes
def test_a_module_may_set_up_django_before_its_tasks_are_imported(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "settings.py").write_text(SETTINGS.replace("FILE", ":memory:"), encoding="utf-8")
    tasks = "import atf\nfrom django.contrib.auth.models import User\napp = atf.App('shop')\n"
    (shop / "tasks.py").write_text(tasks, encoding="utf-8")
    (found,) = (each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "# shop/worker.py" in each)
    (shop / "worker.py").write_text(found, encoding="utf-8")
    command = [
        sys.executable,
        "-c",
        "from atf.sdk.loading import load_lambdas; print(load_lambdas(['shop.worker:app']))",
    ]
    ended = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert ended.stdout == "{}\n", ended.stderr


@pytest.mark.long
def test_the_examples_are_typed(tmp_path: Path) -> None:
    for heading, name in (("# Hooks", "first"), ("## Sentry", "sentry"), ("## Django", "for_django")):
        (tmp_path / f"{name}.py").write_text(block(heading), encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nfollow_imports = silent\n[mypy-django.*]\nignore_missing_imports = True\n",
        encoding="utf-8",
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-warn-return-any",
        "--config-file=mypy.ini",
        f"--cache-dir={tmp_path}",
        ".",
    ]
    ended = subprocess.run(
        command, cwd=tmp_path, env={"MYPYPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert "checked 3 source files" in ended.stdout, ended.stdout + ended.stderr
    ours = [line for line in ended.stdout.splitlines() if line.startswith(("first.py", "sentry.py", "for_django.py"))]
    assert ours == []
