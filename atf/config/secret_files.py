"""Finds secrets in files: which files systemd has put where, what one says, and who else can read it.

A unit with `LoadCredential=atf.token:/etc/atf/token` finds that file in $CREDENTIALS_DIRECTORY. A setting that is the path of such a file and is
given nowhere else is the path of the credential of its name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from atf.errors import ConfigError

CREDENTIALS: Final = {
    "token_file": "atf.token",
    "redis_url_file": "atf.redis_url",
    "tls_cert": "atf.tls_cert",
    "tls_key": "atf.tls_key",
    "tls_client_ca": "atf.tls_client_ca",
    "tls_ca": "atf.tls_ca",
    "codec_keys": "atf.codec_keys",
}
"""Names of credentials of systemd, by setting."""
_MOST_BYTES: Final = 64 << 10
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def credential(name: str, env: Mapping[str, str]) -> str | None:
    """The path of the credential that systemd has for a setting; None: it has none."""
    folder = env.get("CREDENTIALS_DIRECTORY", "")
    if not folder or name not in CREDENTIALS:
        return None
    path = Path(folder, CREDENTIALS[name])
    return str(path) if path.is_file() else None


def read_secret(path: str, setting: str) -> str:
    """What stands in a file, which is one line.

    Raises:
        ConfigError: it can't be read, holds no such line, or others can read it; never says what is in it.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace").strip()
    except OSError as error:
        raise ConfigError(f"{setting} = {path}: it can't be read: {error.strerror}") from None
    if exposed([path]):
        raise ConfigError(f"{setting} = {path}: other users of this machine can read it. Run: chmod 600 {path}")
    if not text or "\n" in text:
        raise ConfigError(f"{setting} = {path}: write one line into it")
    return text


def exposed(paths: Iterable[str]) -> list[str]:
    """Those of some files that belong to this process's user, and that others can read. As of ssh, files of somebody else are that one's business."""
    found = []
    for path in filter(None, paths):
        try:
            status = Path(path).stat()
        except OSError:
            continue  # whoever reads it says so
        if status.st_uid == os.geteuid() and status.st_mode & _OTHERS:
            found.append(path)
    return found
