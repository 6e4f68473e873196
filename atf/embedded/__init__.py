"""A task store of one's own: a Redis-compatible server found on this machine, run on a private Unix socket for `atf up`."""

from __future__ import annotations

from .binary import ServerBinary, find_binary
from .lock import DataDir
from .server import EmbeddedStore

__all__ = ["DataDir", "EmbeddedStore", "ServerBinary", "find_binary"]
