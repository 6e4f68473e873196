"""Says how a controller keeps its secrets from the code of users, by its settings, and where it can't."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from atf.config.settings import ControllerSettings, ExecutorSettings, SecuritySettings
from atf.config.web import is_loopback
from atf.errors import ConfigError
from atf.process.hidden import hide_memory
from atf.process.other_user import check_may_start, user_of
from atf.rpc.caller_security import CallerSecurity

_READABLE: Final = (
    "code of users can read the token of this worker host; set executor_user to have it run as another user, who can't read the file, or give"
    " the token in ATF_TOKEN"
)
_CERTIFICATE: Final = (
    "executors show no certificate: the code of users could use that of this worker host. Where servers ask for one, give this host a token, and"
    " a certificate whose subject is granted nothing"
)


def is_secret(own: CallerSecurity, security: SecuritySettings) -> bool:
    """Whether this controller shows something to the HSC that its executors must not have."""
    return own.metadata() is not None or bool(security.tls_ca and security.tls_cert)


def for_executors(security: SecuritySettings, own: CallerSecurity) -> SecuritySettings:
    """What executors are told: how to call, and nothing that lets them in. A certificate does that where there is no token beside it."""
    told = SecuritySettings(tls_ca=security.tls_ca)
    if own.metadata() is None:
        return told
    return replace(told, tls_cert=security.tls_cert, tls_key=security.tls_key)


def check_setup(
    settings: ControllerSettings,
    executor: ExecutorSettings,
    security: SecuritySettings,
    own: CallerSecurity,
    log: Any,
) -> None:
    """Hides the memory of a controller that has a secret, and warns where the code of users gets to that all the same.

    Raises:
        ConfigError: it would let in other machines, or can't run executors as `executor_user`.
    """
    if not security.insecure and not is_loopback(settings.listen.rpartition(":")[0]):
        raise ConfigError(
            f"listen = {settings.listen}: a controller takes calls of executors on its own host alone, so let it listen on 127.0.0.1; or"
            " give it --insecure, where only they reach it"
        )
    user = user_of(executor.executor_user)
    if user is not None:
        check_may_start(user)
    if not is_secret(own, security):
        return
    hide_memory()
    if security.token_file and (user is None or user.may_read(security.token_file)):
        log.warning(_READABLE, token_file=security.token_file)
    if security.tls_cert and own.metadata() is None:
        log.warning(_CERTIFICATE, tls_cert=security.tls_cert)
