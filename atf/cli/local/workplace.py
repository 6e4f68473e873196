"""Makes a temporary directory for a command that runs roles of its own, and tells where it is if the command fails."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from atf.cli.progress import View
from atf.process.streams import open_log

from .role_process import Say

_LOG: Final = "roles.log"
_LAST_LINES: Final = 5
"""Of the roles, that are shown where they could not start."""


@contextmanager
def workplace(prefix: str, view: View) -> Iterator[tuple[Path, Say]]:
    """The directory, and what takes a role's name and a line of it. Where the block ends well, the directory is the caller's.

    From here on a SIGTERM ends the process as Ctrl-C does.

    Args:
        prefix: of the directory's name.
        view: is told the last lines, and where all of them are, if the block fails.
    """
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, os.kill, os.getpid(), signal.SIGINT)  # the same end
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    path = directory / _LOG
    try:
        with open_log(path) as log:
            yield directory, lambda name, line: print(f"{name:<14} | {line}", file=log)
    except BaseException as error:
        said = path.read_text(encoding="utf-8").splitlines()
        if isinstance(error, asyncio.CancelledError) or not said:  # Ctrl-C, or no role was started
            shutil.rmtree(directory, ignore_errors=True)
        else:
            for line in said[-_LAST_LINES:]:
                view.say(line)
            view.say(f"all that the roles said is in {path}")
        raise
