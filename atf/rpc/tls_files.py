"""Reads the files of certificates and tokens, and sees when they have changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from atf.errors import ConfigError
from atf.process.clocks import SystemClocks

LOOK_EVERY_S: Final = 1.0
"""Seconds between two looks whether a file has changed."""

_monotonic: Final = SystemClocks().monotonic


def read_files(paths: Sequence[str]) -> list[bytes]:
    """The contents of a file with certificates, of its key's if there is one, and of others.

    Raises:
        ConfigError: one can't be read or has no certificate, or the second is not the key of the first.
    """
    contents = [_read(each) for each in paths]
    if len(paths) > 1:
        check_pair(paths[0], paths[1])
        if contents[:2] != [_read(each) for each in paths[:2]]:
            raise ConfigError(f"{paths[0]} is being replaced")
    for path, content in zip([paths[0], *paths[2:]], [contents[0], *contents[2:]], strict=True):
        if b"-----BEGIN CERTIFICATE-----" not in content:
            raise ConfigError(f"{path}: it has no certificate in it; give a PEM file")
    return contents


def check_pair(cert: str, key: str) -> None:
    """Lets pass a certificate with its key.

    Raises:
        ConfigError: the key is another's, or one of them is malformed.
    """
    import ssl  # here: most clients have no certificate

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password="")
    except (ssl.SSLError, ValueError) as error:
        why = getattr(error, "reason", "") or str(error)
        raise ConfigError(
            f"{key} is not the key of {cert}, or one of them is no PEM file, or the key wants a password: {why}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{cert}, {key}: one can't be read: {error.strerror}") from None


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path}: a file of tls_ca, tls_cert, tls_key or tls_client_ca can't be read: {error.strerror}"
        ) from None


class WatchedFiles:
    """Files that are read again when they have changed.

    Args:
        paths: theirs.
        monotonic: seconds, of which only differences count.
    """

    def __init__(self, paths: Sequence[str], monotonic: Callable[[], float] = _monotonic) -> None:
        self._paths = [Path(each) for each in paths]
        self._monotonic = monotonic
        self._looked = float("-inf")
        self._seen: list[object] = []
        self._again = False

    def look_again(self) -> None:
        """Has the next look find a change: what was found could not be used."""
        self._again = True

    def changed(self) -> bool:
        """Whether they have changed since the last call that said so; the first call says so. Looks once in LOOK_EVERY_S."""
        now = self._monotonic()
        if now - self._looked < LOOK_EVERY_S:
            return False
        self._looked = now
        try:
            seen: list[object] = [
                (each.stat().st_mtime_ns, each.stat().st_ino, each.stat().st_size) for each in self._paths
            ]
        except OSError:
            # It is being replaced: what was read holds until the new one is there. Of one that was never there, who reads it says so.
            return not self._seen
        if seen == self._seen and not self._again:
            return False
        self._seen, self._again = seen, False
        return True
