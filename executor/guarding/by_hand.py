"""Gets an executor in that was started by hand, with the token that its guard was given.

The guard does so in a process of its own, and passes on the credential alone: the token never comes to where the code of users runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from atf.config.settings import ExecutorSettings, SecuritySettings
from atf.errors import ConfigError, Unavailable
from atf.process.hidden import hide_memory, pipe_with, take_token

_MOST_S: Final = 60.0
"""Seconds that entering by hand may take; the process that does it gives up before."""


def secret_by_hand(executor_id: str, settings: ExecutorSettings, security: SecuritySettings) -> int | None:
    """The pipe for an executor that nobody's controller has started; None: it was given no token. Takes that out of the environment.

    Raises:
        ConfigError: the token can't be read.
        Unavailable: the controller does not let it in.
    """
    token = take_token(os.environ)
    if not token and security.token_file:
        try:
            token = Path(security.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"token_file = {security.token_file}: it can't be read: {error}") from None
    if not token:
        return None
    hide_memory()
    command = [sys.executable, "-P", "-m", "atf.executor.enter_by_hand", executor_id, settings.controller]
    try:
        done = subprocess.run(command, input=token, capture_output=True, text=True, timeout=_MOST_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"the controller at {settings.controller} does not answer") from None
    if done.returncode:
        raise Unavailable(
            f"the controller at {settings.controller} does not let this executor in: {done.stderr.strip()}"
        )
    return pipe_with(done.stdout) if done.stdout else None
