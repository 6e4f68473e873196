"""Three hundred lambdas, with the longest names that there are."""

from __future__ import annotations

import atf

app = atf.App("n" * 40)


def _nothing() -> None:
    """Does nothing."""


for number in range(300):
    app.task(name=f"lambda-{number:03}-{'x' * 50}")(_nothing)
