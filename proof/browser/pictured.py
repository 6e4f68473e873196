"""A shop's lambdas, for pictures: what a reader would have."""

from __future__ import annotations

import time

import atf

app = atf.App("shop")


class CardDeclined(Exception):
    """The bank said no."""


@app.task(
    owner="payments", runbook="https://wiki.example.com/charge-card", max_attempts=3, backoff=atf.Backoff(1, factor=2)
)
def charge_card(ctx: atf.Context, order: int, cents: int) -> dict[str, int]:
    """Takes the money for an order."""
    ctx.log.info("asking the bank for %d cents of order %d", cents, order)
    if order % 13 == 0:
        raise CardDeclined(f"order {order}: the bank said 'do not honour'")
    return {"order": order, "cents": cents}


@app.task(max_attempts=2, backoff=atf.Backoff(2))
def send_receipt(order: int, to: str) -> str:
    """Mails a receipt."""
    if order % 29 == 0:
        raise ConnectionRefusedError(f"smtp.example.com:587 refused the connection for {to}")
    time.sleep(0.01)
    return "sent"


@app.task(priority="low")
def make_thumbnail(path: str, size: int = 256) -> str:
    """Shrinks a picture."""
    time.sleep(0.02)
    return f"{path}.{size}.webp"


@app.task
def import_orders(ctx: atf.Context, file: str) -> None:
    """Reads a large file; it takes a while."""
    for percent in range(100_000):
        if ctx.cancelled:
            return
        if percent % 10 == 0:
            ctx.progress(f"{min(percent // 10, 97)} % of {file}")
        time.sleep(0.1)


@app.task(schedule="0 30 2 * * *", tz="Europe/Paris")
def nightly_report(of: str = "sales") -> None:
    print("report of", of)


@app.task(schedule="@every 15m")
def sync_stock(warehouse: str = "lyon") -> int:
    """Asks a warehouse what it has."""
    return len(warehouse)


@app.task(schedule="0 0 9 * * MON", tz="America/New_York")
def weekly_newsletter(edition: str = "en") -> None:
    print("edition", edition)
