"""The table of all actions, by the name that stands in their URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from . import batches, bulk, cluster, gates, jobs, keys, lambdas, tasks
from .action import Action

ACTIONS: Final[dict[str, Action]] = {
    each.name: each for module in (tasks, bulk, lambdas, gates, keys, jobs, batches, cluster) for each in module.ACTIONS
}

CALLS: Final[Mapping[str, str]] = {
    "cancel-task": "CancelTasks", "retry-task": "RetryTasks", "pause-lambda": "PauseLambda", "resume-lambda": "ResumeLambda",
    "set-lambda": "SetLambda", "unset-lambda": "SetLambda", "forget-lambda": "DeleteLambda", "gate-pause": "SetGate", "gate-delay": "SetGate",
    "gate-admit": "SetGate", "gate-drop": "SetGate", "lift-gate": "LiftGate", "resume-key": "ResumeKey", "skip-key": "SkipKey",
    "run-job": "RunJobNow", "pause-job": "PauseJob", "resume-job": "ResumeJob", "delete-job": "DeleteJob", "cancel-batch": "CancelBatch",
    "retry-batch": "RetryBatch", "retry-matching": "Redrive", "cancel-matching": "CancelMatching", "delete-batch": "DeleteBatch", "drain-host": "DrainHost", "resume-host": "DrainHost", "set-cores": "SetCapacity",
}  # fmt: skip
"""The call of the frontend that each action makes: it says what somebody must be able to do who is shown the action (atf/auth/methods.py)."""
