"""Which versions of packages the interpreter that runs this has, a line each. Every system's environment is asked with it.

It imports nothing of what it tells of: `python -P -m proof.benchmarks.installed redis hiredis`.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence
from typing import Final

OF_ALL: Final = ("redis", "hiredis")
"""The client of the store, and its parser in C, without which it is slower."""
OF_OURS: Final = (*OF_ALL, "protobuf", "grpcio", "uvloop", "msgspec")
NOT_THERE: Final = "not installed"


def installed(names: Sequence[str]) -> dict[str, str]:
    """Each package's version by name. The interpreter is the same for all systems of a result, which has it once."""
    return {name: _version(name) for name in names}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return NOT_THERE


if __name__ == "__main__":
    print("\n".join(f"{name} {version}" for name, version in installed(sys.argv[1:]).items()))
