"""Collects the versions of everything that takes part, so that two reports can be compared."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from pathlib import Path
from typing import Final

import atf

_DISTRIBUTIONS: Final = {"redis-py": "redis", "hiredis": "hiredis", "grpcio": "grpcio", "protobuf": "protobuf"}
"""What a task's way goes through, by the name in the report."""
_GIT_S: Final = 10.0


def versions(server: str) -> dict[str, str]:
    """Versions by name; "" of what is not installed.

    Args:
        server: of the store, as it says itself.
    """
    return {
        "python": platform.python_version(),
        "atf": atf.__version__,
        **{name: _version(distribution) for name, distribution in _DISTRIBUTIONS.items()},
        "server": server,
    }


def commit() -> str:
    """The commit of a checkout, with -dirty after it where files differ from it; "" where ATF is installed, or git is not."""
    root = Path(atf.__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return ran.stdout.strip()


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
