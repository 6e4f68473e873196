"""A process that gets the orphans, as process 1 does: what `atf` does there. Prints what it finds, then waits for a signal.

python orphans.py
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

from atf.cli.init import run_as_init

if os.geteuid() == 0:
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: as it was before the change of user
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
if "READY" in os.environ:
    os.write(int(os.environ["READY"]), b"x")
run_as_init()


def leave_orphan() -> int:
    """Starts a process whose parent ends before it does."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        if not os.fork():
            os.write(writing, str(os.getpid()).encode())
            time.sleep(0.05)
        os._exit(0)
    os.waitpid(child, 0)
    return int(os.read(reading, 20))


orphans = [leave_orphan() for _ in range(5)]
codes = [
    os.waitstatus_to_exitcode(os.system(f"exit {code}")) for code in (0, 3)
]  # nobody else takes what is waited for
until = time.monotonic() + 10
while (left := [each for each in orphans if Path(f"/proc/{each}").exists()]) and time.monotonic() < until:
    time.sleep(0.01)
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
signal.signal(signal.SIGHUP, lambda *_: os._exit(8))
# What belongs to root is of a process that hides its memory and its environment.
print(len(left), codes, os.getppid(), Path(f"/proc/{os.getppid()}/environ").stat().st_uid, flush=True)
time.sleep(60)
