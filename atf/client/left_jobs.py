"""Finds jobs that code has made and does not have any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from atf.rpc import frontend_pb2 as f
from atf.rpc.api import Frontend

from .paging import pages


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
