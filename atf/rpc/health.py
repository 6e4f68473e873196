"""Serves gRPC health with details: each thing that a role needs beside itself, and why it is not well.

`""` and a service's name say whether the role serves. A detail is looked at when somebody asks for it, so one that nobody asks for costs nothing:

    store       the task store can be reached (store_health.py)
    claims      claims of its tasks are given: none is paused
    executors   of a controller that starts some: one works
    hsc         of a controller: the HSC can be reached

NOT_SERVING comes with its reason in the trailing metadata `atf-why`. `Watch` knows no details.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from grpc_health.v1 import health, health_pb2

from atf.task import clip
from atf.visible import one_line

WHY: Final = "atf-why"
"""The metadata that says why; ASCII, since a header holds nothing else."""
MAX_WHY_BYTES: Final = 1_000

Detail = Callable[[], Awaitable[str]]
"""Looks, and answers why it is not well; empty: it is."""


class Health(health.aio.HealthServicer):  # type: ignore[misc]  # grpc_health has no types
    """The health service of a server."""

    def __init__(self, details: Mapping[str, Detail]) -> None:
        super().__init__()
        self._details = details

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802  gRPC's name
        detail = self._details.get(request.service)
        if detail is None:
            return await super().Check(request, context)
        why = await detail()
        if why:
            text = clip(one_line(why), MAX_WHY_BYTES).encode("ascii", "backslashreplace").decode()
            context.set_trailing_metadata(((WHY, text),))
        answer = health_pb2.HealthCheckResponse
        return answer(status=answer.NOT_SERVING if why else answer.SERVING)


def detail_of(why: Callable[[], str]) -> Detail:
    """A detail that needs no look."""

    async def look() -> str:
        return why()

    return look
