"""What the store's functions need to know of a lambda to keep its tasks apart from the others': its settings as they keep them."""

from __future__ import annotations

from atf.rpc import frontend_pb2 as f


def door_settings(spec: f.LambdaSpec) -> dict[str, str]:
    """By name, the settings that are not the default: names of [a-z_], values without white space.

    Most lambdas have none, and pass a queue's door unseen; see atf/store/lua/door.lua.
    """
    return {}
