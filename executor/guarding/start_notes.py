"""Notes what a worker does until it works, in a file that outlives it, so that its guard can say why a start has failed.

A worker that starts runs user code which may do anything: raise, exit, crash, hang, take all memory. So a note is in the file as soon as it is
made, and where native code crashes or nothing moves, Python's faulthandler writes there which line it was. Of crashes it does so also later.

    =<what it does from now on>
    !<JSON of the error that ended it>
    anything else is faulthandler's
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
from pathlib import Path
from typing import Final

from atf.errors import AtfError, message_of
from atf.executor.table import nameless_file
from atf.process.streams import beyond_reach
from atf.task import clip

LOOK_S: Final = 10.0
"""Seconds between two notes of the line at which a worker stands that does not get on."""
LOOKS: Final = 10
"""Looks for which a short start_timeout has room: loading Python, twice with isolated runs, takes a part of it."""
MAX_WHY_BYTES: Final = 1 << 10
"""Of one reason: it stands in logs, in `explain` and in `atf hosts`."""
_READ_BYTES: Final = 64 << 10
_FRAME: Final = re.compile(r'  File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<name>.*)')
_LIBRARY: Final = f"{Path(os.__file__).parent}{os.sep}"
_FATAL: Final = "Fatal Python error: "
_HEAD: Final = "(most recent call first):"


class StartNotes:
    """The notes of one worker.

    Args:
        descriptor: of their file.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.told = False
        """Whether an error was noted: the guard knows why the worker ends."""
        self._watches = False

    @classmethod
    def new(cls) -> StartNotes:
        """Notes in a file without a name, so that nothing is left of it."""
        return cls(beyond_reach(nameless_file("atf-start")))

    # --- the worker's ------------------------------------------------------------------------------------------------

    def watch(self, start_timeout: float) -> None:
        """Has faulthandler note where a crash happens, and where this process stands while it starts. Not where the user has it on already.

        Args:
            start_timeout: seconds that the import may take; 0: no bound.
        """
        if not faulthandler.is_enabled():
            faulthandler.enable(self.descriptor, all_threads=False)
        faulthandler.dump_traceback_later(
            min(LOOK_S, start_timeout / LOOKS or LOOK_S), repeat=True, file=self.descriptor
        )
        self._watches = True

    def doing(self, what: str) -> None:
        """What the worker does from now on, such as "importing shop:app"; it follows "while" in a sentence."""
        self._write(f"={what}\n")

    def failed(self, error: BaseException) -> None:
        """What ends the worker."""
        text = message_of(error) if isinstance(error, AtfError) else f"{type(error).__name__}: {message_of(error)}"
        self.told = self._write(f"!{json.dumps(clip(text, MAX_WHY_BYTES))}\n")

    def imported(self) -> None:
        """User code is imported: where this process' main thread stands is nobody's concern any more."""
        if self._watches:
            faulthandler.cancel_dump_traceback_later()
            self._watches = False

    def close(self) -> None:
        """Nobody needs them any more."""
        with contextlib.suppress(OSError):
            os.close(self.descriptor)

    def _write(self, line: str) -> bool:
        try:
            os.write(self.descriptor, line.encode("utf-8", "replace"))
        except OSError:  # user code has closed it: the guard says less
            return False
        return True

    # --- the guard's -------------------------------------------------------------------------------------------------

    def error(self) -> str:
        """The error that ended the worker; empty: it noted none."""
        said = [line[1:] for line in self._lines() if line.startswith("!")]
        try:
            return clip(str(json.loads(said[-1])), MAX_WHY_BYTES) if said else ""
        except (ValueError, RecursionError):
            return ""  # user code wrote over it

    def last(self) -> str:
        """What the worker did last, such as "importing shop:app"; empty: it has not begun."""
        said = [line[1:] for line in self._lines() if line.startswith("=")]
        return clip(said[-1], MAX_WHY_BYTES) if said else ""

    def place(self, *, crash: bool = False) -> str:
        """The line of code where the worker stood when it was looked at last, or where it crashed: "shop.py line 3 in load"; or empty.

        It is one of what the worker did last. Of Python's own code it is the line that called that.

        Args:
            crash: only where it crashed.
        """
        lines = self._lines()
        begins = [number for number, line in enumerate(lines) if line.startswith(_FATAL if crash else "=")]
        lines = lines[begins[-1] :] if begins else []
        heads = [number for number, line in enumerate(lines) if line.endswith(_HEAD)]  # of the main thread last
        for line in lines[heads[-1] + 1 :] if heads else ():
            frame = _FRAME.fullmatch(line)
            if frame is not None and not _of_python(frame["file"]):
                return clip(f"{frame['file']} line {frame['line']} in {frame['name']}", MAX_WHY_BYTES)
        return ""

    def _lines(self) -> list[str]:
        size = os.fstat(self.descriptor).st_size
        # Both ends matter: what it did is noted first, and where it stood last.
        head = os.pread(self.descriptor, _READ_BYTES, 0)
        tail = os.pread(self.descriptor, _READ_BYTES, max(size - _READ_BYTES, len(head)))
        return (head + tail).decode("utf-8", "replace").splitlines()


def _of_python(file: str) -> bool:
    """Whether a frame's file is one of the standard library."""
    packages = "site-packages" in file or "dist-packages" in file  # which may lie within it
    return file.startswith("<frozen ") or (file.startswith(_LIBRARY) and not packages)
