"""Gives a process what it shows to those that it calls, by its settings, and takes the token out of its environment."""

from __future__ import annotations

import os

from atf.config.secret_files import exposed
from atf.config.settings import SecuritySettings
from atf.log import get_logger
from atf.rpc.caller_security import Security, use

from .hidden import take_token

_log = get_logger()


def token_of_process(settings: SecuritySettings) -> Security:
    """What this process shows from now on."""
    warn_of_exposed(settings)
    found = Security(
        token=take_token(os.environ),
        token_file=settings.token_file,
        tls_ca=settings.tls_ca,
        tls_cert=settings.tls_cert if settings.tls_ca else "",
        tls_key=settings.tls_key if settings.tls_ca else "",
    )
    use(found)
    return found


def warn_of_exposed(settings: SecuritySettings) -> None:
    """Says which files of this process's secrets other users can read."""
    for each in exposed([settings.token_file, settings.tls_key]):
        _log.warning("other users of this machine can read a secret of this process; run chmod 600", file=each)
