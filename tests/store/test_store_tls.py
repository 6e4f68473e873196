"""TLS of connections to the store: what is read again, what holds until then, and what is checked."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis.exceptions as rx

from atf.auth.dev_certificates import DevAuthority
from atf.rpc import tls_files
from atf.store.servers.address import parse
from atf.store.servers.sockets import blocking_client
from atf.store.servers.store_tls import BlockingTlsConnection, FollowingContext, shared_context

NOW = datetime.now(UTC)
CA, OTHER = DevAuthority(NOW), DevAuthority(NOW)


@pytest.fixture(autouse=True)
def looks_always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tls_files, "LOOK_EVERY_S", 0.0)
    shared_context.cache_clear()
    yield
    shared_context.cache_clear()


def context_of(url: str) -> FollowingContext:
    options = dict(parse(url).options)
    kind = options.pop("connection_class")
    context = kind(**options).ssl_context
    assert isinstance(context, FollowingContext)
    return context


def signers(context: ssl.SSLContext) -> int:
    return context.cert_store_stats()["x509_ca"]


def test_files_are_read_again_when_they_have_changed(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(CA.pair.certificate)
    context = context_of(f"rediss://h?ssl_ca_certs={ca}")
    first = context.get()
    assert context.get() is first
    ca.write_bytes(CA.pair.certificate + OTHER.pair.certificate)
    assert (signers(first), signers(context.get())) == (1, 2)


def test_connections_share_what_was_read(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(CA.pair.certificate)
    url = f"rediss://h?ssl_ca_certs={tmp_path}/ca.pem"
    assert context_of(url) is context_of(url.replace("//h", "//other"))
    assert context_of(url) is not context_of(f"{url}&ssl_check_hostname=false")
    client = blocking_client(parse(url).options, 1)
    connection = client.connection_pool.make_connection()
    assert isinstance(connection, BlockingTlsConnection)
    assert connection.tls is context_of(url)


def test_a_certificate_waits_for_its_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ca, cert, key = tmp_path / "ca.pem", tmp_path / "client.pem", tmp_path / "client-key.pem"
    ca.write_bytes(CA.pair.certificate)
    (old, old_key), (new, new_key) = CA.client(), CA.client()
    cert.write_bytes(old)
    key.write_bytes(old_key)
    context = context_of(f"rediss://h?ssl_ca_certs={ca}&ssl_certfile={cert}&ssl_keyfile={key}")
    first = context.get()
    cert.write_bytes(new)
    assert context.get() is first
    assert "can't be taken yet" in capsys.readouterr().err
    key.write_bytes(new_key)
    assert context.get() is not first


def test_files_that_never_could_be_used_are_said(tmp_path: Path) -> None:
    with pytest.raises(rx.ConnectionError, match=r"the files of ssl_ca_certs, .* can't be used: .*No such file"):
        context_of(f"rediss://h?ssl_ca_certs={tmp_path}/none.pem").get()


def test_names_are_checked_and_tls_1_2_is_the_least() -> None:
    found = context_of("rediss://h").get()
    assert (found.check_hostname, found.verify_mode, found.minimum_version) == (
        True,
        ssl.CERT_REQUIRED,
        ssl.TLSVersion.TLSv1_2,
    )
    assert not context_of("rediss://h?ssl_check_hostname=false").get().check_hostname
