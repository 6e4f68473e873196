"""docs/how-to/service.md: its examples as they stand there, with the real packages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "service.md").read_text(encoding="utf-8")

BY_HAND = """
import atf, atf.testing
from shop.tasks import app, charge

with atf.testing.Harness(app) as harness:
    handle = charge.options(delay="5m", key="charge-17").schedule(17)
    assert atf.default_client().schedule("shop/charge", {"order": 17}, key="other").result() == "charged order 17 in EUR"
    same = atf.default_client().handle(handle.id)
    assert same.status() is atf.Status.NEW
    assert same.cancel()
"""
FASTAPI = """
import atf, atf.testing
from fastapi.testclient import TestClient
from shop.api import api
from shop.tasks import app, charge

with atf.testing.Harness(app) as harness:
    web = TestClient(api)
    told = web.post("/orders/17/charge")
    assert told.status_code == 202, told.text
    assert web.post("/orders/17/charge").json() == told.json()
    path = "/tasks/" + told.json()["task"]
    harness.run_until_idle()
    assert web.get(path).json() == {"status": "SUCCESS"}
    assert web.get("/tasks/0-000000000000000000000000").status_code == 404
"""
DJANGO = """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["shop"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()
from django.core.management import call_command
from django.db import transaction
call_command("migrate", run_syncdb=True, verbosity=0)
import atf.testing
from shop.orders import place_order
from shop.tasks import app, charge

with atf.testing.Harness(app) as harness:
    class Broken(Exception): ...
    try:
        with transaction.atomic():
            place_order(10)
            raise Broken
    except Broken:
        pass
    assert not harness.tasks(charge)
    order = place_order(10)
    (task,) = harness.tasks(charge)
    assert task.id.endswith(f"charge-{order.pk}"), task.id
"""
MODELS = """
from django.db import models

class Order(models.Model):
    total = models.IntegerField()
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with the page's files, under the names that it gives them."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "models.py").write_text(MODELS, encoding="utf-8")
    for block in re.findall(r"```\w+\n(.*?)```", PAGE, re.DOTALL):
        if named := re.match(r"# (\S+)\n", block):
            (tmp_path / named[1]).write_text(block, encoding="utf-8")
    return tmp_path


def run(folder: Path, *command: str) -> str:
    """What a Python prints in a process of its own."""
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={"PYTHONPATH": f"{ROOT}:{folder}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.processes
def test_a_task_is_scheduled_by_its_function_or_its_name_and_found_by_its_id(shop: Path) -> None:
    run(shop, "-W", "error", "-c", BY_HAND)


@pytest.mark.processes
def test_a_route_of_fastapi_schedules_once_for_each_order(shop: Path) -> None:
    pytest.importorskip("fastapi")
    run(shop, "-c", FASTAPI)


@pytest.mark.processes
def test_django_schedules_after_the_commit_and_not_after_a_rollback(shop: Path) -> None:
    run(shop, "-W", "error", "-c", DJANGO)


@pytest.mark.processes
def test_the_test_of_the_page_passes(shop: Path) -> None:
    said = run(shop, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_charge.py")
    assert "1 passed" in said
