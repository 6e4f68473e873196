"""Whose turn it is in a worker: a lambda of which nothing waits does not wait for those of which much does."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from .held import HeldTask


def line_up(waiting: deque[HeldTask], tasks: Sequence[HeldTask]) -> None:
    """Adds tasks to what waits, in their order: behind the others, or before them if nothing of their lambda waits yet.

    Another thread may take from `waiting` meanwhile.
    """
    known = {task.lambda_name for task in waiting.copy()}
    first = [task for task in tasks if task.lambda_name not in known] if known else []
    if first:
        waiting.extendleft(reversed(first))
        waiting.extend(task for task in tasks if task.lambda_name in known)
    else:
        waiting.extend(tasks)
