"""`atf up --watch`: has executors replaced when a file that they load has changed.

watchfiles wakes it; what has changed is told by the files' times and sizes, so that nothing is missed while the list of files is made anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

from atf.errors import ConfigError

from .role_process import Say

QUIET_MS: Final = 50
"""Without a further change, until files are looked at: an editor or `git switch` writes several."""
MOST_MS: Final = 500
LOOK_MS: Final = 1_000
"""Until files are looked at though nothing has woken us."""
_GO_ON: Final = "the executors go on with the code from before"

Stamp = tuple[int, int]


def check_installed() -> None:
    """Raises ConfigError where the package that watches is missing."""
    if importlib.util.find_spec("watchfiles") is None:
        raise ConfigError("--watch needs the package watchfiles: pip install 'atf-tasks[dev]'")


class Watch:
    """Files of user code, and what is to happen when they change.

    Args:
        folder: below which they lie.
        list_files: gives those that are loaded now; may take as long as their import.
        replace: has executors start with the code as it is now.
        say: takes "atf" and a line.
    """

    def __init__(
        self, folder: Path, list_files: Callable[[], Awaitable[set[Path]]], replace: Callable[[], None], say: Say
    ) -> None:
        self._folder, self._list, self._replace, self._say = folder.resolve(), list_files, replace, say
        self._seen: dict[Path, Stamp | None] = {}
        self._broken: set[Path] = set()

    async def run(self) -> None:
        """Watches until it is cancelled."""
        await self.list()
        self._say("atf", f"watching {len(self._seen)} files below {self._folder}")
        listing: asyncio.Task[None] | None = None
        try:
            while True:
                listing = await self._watch(listing)
        except OSError as error:
            self._say("atf", f"watching has ended: {error.strerror}. Restart `atf up` to load code that has changed")
        finally:
            if listing is not None:
                listing.cancel()

    async def _watch(self, listing: asyncio.Task[None] | None) -> asyncio.Task[None] | None:
        """Watches as long as the files lie in the same folders; returns the listing that is under way."""
        from watchfiles import awatch

        folders = self._folders()
        changes = awatch(
            *folders, watch_filter=None, recursive=False, step=QUIET_MS, debounce=MOST_MS, rust_timeout=LOOK_MS, yield_on_timeout=True
        )  # fmt: skip
        async with contextlib.aclosing(changes):
            async for _ in changes:
                if self.look():
                    if listing is not None:
                        listing.cancel()
                    listing = asyncio.create_task(self.list(), name="files")
                if self._folders() != folders:
                    break
        return listing

    def _folders(self) -> set[Path]:
        return {each.parent for each in self._seen if each.parent.is_dir()} or {self._folder}

    async def list(self) -> None:
        """Takes in the files that are loaded now. Those from before stay: what is broken is loaded up to the break."""
        for each in await self._list():
            self._seen.setdefault(each, _stamp(each))

    def look(self) -> bool:
        """Looks at the files, and acts on what has changed since the last look. Returns whether executors are replaced."""
        stamps = {each: _stamp(each) for each in self._seen}
        changed = {each for each, stamp in stamps.items() if stamp is not None and stamp != self._seen[each]}
        if not changed:
            return False
        self._seen |= {each: stamps[each] for each in changed}
        errors = {each: said for each in sorted(changed | self._broken) if (said := _error(each))}
        self._broken = set(errors)
        names = self._names(changed)
        if errors:
            self._say(
                "atf", f"{names} changed: {self._names([next(iter(errors))])}, {next(iter(errors.values()))}; {_GO_ON}"
            )
            return False
        self._say("atf", f"{names} changed: starting executors with the new code")
        for each in changed:  # Python takes a file of the same second and size for the one that it has compiled
            Path(importlib.util.cache_from_source(str(each))).unlink(missing_ok=True)
        self._replace()
        return True

    def _names(self, files: Iterable[Path]) -> str:
        names = [str(each.relative_to(self._folder)) for each in sorted(files)]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _stamp(file: Path) -> Stamp | None:
    """By what a changed file is known; None: it is not there, such as while an editor replaces it."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _error(file: Path) -> str:
    """What is wrong with a file by the grammar of Python; empty: nothing, or it is gone."""
    try:
        compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"line {error.lineno}: {type(error).__name__}: {error.msg}"
    except ValueError as error:  # null bytes
        return f"{type(error).__name__}: {error}"
    except OSError:
        return ""
    return ""
