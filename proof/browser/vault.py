"""Lambdas whose tasks carry what not everybody may see."""

from __future__ import annotations

import atf

app = atf.App("cards")


@app.task(logs="all", search=["card"], max_attempts=1)
def pay(ctx: atf.Context, card: str, sum: int) -> str:
    print(f"paying {sum} by {card}")
    ctx.progress(f"asked the bank about {card}")
    if sum > 1_000:
        raise ValueError(f"the bank takes {card} for 1000 at most")
    return f"receipt of {card}"
