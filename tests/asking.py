"""Calls of NextClaims, as a controller makes them."""

from __future__ import annotations

from typing import Any

from atf.rpc import hsc_pb2 as h
from atf.rpc.lambda_sets import LambdaSet


def asks(*lambdas: str, signature: str = "", **fields: Any) -> h.NextClaimsRequest:
    """A call for one executor that runs these lambdas, all with one signature; it names them, and waits for nothing."""
    names = lambdas or ("photos/thumbnail",)
    said: dict[str, Any] = {
        "executor_id": "e1",
        "nonce": "n1",
        "max_tasks": 256,
        "lambda_set": LambdaSet(dict.fromkeys(names, signature)).digest,
        "lambdas": names,
        "signatures": [signature] * len(names) if signature else [],
        "heartbeat_timeout_us": 16_000_000,
    }
    return h.NextClaimsRequest(**{**said, **fields})
