"""Gives a process what it shows to those that it calls, by its settings, and takes the token out of its environment."""

from __future__ import annotations

import os

from atf.config.settings import SecuritySettings
from atf.rpc.caller_security import Security, use

from .hidden import take_token


def token_of_process(settings: SecuritySettings) -> Security:
    """What this process shows from now on."""
    found = Security(
        token=take_token(os.environ),
        token_file=settings.token_file,
        tls_ca=settings.tls_ca,
        tls_cert=settings.tls_cert if settings.tls_ca else "",
        tls_key=settings.tls_key if settings.tls_ca else "",
    )
    use(found)
    return found
