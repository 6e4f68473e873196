"""Tells when certificates end."""

from __future__ import annotations

from datetime import datetime

from cryptography import x509


def first_end(pem: bytes) -> datetime:
    """When the first of the certificates in a PEM file ends.

    Raises:
        ValueError: there is none, or one is malformed.
    """
    return min(each.not_valid_after_utc for each in x509.load_pem_x509_certificates(pem))
