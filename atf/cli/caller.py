"""What a command shows to the frontend, and how it checks it: a token and TLS, by flags, variables and atf.toml."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from atf.config.loading import load
from atf.config.settings import setting
from atf.rpc.caller_security import TOKEN, CallerSecurity, Security


@dataclass(frozen=True)
class CallerSettings:
    """As far as they are files. The token itself is in ATF_TOKEN, never in a flag, which everybody on the machine can read."""

    token_file: str = setting("", "file with the token to show")
    tls_ca: str = setting("", "file with the certificates of those who sign the frontend's, or `system`")
    tls_cert: str = setting("", "file with the certificate to show")
    tls_key: str = setting("", "file with its key")


NAMES: Final = tuple(CallerSettings.__annotations__)
"""Of the flags: every command that asks a frontend has them, and `atf --help` tells of them."""


def security(flags: Mapping[str, str | None]) -> CallerSecurity:
    """What a command shows that was given these flags; a flag may be None.

    Raises:
        ConfigError: of what belongs together, a part is missing; or ATF_TOKEN holds no token.
    """
    found = load(CallerSettings, flags)
    token = "" if flags.get("token_file") else os.environ.get(TOKEN, "").strip()
    shows = (
        found.tls_ca or flags.get("tls_cert") or flags.get("tls_key")
    )  # else they are those of a role that runs here
    return Security(
        token=token,
        token_file=found.token_file,
        tls_ca=found.tls_ca,
        tls_cert=found.tls_cert if shows else "",
        tls_key=found.tls_key if shows else "",
    )
