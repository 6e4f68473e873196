"""Turns itself into another program that dies with the process that started it.

    python -I -S tether.py PARENT_PID SIGNAL PROGRAM [ARGUMENT…]

It owns one system call (prctl PR_SET_PDEATHSIG, Linux only) and imports nothing of ATF, so that it costs milliseconds. It
exists because the same call in a `preexec_fn` would run Python between fork and exec, which deadlocks in a process with
threads. Elsewhere than on Linux the program simply runs, and the next `atf up` finds what was left behind.
"""

from __future__ import annotations

import os
import signal as signals
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Binds this process to PARENT_PID and becomes PROGRAM; never returns."""
    parent, signal, program = int(arguments[0]), int(arguments[1]), arguments[2:]
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0)
    # Also under nohup: it is the parent's word to this program, which no terminal has.
    signals.signal(signals.SIGHUP, signals.SIG_DFL)
    if os.getppid() != parent:  # it died before the call: no signal would ever come
        sys.exit(1)
    try:
        os.execv(program[0], program)
    except OSError as error:
        sys.exit(f"{program[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
