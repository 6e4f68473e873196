"""What a process shows to the servers that it calls, and how it checks them: a token, and TLS.

    ATF_TOKEN, ATF_TOKEN_FILE       the token, or a file that holds it, which is read again when it has changed; else systemd's credential atf.token
    ATF_TLS_CA                      a file with the certificates of those who sign servers' certificates, or `system`; unset: no TLS
    ATF_TLS_CERT, ATF_TLS_KEY       the certificate to show, and its key, where servers ask for one

Whoever opens a channel and names nothing else gets what the process has: the environment's, or what its role was told (`use`).
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, Protocol, TypedDict, Unpack, cast

from atf.auth.secrets import HEADER, MAX_CHARS, SCHEME
from atf.config.secret_files import credential
from atf.errors import ConfigError
from atf.process.clocks import SystemClocks

from .tls_files import WatchedFiles, read_files

SYSTEM: Final = "system"
_CAN_BE_SHOWN: Final = re.compile(rf"[!-~]{{1,{MAX_CHARS}}}")
_monotonic: Final = SystemClocks().monotonic
_log: Final = logging.getLogger(__name__)

Metadata = tuple[tuple[str, str], ...] | None
_shown_here: ContextVar[Metadata] = ContextVar("shown_here", default=None)


@contextmanager
def showing(token: str) -> Iterator[None]:
    """Calls that are made within, and in asyncio tasks that are begun within, show this token in place of the process's own."""
    before = _shown_here.set(_shown(token, "the token"))
    try:
        yield
    finally:
        _shown_here.reset(before)


def shown_here() -> str:
    """The header that `showing` makes; empty: nothing is shown."""
    found = _shown_here.get()
    return found[0][1] if found else ""


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


class Security:
    """By settings.

    Args:
        token: the token itself; empty: see `token_file`.
        token_file: a file that holds it; empty: none is shown.
        tls_ca: a file, or SYSTEM; empty: channels are plain.
        tls_cert, tls_key: files; empty: no certificate is shown.
        monotonic: seconds, of which only differences count.

    Raises:
        ConfigError: what was given is no token, or a file that belongs to another is missing.
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
        self._shown = _shown(token, "the token") if token else None
        files = [each for each in (tls_ca, tls_cert, tls_key) if each and each != SYSTEM]
        self._files = WatchedFiles(files, monotonic) if files else None
        self._made: Any = None
        self._version = 0

    def metadata(self) -> Metadata:
        here = _shown_here.get()
        if here is not None:
            return here
        if self._token_file is not None:
            try:
                if self._token_file.changed() or self._shown is None:
                    self._shown = _in_file(self._token_path)
            except (OSError, ConfigError) as error:
                if self._shown is None:
                    why = f"it can't be read: {error.strerror}" if isinstance(error, OSError) else error
                    raise ConfigError(f"token_file = {self._token_path}: {why}") from None
                self._token_file.look_again()  # it is being written: the token that was there holds until it is whole
        return self._shown

    def credentials(self) -> Any | None:
        if not self._ca:
            return None
        if self._made is None:
            self.version()
        return self._made

    def version(self) -> int:
        changed = self._files is not None and self._files.changed()
        if self._ca and (changed or self._made is None):
            try:
                self._made = self._load()
            except ConfigError as error:
                if self._made is None or self._files is None:
                    raise
                self._files.look_again()  # a certificate and its key are two files: one may be new, and the other on its way
                _log.warning("the new certificate can't be taken yet: %s", error)
            else:
                self._version += 1
        return self._version

    def _load(self) -> Any:
        import grpc  # here: a client within this process has no need of it

        chain, key = read_files([self._cert, self._key]) if self._cert else (None, None)
        roots = None if self._ca == SYSTEM else read_files([self._ca])[0]
        return grpc.ssl_channel_credentials(root_certificates=roots, private_key=key, certificate_chain=chain)


def _shown(token: str, what: str) -> Metadata:
    if not _CAN_BE_SHOWN.fullmatch(token):  # gRPC would say so together with the token
        raise ConfigError(f"{what} is no token: give one line such as `atf token create` shows, which begins with atf_")
    return ((HEADER, SCHEME + token),)


def _in_file(path: str) -> Metadata:
    return _shown(Path(path).read_text(encoding="utf-8", errors="replace").strip(), "what is in it")


TOKEN: Final = "ATF_TOKEN"  # noqa: S105  the name of a variable
_own: CallerSecurity | None = None


class SecurityOptions(TypedDict, total=False):
    """What a client can be given. What it is not given, or as None, comes from the environment."""

    token: str | None
    token_file: str | None
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None


def of_environment(env: Mapping[str, str] | None = None, **given: Unpack[SecurityOptions]) -> CallerSecurity:
    """What was given, and beside that what the environment says; a token or its file that was given counts alone.

    Raises:
        ConfigError: as of Security.
    """
    found = os.environ if env is None else env
    apart = given.get("token") is not None or given.get("token_file") is not None

    def value(name: str) -> str:
        named = cast("dict[str, str | None]", given).get(name)
        if named is not None or (apart and name.startswith("token")):
            return named or ""
        variable = f"ATF_{name.upper()}"
        return found[variable].strip() if variable in found else credential(name, found) or ""

    token, token_file, ca, cert, key = map(value, SecurityOptions.__annotations__)
    return Security(token=token, token_file=token_file, tls_ca=ca, tls_cert=cert, tls_key=key)


def of_client(**given: Unpack[SecurityOptions]) -> CallerSecurity | None:
    """What a client has that was given this; None: what its process has. Raises as `of_environment`."""
    return of_environment(**given) if any(each is not None for each in given.values()) else None


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
