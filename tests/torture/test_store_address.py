"""The address of the task store: understood, or refused with a sentence, and its password never said."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.cli.local.role_process import RoleProcess
from atf.cli.local.supervisor import Supervisor
from atf.cli.local.up import announce
from atf.errors import ConfigError
from atf.store.servers.address import parse, safe_url

from .examples import TEXTS, fuzz, understood_or

PASSWORDS = [
    "5ecret",
    "5ecret@x",
    "5e/5ecret",
    "a:5ecret",
    "5ecret#x",
    "?5ecret",
    "5ecret[x",
    "5ecret\x1b",
    "5ecret%2F",
    "]5ecret",
]
HOSTS = ["127.0.0.1:6379/0", "127.0.0.1:nope", "", "[::1", "h/x", "h:1,k:2/main", "h:1,k:2"]
SCHEMES = ["redis", "rediss", "unix", "http", "redis+cluster", "redis+sentinel", "rediss+sentinel"]
URLS = [
    *(f"{scheme}://{user}:{word}@{host}" for scheme in SCHEMES for user in ("", "bob") for word in PASSWORDS for host in HOSTS),
    "bob:5ecret@127.0.0.1:6379",
    "redis:/bob:5ecret@127.0.0.1:6379",
    "redis//bob:5ecret@127.0.0.1:6379",
    "redis://127.0.0.1:6379/0?password=5ecret",
    "unix:///run/redis.sock?db=1&password=5ecret",
    "rediss://127.0.0.1:6379?ssl_password=5ecret&username=5ecret",
    "redis://127.0.0.1:6379/0?socket_timeout=5ecret",
    "redis+sentinel://bob:5ecret@127.0.0.1:1,127.0.0.2:1/main?sentinel_password=5ecret",
]  # fmt: skip


@pytest.mark.parametrize("scheme", [*SCHEMES, ""])
def test_no_password_of_the_stores_address_is_said(scheme: str) -> None:
    for url in URLS:
        if url.partition("://")[0] != scheme and (scheme or "://" in url):
            continue
        said = [safe_url(url)]
        try:
            said.append(parse(url).where)
        except ConfigError as error:
            said.append(str(error))
        assert not [each for each in said if "5ecret" in each], url


@fuzz
@given(
    url=st.one_of(
        TEXTS,
        st.tuples(st.sampled_from(SCHEMES), TEXTS, TEXTS, st.sampled_from(HOSTS), TEXTS).map(
            lambda part: f"{part[0]}://{part[1]}:{part[2]}@{part[3]}?{part[4]}"
        ),
    )
)
def test_an_address_of_a_store_is_understood_or_refused(url: str) -> None:
    safe_url(url)
    with understood_or(ConfigError):
        parse(url)


async def test_atf_up_puts_a_password_on_no_screen_and_on_no_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url, started = "redis://bob:5ecret@127.0.0.1:6379/0", []

    async def start(_supervisor: Supervisor, role: RoleProcess, **_more: object) -> None:
        started.append(role)

    async def register(*_: object) -> None:
        pass

    monkeypatch.setattr(Supervisor, "start", start)
    monkeypatch.setattr("atf.cli.local.cluster.register_apps", register)
    cluster = Cluster(ClusterSettings(redis_url=url, free_ports=True), ["shop:app"], env={})
    await cluster.start()
    assert len(started) == 4
    for role in started:
        assert not [word for word in role.command("") if "5ecret" in word]
        assert role.env.get("ATF_REDIS_URL") == (None if role.name == "controller" else url)
    for as_json in (False, True):
        monkeypatch.setattr("atf.cli.local.up.wants_json", lambda as_json=as_json: as_json)
        announce(cluster)
        said = capsys.readouterr().out
        assert "redis://127.0.0.1:6379/0" in said
        assert "5ecret" not in said
