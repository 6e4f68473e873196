"""Runs isolated lambdas from the worker's side: each in a process of its own, which the fork server has forked.

A worker's thread waits for the run as it would run it. What cuts in (cancellation, a drain, a kill) comes from the executor's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from atf.errors import AtfError, ConfigError, Internal
from atf.executor.guarding.start_notes import StartNotes
from atf.executor.held import HeldTask
from atf.executor.outcome import HandedBack, Outcome
from atf.executor.output import capture as output
from atf.executor.output.current_run import current
from atf.log import get_logger
from atf.rpc import task_pb2 as t
from atf.sdk.context import FirstTimeCheck

from .isolated_run import NOT_MADE_S, IsolatedRun, how_it_ended, judged
from .packets import outcome_of, pair, receive, tell_server, unpack
from .written import Written

_LAST_S: Final = 1.0
"""Seconds that a fork server has to end in."""

_log = get_logger(duty="isolated")


class IsolatedRuns:
    """The isolated runs of one worker, and its fork server."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self._process = process
        self._control = connection
        self._numbers = itertools.count(1)
        self._runs: dict[int, IsolatedRun] = {}
        self._draining = False

    @classmethod
    async def start(
        cls,
        apps: Sequence[str],
        lambdas: Mapping[str, Any],
        folder: Path,
        notes: StartNotes | None = None,
        credential: int | None = None,
    ) -> Self | None:
        """Starts the fork server of these apps, and waits until it has imported them; None: no lambda needs it.

        The kernel ends it with the thread that calls this: it must be the main one.

        Args:
            apps: MODULE:APP.
            lambdas: theirs, by name.
            folder: where to import them: the current one may be another one by now, since imports may change it.
            notes: what the fork server notes while it starts; None: nobody else reads them.
            credential: descriptor of the memory that has what the runs show to the roles (executor/credential.py); None: nothing.

        Raises:
            ConfigError: it can't serve; the message says why.
        """
        names = [name for name, each in lambdas.items() if each.isolate]
        if not names:
            return None
        if sys.platform != "linux":
            raise ConfigError(f"isolate=True of {', '.join(names)}: isolated runs need Linux")
        if notes is None:
            with contextlib.closing(StartNotes.new()) as own:
                return await cls.start(apps, lambdas, folder, own, credential)
        ours, theirs = pair()
        with theirs:
            descriptors = (theirs.fileno(), notes.descriptor, *([] if credential is None else [credential]))
            said = [
                str(each) for each in (theirs.fileno(), notes.descriptor, "-" if credential is None else credential)
            ]
            command = [sys.executable, "-P", "-m", "atf.executor.isolation.fork_server", *said, *apps]
            process = subprocess.Popen(  # noqa: ASYNC220  a millisecond
                command, stdin=subprocess.DEVNULL, pass_fds=descriptors, cwd=folder
            )
        started = cls(process, ours)
        word = await started._first_word()
        if word == ["ready"]:
            return started
        ours.close()
        match word:
            case ["refused", str(why)]:
                raise ConfigError(why)
        did = notes.last() or "loading Python"
        raise Internal(f"the fork server of isolated runs {how_it_ended(process.wait())} while {did}")

    async def _first_word(self) -> list[Any]:
        loop, said = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._control.fileno(), said.set)
        try:
            await said.wait()
        finally:
            loop.remove_reader(self._control.fileno())
        packet = receive(self._control)
        return unpack(packet) if packet else []

    def listen(self, gone: Callable[[], None]) -> None:
        """Hears from now on, on the running loop, which runs have ended. `gone` is called should the fork server end."""
        loop, descriptor = asyncio.get_running_loop(), self._control.fileno()

        def hear() -> None:
            packet = receive(self._control)
            if packet:
                word, number, what = unpack(packet)
                if (run := self._runs.get(number)) is not None:
                    run.unborn = what if word == "unborn" else ""
                    run.ended(None if word == "unborn" else what)
                return
            loop.remove_reader(descriptor)
            # A process closes its sockets a moment before it has ended, and its runs with it.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_LAST_S)
            code = self._process.returncode
            _log.error("the fork server of isolated runs has ended; so will this process", code=code)
            for run in list(self._runs.values()):
                run.ended(None)
            gone()

        loop.add_reader(descriptor, hear)

    def drain(self) -> None:
        """Tells the lambdas that the executor takes no more."""
        self._draining = True
        for run in list(self._runs.values()):
            run.tell("drain")

    def close(self) -> None:
        """Ends the fork server, and with it what runs."""
        asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_S)

    # --- on a worker's thread -----------------------------------------------------------------------------------------

    def run(self, task: HeldTask, first_time: FirstTimeCheck | None) -> Outcome:
        """Runs a task in a process of its own, and waits until nothing of it can go on: of what it has started neither."""
        current.set(task)
        try:
            with contextlib.closing(Written()) as written:
                return self._run(task, first_time, written)
        except OSError as error:  # no descriptors or no memory are left; the lambda has not begun
            return HandedBack(f"no process could be made for the run: {error}", NOT_MADE_S)
        finally:
            output.end_of_run()

    def _run(self, task: HeldTask, first_time: FirstTimeCheck | None, written: Written) -> Outcome:
        ours, theirs = pair()
        run = IsolatedRun(next(self._numbers), ours, self._control)
        self._runs[run.number] = run
        task.isolated = run
        try:
            with theirs, written.ends() as ends, _memory(task) as memory:
                begun = tell_server(self._control, "run", run.number, [theirs.fileno(), memory.fileno(), *ends])
            if not begun:
                return HandedBack("its fork server has ended before it began")
            # Whoever sets one of these from here on sees the run.
            if task.cancelled:
                run.tell("cancel", task.timed_out)
            if self._draining:
                run.tell("drain")
            outcome, alone = self.hear_run(ours, task, run, first_time, written)
            if not alone:
                run.over.wait()
            written.say_rest()
            return judged(task, run, outcome)
        finally:
            # task.isolated stays: who kills the run at this moment must not find that there is none.
            del self._runs[run.number]
            run.close()

    @staticmethod
    def hear_run(
        connection: socket.socket, task: HeldTask, run: IsolatedRun, first_time: FirstTimeCheck | None, written: Written
    ) -> tuple[Outcome | None, bool]:
        """Does what the run asks for until it ends. Returns how it says that it did, and whether it leaves nothing behind."""
        outcome: Outcome | None = None
        while packet := written.receive(connection):
            match unpack(packet):
                case ["progress", str(text)]:
                    task.say(text)
                case ["log", bytes(line), int(cut)]:
                    task.keep(line, cut)
                case ["first_time", str(key), int(ttl_us)]:
                    try:
                        run.tell("answer", first_time is None or first_time.ask(key, ttl_us))
                    except AtfError as error:
                        run.tell("error", error.reason, str(error))
                case ["outcome", str(kind), *fields]:
                    outcome = outcome_of(kind, fields)
                case ["alone"]:
                    return outcome, True
        return outcome, False


@contextlib.contextmanager
def _memory(task: HeldTask) -> Any:
    """A file without a name that holds the task's claim."""
    claim = t.Claim(
        task_id=task.task_id,
        token=t.Token(counter=task.counter),  # not its nonce: the lambda has no business with that
        attempt=task.attempt,
        run=task.run,
        losses=task.losses,
        logs=task.logs,
        scheduled_at_us=task.scheduled_at_us,
        spec=task.spec.SerializeToString(),
    )
    with os.fdopen(os.memfd_create("atf-run", os.MFD_CLOEXEC), "w+b") as file:
        file.write(claim.SerializeToString())
        file.seek(0)
        yield file
