"""Actions on worker hosts and on the cores of pools."""

from __future__ import annotations

from typing import Final

from atf.errors import InvalidArgument
from atf.rpc import api, frontend_pb2 as f

from .action import WHY, Action, FormField, Values, duration_us, said


async def _drain(frontend: api.Frontend, values: Values, who: str) -> str:
    request = f.DrainHostRequest(host=values["host"], **said(values, who))
    if values["for"]:
        request.for_us = duration_us(values["for"], "For")
    await frontend.drain_host(request)
    return "It takes no more tasks; its executors finish theirs and end."


async def _resume(frontend: api.Frontend, values: Values, who: str) -> str:
    await frontend.drain_host(f.DrainHostRequest(host=values["host"], resume=True, **said(values, who)))
    return "It takes tasks again."


async def _set_cores(frontend: api.Frontend, values: Values, who: str) -> str:
    if not values["cores"].isascii() or not values["cores"].isdigit() or len(values["cores"]) > 4:
        raise InvalidArgument(f"cores {values['cores'][:80]!r}: write a number of 0 to 64")
    await frontend.set_capacity(
        f.SetCapacityRequest(pool=values["pool"], cores=int(values["cores"]), **said(values, who))
    )
    return "The pool's cores are set; every claim is kept."


ACTIONS: Final = (
    Action(
        "drain-host",
        "Drain",
        "It takes no more tasks. Its executors finish what they have started, and end. It holds whatever restarts meanwhile.",
        ("host",),
        ("atf", "host", "drain", "{host}"),
        _drain,
        (FormField("for", "For", "--for", "30m; empty: until it is resumed"), WHY),
    ),
    Action(
        "resume-host",
        "Resume",
        "A host that drains takes tasks again.",
        ("host",),
        ("atf", "host", "resume", "{host}"),
        _resume,
    ),
    Action(
        "set-cores",
        "Set cores",
        "Equal shares of the pool's executors; 0: none any more.",
        ("pool",),
        ("atf", "capacity", "set", "{pool}"),
        _set_cores,
        (FormField("cores", "Cores", "--cores", "0 to 64", required=True), WHY),
    ),
)
