"""Reads the registered lambdas, page by page, through the shared readings."""

from __future__ import annotations

from typing import Final

from atf.rpc import api, frontend_pb2 as f

from .reads import KEEP_S, SharedReads

MOST: Final = 2_048
"""Lambdas that one page looks at."""


NAMES_KEPT_S: Final = 10.0
"""Seconds for which the names of lambdas are used that were read."""


async def every_lambda(frontend: api.Frontend, read: SharedReads, keep_s: float = KEEP_S) -> list[f.LambdaInfo]:
    """The registered lambdas by name, the first two thousand of them; `keep_s`: how old their counts may be."""
    found: list[f.LambdaInfo] = []
    token = ""
    while True:
        reply = await read(frontend.list_lambdas, f.ListLambdasRequest(page_token=token), keep_s=keep_s)
        found += reply.lambdas
        token = reply.next_page_token
        if not token or len(found) >= MOST:
            return found


async def one_lambda(frontend: api.Frontend, read: SharedReads, name: str) -> f.LambdaInfo:
    """One lambda.

    Raises:
        UnknownLambda: there is none of this name.
    """
    request = f.ListLambdasRequest(page_size=1)
    setattr(request, "lambda", name)
    return (await read(frontend.list_lambdas, request)).lambdas[0]
