"""Real store servers for tests: each on a private Unix socket in a directory of its own, ended by its process id.

With ATF_TEST_ACL=1 the stores that tests open are used by the user that ships (atf/store/servers/atf.acl). It is given a few commands
more, which only tests use, to look at a store and to spoil it, or which only the library of an older release calls. Who starts a store of
ATF's own, which has no such user, gets one whose default user may do only that: see `restricted`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import redis

from atf.store.servers.permissions import acl_user

from . import slow_log

RESTRICTED = bool(os.environ.get("ATF_TEST_ACL"))
"""Whether stores are used by the user that ships."""

_PASSWORD = "secret"
_TESTS_OWN = "+keys +type +lrange +ltrim +flushall +function|flush +function|delete +publish +hsetnx"
_START_S = 20.0
WHO: Final = f"atf:{_PASSWORD}@" if RESTRICTED else ""
"""Stands before the address in a URL."""


def user(name: str = "atf") -> list[str]:
    """The words of the user that ships, as of a configuration file or, without the first, of ACL SETUSER; "default" has no password."""
    rules = [*acl_user(_PASSWORD).split()[2:], *_TESTS_OWN.split()]
    return ["user", name, *rules, *(["nopass"] if name == "default" else [])]


def restricted(folder: Path, binary: str) -> None:
    """Makes a valkey-server in a folder that runs `binary`; where that is a store of ATF's own, everybody is the user that ships.

    Args:
        folder: for the PATH of who starts such stores.
        binary: the server itself.
    """
    users = folder / "users.acl"
    users.write_text(" ".join(user("default")) + "\n")
    script = folder / "valkey-server"
    script.write_text(
        f'''#!/bin/sh
case " $* " in *" --unixsocketperm "*) set -- "$@" --aclfile "{users}" ;; esac
exec "{binary}" "$@"
'''
    )
    script.chmod(0o755)


class Server:
    """A server that runs. `extra` are more settings, as words of its command line."""

    def __init__(self, binary: str, folder: Path, *extra: str) -> None:
        self.binary = binary
        self.socket = folder / "s"
        self._folder = folder
        self._command = [binary, "--port", "0", "--unixsocket", str(self.socket), "--dir", str(folder), "--save", ""]
        self._command += ["--appendonly", "no", "--daemonize", "no", "--logfile", str(folder / "log")]
        self._command += [*slow_log.SETTINGS, *extra]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address for redis_url."""
        return f"unix://{WHO}{self.socket}"

    def client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket))

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + _START_S
        with contextlib.closing(self.client()) as client:
            while True:
                try:
                    client.ping()
                except (redis.ConnectionError, redis.BusyLoadingError):
                    if self._process.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError(
                            f"{self.binary} did not start: {(self._folder / 'log').read_text()}"
                        ) from None
                    time.sleep(0.005)
                else:
                    break
            if RESTRICTED:
                client.execute_command("ACL", "SETUSER", *user()[1:])  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Within the block it takes what it is sent, and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def running(binary: str, *extra: str) -> Iterator[Server]:
    """A server for the length of a with block."""
    folder = Path(tempfile.mkdtemp(prefix="atf-test-"))  # not pytest's own: a socket's path has at most 107 bytes
    server = Server(binary, folder, *extra)
    try:
        server.start()
        yield server
        with contextlib.closing(server.client()) as client:
            slow_log.keep(Path(binary).parent.name if binary == str(OLDEST) else Path(binary).name, client)
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


OLDEST: Final = Path(__file__).parents[2] / ".build" / "redis-7.0" / "redis-server"
"""The oldest server that ATF supports, where `make contract` has fetched it."""


def more_binaries() -> list[str]:
    """Servers on which the store's tests are to run as well: the oldest one, and what ATF_TEST_SERVERS names, separated by colons."""
    named = [path for path in os.environ.get("ATF_TEST_SERVERS", "").split(":") if path]
    return [str(OLDEST), *named] if OLDEST.exists() and not named else named
