"""Which fields of replies hold what tasks hold: with the verb `read` alone they are empty, or say no more than the type of an exception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HELD: Final[Mapping[str, str]] = {
    "Batch": "error",
    "EndedRun": "why",
    "ExplainTaskReply": "sentence",
    "FailureGroup": "message",
    "Item": "result error error_message payload arguments",
    "KeyInfo": "error",
    "RedriveReply.ErrorsEntry": "key",
    "RunLog": "text",
    "Task": "result error error_message progress",
    "TaskSpec": "payload",
}
"""By message. Every other field of every reply is shown by `read`, or to who may read all namespaces (tests/frontend/test_fields.py)."""
