"""gRPC in processes that fork: roles, whose controller starts executors, and executors, whose lambdas do as they like.

Left to itself, gRPC starts its threads again in every child, until that runs another program. There they go on with what those of the
parent were about to do: a child of an executor, born while a connection opened, sent on it as well, after which the HSC refused every
result that came over it. A client is another matter (client/fork.py).

Needs nothing: a guard loads it, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

FORK_SUPPORT: Final = "GRPC_ENABLE_FORK_SUPPORT"
"""The variable that gRPC reads when it is loaded."""


@contextmanager
def without_fork_support() -> Iterator[None]:
    """GRPC that is loaded within the block does nothing at a fork. What this process starts finds the variable as it was."""
    before = os.environ.get(FORK_SUPPORT)
    os.environ[FORK_SUPPORT] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[FORK_SUPPORT]
        else:
            os.environ[FORK_SUPPORT] = before
