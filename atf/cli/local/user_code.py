"""Imports user code that a command needs in a process of its own, so that the command ends and says why, whatever that code does.

It may raise, crash, leave threads that never end, close what this process writes to, or end the process. A child imports it, does the command's
work and ends at once. Its parent runs none of that code: it waits, and says what the child could not.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

from atf.cli import answered
from atf.executor.guarding.start_notes import StartNotes
from atf.exits import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_OK, READY_FD
from atf.process.streams import exit_at_once, given_back, is_protected
from atf.sdk.lambdas import Lambda
from atf.sdk.loading import load_lambdas
from atf.visible import one_line

from .role_process import how_it_ended

_ENDED: Final = "ended "
_LAST_WORDS_S: Final = 2.0
"""Seconds that what user code has registered with atexit has to end in."""
_PR_SET_PDEATHSIG: Final = 1
"""From <linux/prctl.h>."""


def check_imports(apps: Sequence[str]) -> int:
    """Imports apps in a child of this process, which shows nothing of what they print. Returns the exit code, and says the reason where that is not 0."""
    return run_in_child(apps, lambda _: EXIT_OK, shows=False)


def run_in_child(
    apps: Sequence[str], work: Callable[[Mapping[str, Lambda[..., Any]]], int], *, shows: bool = True
) -> int:
    """Does a command's work with the lambdas of apps in a child of this process. Returns the exit code.

    The child writes where this process does, if it `shows` what it writes. Where ATF_READY_FD names a descriptor, one line of JSON is written there: {"done": true}, or {"error"}.
    """
    if not is_protected():  # a test calls the command, and keeps what it writes
        return work(load_lambdas(apps))
    ready = os.environ.pop(READY_FD, "")
    notes = StartNotes.new()
    parent = os.getpid()
    child = os.fork()
    if not child:
        if ready:
            os.close(int(ready))
        if not shows:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
        _in_child(parent, notes, apps, work)
    code, why = _outlived(child, notes, shows)
    if ready:
        with suppress(OSError):
            os.write(int(ready), json.dumps({"error": why} if code else {"done": True}).encode() + b"\n")
    return code


def end(code: int) -> NoReturn:
    """Ends a process that has imported user code, whatever its threads do. What that code registered with atexit has a moment."""
    insist = threading.Timer(_LAST_WORDS_S, exit_at_once, (code,))
    insist.daemon = True
    insist.start()
    atexit._run_exitfuncs()
    exit_at_once(code)


def _in_child(
    parent: int, notes: StartNotes, apps: Sequence[str], work: Callable[[Mapping[str, Lambda[..., Any]]], int]
) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent says that it was interrupted
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(EXIT_FAILED)

    def worked() -> int:
        try:
            notes.watch(0)
            faulthandler.register(signal.SIGTERM, notes.descriptor, all_threads=False, chain=True)
            notes.doing(f"importing {' '.join(apps)}")
            with given_back():
                lambdas = load_lambdas(apps)
            notes.imported()
            notes.doing(f"working with {' '.join(apps)}")
            return work(lambdas)
        except BaseException as error:
            notes.failed(error)
            raise

    code = EXIT_FAILED
    try:
        code = answered(worked)
    except BaseException:  # noqa: BLE001  nothing of it may reach the frames that the parent goes on in
        traceback.print_exc()
    notes.doing(f"{_ENDED}{code}")
    end(code)


def _outlived(child: int, notes: StartNotes, shows: bool) -> tuple[int, str]:
    """Waits for the child. Returns the exit code, and the reason where that is not 0; says the reason where the child has not."""
    status = None
    try:
        _, status = os.waitpid(child, 0)
    finally:
        if status is None:  # interrupted
            os.kill(child, signal.SIGKILL)
    ended, last = os.waitstatus_to_exitcode(status), notes.last()
    if last.startswith(_ENDED):
        code, why = int(last.removeprefix(_ENDED)), notes.error()
    else:
        code, shows = EXIT_BAD_INPUT, False
        why = notes.error() or f"the process {how_it_ended(ended)} while {last or 'it began'}{_advice(ended, notes)}"
    if code and not shows:
        print(f"atf: {one_line(why)}", file=sys.stderr)
    return code, why


def _advice(ended: int, notes: StartNotes) -> str:
    if ended >= 0:
        return ": code that is imported must not end the process, as os._exit does"
    place = notes.place()
    return f"; at {place}" if place else ""
