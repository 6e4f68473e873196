"""The table of all actions, by the name that stands in their URL."""

from __future__ import annotations

from typing import Final

from . import batches, bulk, cluster, gates, jobs, keys, lambdas, tasks
from .action import Action

ACTIONS: Final[dict[str, Action]] = {
    each.name: each for module in (tasks, bulk, lambdas, gates, keys, jobs, batches, cluster) for each in module.ACTIONS
}
