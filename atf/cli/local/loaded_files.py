"""Says which files of Python an app loads from a folder: imports the app in a process of its own, since none of its code runs in `atf up`.

python -P -m atf.cli.local.loaded_files FOLDER MODULE:APP... writes one line of JSON, {"files": [...]}, to the descriptor in ATF_READY_FD.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from atf.exits import READY_FD
from atf.process.streams import exit_at_once

from .role_process import child_with_word, first_line

_NICE: Final = 10
_NOT_THEIRS: Final = frozenset({"site-packages", "dist-packages", "node_modules"})
"""Folders of what was installed; hidden ones, such as .venv, hold nothing else either."""


async def loaded_files(apps: Sequence[str], folder: Path, env: Mapping[str, str]) -> set[Path]:
    """The files below a folder that apps load while they are imported; of an app that can't be imported, those until then."""
    command = [sys.executable, "-P", "-m", __name__, str(folder), *apps]
    child, reader = child_with_word(command, env, lambda _line: None)
    try:
        said = json.loads(await first_line(reader) or "{}")
        await child.wait()
    finally:
        child.kill_group()
    return {Path(each) for each in said.get("files", ())}


def below(folder: Path, loaded: Collection[str]) -> list[str]:
    """Those of the files that lie below a folder and are not installed there."""
    found = []
    for name in loaded:
        path = Path(name).resolve()
        if path.suffix == ".py" and path.is_relative_to(folder):
            parts = path.relative_to(folder).parts
            if not any(part in _NOT_THEIRS or part.startswith(".") for part in parts):
                found.append(str(path))
    return sorted(found)


def main(folder: str, *apps: str) -> None:
    """Imports apps, and ends at once."""
    from atf.sdk.loading import load_lambdas

    word = int(os.environ.pop(READY_FD))
    os.nice(_NICE)  # the executors that load the same code meanwhile go first
    with contextlib.suppress(BaseException):  # whoever starts executors for them learns why
        load_lambdas(apps)
    loaded = [str(each.__file__) for each in list(sys.modules.values()) if getattr(each, "__file__", None)]
    os.write(word, json.dumps({"files": below(Path(folder).resolve(), loaded)}).encode() + b"\n")
    exit_at_once(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
