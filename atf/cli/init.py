"""Is process 1 of a container: reaps what others have left behind, and passes signals on.

The kernel hands every process without a parent to process 1. Nobody else reaps it when it ends: each one is a zombie, and takes
a number of the container's `pids` limit for ever. The command itself goes on in a child of process 1. So this reaping takes no exit code
from those who wait for one (asyncio, subprocess), and the command has the ordinary rules of signals, which process 1 has not.
"""

from __future__ import annotations

import os
import signal
from typing import Final

from atf.process.hidden import hide_memory

_SI_KERNEL: Final = 0x80
"""From <asm-generic/siginfo.h>: the kernel sent it, as a terminal's Ctrl-C. The child has had it as well; but not the SIGHUP of a terminal that
is gone, which comes to the first process of a session alone.
"""
_MOST_DESCRIPTORS: Final = 1 << 20


def run_as_init() -> None:
    """Returns in a child of this process. This process itself ends with the child, and with its exit code (128 + n for signal n)."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    hide_memory()  # a token in the environment is here still, which the command takes out of its own
    os.closerange(3, _MOST_DESCRIPTORS)  # whoever reads what the command writes there waits for its end
    while True:
        came = signal.sigwaitinfo(signal.valid_signals())
        if came.si_signo == signal.SIGCHLD:
            code = _reap(child)
            if code is not None:
                os._exit(code)
        elif came.si_code != _SI_KERNEL or came.si_signo == signal.SIGHUP:
            os.kill(child, came.si_signo)


def _reap(child: int) -> int | None:
    """Reaps all that has ended. Returns how the command has; None: it has not."""
    code = None
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return code
            if pid == child:
                ended = os.waitstatus_to_exitcode(status)
                code = ended if ended >= 0 else 128 - ended
    except ChildProcessError:  # none is left
        return code
