"""deploy/docker and deploy/kubernetes: time enough to drain, settings that are read, and listeners that are let pass."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from atf import __version__
from atf.config import settings as s
from atf.config.loading import load
from atf.controller.main import LAST_REPORTS_S

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
ROLES = ("frontend", "hsc", "store-consumer", "ui", "worker")
EXECUTORS_END_S = 3.0
"""Seconds beyond drain_timeout in which executors end (docs/how-to/operations.md, Stops)."""
ROLE_ENDS_S = 10.0
"""Seconds in which every other role has ended (the bar of the rows stop-*)."""
DRAINED_S = s.ExecutorSettings().drain_timeout + EXECUTORS_END_S + LAST_REPORTS_S


def number(text: str, name: str) -> float:
    (found,) = re.findall(rf"{name}: (?:{{seconds: )?([0-9.]+)", text)
    return float(found)


@pytest.mark.parametrize("role", ROLES)
def test_a_pod_has_the_time_that_its_role_takes_to_end(role: str) -> None:
    text = (KUBERNETES / "base" / f"{role}.yaml").read_text("utf-8")
    waits = number(text, "sleep") if "preStop" in text else 0.0
    assert (waits > 0) == ("name: serve" in text), "whoever is called waits until nobody calls it any more"
    ends = DRAINED_S if role == "worker" else ROLE_ENDS_S + s.HscSettings().stop_delay
    assert waits + ends < number(text, "terminationGracePeriodSeconds")


def test_a_container_has_the_time_that_its_role_takes_to_end() -> None:
    text = (DEPLOY / "docker" / "compose.yaml").read_text("utf-8")
    graces = dict(re.findall(r"^  (\w+):\n(?:    .*\n)*?    stop_grace_period: (\d+)s", text, re.MULTILINE))
    assert float(graces["worker"]) > DRAINED_S
    assert min(float(graces[each]) for each in ("server", "ui")) > ROLE_ENDS_S + s.HscSettings().stop_delay


@pytest.mark.parametrize("kind", ["base", "production"])
def test_the_settings_of_pods_are_read_and_their_listeners_are_let_pass(kind: str) -> None:
    path = KUBERNETES / kind / "atf.toml"
    security = load(s.SecuritySettings, path=path, env={})
    assert security.insecure == (kind == "base")
    assert (security.auth, bool(security.tls_cert), bool(security.tls_ca)) == (
        ("off", False, False) if kind == "base" else ("token", True, True)
    )
    for name, table in tomllib.loads(path.read_text("utf-8")).items():
        if isinstance(table, dict):
            for setting in ("listen", "metrics_listen"):
                if setting in table:
                    security.check_listen(table[setting], f"{name}.{setting}")


def test_images_are_of_the_version_that_is_next() -> None:
    """RELEASING.md says when the version changes; what deploys it says the same one."""
    tags = set()
    for path in (KUBERNETES / "production" / "kustomization.yaml", DEPLOY / "docker" / "compose.yaml"):
        tags |= set(re.findall(r"(?:newTag: |atf:)(\d+\.\d+\.\d+)", path.read_text("utf-8")))
    assert tags == {__version__}
