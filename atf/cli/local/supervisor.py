"""Keeps the processes of one `atf up` alive: starts each, starts it again when it dies, ends it when asked.

It owns restarts and their backoff, and what is said about them. It does not know what the processes do, nor in which order they
are needed: that is cluster.py's matter. Nothing here polls; an idle supervisor sleeps until a process ends or says something.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Final, Protocol

from atf.errors import AtfError
from atf.process.descriptors import error_text

from .role_process import EndedEarly, Say, how_it_ended

STEADY_AFTER: Final = 10.0
"""Seconds of life after which an end counts as the first again, unless said otherwise."""
_FIRST_DELAY, _MAX_DELAY = 0.1, 10.0


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
