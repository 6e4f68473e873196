"""The lambda that a worker runs whose token is revoked."""

from __future__ import annotations

import atf

app = atf.App("photos")


@app.task
def echo() -> None:
    """Does nothing."""
