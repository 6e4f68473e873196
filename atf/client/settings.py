"""Settings of lambdas by the names of `@app.task`: as a call of set_lambda carries them, and as an answer tells them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from atf.rpc import frontend_pb2 as f
from atf.sdk.options import plain
from atf.task import US


def written(value: object) -> str:
    """A value of `@app.task` as an operator writes it: no, 0.00001, low:0.1,high:0.5, none; a text as it is."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case timedelta():
            return plain(value.total_seconds())
        case float():
            return plain(value)
        case Mapping():
            return ",".join(f"{name}:{written(each)}" for name, each in value.items()) or "none"
        case _:
            return str(value)


def settings_of(spec: f.LambdaSpec) -> dict[str, Any]:
    """What keeps a lambda apart from the others; None: the default."""
    return {
        "owner": spec.owner or None,
        "runbook": spec.runbook or None,
        "rate": spec.rate or None,
        "burst": spec.burst or None,
        "max_running": spec.max_running or None,
        "max_pending": spec.max_pending or None,
        "queue_limit": spec.queue_limit or None,
        "enqueue_timeout": spec.enqueue_timeout_us / US or None,
        "shares": {str(priority): share for priority, share in sorted(spec.shares.items())} or None,
        "pool": spec.pool or None,
        "placement": _placement(spec.placement) if spec.placement else None,
        "stop_on_fatal": spec.stop_on_fatal or None,
        "gate_at_fatal": spec.gate_at_fatal or None,
        "version": spec.version or None,
    }


def _placement(number: int) -> str:
    """As @app.task calls it; by its number where a newer frontend has it."""
    try:
        return str(f.Placement.Name(number)).lower()
    except ValueError:
        return str(number)
