"""Why a row can't run where it is. That is neither a success nor a failure."""

from __future__ import annotations


class NotRun(Exception):
    """The text says what is missing."""
