"""What an executor shows to the roles: a credential that its controller gets for it, and that is renewed halfway or every two minutes.

The executor's own calls and its heartbeats show it. The clients that lambdas make show another one, which is made of it and has no part in claims
(auth/executor_credentials.py). Isolated runs are processes of their own, and read that other one from memory that they share with this one. The token behind it never comes here (controller/entrance.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import mmap
import os
import sys
from collections.abc import Callable
from typing import Any, Final

from atf.auth.executor_credentials import of_code
from atf.auth.secrets import HEADER, SCHEME
from atf.calls.retry import RetryPolicy, Trouble, retry
from atf.errors import AtfError, InvalidArgument, PermissionDenied, Unauthenticated
from atf.log import get_logger
from atf.rpc import api, controller_pb2 as c
from atf.rpc.caller_security import CallerSecurity, Metadata
from atf.runtime import Runtime
from atf.task import US

RENEWED_WITHIN_S: Final = 120.0
"""Seconds after which a credential is renewed at the latest, however long it is valid: so an operator can replace the keys that sign it (auth/signing_keys.py)."""
ENTER_S: Final = 10.0
"""Seconds that a call of Enter may take."""
_AGAIN: Final = RetryPolicy(
    first=0.5, most=15.0, errors=(Exception,), never=(InvalidArgument, PermissionDenied, Unauthenticated)
)
_MOST_BYTES: Final = 512
"""Of a credential."""
_SIZE: Final = 1 + 2 * _MOST_BYTES
_SEALS: Final = 0x0001 | 0x0002 | 0x0004 | 0x0010
"""From <linux/fcntl.h>: no further seals, no shrinking, no growing, and no writing but through what is mapped already."""

_log = get_logger(duty="credential")


class OwnCredential:
    """The CallerSecurity of an executor's process.

    Args:
        executor_id: which executor.
        secret: what its controller has started it with.
        tls: how its channels are made.

    Attributes:
        code: the CallerSecurity of the code that runs in this process.
    """

    def __init__(self, executor_id: str, secret: str, tls: CallerSecurity) -> None:
        self._executor_id, self._secret, self._tls = executor_id, secret, tls
        self._valid_s = 0.0
        self._shown: Metadata = None
        self.code = OfCode(tls)
        self._shared: SharedMemory | None = None

    def metadata(self) -> Metadata:
        return self._shown

    def credentials(self) -> Any | None:
        return self._tls.credentials()

    def version(self) -> int:
        return self._tls.version()

    def share(self) -> int:
        """The descriptor of memory in which isolated runs find from now on what is shown."""
        if self._shared is None:
            self._shared = SharedMemory()
            if self._shown is not None:
                self._shared.write(of_code(self._secret))
        return self._shared.descriptor

    async def enter(self, controller: api.Controller) -> None:
        """Gets a credential, or the next one.

        Raises:
            AtfError: what the controller says, or the HSC that signs it.
        """
        request = c.EnterRequest(executor_id=self._executor_id, secret=self._secret)
        found = await controller.enter(request, timeout=ENTER_S)
        self._valid_s = found.valid_for_us / US
        if found.secret:
            self._secret, self._shown = found.secret, ((HEADER, SCHEME + found.secret),)
            self.code.show(of_code(found.secret))
            if self._shared is not None:
                self._shared.write(of_code(found.secret))

    async def keep(self, controller: api.Controller, runtime: Runtime, over: Callable[[], None]) -> None:
        """Renews it until cancelled, while the controller knows this executor; then calls `over`."""
        while self._valid_s:
            await asyncio.sleep(min(self._valid_s / 2, RENEWED_WITHIN_S))
            try:
                await retry(
                    lambda: self.enter(controller), _AGAIN, runtime, trouble=(Trouble(_log, "controller"), "enter")
                )
            except AtfError as error:
                _log.error("the credential can't be renewed; no more tasks are taken", error=str(error))
                over()
                return


class OnThisHost:
    """The same for the controller, which is called without TLS: it is on this host."""

    def __init__(self, own: CallerSecurity) -> None:
        self._own = own

    def metadata(self) -> Metadata:
        return self._own.metadata()

    def credentials(self) -> None:
        return None

    def version(self) -> int:
        return 0


class OfCode:
    """The CallerSecurity of the code of users in an executor's process."""

    def __init__(self, tls: CallerSecurity) -> None:
        self._tls = tls
        self._shown: Metadata = None

    def show(self, secret: str) -> None:
        """From now on its calls show this."""
        self._shown = ((HEADER, SCHEME + secret),)

    def metadata(self) -> Metadata:
        return self._shown

    def credentials(self) -> Any | None:
        return self._tls.credentials()

    def version(self) -> int:
        return self._tls.version()


class OfIsolatedRun:
    """The CallerSecurity of an isolated run: it shows what its executor has for code now.

    Args:
        descriptor: of the memory that they share.
        tls: how its channels are made.
    """

    def __init__(self, descriptor: int, tls: CallerSecurity) -> None:
        self._shared, self._tls = SharedMemory(descriptor), tls

    def metadata(self) -> Metadata:
        secret = self._shared.read()
        return ((HEADER, SCHEME + secret),) if secret else None

    def credentials(self) -> Any | None:
        return self._tls.credentials()

    def version(self) -> int:
        return self._tls.version()


class SharedMemory:
    """A credential in a file without a name: two places for it, and before them which of both holds. So nobody reads half of one.

    Only who made it writes it: it has mapped the file, and then the kernel refuses every other write, also to those that inherit the descriptor.

    Args:
        descriptor: of one that another process has made; default: a new one, where the system has such files.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._mapped: mmap.mmap | None = None
        self._place = 0
        if descriptor is None:
            descriptor = -1
            if sys.platform == "linux":
                descriptor = os.memfd_create("atf-credential", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
                os.ftruncate(descriptor, _SIZE)
                self._mapped = mmap.mmap(descriptor, _SIZE)
                with contextlib.suppress(OSError):  # before Linux 5.1
                    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        self.descriptor = descriptor

    def write(self, secret: str) -> None:
        """From now on `read` answers this, everywhere."""
        if self._mapped is None:
            return
        self._place = 1 - self._place
        start = 1 + self._place * _MOST_BYTES
        self._mapped[start : start + _MOST_BYTES] = secret.encode().ljust(_MOST_BYTES, b"\0")
        self._mapped[0] = self._place

    def read(self) -> str:
        """What was written last; empty: nothing."""
        data = os.pread(self.descriptor, _SIZE, 0)
        start = 1 + data[0] * _MOST_BYTES if data else 0
        return data[start : start + _MOST_BYTES].rstrip(b"\0").decode()
