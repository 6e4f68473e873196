"""Registers the lambdas of an app, and lists those that are registered and jobs whose code is gone: call by call, each within its bounds."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Iterator
from typing import Final, Protocol

from atf.rpc import frontend_pb2 as f
from atf.rpc.api import Frontend
from atf.sdk.messages import of_lambda
from atf.task import MAX_BATCH

from .paging import pages
from .whoami import signed

AT_ONCE: Final = 100
"""Lambdas of one call: written within seconds also where sixteen partitions are to be told of each."""
BYTES_AT_ONCE: Final = 1 << 20
"""Bytes of one call's specs, well below what a message may have."""


class Lists(Protocol):
    """Whoever answers ListLambdas."""

    def list_lambdas(self, request: f.ListLambdasRequest, /) -> Awaitable[f.ListLambdasReply]: ...


async def listed(frontend: Lists, lambda_name: str = "") -> f.ListLambdasReply:
    """What is said of one registered lambda, or of all by name (""): all pages as one."""
    whole = f.ListLambdasReply()
    async for page in pages(frontend.list_lambdas, f.ListLambdasRequest(page_size=MAX_BATCH, **of_lambda(lambda_name))):
        whole.lambdas.extend(page.lambdas)
        whole.claims_paused = page.claims_paused
    return whole


async def every_lambda(frontend: Lists) -> list[f.LambdaInfo]:
    """All registered lambdas, by name."""
    return list((await listed(frontend)).lambdas)


async def register_lambdas(
    frontend: Frontend, specs: Iterable[f.LambdaSpec], *, who: str = "", why: str = ""
) -> list[str]:
    """Makes lambdas known, and what is known already up to date. Where one call is refused, those before it stay registered.

    Args:
        frontend: where.
        specs: of the lambdas.
        who, why: for the audit log.

    Returns:
        what people should be warned of, each sentence once.

    Raises:
        InvalidArgument: a spec breaks a rule; says whose and which.
        Unavailable, DeadlineExceeded, ResourceExhausted: trying all of it again is safe.
    """
    warnings: dict[str, None] = {}
    for some in _calls(specs):
        reply = await frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=some, **signed(who, why)))
        warnings |= dict.fromkeys(reply.warnings)
    return list(warnings)


def _calls(specs: Iterable[f.LambdaSpec]) -> Iterator[list[f.LambdaSpec]]:
    some: list[f.LambdaSpec] = []
    size = 0
    for spec in specs:
        if some and (len(some) == AT_ONCE or size + spec.ByteSize() > BYTES_AT_ONCE):
            yield some
            some, size = [], 0
        some.append(spec)
        size += spec.ByteSize()
    if some:
        yield some


async def left_jobs(frontend: Frontend, declared: Collection[str], namespaces: Iterable[str]) -> list[str]:
    """The jobs of some namespaces that code has made and this code does not declare, by name.

    Args:
        frontend: who knows the jobs.
        declared: names of the jobs that this code declares.
        namespaces: of this code's lambdas.
    """
    left = []
    for namespace in sorted(namespaces):
        async for page in pages(frontend.list_jobs, f.ListJobsRequest(prefix=f"{namespace}/")):
            left += [each.spec.name for each in page.jobs if each.spec.code and each.spec.name not in declared]
    return sorted(left)
