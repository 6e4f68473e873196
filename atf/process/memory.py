"""Gives memory back that a start needed for a moment, such as the texts of the store's functions: 2 MiB of a role."""

from __future__ import annotations

import ctypes
import sys


def give_memory_back() -> None:
    """Has the C library return what is free to the system, where it is glibc; some milliseconds. Its own rule is to keep it."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
