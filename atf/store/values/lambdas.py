"""What the verbs about lambdas and their gates take and answer."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple


class LambdaRecord(NamedTuple):
    """A registered lambda."""

    name: str
    spec: bytes  # a serialized LambdaSpec
    queue_limit: int  # that holds now
    enqueue_timeout_us: int  # that holds now
    paused: bool
    settings: str = (
        ""  # what else its code says of how it is pushed, "name=value name=value" by name; see frontend/settings.py
    )
    overrides: str = ""  # what an operator set instead of what the code says, `limit` and `timeout` among it
    gated: bool = False  # it has a gate


class GateAction(enum.Enum):
    """What a gate does to the tasks that it meets; the values are the store's words."""

    PAUSE = "pause"  # they wait
    DROP = "drop"  # they are cancelled
    DELAY = "delay"  # each waits for a while, once
    ADMIT = "admit"  # a share of them passes, the others wait


class NewGate(NamedTuple):
    """A gate to set; everything in it has been checked."""

    lambda_name: str
    action: GateAction
    labels: Mapping[str, str]  # that a task must have for the gate to meet it; {}: it meets all of the lambda
    amount: float = 0  # of DELAY µs, of ADMIT the share that passes
    until_us: int | None = None  # None: until_us from now ends it, or nothing does
    for_us: int = 0  # 0: until it is lifted
    who: str = ""
    why: str = ""
    automatic: bool = False  # set by ATF itself
    request_id: str = ""  # of the call, so that it may be repeated; "": it may not


class Gate(NamedTuple):
    """A gate as it stands."""

    number: int  # grows with each gate that is set
    lambda_name: str
    action: GateAction
    labels: dict[str, str]
    amount: float
    until_us: int  # 0: until it is lifted
    who: str
    why: str
    automatic: bool
    set_at_us: int
    waiting: int  # tasks that it keeps; of a pause of the whole lambda those that are due
    dropped: int  # tasks that it dropped
