"""The colours of the bar that splits what a task has waited for."""

from __future__ import annotations

from typing import Final

REASONS: Final = {
    "not due": "wait-due",
    "gated": "wait-gate",
    "over a limit": "wait-limit",
    "behind a key": "wait-key",
    "no worker": "wait-worker",
    "due": "wait-due-now",
    "queued": "wait-queue",
    "claimed": "wait-claim",
    "between runs": "wait-retry",
}
"""The reasons of ExplainTask in the order of their legend, with the class of the colour of each."""
