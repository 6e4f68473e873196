"""What a process shows to the servers that it calls, and how it checks them: a token, and TLS.

    ATF_TOKEN, ATF_TOKEN_FILE       the token, or a file that holds it, which is read again when it has changed
    ATF_TLS_CA                      a file with the certificates of those who sign servers' certificates, or `system`; unset: no TLS
    ATF_TLS_CERT, ATF_TLS_KEY       the certificate to show, and its key, where servers ask for one

Whoever opens a channel and names nothing else gets what the process has: the environment's, or what its role was told (`use`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from atf.auth.secrets import HEADER, SCHEME
from atf.errors import ConfigError
from atf.process.clocks import SystemClocks

SYSTEM: Final = "system"
LOOK_EVERY_S: Final = 1.0
"""Seconds between two looks whether a file has changed."""

_monotonic: Final = SystemClocks().monotonic

Metadata = tuple[tuple[str, str], ...] | None


class CallerSecurity(Protocol):
    """What calls show, and how their channels are made."""

    def metadata(self) -> Metadata:
        """What goes along with each call; None: nothing."""
        ...

    def credentials(self) -> Any | None:
        """Of gRPC, for a channel; None: it is plain."""
        ...

    def version(self) -> int:
        """Another number when channels are to be made anew, since a certificate has changed."""
        ...


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
        self.version = 0

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
            if not self._seen:
                raise
            return False  # it is being replaced: what was read holds until the new one is there
        if seen == self._seen:
            return False
        self._seen = seen
        self.version += 1
        return True


class Security:
    """By settings.

    Args:
        token: the token itself; empty: see `token_file`.
        token_file: a file that holds it; empty: none is shown.
        tls_ca: a file, or SYSTEM; empty: channels are plain.
        tls_cert, tls_key: files; empty: no certificate is shown.
        monotonic: seconds, of which only differences count.

    Raises:
        ConfigError: a file can't be read, or one that belongs to another is missing.
    """

    def __init__(
        self,
        *,
        token: str = "",
        token_file: str = "",
        tls_ca: str = "",
        tls_cert: str = "",
        tls_key: str = "",
        monotonic: Callable[[], float] = _monotonic,
    ) -> None:
        if bool(tls_cert) != bool(tls_key):
            raise ConfigError("tls_cert and tls_key belong together: give both, or none")
        if tls_cert and not tls_ca:
            raise ConfigError(
                "tls_cert without tls_ca: name the file with the certificates of those who sign the servers', or `system`"
            )
        self._ca, self._cert, self._key = tls_ca, tls_cert, tls_key
        self._token_file = WatchedFiles([token_file], monotonic) if token_file and not token else None
        self._token_path = token_file
        self._shown = _shown(token)
        files = [each for each in (tls_ca, tls_cert, tls_key) if each and each != SYSTEM]
        self._files = WatchedFiles(files, monotonic) if files else None
        self._made: Any = None

    def metadata(self) -> Metadata:
        if self._token_file is not None:
            try:
                if self._token_file.changed():
                    self._shown = _shown(Path(self._token_path).read_text(encoding="utf-8").strip())
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"token_file = {self._token_path}: it can't be read: {error}") from None
        return self._shown

    def credentials(self) -> Any | None:
        if not self._ca:
            return None
        import grpc  # here: a client within this process has no need of it

        if self._made is None or (self._files is not None and self._files.changed()):
            self._made = grpc.ssl_channel_credentials(
                root_certificates=None if self._ca == SYSTEM else _read("tls_ca", self._ca),
                private_key=_read("tls_key", self._key) if self._key else None,
                certificate_chain=_read("tls_cert", self._cert) if self._cert else None,
            )
        return self._made

    def version(self) -> int:
        if self._files is None:
            return 0
        if self._files.changed():
            self._made = None
        return self._files.version


def _shown(token: str) -> Metadata:
    return ((HEADER, SCHEME + token),) if token else None


def _read(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name} = {path}: it can't be read: {error.strerror}") from None


_OF_ENVIRONMENT: Final = ("TOKEN", "TOKEN_FILE", "TLS_CA", "TLS_CERT", "TLS_KEY")
_own: CallerSecurity | None = None


def of_environment(env: Mapping[str, str] | None = None) -> CallerSecurity:
    """What the environment says.

    Raises:
        ConfigError: as of Security.
    """
    found = os.environ if env is None else env
    token, token_file, ca, cert, key = (found.get(f"ATF_{name}", "") for name in _OF_ENVIRONMENT)
    return Security(token=token, token_file=token_file, tls_ca=ca, tls_cert=cert, tls_key=key)


def use(security: CallerSecurity) -> None:
    """From now on channels of this process that name nothing else have this."""
    global _own  # noqa: PLW0603  of the process, as its environment is
    _own = security


def own() -> CallerSecurity:
    """What this process has."""
    global _own  # noqa: PLW0603
    if _own is None:
        _own = of_environment()
    return _own
