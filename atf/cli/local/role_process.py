"""Runs one role as a process: starts it, waits for its word that it is ready, and says how it ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from atf.embedded.child import Child
from atf.errors import ConfigError, Unavailable
from atf.exits import READY_FD

READY_TIMEOUT: Final = 60.0
"""Seconds a role gets to say that it is ready."""


Say = Callable[[str, str], None]
"""Takes the name of a process and a line about it or of it."""


class RoleProcess:
    """One role as a process.

    Args:
        name: the role's name.
        command: makes the command line; called with the address the role had before ("" at first), so that a role that was given
            a free port gets the same one again.
        env: its environment.
        say: takes its name and each line that it writes.
        patience: seconds that it gets to say that it is ready; None: as long as it needs.
    """

    def __init__(
        self,
        name: str,
        command: Callable[[str], Sequence[str]],
        env: Mapping[str, str],
        say: Say,
        *,
        patience: float | None = READY_TIMEOUT,
    ) -> None:
        self.name, self.command, self.env, self._say = name, command, env, say
        self._patience = patience
        self.address = ""
        self.metrics = ""
        """Where it serves its metrics, if it does."""
        self.dapr_http = ""
        """Where a frontend serves Dapr's HTTP API, if it does."""
        self.pages = ""
        """Where a server serves the pages, if it does."""
        self._child: Child | None = None

    @property
    def pid(self) -> int:
        return self._child.pid if self._child and self._child.running else 0

    async def start(self) -> None:
        """Starts the role and waits for its word on ATF_READY_FD.

        Raises:
            EndedEarly: it ended.
            Unavailable: it said nothing in time.
        """
        self._child, reader = child_with_word(
            self.command(self.address), self.env, lambda line: self._say(self.name, line)
        )
        try:
            said = await asyncio.wait_for(first_line(reader), self._patience)
        except TimeoutError:
            self._child.kill_group()
            raise Unavailable(f"{self.name} was not ready within {self._patience:g} s") from None
        except BaseException:
            self._child.kill_group()
            raise
        where = json.loads(said or "{}")
        if "address" not in where:
            code = await (self._child.wait() if where else self._child.stop(1))
            await self._child.last_lines(1)
            raise EndedEarly(self.name, code, str(where.get("error", "")))
        self.address = str(where.get("address") or self.address)
        self.metrics = str(where.get("metrics", ""))
        self.dapr_http = str(where.get("dapr_http", ""))
        self.pages = str(where.get("ui", ""))

    async def wait(self) -> int:
        return await self._child.wait() if self._child else 0

    async def stop(self, grace: float) -> None:
        if self._child is not None:
            # Not SIGTERM: whoever stops us may have sent that already, and a second one would end the role at once (stops.py).
            await self._child.stop(grace, signal.SIGHUP)

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill_group()


class EndedEarly(Unavailable):
    """A process ended before it was ready.

    Attributes:
        exit_code: of the process.
    """

    def __init__(self, name: str, code: int, why: str = "") -> None:
        super().__init__(f"{name} {how_it_ended(code)} before it was ready: {why or 'its lines above say why'}")
        self.exit_code = code


async def register_apps(apps: Sequence[str], frontend: str, env: Mapping[str, str]) -> None:
    """Makes the lambdas of apps known, so that tasks can be scheduled as soon as everything is up, whatever their executors do.

    It imports the apps in a process of its own: a typing error in one is a sentence here, not a row of dead executors.

    Raises:
        ConfigError: an app can't be imported.
    """
    lines: list[str] = []
    words = ["lambda", "register", *apps, "--frontend", frontend]
    command = [sys.executable, "-P", "-m", "atf.cli", *words]
    child, reader = child_with_word(command, env, lines.append)
    try:
        said = json.loads(await first_line(reader) or "{}")
        code = await child.wait()
        await child.last_lines(1)
    finally:
        child.kill_group()
    if not said.get("done"):  # without a word it has not come to user code: the last line is ours
        why = lines[-1].removeprefix("atf: ") if lines else f"registering {' '.join(apps)} {how_it_ended(code)}"
        raise ConfigError(said.get("error") or why)


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


async def all_or_none(starts: Sequence[Any]) -> None:
    """Runs them together; when one fails, the others are ended, and its error is raised."""
    running = [asyncio.ensure_future(each) for each in starts]
    try:
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
        for each in done:
            each.result()
    finally:
        for each in running:
            each.cancel()
        await asyncio.wait(running)


def child_with_word(
    command: Sequence[str], env: Mapping[str, str], on_line: Callable[[str], None]
) -> tuple[Child, int]:
    """A child that says one line on ATF_READY_FD, and the descriptor at which that arrives (see first_line)."""
    reader, writer = os.pipe()
    try:
        return Child(command, env={**env, READY_FD: str(writer)}, keep_fds=[writer], on_line=on_line), reader
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)


async def first_line(reader: int) -> bytes:
    """The first line that arrives at a pipe, b"" if all its writers are gone before. Closes the pipe."""
    stream = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(stream)
    transport: Any
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(reader, "rb", 0))
    try:
        return await stream.readline()
    finally:
        transport.close()
