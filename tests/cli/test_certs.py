"""`atf certs dev`."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from atf.exits import EXIT_BAD_INPUT

from .conftest import Atf

KEYS = {"ca-key.pem", "server-key.pem", "client-key.pem"}


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_what_it_makes_is_signed_by_its_ca_for_its_names_and_for_30_days(atf: Atf, tmp_path: Path) -> None:
    made = atf("certs", "dev", "--dir", str(tmp_path / "c"), "atf.example", "10.0.0.7", "--json").json
    assert {*made["files"]} == {each.name for each in (tmp_path / "c").iterdir()}
    ca, server, client = (read(tmp_path / "c" / f"{name}.pem") for name in ("ca", "server", "client"))
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "atf.example"]
    assert {*map(str, names.get_values_for_type(x509.IPAddress))} == {"127.0.0.1", "::1", "10.0.0.7"}
    for each, use in ((server, ExtendedKeyUsageOID.SERVER_AUTH), (client, ExtendedKeyUsageOID.CLIENT_AUTH)):
        each.verify_directly_issued_by(ca)
        assert [*each.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value] == [use]
        assert 30 <= (each.not_valid_after_utc - each.not_valid_before_utc).total_seconds() / 86_400 < 30.1
    key = load_pem_private_key((tmp_path / "c" / "server-key.pem").read_bytes(), None)
    assert key.public_key() == server.public_key()
    assert ipaddress.ip_address("127.0.0.1") in names.get_values_for_type(x509.IPAddress)


def test_keys_are_their_owners_and_nothing_is_overwritten_unasked(atf: Atf, tmp_path: Path) -> None:
    words = ("certs", "dev", "--dir", str(tmp_path))
    said = atf(*words)
    assert "ATF_TLS_CA=" in said.out
    assert "BEGIN" not in said.out
    modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    assert modes == {name: 0o600 if name in KEYS else 0o644 for name in modes}
    before = (tmp_path / "server.pem").read_bytes()
    again = atf(*words)
    assert again.code == EXIT_BAD_INPUT
    assert "--overwrite" in again.err
    assert (tmp_path / "server.pem").read_bytes() == before
    assert atf(*words, "--overwrite").code == 0
    assert (tmp_path / "server.pem").read_bytes() != before


@pytest.mark.parametrize("name", ["", "a b", "https://atf.example", "-x.example", "10.0.0.0/8", "a" * 300])
def test_a_name_that_no_server_has_is_refused(name: str, atf: Atf, tmp_path: Path) -> None:
    said = atf("certs", "dev", "--dir", str(tmp_path / "c"), "--", name)
    assert said.code == EXIT_BAD_INPUT
    assert "neither the name of a host nor an address" in said.err
    assert not (tmp_path / "c").exists()


def test_a_directory_that_cannot_be_written_is_named(atf: Atf, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = atf("certs", "dev", "--dir", str(tmp_path / "file"))
    assert said.code == EXIT_BAD_INPUT
    assert "Name another directory" in said.err
