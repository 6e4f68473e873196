"""Says why a page shows less than there is: what its reader's token lacks, or which key nothing here has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from atf.sdk.sealed import WORD, is_sealed, key_of

from .words import lambda_of


class Veil(NamedTuple):
    """What lies over a page."""

    scope: str
    """The namespace for which the token lacks `read_payload`; empty: nothing is withheld."""
    encrypted: bool
    key: str
    """The id of a key that it is encrypted with; empty where that is not known."""
    command: Sequence[str]
    """What shows it where the key file is."""


def veil_over(lambda_name: str, records: Iterable[Any], command: Sequence[str]) -> Veil | None:
    """What lies over records of tasks, items, jobs or failures of a lambda; None: nothing."""
    encrypted, key = False, ""
    for each in records:
        if each.withheld:
            return Veil((lambda_of(each) if _has_lambda(each) else lambda_name).partition("/")[0], False, "", ())
        for part in _carried(each):
            found = key_of(part)
            encrypted = encrypted or bool(found) or (is_sealed(part) if isinstance(part, bytes) else WORD in part)
            key = key or found
    return Veil("", True, key, command) if encrypted else None


def _has_lambda(record: Any) -> bool:
    return "lambda" in record.DESCRIPTOR.fields_by_name


def _carried(record: Any) -> list[Any]:
    """What of a record may be encrypted."""
    found = [getattr(record, name) for name in ("result", "error", "message", "progress") if hasattr(record, name)]
    if hasattr(record, "spec"):
        found.append(record.spec.task.payload if hasattr(record.spec, "task") else record.spec.payload)
    return found
