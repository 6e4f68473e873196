"""Keeps the processes of one `atf up` alive: starts each, starts it again when it dies, ends it when asked.

It owns restarts and their backoff, and what is said about them. It does not know what the processes do, nor in which order they
are needed: that is cluster.py's matter. Nothing here polls; an idle supervisor sleeps until a process ends or says something.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol

from atf.embedded.child import Child
from atf.errors import AtfError, Unavailable
from atf.exits import READY_FD
from atf.process.descriptors import error_text

READY_TIMEOUT: Final = 60.0
"""Seconds a role gets to say that it is ready."""
STEADY_AFTER: Final = 10.0
"""Seconds of life after which an end counts as the first again, unless said otherwise."""
_FIRST_DELAY, _MAX_DELAY = 0.1, 10.0

Say = Callable[[str, str], None]
"""Takes the name of a process and a line about it or of it."""


class Member(Protocol):
    """A process that can be started again and again."""

    name: str

    @property
    def pid(self) -> int:
        """0: none runs."""
        ...

    async def start(self) -> None:
        """Returns when it is ready; raises AtfError if it ends instead."""
        ...

    async def wait(self) -> int:
        """The exit code of the process last started, once it has ended."""
        ...

    async def stop(self, grace: float) -> None: ...

    def kill(self) -> None: ...


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
        self.name, self._command, self._env, self._say = name, command, env, say
        self._patience = patience
        self.address = ""
        self.dapr_http = ""
        """Where a frontend serves Dapr's HTTP API, if it does."""
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
            self._command(self.address), self._env, lambda line: self._say(self.name, line)
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
        self.dapr_http = str(where.get("dapr_http", ""))

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


class Supervisor:
    """Keeps members alive.

    Args:
        say: takes a member's name and a sentence about it.
        steady_after: seconds of life after which an end counts as the first again.
        clock: seconds, for how long a member lived.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        say: Say,
        *,
        steady_after: float = STEADY_AFTER,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._say, self._steady_after, self._clock, self._sleep = say, steady_after, clock, sleep
        self._members: dict[str, Member] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._final: dict[str, Collection[int]] = {}
        self.restarts: dict[str, int] = {}
        self.gave_up = asyncio.Event()
        """Set once a member has ended with an exit code of its `final`; what its name and that code are stands in `final_end`."""
        self.final_end = "", 0

    async def start(self, member: Member, *, final: Collection[int] = ()) -> None:
        """Starts a member, returns when it is ready, and keeps it alive from then on.

        Args:
            member: the process.
            final: exit codes after which it is not started again.

        Raises:
            Unavailable: the first start failed; it is not tried again.
        """
        self._members[member.name] = member
        self._final[member.name] = final
        self.restarts[member.name] = 0
        await member.start()
        self._watches[member.name] = asyncio.create_task(self._watch(member), name=f"watch-{member.name}")

    def pid(self, name: str) -> int:
        """The process of a member; 0 while none runs."""
        return self._members[name].pid

    @property
    def names(self) -> list[str]:
        """The members, in the order of their start."""
        return list(self._members)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Signals a member's process, as an accident would: the supervisor starts it again when it ends."""
        if pid := self.pid(name):
            os.kill(pid, number)

    async def stop(self, name: str, grace: float) -> None:
        """Ends a member for good: asks it to end, and after `grace` seconds kills it."""
        if (watch := self._watches.pop(name, None)) is not None:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
        if name in self._members:
            await self._members[name].stop(grace)

    def kill_all(self) -> None:
        """Ends every member at once."""
        for watch in self._watches.values():
            watch.cancel()
        for member in self._members.values():
            member.kill()

    async def _watch(self, member: Member) -> None:
        delay = _FIRST_DELAY
        while True:
            since = self._clock()
            code = await member.wait()
            if self._ended_for_good(member.name, code):
                return
            if self._clock() - since > self._steady_after:
                delay = _FIRST_DELAY
            self._say(member.name, f"{how_it_ended(code)}; starting it again in {delay:.1f} s")
            again = await self._start_again(member, delay)
            if again is None:
                return
            delay = again

    def _ended_for_good(self, name: str, code: int) -> bool:
        if code not in self._final[name]:
            return False
        self._say(name, f"{how_it_ended(code)}; it is not started again, since that would end the same way")
        self.final_end = name, code
        self.gave_up.set()
        return True

    async def _start_again(self, member: Member, delay: float) -> float | None:
        """Starts a member until it is ready; the wait before its next restart, or None: it has ended for good."""
        while True:
            await self._sleep(delay)
            delay = min(delay * 2, _MAX_DELAY)
            self.restarts[member.name] += 1
            try:
                await member.start()
            except (AtfError, OSError) as error:
                if isinstance(error, EndedEarly) and self._ended_for_good(member.name, error.exit_code):
                    return None
                self._say(member.name, f"{error_text(error)}; starting it again in {delay:.1f} s")
            else:
                self._say(member.name, f"runs again, pid {member.pid}")
                return delay


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


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
