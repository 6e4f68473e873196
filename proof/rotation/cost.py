"""What TLS, a certificate and a token cost a lone call: the same call in turns, with all of it and without any."""

from __future__ import annotations

import statistics
import time
from typing import Any, Final

from atf.rpc import api, frontend_pb2 as f
from atf.rpc.caller_security import Security
from atf.rpc.channel import open_channel
from atf.rpc.stubs import FrontendStub

from .secured import Secured, frontend_process

_TURNS: Final = 20
_CALLS: Final = 150
BAR_MS: Final = 0.15


async def lone_calls(redis_url: str, secured: Secured) -> dict[str, Any]:
    """In ms: the fastest quarter of calls one after the other, and the median of the turns' differences."""
    async with frontend_process(redis_url) as address:
        plain_channel = open_channel(address, security=Security())
        plain, (full, full_channel) = FrontendStub(plain_channel), secured.open()
        for each in (plain, full):
            await _turn(each)
        pairs = [(await _turn(plain), await _turn(full)) for _ in range(_TURNS)]
        await plain_channel.close()
        await full_channel.close()
    return {
        "plain_ms": round(statistics.median(each[0] for each in pairs), 4),
        "mtls_and_token_ms": round(statistics.median(each[1] for each in pairs), 4),
        "more_ms": round(statistics.median(each[1] - each[0] for each in pairs), 4),
        "bar_ms": BAR_MS,
    }


async def _turn(frontend: api.Frontend) -> float:
    took = []
    for _ in range(_CALLS):
        began = time.perf_counter()
        await frontend.list_lambdas(f.ListLambdasRequest(page_size=1))
        took.append((time.perf_counter() - began) * 1e3)
    return statistics.quantiles(took, n=4)[0]  # what else the machine does makes the others slower
