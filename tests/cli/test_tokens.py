"""Commands on tokens: a secret is shown once, and sent to nobody."""

from __future__ import annotations

import pytest

from atf.auth import secrets
from atf.client.whoami import whoami
from atf.rpc import frontend_pb2 as f

from .conftest import Atf, FakeFrontend


def test_a_secret_is_shown_once_and_only_its_digest_is_sent(atf: Atf, frontend: FakeFrontend) -> None:
    given = ("--namespace", "photos,mail", "--can", "schedule", "--can", "read", "--expires", "90d", "--note", "web")
    found = atf("token", "create", *given, "--json").json
    shown = secrets.parse(found["secret"])
    assert shown is not None
    assert shown.id == found["id"]
    sent = frontend.asked[-1]
    assert sent == f.CreateTokenRequest(
        id=shown.id,
        digest=shown.digest,
        verbs=["schedule", "read"],
        scopes=["photos", "mail"],
        expires_in_us=90 * 86_400 * 1_000_000,
        note="web",
        who=whoami(),
    )
    assert found["secret"].encode() not in sent.SerializeToString()


def test_a_secret_is_told_with_what_to_do(atf: Atf, frontend: FakeFrontend) -> None:
    lines = atf("token", "rotate", "abcdefghij", "--overlap", "1h").out.splitlines()
    shown = secrets.parse(lines[1])
    assert shown is not None
    assert "not shown again" in lines[2]
    assert frontend.asked[-1] == f.RotateTokenRequest(
        id="abcdefghij", digest=shown.digest, overlap_us=3_600_000_000, who=whoami()
    )


def test_a_certificate_needs_no_secret(atf: Atf, frontend: FakeFrontend) -> None:
    out = atf("token", "create", "--namespace", "photos", "--can", "work", "--subject", "spiffe://here/web").out
    assert "spiffe://here/web has it" in out
    assert frontend.asked[-1].digest == ""


@pytest.mark.usefixtures("frontend")
def test_tokens_are_listed_with_what_they_may_do(atf: Atf) -> None:
    lines = [line.split("\t") for line in atf("token", "--no-header").out.splitlines()]
    assert lines[0] == ["abcdefghij", "read", "photos", "", "never", "web", "ada"]
    assert lines[1][4].startswith("revoked 1970-01-01")


def test_a_token_is_revoked(atf: Atf, frontend: FakeFrontend) -> None:
    assert "refused everywhere" in atf("token", "revoke", "abcdefghij").out
    assert frontend.asked[-1] == f.RevokeTokenRequest(id="abcdefghij", who=whoami())


def test_the_key_of_credentials_is_rotated(atf: Atf, frontend: FakeFrontend) -> None:
    assert "refused from 1970-01-01 00:05:01.000+00:00 on" in atf("token", "rotate-key", "--why", "a dump was sold").out
    assert frontend.asked[-1] == f.RotateSigningKeyRequest(who=whoami(), why="a dump was sold")
