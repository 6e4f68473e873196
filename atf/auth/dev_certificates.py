"""Makes throw-away certificates, for trying TLS on one machine. It signs nothing for production, and reads no file."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from atf.errors import InvalidArgument

DAYS: Final = 30
ALWAYS: Final = ("localhost", "127.0.0.1", "::1")
"""Names that the certificate of a server has in any case."""
MAX_NAMES: Final = 100
_DNS: Final = re.compile(
    r"(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.IGNORECASE
)
_EARLIER: Final = timedelta(minutes=5)
"""Since another machine's clock may be behind."""


class Pair(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class DevAuthority:
    """A throw-away certificate authority; each one has a key of its own.

    Args:
        now: since when it holds.
        days: for how long it, and what it signs, holds; negative: it has expired.
    """

    def __init__(self, now: datetime, days: float = DAYS) -> None:
        self._now, self._days = now, days
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject("atf certs dev: throw-away CA")
        usage = _usage(signs_certificates=True)
        signed = (
            self._begun(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self._identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        self.pair = _pair(signed, self._key)

    def server(self, names: Sequence[str] = ()) -> Pair:
        """A certificate for a server that is called by ALWAYS and by `names`.

        Raises:
            InvalidArgument: one is neither a host's name nor an address.
        """
        return self._issue(
            "atf server", [_alternative(each) for each in (*ALWAYS, *names)], ExtendedKeyUsageOID.SERVER_AUTH
        )

    def client(self, subject: str = "atf client") -> Pair:
        """A certificate for whoever calls."""
        return self._issue(subject, [], ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(self, subject: str, names: Sequence[x509.GeneralName], use: x509.ObjectIdentifier) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        begun = (
            self._begun(_subject(subject), key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(self._identifier, critical=False)
        )
        if names:
            begun = begun.add_extension(x509.SubjectAlternativeName(dict.fromkeys(names)), critical=False)
        return _pair(begun.sign(self._key, hashes.SHA256()), key)

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        ends = self._now + timedelta(days=self._days)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(self._now, ends) - _EARLIER)
            .not_valid_after(ends)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        )


def dev_certificates(names: Sequence[str], now: datetime) -> dict[str, bytes]:
    """The files of a new authority: its own, one server's and one client's.

    Raises:
        InvalidArgument: a name is malformed, or there are too many.
    """
    if len(names) > MAX_NAMES:
        raise InvalidArgument(f"{len(names)} names: at most {MAX_NAMES}")
    authority = DevAuthority(now)
    found: dict[str, bytes] = {}
    for name, pair in (("ca", authority.pair), ("server", authority.server(names)), ("client", authority.client())):
        found |= {f"{name}.pem": pair.certificate, f"{name}-key.pem": pair.key}
    return found


def utc_now(wall_us: int) -> datetime:
    """An instant as certificates have it."""
    return datetime.fromtimestamp(wall_us / 1e6, UTC)


def _alternative(name: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name))
    if len(name) > 253 or not _DNS.fullmatch(name):
        raise InvalidArgument(
            f"{name[:80]!r} is neither the name of a host nor an address: write such as atf.example or 10.0.0.7"
        )
    return x509.DNSName(name.lower())


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    return Pair(certificate.public_bytes(pem), key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
