"""What `atf up` and its like start: the store's address is in the environment of roles that have the store, and in nobody's flags."""

from __future__ import annotations

from typing import Any

import pytest

from atf.cli.local import cluster as local
from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.cli.local.role_process import RoleProcess

URL = "redis://:hush@127.0.0.1:1/0"


@pytest.mark.parametrize("compact", [False, True])
async def test_no_flag_of_a_started_role_holds_the_stores_password(
    compact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: dict[str, RoleProcess] = {}

    async def start(_self: object, role: RoleProcess, **_: object) -> None:
        started[role.name] = role
        role.address = "127.0.0.1:2"

    async def register(_apps: object, _frontend: str, env: Any) -> None:
        assert "ATF_REDIS_URL" not in env, "it loads the code of users"

    monkeypatch.setattr("atf.cli.local.supervisor.Supervisor.start", start)
    monkeypatch.setattr(local, "register_apps", register)
    settings = ClusterSettings(redis_url=URL, compact=compact, free_ports=True)
    cluster = Cluster(settings, ["shop:app"], env={}, ui=True)
    await cluster.start()
    assert len(started) == (2 if compact else 5)
    assert not any("hush" in word for role in started.values() for word in role.command(""))
    has_it = {name for name, role in started.items() if role.env.get("ATF_REDIS_URL") == URL}
    assert has_it == ({"server"} if compact else {"hsc", "frontend", "store-consumer"})
    assert not any("hush" in said for said in (repr(settings), cluster.store))
