"""What `atf doctor` says of certificates and of plain links."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from atf.auth.dev_certificates import DevAuthority
from atf.cli.link_checks import certificates, plain_links
from atf.config.settings import ControllerSettings, FrontendSettings, SecuritySettings, StoreSettings
from atf.process.certificates import seconds_left
from atf.store.servers.check_results import State

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AUTHORITY = DevAuthority(NOW, days=40)


def secured(folder: Path) -> SecuritySettings:
    pair = AUTHORITY.server()
    (folder / "c.pem").write_bytes(pair.certificate)
    (folder / "k.pem").write_bytes(pair.key)
    return SecuritySettings(tls_cert=str(folder / "c.pem"), tls_key=str(folder / "k.pem"), tls_ca="system")


@pytest.mark.parametrize(
    ("days", "state", "value"), [(0, State.OK, "40 days"), (11, State.WARN, "29.0 days"), (41, State.REFUSE, "expired")]
)
def test_a_certificate_s_end_is_said_30_days_before(days: int, state: State, value: str, tmp_path: Path) -> None:
    (found,) = certificates(secured(tmp_path), "redis://h:1", NOW + timedelta(days=days))
    assert (found.state, found.value) == (state, value)
    assert "2030-02-10" in found.text


def test_the_first_end_of_a_chain_counts_and_the_store_s_files_are_looked_at_too(tmp_path: Path) -> None:
    chain = tmp_path / "chain.pem"
    chain.write_bytes(AUTHORITY.pair.certificate + DevAuthority(NOW, days=3).pair.certificate)
    (found,) = certificates(SecuritySettings(), f"rediss://h:1/0?ssl_ca_certs={chain}", NOW)
    assert (found.state, found.value) == (State.WARN, "3.0 days")
    assert "ssl_ca_certs of redis_url" in found.text


def test_a_key_of_another_and_a_file_without_a_certificate_are_refused(tmp_path: Path) -> None:
    settings = secured(tmp_path)
    (tmp_path / "k.pem").write_bytes(AUTHORITY.client().key)
    assert [each.value for each in certificates(settings, "", NOW)] == ["40 days", "no pair"]
    (tmp_path / "c.pem").write_bytes(b"nothing")
    assert [each.value for each in certificates(settings, "", NOW)] == ["unreadable", "no pair"]
    (tmp_path / "c.pem").unlink()
    assert certificates(settings, "", NOW)[0].state is State.REFUSE


def test_links_with_other_machines_that_are_plain_are_named() -> None:
    roles = [
        ("frontend", FrontendSettings(listen="0.0.0.0:7401")),
        ("controller", ControllerSettings(hsc="10.0.0.1:7402", frontend="127.0.0.1:7401")),
    ]
    store = StoreSettings(redis_url="redis://u:secret@10.0.0.5:6379/0")
    found = plain_links(SecuritySettings(), roles, store)
    assert [each.value for each in found] == ["frontend listens", "controller calls", "store"]
    assert "secret" not in "".join(each.sentence for each in found)
    safe = SecuritySettings(tls_cert="c", tls_key="k", tls_ca="system")
    assert plain_links(safe, roles, StoreSettings(redis_url="rediss://10.0.0.5:6379/0")) == []
    assert plain_links(SecuritySettings(), [("frontend", FrontendSettings())], StoreSettings()) == []
    many = StoreSettings(redis_url="redis+sentinel://10.0.0.1:1,10.0.0.2:1/tasks")
    assert len(plain_links(safe, [], many)) == 1


def test_what_certificates_have_left_is_measured(tmp_path: Path) -> None:
    settings = secured(tmp_path)
    assert seconds_left(settings, int(NOW.timestamp() * 1e6)) == {("tls_cert",): 40 * 86_400}
    (tmp_path / "c.pem").unlink()
    assert seconds_left(settings, 0) == {("tls_cert",): -1}
