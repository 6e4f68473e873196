"""The lambdas of the row `ordinary-life`: each release names a parameter anew, some fork, some take more memory than they may.

The file that ATF_ORDINARY_RELEASE names holds the number of the release that a process runs, from when it starts.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path
from typing import Final

import atf
from atf.verify import lambdas
from atf.verify.lambdas import NAMESPACE, RETENTION

RELEASE: Final = "ATF_ORDINARY_RELEASE"
"""The environment variable that names the file with the number of the release."""
_KNOWN: Final = 2
"""Releases whose payloads a release still takes, beside its own."""
_RETENTION: Final = float(os.environ.get(RETENTION, lambdas.RETENTION_S))
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")

app = atf.App(os.environ.get(NAMESPACE, "verify"))


def parameter(release: int) -> str:
    """What a release calls the parameter that every release renames."""
    return f"colour_{release}"


def _released() -> int:
    where = os.environ.get(RELEASE)
    return int(Path(where).read_text("ascii")) if where else 0


_NUMBER: Final = _released()
_ALIASES: Final = {parameter(earlier): parameter(_NUMBER) for earlier in range(max(_NUMBER - _KNOWN, 0), _NUMBER)}
# A parameter whose name is known only now can't be written down in any other way.
exec(
    f"""
def work(ctx: atf.Context, seconds: float, {parameter(_NUMBER)}: str, fails: int = 0) -> int:
    return lambdas.work.fn(ctx, seconds, fails)

async def work_async(ctx: atf.Context, seconds: float, {parameter(_NUMBER)}: str, fails: int = 0) -> int:
    return await lambdas.work_async.fn(ctx, seconds, fails)
"""
)
for _each in ("work", "work_async"):
    globals()[_each] = app.task(backoff=atf.Backoff(0.2, factor=1, jitter=0), retention=_RETENTION, aliases=_ALIASES)(
        globals()[_each]
    )


def _square(number: int) -> int:
    return number * number


@app.task(retention=_RETENTION)
def forks(count: int) -> int:
    """Has a pool of two processes do the work, and ends another process by a signal."""
    with multiprocessing.Pool(2) as pool:
        total = sum(pool.map(_square, range(count)))
    sleeper = multiprocessing.Process(target=time.sleep, args=(60,))
    sleeper.start()
    sleeper.terminate()
    sleeper.join(10)
    if sleeper.exitcode != -15:
        raise RuntimeError(f"the process that was terminated ended with {sleeper.exitcode}")
    return total


_kept: list[bytes] = []


@app.task(retention=_RETENTION)
def grow(mib: int) -> int:
    """Has its process take so many MiB, and keep them; a process that did so before takes no more. Returns its number."""
    taken = int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE >> 20
    if taken < mib:
        _kept.append(os.urandom(1 << 20) * (mib - taken))
    return os.getpid()


@app.task(retention=_RETENTION)
def late(number: int) -> int:
    """Is waited for while the frontend stands still."""
    return number
