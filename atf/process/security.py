"""Gives a role what its server and its calls need of security, by its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from atf.auth.authenticator import TokenAuthenticator
from atf.auth.known_tokens import KnownTokens, TokenTable
from atf.auth.signing_keys import FIELD
from atf.auth.token_record import TokenRecord
from atf.auth.wrong_tries import WrongTries
from atf.config.settings import SecuritySettings
from atf.metrics.table import CALLS_REFUSED
from atf.process.caller_token import warn_of_exposed
from atf.process.metrics_access import readers_of_everything
from atf.rpc.caller_limits import CallerLimits
from atf.rpc.http_tls import http_context
from atf.rpc.server_security import ServerSecurity
from atf.rpc.server_tls import server_credentials
from atf.runtime import Runtime

if TYPE_CHECKING:
    from atf.process.role import Process
    from atf.store.store import Store


def known_tokens(store: Store, runtime: Runtime, *, keys: bool = True) -> KnownTokens:
    """The tokens that a store keeps; `keys`: and what credentials of executors are signed with."""

    async def read(version: int) -> TokenTable | None:
        found = await store.list_tokens(version, keys=keys)
        if found is None:
            return None
        signing = msgspec.json.decode(found[1].pop(FIELD, b"[]"), type=list[bytes])
        tokens = {name: msgspec.json.decode(text, type=TokenRecord) for name, text in found[1].items()}
        return TokenTable(found[0], tokens, signing)

    return KnownTokens(read, runtime)


def wrong_tries_of(process: Process) -> WrongTries:
    """What limits those who show a process what is not valid, on whichever port."""
    return WrongTries(process.runtime, process.metrics.counter(CALLS_REFUSED, "token"))


def server_security(
    settings: SecuritySettings, listen: str, store: Store, process: Process, *, executors: bool = True
) -> ServerSecurity:
    """Whom a role answers that has the store; and who may read its metrics; `executors`: whether executors call it by their credentials.

    Raises:
        ConfigError: it would listen for other machines without TLS and tokens, or a file can't be read.
    """
    settings.check_listen(listen)
    warn_of_exposed(settings)
    authenticator, wrong_tries = None, wrong_tries_of(process)
    if settings.auth != "off":
        known = known_tokens(store, process.runtime, keys=executors)
        process.runtime.spawn(known.run(), name="tokens")
        authenticator = TokenAuthenticator(known, process.runtime)
        process.may_read = readers_of_everything(authenticator, wrong_tries)
    return ServerSecurity(
        authenticator,
        server_credentials(settings),
        wrong_tries,
        http=http_context(settings),
        http_of_callers=http_context(settings, of_callers=True),
        limits=CallerLimits(settings, process.metrics),
    )
