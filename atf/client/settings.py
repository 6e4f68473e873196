"""Settings of lambdas by the names of `@app.task`: as a call of set_lambda carries them, and as an answer tells them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from atf.rpc import frontend_pb2 as f
from atf.sdk.kept_logs import word_for
from atf.sdk.options import plain
from atf.task import US

_NAMES: Final = (
    *("owner", "runbook", "rate", "burst", "max_running", "max_pending", "queue_limit", "enqueue_timeout", "shares"),
    *("pool", "placement", "stop_on_fatal", "gate_at_fatal", "version", "slo", "logs"),
)


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
    others = {
        "enqueue_timeout": spec.enqueue_timeout_us / US or None,
        "shares": {str(priority): share for priority, share in sorted(spec.shares.items())} or None,
        "placement": _placement(spec.placement) if spec.placement else None,
        "logs": word_for(spec.logs) if spec.logs else None,
    }
    return {name: others[name] if name in others else getattr(spec, name) or None for name in _NAMES}


def _placement(number: int) -> str:
    """As @app.task calls it; by its number where a newer frontend has it."""
    try:
        return str(f.Placement.Name(number)).lower()
    except ValueError:
        return str(number)
