"""Keeps packages out of a process that libraries would use if they were there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(*packages: str) -> Iterator[None]:
    """What is loaded within the block does without these packages, unless they are loaded already; later they can be loaded as ever."""
    left_out = [each for each in packages if each not in sys.modules]
    sys.modules.update(dict.fromkeys(left_out))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for each in left_out:
            del sys.modules[each]


def forget(package: str) -> None:
    """Has whoever imports a package from now on load it anew; who has it goes on with the one from before."""
    for name in [each for each in sys.modules if each.partition(".")[0] == package]:
        del sys.modules[name]
