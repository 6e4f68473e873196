"""What the store's functions need to know of a lambda to keep its tasks apart from the others': its settings as they keep them."""

from __future__ import annotations

from atf.rpc import frontend_pb2 as f


def door_settings(spec: f.LambdaSpec) -> dict[str, str]:
    """By name, the settings that are not the default: names of [a-z_], values without white space.

    Most lambdas have none, and pass a queue's door unseen; see atf/store/lua/door.lua.
    """
    shares = ",".join(f"{priority}:{number(share)}" for priority, share in sorted(spec.shares.items()))
    found = {
        "rate": number(spec.rate),
        "burst": number(spec.burst),
        "running": number(spec.max_running),
        "pending": number(spec.max_pending),
        "shares": shares,
        "pool": spec.pool,
        "placement": f.Placement.Name(spec.placement).lower() if spec.placement else "",
        "stop": "1" if spec.stop_on_fatal else "",
        "fatal": number(spec.gate_at_fatal),
        "version": number(spec.version),
    }
    return {name: value for name, value in found.items() if value}


def number(value: float) -> str:
    """A number as the store's functions read it; 0, which is the default everywhere: empty."""
    return str(int(value)) if value == int(value) and value else repr(value) if value else ""
