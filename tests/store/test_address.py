"""What a redis URL says, and what is said of one that can be none."""

from __future__ import annotations

import pytest

from atf.errors import ConfigError
from atf.store.servers.address import parse, safe_url
from atf.store.servers.store_tls import TlsConnection


def test_a_server_of_its_own() -> None:
    found = parse("redis://me:p%40ss@h:1234/3")
    assert (found.kind, found.where) == ("single", "redis://h:1234/3")
    assert found.options == {"username": "me", "password": "p@ss", "host": "h", "port": 1234, "db": 3}
    assert parse("unix:///run/s").options["path"] == "/run/s"
    assert parse("rediss://h?ssl_ca_certs=/ca.pem").options["connection_class"] is TlsConnection


def test_sentinels_and_their_own_password() -> None:
    found = parse("redis+sentinel://me:pw@a,b:1,[::1]:2/tasks/4?sentinel_password=other")
    assert (found.kind, found.master) == ("sentinel", "tasks")
    assert found.hosts == (("a", 26379), ("b", 1), ("::1", 2))
    assert found.options == {"username": "me", "password": "pw", "db": 4}
    assert found.sentinel_options == {"password": "other"}
    assert found.where == "redis+sentinel://a,b:1,[::1]:2/tasks/4"
    assert parse("rediss+sentinel://a/tasks").sentinel_options["connection_class"] is TlsConnection


def test_nodes_of_a_cluster() -> None:
    found = parse("redis+cluster://:pw@a:7000,b/")
    assert (found.kind, found.hosts, found.options) == (
        "cluster",
        (("a", 7000), ("b", 6379)),
        {"password": "pw", "db": 0},
    )
    assert parse("rediss+cluster://a").options["connection_class"] is TlsConnection


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://h", "begins with none"),
        ("h:6379", "begins with none"),
        ("redis+x://h", "begins with none"),
        ("unix://", "names no socket"),
        ("redis://h/tasks", "no number"),
        ("redis://h:0", "port"),
        ("redis://h?tls=yes", "no option tls"),
        ("redis+sentinel://a,b", "name the master"),
        ("redis+sentinel://a,b/", "name the master"),
        ("redis+sentinel://a/tasks/x", "number of a database"),
        ("redis+sentinel://a/tasks?sentinel_port=1", "no option sentinel_port"),
        ("redis+sentinel://a:99999/tasks", "'a:99999' is no HOST:PORT"),
        ("redis+cluster://", "HOST:PORT is missing"),
        ("redis+cluster://a,,b", "HOST:PORT is missing"),
        ("redis+cluster://a/1", "no database 1"),
        ("redis+cluster://a?sentinel_password=x", "no option sentinel_password"),
    ],
)
def test_what_can_be_no_address_is_told_with_the_forms(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        parse(url)
    assert "redis+cluster://HOST:PORT,HOST:PORT" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://me:s3cret@h:x",
        "redis://me:s3cret/@h",
        "redis://me:s3cret?@h",
        "redis+sentinel://me:s3cret@a:x/tasks",
        "redis+cluster://me:s3cret@a/1?sentinel_password=s3cret",
        "redis+sentinel://a?sentinel_password=s3cret",
    ],
)
def test_no_message_tells_a_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(url)
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in safe_url(url)
